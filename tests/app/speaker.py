"""An MCP server over HTTP, written by hand, whose every word a test can change, and which keeps what it saw.

It stands on nothing of ours, so that the gateway is not measured against itself.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any

from tests.serving import MODERN, PATIENCE, PREFIX, live
from toolyard.edge.http.server import uvicorn_server

LEGACY = "2025-11-25"
TOOLS_CHANGED = "notifications/tools/list_changed"

Json = dict[str, Any]


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


READ_ONLY = {"annotations": {"readOnlyHint": True}}
IDEMPOTENT = {"annotations": {"idempotentHint": True}}


def text(words: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


class Exchange:
    """One HTTP request, and the way to answer it byte by byte."""

    def __init__(self, scope: Any, body: bytes, receive: Any, send: Any) -> None:
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.message: Json = json.loads(body) if body else {}
        self._receive = receive
        self._send = send

    @property
    def method(self) -> str:
        return self.message.get("method", "")

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def params(self) -> Json:
        return self.message.get("params") or {}

    @property
    def name(self) -> str:
        return self.params.get("name", "")

    @property
    def arguments(self) -> Json:
        return self.params.get("arguments") or {}

    @property
    def is_modern(self) -> bool:
        return self.headers.get("mcp-protocol-version") == MODERN

    async def head(self, status: int, content_type: str, **more: str) -> None:
        headers = [(b"content-type", content_type.encode())]
        headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def whole(self, status: int, content_type: str, body: bytes, **more: str) -> None:
        await self.head(status, content_type, content_length=str(len(body)), **more)
        await self._send({"type": "http.response.body", "body": body})

    async def plain(self, status: int, words: str = "", **more: str) -> None:
        await self.whole(status, "text/plain", words.encode(), **more)

    async def json(self, value: Any, status: int = 200, **more: str) -> None:
        await self.whole(status, "application/json", json.dumps(value).encode(), **more)

    def reply(self, result: Any) -> Json:
        if self.is_modern:
            result = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}

    async def result(self, result: Any, **more: str) -> None:
        await self.json(self.reply(result), 200, **more)

    async def error(self, code: int, message: str, status: int = 200, data: Any = None) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.json({"jsonrpc": "2.0", "id": self.id, "error": error}, status)

    async def break_off(self) -> None:
        """Begin an answer and leave it at that: the connection breaks when the handler returns."""
        await self.head(200, "application/json", content_length="1000")
        await self.write(b'{"jsonrpc": ')

    async def stream(self, **more: str) -> None:
        await self.head(200, "text/event-stream", **more)

    async def event(self, message: Any, **fields: Any) -> None:
        lines = [f"{name}: {value}" for name, value in fields.items()]
        await self.write("\n".join([*lines, f"data: {json.dumps(message)}", "", ""]).encode())

    async def notify(self, method: str, params: Json) -> None:
        await self.event({"jsonrpc": "2.0", "method": method, "params": params})

    async def progress(self, progress: float, message: str = "") -> None:
        token = self.params["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": progress, "message": message}
        await self.notify("notifications/progress", told)

    async def gone(self) -> None:
        """Until the client hangs up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Left(Exception):
    """Whoever was asked has gone."""


Handler = Callable[[Exchange], Awaitable[None]]


