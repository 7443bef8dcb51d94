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
in `side_requests`.
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
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

JsonObject = dict[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[JsonObject], Awaitable[None]]


@dataclass(frozen=True)
class ToolUse:
    """The model asks for one tool call."""

    name: str
    input: JsonObject = field(default_factory=dict[str, Any])


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


Block = str | ToolUse
Blocks = Block | Sequence[Block]
Turn = Blocks | Callable[[MessagesRequest], Blocks]


class ScriptEnded(Exception):
    """The client asked for more turns than the script has."""


class ScriptedClaude:
    """The API as an ASGI application, with the record of what it was asked."""

    def __init__(self, script: Iterable[Turn], url: str) -> None:
        self.url = url
        self.requests: list[MessagesRequest] = []
        self.side_requests: list[MessagesRequest] = []
        self.other_paths: list[str] = []
        self.failure: Exception | None = None
        self._turns: Iterator[Turn] = iter(script)
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
            await self._answer_messages(_parse_request(scope, body), send)
            return
        self.other_paths.append(f"{scope['method']} {path}")
        if path == "/v1/messages/count_tokens":
            await _send_json(send, 200, {"input_tokens": max(1, len(body) // 4)})
        elif scope["method"] == "HEAD":
            await _send(send, 200, "text/plain", [b""])
        else:
            await _send_json(send, 404, _error("not_found_error", f"no emulation of {path!r}"))

    async def _answer_messages(self, request: MessagesRequest, send: Send) -> None:
        try:
            message = self._message(request, self._next_blocks(request))
        except Exception as error:
            # The client gives up on a 400 at once; a 5xx it would retry for minutes.
            self.failure = error
            await _send_json(send, 400, _error("invalid_request_error", repr(error)))
            return
        if request.body.get("stream"):
            await _send(send, 200, "text/event-stream", _events(message))
        else:
            await _send_json(send, 200, message)

    def _next_blocks(self, request: MessagesRequest) -> Blocks:
        if not request.tools:
            self.side_requests.append(request)
            return "ok"
        if self.failure is not None:
            # Even a 400 is tried again in another form; that must not take the next turn.
            raise self.failure
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise ScriptEnded(f"request {len(self.requests)} finds no turn left in the test's script")
        return turn(request) if callable(turn) else turn

    def _message(self, request: MessagesRequest, blocks: Blocks) -> JsonObject:
        self._replies += 1
        listed = [blocks] if isinstance(blocks, str | ToolUse) else list(blocks)
        content = [_wire_block(block, f"toolu_{self._replies}_{index}") for index, block in enumerate(listed)]
        asks = any(block["type"] == "tool_use" for block in content)
        return {
            "id": f"msg_{self._replies}",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": content,
            "stop_reason": "tool_use" if asks else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


@asynccontextmanager
async def scripted_claude(script: Iterable[Turn]) -> AsyncGenerator[ScriptedClaude]:
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
        api = ScriptedClaude(script, f"http://127.0.0.1:{port}")
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
    return MessagesRequest(headers, json.loads(body))


def _as_blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _wire_block(block: Block, tool_use_id: str) -> JsonObject:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    return {"type": "tool_use", "id": tool_use_id, "name": block.name, "input": block.input}


def _events(message: JsonObject) -> Iterator[bytes]:
    """The message as the API streams it, each block whole in one delta."""
    opening: JsonObject = {**message, "content": [], "stop_reason": None}
    yield _event("message_start", message=opening)
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty: JsonObject = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=message["usage"])
    yield _event("message_stop")


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


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


async def _send_json(send: Send, status: int, value: JsonObject) -> None:
    await _send(send, status, "application/json", [json.dumps(value).encode()])


async def _send(send: Send, status: int, content_type: str, chunks: Iterable[bytes]) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
