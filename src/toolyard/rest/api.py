"""The API of a definition: sends requests, retries if that is safe, returns decoded responses.

Raises ToolError, with a message for the model, for every failure.
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
from .request.auth import authenticated, without_key
from .request.builder import RequestDraft
from .response.result import aside, count_values, decoded, status_error, transport_error
from .texts import RestTexts

TOO_MANY_REQUESTS = 429
SERVER_ERRORS = (500, 502, 503, 504)
MAX_SERVER_ERROR_RETRIES = 2
MAX_WAIT = 24 * 3600.0


async def send_with_retries(
    send: Callable[[], Awaitable[RestResponse]], retry: Retry, repeatable: bool
) -> tuple[RestResponse, float | None]:
    """The last response, and the seconds of its `Retry-After` if that is longer than we wait."""
    tries = 0
    while True:
        wait = None
        try:
            reply = await send()
        except ApiUnreachableError as error:
            if tries >= retry.most or (error.sent and not repeatable):
                raise
        else:
            requested = retry_after(reply)
            if not _should_retry(reply.status, tries, retry, repeatable):
                return reply, requested if reply.status == TOO_MANY_REQUESTS else None
            if requested is not None and requested > retry.longest:
                return reply, requested
            wait = requested
        await asyncio.sleep(_pause(retry, tries) if wait is None else wait)
        tries += 1


def _should_retry(status: int, tries: int, retry: Retry, repeatable: bool) -> bool:
    if tries >= retry.most:
        return False
    if status == TOO_MANY_REQUESTS:
        return True
    return repeatable and status in SERVER_ERRORS and tries < MAX_SERVER_ERROR_RETRIES


def _pause(retry: Retry, tries: int) -> float:
    return min(retry.pause * 2**tries * random.uniform(0.5, 1.5), retry.longest)


def retry_after(reply: RestResponse) -> float | None:
    """The seconds of `Retry-After`, in either of its forms; None if it is malformed."""
    value = reply.headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isdecimal():
        return min(float(value[:9]), MAX_WAIT)
    from email.utils import parsedate_to_datetime  # 5 ms of CPU for a rare form

    try:
        return min(max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0), MAX_WAIT)
    except (ValueError, OverflowError):
        return None


class DecodedResponse:
    """A successful response: its decoded body and its headers."""

    __slots__ = ("headers", "size", "value", "values")

    def __init__(self, value: Any, headers: Mapping[str, str], body: bytes) -> None:
        self.value = value
        """UNSET if there was no body."""
        self.headers = headers
        self.size = len(body)
        self.values = count_values(body)
        """At most how many there are in it."""


class RestApi:
    def __init__(
        self, definition: ApiDefinition, client: RestClient, texts: RestTexts, seconds: float = 0.0
    ) -> None:
        self.definition = definition
        self.texts = texts
        self.client = client
        self._seconds = seconds

    async def request(
        self,
        draft: RequestDraft,
        key: Secret | None,
        errors: Mapping[str, str] | None = None,
        seconds: float = 0.0,
    ) -> DecodedResponse:
        """Raises ToolError for every failure. `errors` precede those of the definition."""
        try:
            reply, wait = await self.send(draft, key, seconds)
        except RestTransportError as error:
            raise transport_error(error, self.texts, draft.repeatable) from None
        if reply.status == 401 and key is not None:
            key.refuse()
        reply = await aside(len(reply.body), without_key, reply, key)
        if not 200 <= reply.status < 300:
            messages = {**self.definition.errors, **(errors or {})}
            raise await aside(len(reply.body), status_error, reply, messages, self.texts, key, wait)
        return await aside(len(reply.body), self._decoded, reply, key)

    def _decoded(self, reply: RestResponse, key: Secret | None) -> DecodedResponse:
        return DecodedResponse(decoded(reply, self.texts, key), reply.headers, reply.body)

    async def try_once(self, draft: RequestDraft, key: Secret | None, seconds: float) -> RestResponse:
        """Send without retries."""
        request = authenticated(draft, self.definition.auth, key).ready(self.client.origin.base)
        return await self.client.send(request, seconds, self.definition.max_reply)

    async def send(
        self, draft: RequestDraft, key: Secret | None, seconds: float = 0.0
    ) -> tuple[RestResponse, float | None]:
        """The response, whatever its status; raises RestTransportError if there is none."""
        request = authenticated(draft, self.definition.auth, key).ready(self.client.origin.base)
        limit = seconds or self._seconds or self.definition.timeout

        async def try_send() -> RestResponse:
            return await self.client.send(request, limit, self.definition.max_reply)

        return await send_with_retries(try_send, self.definition.retry, request.repeatable)