class Speaker:
    """`on[method]` replaces what is said to a method; `before` sees every request and may answer it."""

    path = "/mcp"

    def __init__(self, era: str = "modern", tools: list[Json] | None = None) -> None:
        self.era = era
        self.tools = [tool("echo")] if tools is None else tools
        self.capabilities: Json = {"tools": {"listChanged": True}}
        self.instructions: str | None = None
        self.on: dict[str, Handler] = {}
        self.before: Callable[[Exchange], Awaitable[bool]] | None = None
        self.seen: list[Exchange] = []
        self.openings: list[Json] = []
        """The params of every `initialize`."""
        self.sessions: set[str] = set()
        self.closing = asyncio.Event()
        self.listeners: dict[Exchange, None] = {}
        self._ids = count(1)
        self._news = asyncio.Condition()
        self._answers: dict[Any, asyncio.Future[Json]] = {}

    # What it saw

    def heard(self, method: str) -> list[Exchange]:
        return [item for item in self.seen if item.method == method]

    def calls(self, name: str) -> int:
        return sum(item.name == name for item in self.heard("tools/call"))

    async def until(self, check: Callable[[], Any]) -> None:
        """Until something holds that a request, or the end of one, can change."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(check)

    async def until_heard(self, method: str, times: int = 1) -> Exchange:
        await self.until(lambda: len(self.heard(method)) >= times)
        return self.heard(method)[times - 1]

    async def until_listened(self, times: int = 1) -> None:
        """Until the gateway hears what we tell of our own accord."""
        await self.until(lambda: len(self.listeners) >= times)

    async def _note(self) -> None:
        async with self._news:
            self._news.notify_all()

    # What it says of its own accord

    async def tell(self, method: str, params: Json | None = None) -> None:
        for listener in list(self.listeners):
            said = dict(params or {})
            if listener.is_modern:
                said["_meta"] = {PREFIX + "subscriptionId": listener.id}
            await listener.notify(method, said)

    async def ask(self, exchange: Exchange, method: str, params: Json) -> Json:
        """Legacy: put a question on a call's stream and wait for the message that answers it."""
        id = f"question-{next(self._ids)}"
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        await exchange.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        leaving = asyncio.ensure_future(self.held(exchange))
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if not answer.done():
            raise Left
        return answer.result()

    async def close(self) -> None:
        self.closing.set()

    # Hearing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        body = b""
        more = True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        exchange = Exchange(scope, body, receive, send)
        self.seen.append(exchange)
        await self._note()
        try:
            with suppress(Left):
                await self._answer(exchange)
        finally:
            await self._note()

    async def _answer(self, exchange: Exchange) -> None:
        if self.before is not None and await self.before(exchange):
            return
        handler = self.on.get(exchange.method or exchange.verb)
        if handler is not None:
            await handler(exchange)
        elif self.era == "modern":
            await self._modern(exchange)
        else:
            await self._legacy(exchange)

    async def _modern(self, exchange: Exchange) -> None:
        if not exchange.is_modern:
            await exchange.error(-32022, "Unsupported protocol version", 400, {"supported": [MODERN]})
            return
        match exchange.method:
            case "server/discover":
                await exchange.result(
                    {
                        "supportedVersions": [MODERN],
                        "capabilities": self.capabilities,
                        "_meta": {PREFIX + "serverInfo": {"name": "speaker", "version": "1"}},
                        **self._told(),
                    }
                )
            case "tools/list":
                await exchange.result({"tools": self.tools})
            case "tools/call":
                await exchange.result(text(exchange.arguments.get("text", "")))
            case "subscriptions/listen":
                await self.listen(exchange)
            case _:
                await exchange.error(-32601, f"No {exchange.method}", 404)

    async def _legacy(self, exchange: Exchange) -> None:
        if exchange.is_modern:
            await exchange.plain(400, "Bad Request: no valid session ID provided")
        elif exchange.verb == "GET":
            await self.listen(exchange)
        elif exchange.verb == "DELETE":
            self.sessions.discard(exchange.headers.get("mcp-session-id", ""))
            await exchange.plain(200)
        elif exchange.method == "initialize":
            await self.initialize(exchange)
        elif exchange.headers.get("mcp-session-id") not in self.sessions:
            await exchange.plain(404, "Session not found")
        elif exchange.id is None or not exchange.method:
            self._take(exchange)
            await exchange.plain(202)
        elif exchange.method == "tools/list":
            await exchange.result({"tools": self.tools})
        elif exchange.method == "tools/call":
            await exchange.result(text(exchange.arguments.get("text", "")))
        else:
            await exchange.error(-32601, f"No {exchange.method}")

    def _take(self, exchange: Exchange) -> None:
        answer = self._answers.pop(exchange.id, None)
        if answer is not None and not answer.done():
            answer.set_result(exchange.message)

    def _told(self) -> Json:
        return {} if self.instructions is None else {"instructions": self.instructions}

    async def initialize(self, exchange: Exchange) -> None:
        self.openings.append(exchange.params)
        id = f"session-{next(self._ids)}"
        self.sessions.add(id)
        result = {
            "protocolVersion": LEGACY,
            "capabilities": self.capabilities,
            "serverInfo": {"name": "speaker", "version": "1"},
            **self._told(),
        }
        await exchange.result(result, mcp_session_id=id)

    async def listen(self, exchange: Exchange) -> None:
        """A stream for what we tell of our own accord."""
        await exchange.stream()
        if exchange.is_modern:
            mark = {"_meta": {PREFIX + "subscriptionId": exchange.id}}
            agreed = {"notifications": exchange.params["notifications"], **mark}
            await exchange.notify("notifications/subscriptions/acknowledged", agreed)
        else:
            await exchange.write(b": hello\n\n")
        self.listeners[exchange] = None
        await self._note()
        try:
            await self.held(exchange)
        finally:
            del self.listeners[exchange]

    async def held(self, exchange: Exchange) -> bool:
        """Leave a request as it is until its client hangs up, or we end. Whether the client did."""
        gone = asyncio.ensure_future(exchange.gone())
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({gone, closing}, return_when=asyncio.FIRST_COMPLETED)
            return gone.done()
        finally:
            for future in (gone, closing):
                future.cancel()
                with suppress(asyncio.CancelledError):
                    await future


@asynccontextmanager
async def speaking(speaker: Any, port: int = 0) -> AsyncIterator[str]:
    """The speaker at an address, which is what comes back; at the port of another before it, if told so."""
    async with on_port(speaker, port) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def on_port(app: Any, port: int = 0) -> AsyncIterator[int]:
    """An app on loopback, as `serving` has it, that ends without uvicorn's pauses: there are many here."""
    # Named as TCP, so that asyncio switches off Nagle's delays.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    port = listener.getsockname()[1]
    server = uvicorn_server(app, "127.0.0.1", port)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    try:
        yield port
    finally:
        for listening in server.servers:
            listening.close()
        await app.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        if server.server_state.tasks:
            await asyncio.wait(server.server_state.tasks, timeout=PATIENCE)
        await server.lifespan.shutdown()


@contextmanager
def silent() -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


def free_port() -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
