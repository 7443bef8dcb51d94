"""How these tests speak to a server: one step at a time, and with an ear for what it says meanwhile.

`Client(server)` answers the server's questions by itself. Where a test is about the steps in between,
it uses `Steps`, which hands each result back as it is.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tests.waiting import PATIENCE
from toolyard.kit import Server
from toolyard.wire.call import TASKS_EXTENSION, Call, Caller, Identity

T = TypeVar("T")


TASKS: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


class Inbox:
    """Collects notifications, and lets a test wait for the next of a kind."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        self._new: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def __call__(self, method: str, params: dict[str, Any]) -> None:
        self.all.append((method, params))
        self._new.put_nowait((method, params))

    def changed(self, method: str, params: Raw) -> None:
        """A change outside of any call, in a legacy session; without a method the session is over."""
        if method:
            self(method, msgspec.json.decode(params))

    def of(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.all if name == method]

    async def next(self, method: str) -> dict[str, Any]:
        """The next one of that method; those of others in between are passed over."""
        while True:
            name, params = await soon(self._new.get())
            if name == method:
                return params

    async def until(self, method: str, **members: Any) -> dict[str, Any]:
        """The next one of that method whose params have these members."""
        while True:
            params = await self.next(method)
            if all(params.get(key) == value for key, value in members.items()):
                return params


class Steps:
    """A modern client that answers nothing by itself: every result comes back as the server gave it."""

    def __init__(
        self,
        server: Server,
        capabilities: dict[str, Any] | None = None,
        identity: Identity = Identity(),  # noqa: B008 (frozen)
        log_level: str | None = None,
    ) -> None:
        self.inbox = Inbox()
        self._service = server.service
        self._caller = Caller("2026-07-28", capabilities or {}, identity=identity, log_level=log_level)
        self._ids = itertools.count(1)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        raw = Raw(msgspec.json.encode(params or {}))
        token = (params or {}).get("_meta", {}).get("progressToken")
        call = Call(method, raw, self._caller, self, next(self._ids), token)
        return msgspec.json.decode(msgspec.json.encode(await soon(self._service.handle(call))))

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **trip: Any) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}, **trip})

    async def retry(
        self,
        tool: str,
        asked: dict[str, Any],
        answers: dict[str, Any],
        arguments: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Answer what an `input_required` result asked for."""
        assert asked["resultType"] == "input_required", asked
        return await self.call(tool, arguments, inputResponses=answers, requestState=asked["requestState"])

    @asynccontextmanager
    async def listening(self, **wanted: Any) -> AsyncIterator[dict[str, Any]]:
        """Keep a subscription open; gives what the server agreed to."""
        params = Raw(msgspec.json.encode({"notifications": wanted}))
        call = Call("subscriptions/listen", params, self._caller, self, next(self._ids))
        stream = asyncio.create_task(self._service.handle(call))
        first = asyncio.create_task(self.inbox.next("notifications/subscriptions/acknowledged"))
        try:
            await asyncio.wait({stream, first}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                await stream
            yield (await first)["notifications"]
        finally:
            for task in (stream, first):
                task.cancel()
            await asyncio.wait({stream, first})
        if not stream.cancelled():
            stream.result()

    async def task(self, id: str) -> dict[str, Any]:
        return await self.request("tasks/get", {"taskId": id})

    async def finished(self, id: str) -> dict[str, Any]:
        """A task once it is over."""
        async with self.listening(taskIds=[id]):
            while (state := await self.inbox.until("notifications/tasks", taskId=id))["status"] in (
                "working",
                "input_required",
            ):
                pass
        return state

    async def notify(self, method: str, params: Any) -> None:
        self.inbox(method, msgspec.json.decode(msgspec.json.encode(params)))

    async def ask(self, method: str, params: Any) -> Raw:
        raise AssertionError("a modern client is never asked on its channel")

    async def release(self, retry_ms: int | None) -> None:
        return None


def text_of(result: dict[str, Any]) -> str:
    """The text of a result whose content is one piece of text."""
    (block,) = result["content"]
    assert block["type"] == "text", block
    return block["text"]


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def said(text: str) -> dict[str, Any]:
    """What a client's model wrote."""
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1"}
