"""Changes that a server reports: `subscriptions/listen` (modern), or the stream of a session (legacy)."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import Raw

from ..wire.errors import McpError
from .errors import ClientError, ServerLostError
from .types import Change, Json, Requester, object_of

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
KINDS: dict[str, Any] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "resource",
    "notifications/tasks": "task",
}
UNSUBSCRIBE_SECONDS = 5.0


class Changes:
    """Changes as they come. Raises ServerLostError when the server goes.

    One that is slow misses nothing that matters: changes of the same thing become one.
    """

    def __init__(self, wanted: Json) -> None:
        self.agreed = wanted
        """What the server agreed to tell of, which may be less than was asked for."""
        self._wanted = wanted
        self._pending: dict[tuple[str, str], Change] = {}
        self._news = asyncio.Event()
        self._error: BaseException | None = None

    def hear(self, method: str, params: Json) -> None:
        kind = KINDS.get(method)
        if kind is None or not self._wants(kind, params):
            return
        uri = params.get("uri")
        about = uri if isinstance(uri, str) else str(params.get("taskId", ""))
        task = {key: value for key, value in params.items() if key != "_meta"} if kind == "task" else None
        self._pending[kind, about] = Change(kind, uri if kind == "resource" else None, task)
        self._news.set()

    def _wants(self, kind: str, params: Json) -> bool:
        if kind == "resource":
            return params.get("uri") in self._wanted.get("resourceSubscriptions", ())
        return kind == "task" or self._wanted.get(f"{kind}ListChanged") is True

    def end(self, error: BaseException) -> None:
        self._error = error
        self._news.set()

    def __aiter__(self) -> "Changes":
        return self

    async def __anext__(self) -> Change:
        while not self._pending:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        return self._pending.pop(next(iter(self._pending)))


@asynccontextmanager
async def open_subscription(client: Requester, wanted: Json) -> AsyncGenerator[Changes]:
    listener = Changes(wanted)
    manner = _modern if client.era == "modern" else _legacy
    async with manner(client, wanted, listener):
        yield listener


@asynccontextmanager
async def _modern(client: Requester, wanted: Json, listener: Changes) -> AsyncGenerator[None]:
    agreed = asyncio.Event()

    def hear(method: str, params: Json) -> None:
        if method == ACKNOWLEDGED:
            listener.agreed = object_of(params.get("notifications"))
            agreed.set()
        else:
            listener.hear(method, params)

    async def follow() -> None:
        try:
            await client.request(
                "subscriptions/listen",
                {"notifications": wanted},
                timeout=None,
                tasks="taskIds" in wanted,
                on_message=hear,
            )
            raise ServerLostError("the server ended the subscription")
        except (McpError, ClientError) as error:
            listener.end(error)
            if not agreed.is_set():
                raise

    following = asyncio.create_task(follow())
    waiting = asyncio.create_task(agreed.wait())
    try:
        await asyncio.wait({following, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
        yield
    finally:
        for task in (following, waiting):
            task.cancel()
        await asyncio.gather(following, waiting, return_exceptions=True)


@asynccontextmanager
async def _legacy(client: Requester, wanted: Json, listener: Changes) -> AsyncGenerator[None]:
    connection = client.connection

    def watch(method: str, params: Raw) -> None:
        if not method:
            listener.end(ServerLostError("the connection ended"))
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            listener.hear(method, msgspec.json.decode(params, type=dict[str, Any]))

    connection.watch(watch)
    held: list[str] = []
    try:
        for uri in wanted.get("resourceSubscriptions", ()):
            await client.request("resources/subscribe", {"uri": uri})
            held.append(uri)
        yield
    finally:
        connection.unwatch(watch)
        for uri in held:
            if not connection.closed:
                with suppress(McpError, ClientError):  # it goes with the session at the latest
                    await client.request("resources/unsubscribe", {"uri": uri}, timeout=UNSUBSCRIBE_SECONDS)
