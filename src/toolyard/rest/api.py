"""The API of a table: drafts go in, good replies come out, and whatever else happens is told to the model."""

from collections.abc import Mapping
from typing import Any

from ..kit import Secret
from .auth import blotted_links, blotted_value, carry
from .client import HttpClient
from .connection import Reply
from .failures import fault_error, status_error
from .faults import Fault
from .replies import decoded
from .requests import Draft
from .retrying import persistently
from .table import Table
from .wording import Words


class Answer:
    """A good reply: what its body says, and its headers."""

    __slots__ = ("headers", "value")

    def __init__(self, value: Any, headers: Mapping[str, str]) -> None:
        self.value = value
        """UNSET when there was no body."""
        self.headers = headers


class Api:
    def __init__(self, table: Table, client: HttpClient, words: Words, seconds: float = 0.0) -> None:
        self.table = table
        self.words = words
        self.client = client
        self._seconds = seconds

    async def ask(
        self,
        draft: Draft,
        key: Secret | None,
        errors: Mapping[str, str] | None = None,
        seconds: float = 0.0,
    ) -> Answer:
        """Raises ToolError for everything that is no success. `errors` come before those of the table."""
        try:
            reply, wait = await self.sent(draft, key, seconds)
        except Fault as fault:
            raise fault_error(fault, self.words, draft.repeatable) from None
        if not 200 <= reply.status < 300:
            messages = {**self.table.errors, **(errors or {})}
            raise status_error(reply, messages, self.words, key, wait)
        said = blotted_value(decoded(reply, self.words, key), key, reply.body)
        return Answer(said, blotted_links(reply.headers, key))

    async def once(self, draft: Draft, key: Secret | None, seconds: float) -> Reply:
        """One try, whatever comes of it."""
        request = carry(draft, self.table.auth, key).ready(self.client.origin.base)
        return await self.client.send(request, seconds, self.table.max_reply)

    async def sent(
        self, draft: Draft, key: Secret | None, seconds: float = 0.0
    ) -> tuple[Reply, float | None]:
        """The reply, whatever its status; raises a `Fault` when there is none."""
        request = carry(draft, self.table.auth, key).ready(self.client.origin.base)
        limit = seconds or self._seconds or self.table.timeout

        async def send() -> Reply:
            return await self.client.send(request, limit, self.table.max_reply)

        return await persistently(send, self.table.retry, request.repeatable)
