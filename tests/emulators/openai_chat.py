"""A scripted chat completions API on loopback, as OpenAI's and all that imitate it, streamed or whole.

Owns the wire form and the record of what was asked; what the "model" says is the test's script (`scripted`).

    script = ['{"sql": "SELECT 1"}', Failing(429, {"Retry-After": "7"}), Hanging()]
    async with scripted_chat(script) as model:
        ...
    assert model.requests[0].user.startswith("Catalogue")

A usage that the script does not give is counted from the real request and the real reply.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.emulators.scripted import (
    Block,
    Cut,
    Erring,
    Events,
    Failing,
    Garbage,
    Hanging,
    JsonObject,
    Refusing,
    Said,
    Silent,
    Thinking,
    ToolUse,
    Turn,
    arguments_text,
    halves,
    listed,
    tokens_of,
)

__all__ = [
    "ChatRequest",
    "Failing",
    "Garbage",
    "Hanging",
    "Refusing",
    "ScriptedChat",
    "Turn",
    "scripted_chat",
]


@dataclass(frozen=True)
class ChatRequest:
    """One POST to /chat/completions, as the client sent it."""

    headers: Mapping[str, str]
    body: dict[str, Any]
    size: int = 0
    path: str = field(default="", compare=False)

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def messages(self) -> list[JsonObject]:
        return self.body["messages"]

    def said(self, role: str) -> str:
        return "\n".join(_text(message["content"]) for message in self.messages if message["role"] == role)

    @property
    def system(self) -> str:
        return self.said("system")

    @property
    def user(self) -> str:
        return self.said("user")

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]

    @property
    def tool_results(self) -> list[str]:
        """The texts of all results so far, oldest first."""
        return [_text(message["content"]) for message in self.messages if message["role"] == "tool"]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


Scripted = Turn | Callable[[ChatRequest], Turn]
Script = Iterable[Scripted] | Callable[[ChatRequest], Turn]
"""The turns of a conversation; or a function that answers any request."""


class ScriptedChat:
    def __init__(self, script: Script) -> None:
        self.url = ""
        self.requests: list[ChatRequest] = []
        self.waiting = asyncio.Event()
        """Set when a request hangs."""
        self.left = asyncio.Event()
        """Set when the client of one that hung has gone."""
        self._script = script if callable(script) else None
        self._turns: Iterator[Scripted] = iter(()) if callable(script) else iter(script)

    def env(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "sk-scripted", "NO_PROXY": "127.0.0.1"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked = ChatRequest(dict(request.headers), json.loads(raw), len(raw), request.path)
        self.requests.append(asked)
        # A script that ran out shows in the test's outcome.
        found = self._script or next(self._turns, Failing(418))
        turn = found(asked) if callable(found) else found
        match turn:
            case Failing(status, headers, message, kind):
                body = {"error": {"message": message, **({"type": kind} if kind else {})}}
                return web.json_response(body, status=status, headers=headers)
            case Garbage(body, content_type, status):
                return web.Response(body=body, content_type=content_type, status=status)
            case Hanging():
                return await self._hang()
            case _:
                if asked.body.get("stream"):
                    return await self._stream(request, asked, turn)
                return web.json_response(_completion(asked, turn))

    async def _stream(self, request: web.Request, asked: ChatRequest, turn: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in _chunks(asked, turn):
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        match turn:
            case Cut():
                assert request.transport is not None
                request.transport.close()
            case Silent():
                await self._hang()
            case Erring():
                pass
            case Events(is_done=False):
                await response.write_eof()
            case _:
                await response.write(b"data: [DONE]\n\n")
                await response.write_eof()
        return response

    async def _hang(self) -> web.StreamResponse:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("nobody sets that event")


def _blocks(turn: Any) -> list[Block]:
    if isinstance(turn, Refusing):
        return []
    return listed(turn.blocks if isinstance(turn, Said | Cut | Silent | Erring) else turn)


def _message(turn: Any) -> JsonObject:
    blocks = _blocks(turn)
    message: JsonObject = {"role": "assistant", "content": None}
    if texts := [block for block in blocks if isinstance(block, str)]:
        message["content"] = "".join(texts)
    if thoughts := [block.text for block in blocks if isinstance(block, Thinking)]:
        message["reasoning_content"] = "".join(thoughts)
    calls = [block for block in blocks if isinstance(block, ToolUse)]
    if calls:
        message["tool_calls"] = [
            {
                "index": index,
                "type": "function",
                "function": {"name": use.name, "arguments": arguments_text(use, json.dumps)},
            }
            for index, use in enumerate(calls)
        ]
    if isinstance(turn, Refusing):
        message["refusal"] = turn.words
    return message


def _with_ids(asked: ChatRequest, message: JsonObject) -> JsonObject:
    number = sum(message["role"] == "assistant" for message in asked.messages) + 1
    for call in message.get("tool_calls", ()):
        call["id"] = f"call_{number}_{call['index']}"
    return message


def _usage(asked: ChatRequest, turn: Any, message: JsonObject) -> JsonObject:
    if isinstance(turn, Said) and turn.usage is not None:
        return {"usage": turn.usage} if turn.usage else {}
    read = max(1, -(-asked.size // 4))
    written = tokens_of(json.dumps([message.get("content"), message.get("tool_calls")]))
    return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}


def _reason(turn: Any, message: JsonObject) -> str:
    if isinstance(turn, Said) and turn.reason:
        return turn.reason
    return "tool_calls" if message.get("tool_calls") else "stop"


def _completion(asked: ChatRequest, turn: Any) -> JsonObject:
    message = _with_ids(asked, _message(turn))
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(turn, message)}],
        **_usage(asked, turn, message),
    }


def _chunks(asked: ChatRequest, turn: Any) -> Iterator[JsonObject]:
    """The reply as it is streamed: texts and arguments in two pieces, the usage at the end if wanted."""
    if isinstance(turn, Events):
        yield from turn.events
        return
    head: JsonObject = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked.model,
    }
    message = _with_ids(asked, _message(turn))

    def chunk(delta: JsonObject, reason: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    if not isinstance(turn, Cut) or turn.blocks:
        yield chunk({"role": "assistant", "content": ""})
    for name in ("reasoning_content", "content", "refusal"):
        for piece in halves(message.get(name) or ""):
            yield chunk({name: piece})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "function": {**function, "arguments": ""}}]})
        for piece in halves(function["arguments"]):
            yield chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
    if isinstance(turn, Cut | Silent):
        return
    if isinstance(turn, Erring):
        yield {"error": {"message": turn.message, "type": turn.kind}}
        return
    yield chunk({}, _reason(turn, message))
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], **_usage(asked, turn, message)}


@asynccontextmanager
async def scripted_chat(script: Script, port: int = 0) -> AsyncGenerator[ScriptedChat]:
    """Serve the script on loopback, by default on a free port, until the block ends."""
    api = ScriptedChat(script)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", api.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield api
    finally:
        await runner.cleanup()
