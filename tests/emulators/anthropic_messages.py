"""A scripted Anthropic Messages API on loopback, good enough for the real Claude Code.

Owns the wire form of the API (streamed and plain) and the record of what the client
sent. Owns no judgement: what the "model" says is the test's script, turn by turn.

    script = [ToolUse("mcp__yard__add", {"a": 1, "b": 2}), "The sum is 3."]
    async with scripted_claude(script) as model:
        options = ClaudeAgentOptions(env=model.env(home=tmp_path), mcp_servers=…)
        ...
    assert "mcp__yard__add" in model.requests[0].tool_names
    assert model.requests[1].tool_results[0].text == "3"

Only requests that offer tools take a turn of the script. Claude Code also makes small
calls of its own (titles, probes); they carry no tools, get the text "ok", and are kept
in `side_requests`. With `only_with_tools=False` every request takes a turn.

What a turn can be besides blocks, such as an overloaded API or a stream that is cut, is
in `scripted`. A usage that the script does not give is counted from the real request.
"""

import asyncio
import json
import socket
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from tests.emulators.scripted import (
    Block,
    Blocks,
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
    arguments_text,
    halves,
    listed,
    tokens_of,
)
from tests.emulators.scripted import Turn as ScriptedTurn

__all__ = ["MessagesRequest", "ScriptedClaude", "ToolUse", "Turn", "scripted_claude"]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[JsonObject], Awaitable[None]]


@dataclass(frozen=True)
class ToolResult:
    """What the client gave back for one tool call."""

    tool_use_id: str
    content: list[JsonObject]
    is_error: bool

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")


@dataclass(frozen=True)
class MessagesRequest:
    """One POST to /v1/messages, as the client sent it."""

    headers: dict[str, str]
    body: JsonObject
    size: int = 0

    @property
    def system(self) -> str:
        return "\n".join(block["text"] for block in _as_blocks(self.body.get("system") or ""))

    @property
    def user(self) -> str:
        """All texts of the user, without results of tools."""
        return "\n".join(
            block["text"]
            for message in self.messages
            if message["role"] == "user"
            for block in _as_blocks(message["content"])
            if block["type"] == "text"
        )

    @property
    def tools(self) -> dict[str, JsonObject]:
        """The tools offered to the model, by name."""
        offered: list[JsonObject] = self.body.get("tools") or []
        return {tool["name"]: tool for tool in offered}

    @property
    def tool_names(self) -> list[str]:
        return list(self.tools)

    @property
    def messages(self) -> list[JsonObject]:
        return self.body["messages"]

    @property
    def tool_results(self) -> list[ToolResult]:
        """Every tool result in the conversation so far, oldest first."""
        return [
            ToolResult(
                tool_use_id=block["tool_use_id"],
                content=_as_blocks(block.get("content", "")),
                is_error=block.get("is_error", False),
            )
            for message in self.messages
            for block in _as_blocks(message["content"])
            if block["type"] == "tool_result"
        ]


Turn = ScriptedTurn | Callable[[MessagesRequest], ScriptedTurn]
Script = Iterable[Turn] | Callable[[MessagesRequest], ScriptedTurn]
"""The turns of a conversation; or a function that answers any request."""


class ScriptEnded(Exception):
    """The client asked for more turns than the script has."""


