"""A scripted chat completions API on loopback, as OpenAI's and all that imitate it.

Owns the wire form and the record of what was asked; what the "model" says is the test's script, turn by turn.

    script = ['{"sql": "SELECT 1"}', Failing(429, {"Retry-After": "7"}), Hanging()]
    async with scripted_chat(script) as model:
        ...
    assert model.requests[0].user.startswith("Catalogue")
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Failing:
    """The API answers with a status that is not 200."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Hanging:
    """The API takes the request and says nothing, until its client is gone."""


@dataclass(frozen=True)
class Garbage:
    """A body that is not what the API promises."""

    body: bytes


@dataclass(frozen=True)
class Refusing:
    """The model declines, in the field that there is for it."""

    words: str = "I cannot help with that."


@dataclass(frozen=True)
class ChatRequest:
    """One POST to /chat/completions, as the client sent it."""

    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def model(self) -> str:
        return self.body["model"]

    def said(self, role: str) -> str:
        return "\n".join(message["content"] for message in self.body["messages"] if message["role"] == role)

    @property
    def system(self) -> str:
        return self.said("system")

    @property
    def user(self) -> str:
        return self.said("user")


Turn = str | Failing | Hanging | Garbage | Refusing | Callable[[ChatRequest], str]


class ScriptedChat:
    def __init__(self, script: Iterable[Turn]) -> None:
        self.url = ""
        self.requests: list[ChatRequest] = []
        self.waiting = asyncio.Event()
        """Set when a request hangs."""
        self.left = asyncio.Event()
        """Set when the client of one that hung has gone."""
        self._turns = iter(script)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = ChatRequest(dict(request.headers), await request.json())
        self.requests.append(asked)
        turn = next(self._turns, Failing(418))  # a script that ran out shows in the test's outcome
        match turn:
            case Failing(status, headers):
                return web.json_response({"error": {"message": "no"}}, status=status, headers=headers)
            case Garbage(body):
                return web.Response(body=body, content_type="application/json")
            case Hanging():
                return await self._hang()
            case Refusing(words):
                return _completion(asked, {"content": None, "refusal": words})
            case str():
                return _completion(asked, {"content": turn})
            case _:
                return _completion(asked, {"content": turn(asked)})

    async def _hang(self) -> web.StreamResponse:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("nobody sets that event")


def _completion(asked: ChatRequest, message: dict[str, Any]) -> web.Response:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return web.Response(body=json.dumps(body).encode(), content_type="application/json")


@asynccontextmanager
async def scripted_chat(script: Iterable[Turn]) -> AsyncGenerator[ScriptedChat]:
    """Serve the script on a free loopback port until the block ends."""
    api = ScriptedChat(script)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", api.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield api
    finally:
        await runner.cleanup()
