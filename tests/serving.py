"""Real servers and plain clients: uvicorn on a loopback port, and HTTP of which a test controls every byte.

Owns how tests reach an ASGI app: over a socket (`serving`, `Client`, `Line`, `LegacyClient`) or without one
(`call_asgi`). Owns nothing of the protocol: what a request says is up to the test, and events are parsed here
by hand, so that our own decoder does not vouch for our own encoder.
"""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import PATIENCE
from toolyard.edge.http.app import Endpoint, HttpEdge
from toolyard.edge.http.server import uvicorn_server

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
Headers = Mapping[str, str] | Iterable[tuple[str, str]]


@asynccontextmanager
async def serving(app: Endpoint, **options: Any) -> AsyncIterator["Client"]:
    """Serve an app on a free port of loopback, in this event loop, with the settings of `toolyard serve`."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn_server(app, "127.0.0.1", port, **options)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    # What `Server.serve` does, less its loop that looks ten times a second whether to stop.
    await server.startup(sockets=[listener])
    client = Client(port)
    try:
        yield client
    finally:
        client.close()
        await server.shutdown(sockets=[listener])


async def live(receive: Any, send: Any) -> None:
    """Answer a server that begins and ends an app, for one that has nothing to begin."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


@dataclass
class Answer:
    """A whole HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The answer, in whichever form it came: of a stream, its last message.

        A call that takes some seconds goes on as a stream, and on a busy machine any call may take them.
        """
        if not self.is_stream:
            return json.loads(self.body)
        messages = [event.json for event in self.events if event.is_message]
        assert messages, f"a stream without a message: {self.body[:500]!r}"
        return messages[-1]

    @property
    def result(self) -> Any:
        reply = self.json
        assert "error" not in reply, reply
        return reply["result"]

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self) -> list["Event"]:
        assert self.is_stream, self
        return [event for block in self.body.decode().split("\n\n") if (event := Event.parse(block))]


@dataclass
class Event:
    """One block of a stream; a comment is a block with neither data nor id."""

    data: str | None = None
    id: str | None = None
    retry: int | None = None
    comments: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, block: str) -> "Event | None":
        if not block.strip():
            return None
        event = cls()
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "":
                event.comments.append(value)
            elif name == "data":
                event.data = value if event.data is None else f"{event.data}\n{value}"
            elif name == "id":
                event.id = value
            elif name == "retry":
                event.retry = int(value)
            else:
                raise AssertionError(f"unexpected line {line!r}")
        return event

    @property
    def json(self) -> Any:
        return json.loads(self.data or "")

    @property
    def is_message(self) -> bool:
        return bool(self.data)


