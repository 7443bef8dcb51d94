"""The API of a definition: sends requests, retries where that is safe, returns decoded responses.

Raises ToolError, in words for the model, for everything else.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..kit import Secret
from .definition.model import ApiDefinition, Retry
from .http.client import RestClient
from .http.connection import ApiUnreachableError, RestResponse, RestTransportError
from .request.auth import authenticated, redacted_links, redacted_value
from .request.builder import RequestDraft
from .response.result import decoded, status_error, transport_error
from .texts import RestTexts

TOO_MANY = 429
AFTER_FAILURE = (500, 502, 503, 504)
MOST_AFTER_FAILURE = 2
MAX_WAIT = 24 * 3600.0


async def send_with_retries(
    send: Callable[[], Awaitable[RestResponse]], retry: Retry, repeatable: bool
) -> tuple[RestResponse, float | None]:
    """The last reply, and how many seconds it asks to wait when that is longer than we do."""
    tries = 0
    while True:
        wait = None
        try:
            reply = await send()
        except ApiUnreachableError as fault:
            if tries >= retry.most or (fault.sent and not repeatable):
                raise
        else:
            asked = seconds_asked(reply)
            if not _helps(reply.status, tries, retry, repeatable):
                return reply, asked if reply.status == TOO_MANY else None
            if asked is not None and asked > retry.longest:
                return reply, asked
            wait = asked
        await asyncio.sleep(_pause(retry, tries) if wait is None else wait)
        tries += 1


def _helps(status: int, tries: int, retry: Retry, repeatable: bool) -> bool:
    if tries >= retry.most:
        return False
    if status == TOO_MANY:
        return True
    return repeatable and status in AFTER_FAILURE and tries < MOST_AFTER_FAILURE


def _pause(retry: Retry, tries: int) -> float:
    return min(retry.pause * 2**tries * random.uniform(0.5, 1.5), retry.longest)


def seconds_asked(reply: RestResponse) -> float | None:
    """What `Retry-After` says, in either of its forms; nothing when it makes no sense."""
    said = reply.headers.get("retry-after", "").strip()
    if not said:
        return None
    if said.isdecimal():
        return min(float(said[:9]), MAX_WAIT)
    from email.utils import parsedate_to_datetime  # 5 ms of CPU, for a form that few use

    try:
        return min(max(parsedate_to_datetime(said).timestamp() - time.time(), 0.0), MAX_WAIT)
    except (ValueError, OverflowError):
        return None


class DecodedResponse:
    """A good reply: what its body says, and its headers."""

    __slots__ = ("headers", "value")

    def __init__(self, value: Any, headers: Mapping[str, str]) -> None:
        self.value = value
        """UNSET when there was no body."""
        self.headers = headers


class RestApi:
    def __init__(
        self, table: ApiDefinition, client: RestClient, words: RestTexts, seconds: float = 0.0
    ) -> None:
        self.table = table
        self.words = words
        self.client = client
        self._seconds = seconds

    async def ask(
        self,
        draft: RequestDraft,
        key: Secret | None,
        errors: Mapping[str, str] | None = None,
        seconds: float = 0.0,
    ) -> DecodedResponse:
        """Raises ToolError for everything that is no success. `errors` come before those of the table."""
        try:
            reply, wait = await self.sent(draft, key, seconds)
        except RestTransportError as fault:
            raise transport_error(fault, self.words, draft.repeatable) from None
        if not 200 <= reply.status < 300:
            messages = {**self.table.errors, **(errors or {})}
            raise status_error(reply, messages, self.words, key, wait)
        said = redacted_value(decoded(reply, self.words, key), key, reply.body)
        return DecodedResponse(said, redacted_links(reply.headers, key))

    async def once(self, draft: RequestDraft, key: Secret | None, seconds: float) -> RestResponse:
        """One try, whatever comes of it."""
        request = authenticated(draft, self.table.auth, key).ready(self.client.origin.base)
        return await self.client.send(request, seconds, self.table.max_reply)

    async def sent(
        self, draft: RequestDraft, key: Secret | None, seconds: float = 0.0
    ) -> tuple[RestResponse, float | None]:
        """The reply, whatever its status; raises a `Fault` when there is none."""
        request = authenticated(draft, self.table.auth, key).ready(self.client.origin.base)
        limit = seconds or self._seconds or self.table.timeout

        async def send() -> RestResponse:
            return await self.client.send(request, limit, self.table.max_reply)

        return await send_with_retries(send, self.table.retry, request.repeatable)