class ScriptedClaude:
    """The API as an ASGI application, with the record of what it was asked."""

    def __init__(self, script: Script, url: str, only_with_tools: bool = True) -> None:
        self.url = url
        self.waiting = asyncio.Event()
        """Set when a request hangs."""
        self.left = asyncio.Event()
        """Set when the client of one that hung has gone."""
        self.requests: list[MessagesRequest] = []
        self.side_requests: list[MessagesRequest] = []
        self.other_paths: list[str] = []
        self.failure: Exception | None = None
        self._script = script if callable(script) else None
        self._turns: Iterator[Turn] = iter(()) if callable(script) else iter(script)
        self._only_with_tools = only_with_tools
        self._replies = 0

    def env(self, home: Path | str) -> dict[str, str]:
        """The environment in which Claude Code talks to this API and to nothing else."""
        return {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(Path(home) / ".claude"),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read_body(receive)
        path = scope["path"]
        if path == "/v1/messages":
            await self._answer_messages(_parse_request(scope, body), receive, send)
            return
        self.other_paths.append(f"{scope['method']} {path}")
        if path == "/v1/messages/count_tokens":
            await _send_json(send, 200, {"input_tokens": max(1, len(body) // 4)})
        elif scope["method"] == "HEAD":
            await _send(send, 200, "text/plain", [b""])
        else:
            await _send_json(send, 404, _error("not_found_error", f"no emulation of {path!r}"))

    async def _answer_messages(self, request: MessagesRequest, receive: Receive, send: Send) -> None:
        try:
            turn = self._next_turn(request)
            if isinstance(turn, Failing):
                body = _error(turn.kind or _KINDS.get(turn.status, "api_error"), turn.message)
                await _send_json(send, turn.status, body, turn.headers)
                return
            if isinstance(turn, Garbage):
                await _send(send, turn.status, turn.content_type, [turn.body])
                return
            if isinstance(turn, Hanging):
                await self._hang(receive)
                return
            events, message = self._reply(request, turn)
        except Exception as error:
            # The client gives up on a 400 at once; a 5xx it would retry for minutes.
            self.failure = error
            await _send_json(send, 400, _error("invalid_request_error", repr(error)))
            return
        if not request.body.get("stream"):
            await _send_json(send, 200, message)
        elif isinstance(turn, Cut | Silent):
            await _send(send, 200, "text/event-stream", events, is_whole=False)
            if isinstance(turn, Silent):
                await self._hang(receive)
            # A response that is left without its end: uvicorn closes the connection.
        else:
            await _send(send, 200, "text/event-stream", events)

    async def _hang(self, receive: Receive) -> None:
        self.waiting.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()

    def _next_turn(self, request: MessagesRequest) -> ScriptedTurn:
        if not request.tools and self._only_with_tools:
            self.side_requests.append(request)
            return "ok"
        if self.failure is not None:
            # Even a 400 is tried again in another form; that must not take the next turn.
            raise self.failure
        self.requests.append(request)
        turn = self._script or next(self._turns, None)
        if turn is None:
            raise ScriptEnded(f"request {len(self.requests)} finds no turn left in the test's script")
        return turn(request) if callable(turn) else turn

    def _reply(self, request: MessagesRequest, turn: ScriptedTurn) -> tuple[Iterable[bytes], JsonObject]:
        """The reply as a stream and as a whole."""
        match turn:
            case Events(events):
                return [_event(event["type"], **event) for event in events], {}
            case Refusing(words):
                message = self._message(request, words, "refusal", None)
            case Said(blocks, reason, usage):
                message = self._message(request, blocks, reason, usage)
            case Cut(blocks) | Silent(blocks):
                message = self._message(request, blocks, "", None)
                return [*_events(message)][:-2] if listed(blocks) else [], message
            case Erring(blocks, kind, words):
                message = self._message(request, blocks, "", None)
                failure = f"event: error\ndata: {json.dumps(_error(kind, words))}\n\n".encode()
                return [*[*_events(message)][:-2], failure], message
            case Failing() | Hanging() | Garbage():
                raise AssertionError("answered before")
            case _:
                message = self._message(request, turn, "", None)
        return _events(message), message

    def _message(
        self, request: MessagesRequest, blocks: Blocks, reason: str, usage: JsonObject | None
    ) -> JsonObject:
        self._replies += 1
        content = [
            _wire_block(block, f"toolu_{self._replies}_{index}") for index, block in enumerate(listed(blocks))
        ]
        asks = any(block["type"] == "tool_use" for block in content)
        counted = {
            "input_tokens": max(1, -(-request.size // 4)),
            "output_tokens": tokens_of(json.dumps(content)),
        }
        return {
            "id": f"msg_{self._replies}",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": content,
            "stop_reason": reason or ("tool_use" if asks else "end_turn"),
            "stop_sequence": None,
            "usage": counted if usage is None else usage,
        }


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@asynccontextmanager
async def scripted_claude(script: Script, *, only_with_tools: bool = True) -> AsyncGenerator[ScriptedClaude]:
    """Serve `script` on a free loopback port until the block ends.

    A script that ran out, or a turn that raised, ends Claude Code's run with an API error and is raised
    here when the block itself did not fail.
    """
    # Not `socket.create_server`, whose sockets do not call themselves TCP: asyncio then leaves Nagle's
    # algorithm on, and every answer waits 40 ms for the client's acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        api = ScriptedClaude(script, f"http://127.0.0.1:{port}", only_with_tools)
        config = uvicorn.Config(api, lifespan="off", log_config=None, timeout_graceful_shutdown=2)
        server = _LoopbackServer(config)
        # The socket already listens, so clients may connect before uvicorn is up.
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield api
        finally:
            server.should_exit = True
            await serving
    if api.failure is not None:
        raise api.failure


class _LoopbackServer(uvicorn.Server):
    """Leaves the signal handlers of the test process alone."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _parse_request(scope: Scope, body: bytes) -> MessagesRequest:
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return MessagesRequest(headers, json.loads(body), len(body))


def _as_blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _wire_block(block: Block, tool_use_id: str) -> JsonObject:
    match block:
        case str():
            return {"type": "text", "text": block}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolUse(name, arguments):
            return {"type": "tool_use", "id": tool_use_id, "name": name, "input": arguments}


def _events(message: JsonObject) -> Iterator[bytes]:
    """The message as the API streams it, each block in two deltas."""
    usage = message["usage"]
    begun = {**usage, "output_tokens": 1} if usage else {}
    opening: JsonObject = {**message, "content": [], "stop_reason": None, "usage": begun}
    yield _event("message_start", message=opening)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        match block["type"]:
            case "text":
                empty: JsonObject = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
            case "thinking":
                empty = {**block, "thinking": "", "signature": ""}
                deltas = [
                    *({"type": "thinking_delta", "thinking": piece} for piece in halves(block["thinking"])),
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case _:
                empty = {**block, "input": {}}
                text = arguments_text(ToolUse("", block["input"]), json.dumps)
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(text)]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=usage)
    yield _event("message_stop")


def _event(kind: str, /, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({**data, 'type': kind})}\n\n".encode()


def _error(kind: str, message: str) -> JsonObject:
    return {"type": "error", "error": {"type": kind, "message": message}}


async def _read_body(receive: Receive) -> bytes:
    body = b""
    more = True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


async def _send_json(
    send: Send, status: int, value: JsonObject, headers: Mapping[str, str] | None = None
) -> None:
    await _send(send, status, "application/json", [json.dumps(value).encode()], headers)


async def _send(
    send: Send,
    status: int,
    content_type: str,
    chunks: Iterable[bytes],
    more: Mapping[str, str] | None = None,
    is_whole: bool = True,
) -> None:
    headers = [(name.encode(), value.encode()) for name, value in (more or {}).items()]
    headers.append((b"content-type", content_type.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if is_whole:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