class Line:
    """One open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        # A server that has already refused us may have closed its side.
        with suppress(ConnectionError):
            await self._writer.drain()

    async def head(self) -> int:
        """Read a response's status and headers."""
        async with asyncio.timeout(PATIENCE):
            raw = await self._reader.readuntil(b"\r\n\r\n")
        status_line, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.status = int(status_line.split(" ")[1])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        return self.status

    async def _chunks(self) -> AsyncIterator[bytes]:
        if "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
        elif self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readuntil(b"\r\n")
        elif self.status not in (204, 304):
            yield await self._reader.read()

    async def answer(self, without_body: bool = False) -> Answer:
        """Read a whole response."""
        await self.head()
        async with asyncio.timeout(PATIENCE):
            body = b"" if without_body else b"".join([chunk async for chunk in self._chunks()])
        return Answer(self.status, self.headers, body)

    async def events(self) -> AsyncIterator[Event]:
        """The events of a stream as they come, after `head`, until the server ends it."""
        assert self.headers.get("content-type") == "text/event-stream", self.headers
        chunks = self._chunks()
        while True:
            async with asyncio.timeout(PATIENCE):
                while b"\n\n" not in self._rest:
                    chunk = await anext(chunks, None)
                    if chunk is None:
                        assert not self._rest, f"the stream ended inside an event: {self._rest!r}"
                        return
                    self._rest += chunk
            block, self._rest = self._rest.split(b"\n\n", 1)
            event = Event.parse(block.decode())
            assert event is not None
            yield event

    async def messages(self) -> AsyncIterator[Any]:
        """The JSON-RPC messages of a stream, without comments and empty events."""
        async for event in self.events():
            if event.is_message:
                yield event.json

    async def next_message(self) -> Any:
        return await anext(self.messages())

    async def everything(self) -> bytes:
        """What the server sends until it closes the connection."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                return await self._reader.read()
        return b""

    def no_more(self) -> None:
        """Close our side for writing only."""
        with suppress(OSError):
            self._writer.write_eof()

    def hang_up(self) -> None:
        self._writer.close()


def pairs_of(headers: Headers) -> list[tuple[str, str]]:
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    return list(pairs)


def http(
    method: str = "POST",
    path: str = "/mcp",
    headers: Headers = (),
    body: bytes | None = None,
    host: str = "127.0.0.1",
) -> bytes:
    """The bytes of a request. Host and Content-Length are added unless given."""
    pairs = pairs_of(headers)
    given = {name.lower() for name, _ in pairs}
    if "host" not in given:
        pairs.insert(0, ("Host", host))
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


class Client:
    """Speaks HTTP to one port, each request on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    async def connect(self) -> Line:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=64 * 1024 * 1024)
        self._writers.append(writer)
        return Line(reader, writer)

    async def raw(self, data: bytes) -> Answer:
        """Send these bytes and read the answer."""
        line = await self.connect()
        await line.send(data)
        try:
            return await line.answer()
        finally:
            line.hang_up()

    async def open(self, headers: Headers, message: Any, method: str = "POST", path: str = "/mcp") -> Line:
        """Send a request and read the head of its answer only."""
        line = await self.connect()
        await line.send(http(method, path, headers, encoded(message), f"127.0.0.1:{self.port}"))
        await line.head()
        return line

    async def post(self, headers: Headers, message: Any, path: str = "/mcp") -> Answer:
        """Send a message, as JSON unless it is bytes, and read the whole answer."""
        return await self.raw(http("POST", path, headers, encoded(message), f"127.0.0.1:{self.port}"))

    async def modern(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> Answer:
        return await self.post(*modern(method, params, **options))


def encoded(message: Any) -> bytes | None:
    return message if message is None or isinstance(message, bytes) else json.dumps(message).encode()


BOTH = "application/json, text/event-stream"


def meta(capabilities: dict[str, Any] | None = None, version: str = MODERN, **more: Any) -> dict[str, Any]:
    """The `_meta` of a modern request; `more` are further keys of the protocol's own prefix."""
    return {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": capabilities or {},
        PREFIX + "clientInfo": {"name": "tests", "version": "1"},
    } | {PREFIX + name: value for name, value in more.items()}


def modern(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    id: Any = 1,
    capabilities: dict[str, Any] | None = None,
    progress: Any = None,
    **more: Any,
) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and the message of a valid modern request, for a test to send or to spoil."""
    inside = dict(params or {})
    inside["_meta"] = meta(capabilities, **more) | ({} if progress is None else {"progressToken": progress})
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    key = {"resources/read": "uri"}.get(method, "taskId" if method.startswith("tasks/") else "name")
    if method in ("tools/call", "prompts/get", "resources/read") or key == "taskId":
        headers["Mcp-Name"] = inside[key]
    return headers, {"jsonrpc": "2.0", "id": id, "method": method, "params": inside}


class LegacyClient:
    """One legacy session over HTTP."""

    def __init__(self, client: Client, version: str, id: str | None) -> None:
        self.client = client
        self.version = version
        self.id = id
        self._last = 0

    @classmethod
    async def start(
        cls, client: Client, version: str = "2025-11-25", capabilities: dict[str, Any] | None = None
    ) -> "LegacyClient":
        headers, message = initialize(version, capabilities)
        answer = await client.post(headers, message)
        assert answer.status == 200, answer
        session = cls(client, answer.result["protocolVersion"], answer.headers["mcp-session-id"])
        assert (await session.notify("notifications/initialized")).status == 202
        return session

    def at(self, client: Client) -> "LegacyClient":
        """The same session, spoken to another server."""
        return LegacyClient(client, self.version, self.id)

    @property
    def headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": BOTH,
            "MCP-Protocol-Version": self.version,
        }
        return headers | ({"Mcp-Session-Id": self.id} if self.id is not None else {})

    def message(self, method: str, params: dict[str, Any] | None = None, id: Any = None) -> dict[str, Any]:
        self._last += 1
        return {
            "jsonrpc": "2.0",
            "id": self._last if id is None else id,
            "method": method,
            "params": params or {},
        }

    async def request(self, method: str, params: dict[str, Any] | None = None, id: Any = None) -> Answer:
        return await self.client.post(self.headers, self.message(method, params, id))

    async def call(self, tool: str, id: Any = None, **arguments: Any) -> Answer:
        return await self.request("tools/call", {"name": tool, "arguments": arguments}, id)

    async def open_call(self, tool: str, id: Any = None, progress: Any = None, **arguments: Any) -> Line:
        """Call a tool that streams; the head of the answer has been read."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if progress is not None:
            params["_meta"] = {"progressToken": progress}
        return await self.client.open(self.headers, self.message("tools/call", params, id))

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        return await self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def respond(self, id: Any, result: Any) -> Answer:
        return await self.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def send(self, message: Any) -> Answer:
        return await self.client.post(self.headers, message)

    async def listen(self, last_event_id: str | None = None) -> Line:
        """Open a GET stream; its head and the comment that opens it have been read."""
        headers = self.headers | {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        return await self.client.open(headers, None, method="GET")

    async def end(self) -> Answer:
        return await self.client.raw(
            http("DELETE", headers=self.headers, host=f"127.0.0.1:{self.client.port}")
        )


def initialize(
    version: Any = "2025-11-25", capabilities: dict[str, Any] | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    headers = {"Content-Type": "application/json", "Accept": BOTH}
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    return headers, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


async def call_asgi(
    app: HttpEdge,
    headers: Headers,
    body: bytes,
    method: str = "POST",
    path: str = "/mcp",
    patience: float = PATIENCE,
) -> Answer:
    """One request to an app, without a socket. A stream is hung up on after its first piece."""
    pairs = pairs_of(headers)
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    if not any(name == b"host" for name, _ in raw):
        raw.append((b"host", b"localhost"))
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()
    answer = Answer(0, {}, b"")

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            assert answer.status == 0, "a second response"
            answer.status = event["status"]
            answer.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event["headers"]}
        else:
            assert answer.status, "a body before its head"
            answer.body += event.get("body", b"")
            if not event.get("more_body", False) or answer.is_stream:
                gone.set()

    scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": b""}
    async with asyncio.timeout(patience):
        await app(scope, receive, send)
    return answer


# Things of ours that no stranger should see: paths, exceptions, memory addresses, the libraries inside.
_INSIDE = re.compile(
    r"Traceback|File \"|\.py\b|site-packages|/src/|/home/|/work/|/usr/| at 0x|<class|msgspec|uvicorn|"
    r"toolyard\.|"
    r"[A-Z][A-Za-z]+(?:Error|Exception)\(|Secret of the inside"
)


def names_the_inside(text: str) -> bool:
    """Whether a request itself has words that no answer may have: an answer that quotes it leaks nothing."""
    return _INSIDE.search(text) is not None


def assert_nothing_leaks(body: bytes) -> None:
    found = _INSIDE.search(body.decode("utf-8", "replace"))
    assert found is None, f"{found[0]!r} in {body[:500]!r}"
