"""The client: builds the requests of both eras, drives them, and checks every reply.

It uses blocking sockets and prepared bytes, so that the client is cheap compared with the server. A reply
that is not the right echo raises `WrongReply`: errors are never timed. `bench.connection` owns the
connection and reads replies.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from bench.connection import REPLY_LIMIT_S, Connection, Reply, WrongReply
from bench.process import HOST

Era = Literal["modern", "legacy"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
VERSIONS: Mapping[Era, str] = {"modern": "2026-07-28", "legacy": "2025-11-25"}

_CLIENT_INFO = {"name": "bench", "version": "1.0.0"}
_META = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
    "io.modelcontextprotocol/clientInfo": _CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Target:
    """A server's address, the name of its echo tool, and the headers it requires.

    `through` names the tool that calls it, where a gateway lists only tools to find and call others.
    """

    port: int
    path: str = "/mcp"
    tool: str = "echo"
    through: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Call:
    """A tools/call ready to be sent, and its expected reply."""

    number: int
    text: str
    request: bytes


class Client:
    """One connection that speaks one era; a legacy one holds a session."""

    def __init__(self, target: Target, era: Era, session: str | None = None) -> None:
        self.target = target
        self.era: Era = era
        self.session = session
        self.connection = Connection(target.port)
        self._version = VERSIONS[era]

    def open_session(self) -> None:
        """The legacy handshake: initialize, then notifications/initialized."""
        params = {
            "protocolVersion": VERSIONS["legacy"],
            "capabilities": {},
            "clientInfo": _CLIENT_INFO,
        }
        reply = self._ask({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}, {})
        message = _message_of(reply)
        if reply.status != 200 or "result" not in message:
            raise WrongReply(f"initialize: status {reply.status}: {reply.body[:300]!r}")
        self._version = message["result"]["protocolVersion"]
        session = reply.headers.get(b"mcp-session-id")
        self.session = session.decode("ascii") if session else None
        reply = self._ask({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._headers(""))
        if reply.status not in (200, 202):
            raise WrongReply(f"notifications/initialized: status {reply.status}: {reply.body[:300]!r}")

    def ask(self, method: str, *, huge: bool = False, **params: Any) -> dict[str, Any]:
        """Send one request and return its result."""
        if self.era == "modern":
            params["_meta"] = _META
        message = {"jsonrpc": "2.0", "id": "ask", "method": method, "params": params}
        reply = self._ask(message, self._headers(method, params.get("name")), huge=huge)
        result = _message_of(reply).get("result")
        if reply.status != 200 or not isinstance(result, dict):
            raise WrongReply(f"{method} ({self.era}): status {reply.status}: {reply.body[:300]!r}")
        return cast("dict[str, Any]", result)

    def _ask(self, message: object, headers: Mapping[str, str], *, huge: bool = False) -> Reply:
        self.connection.send(self._post(message, headers))
        return self.connection.receive_huge() if huge else self.connection.receive()

    def prepare(self, number: int) -> Call:
        text = f"echo {number}: forty characters or so of text"
        name, arguments = self.target.tool, {"text": text}
        if self.target.through:
            name, arguments = self.target.through, {"tool": name, "arguments": arguments}
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self.era == "modern":
            params["_meta"] = _META
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return Call(number, text, self._post(message, self._headers("tools/call", name)))

    def send(self, call: Call) -> None:
        self.connection.send(call.request)

    def expect(self, call: Call) -> None:
        """Read the reply to `call`; anything but the right echo raises."""
        self.check(call, self.connection.receive())

    def check(self, call: Call, reply: Reply) -> None:
        try:
            message = _message_of(reply)
            result = message["result"]
            echoed = result["content"][0]["text"] == call.text and not result.get("isError", False)
            right = reply.status == 200 and message["id"] == call.number and echoed
        except (KeyError, IndexError, TypeError):
            right = False
        if not right:
            raise WrongReply(f"call {call.number} ({self.era}): status {reply.status}: {reply.body[:300]!r}")

    def close(self) -> None:
        self.connection.close()

    def _headers(self, method: str, name: str | None = None) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": self._version}
        if self.era == "modern":
            return headers | {"Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
        return headers | ({"Mcp-Session-Id": self.session} if self.session else {})

    def _post(self, message: object, more: Mapping[str, str]) -> bytes:
        body = _encode(message)
        headers = {
            "Host": f"{HOST}:{self.target.port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self.target.headers,
            **more,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.target.path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body


def _message_of(reply: Reply) -> dict[str, Any]:
    """The JSON-RPC answer, as JSON or SSE; {} if there is none."""
    body = reply.body
    if reply.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        data = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
        body = next((line for line in reversed(data) if line), b"")
    try:
        message = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


def connect(target: Target, era: Era, connections: int, *, handshake: bool) -> list[Client]:
    """Opens `connections` clients; without `handshake` a legacy client sends an invented session id."""
    clients = [Client(target, era, session="0123456789abcdef0123456789abcdef") for _ in range(connections)]
    if era == "legacy" and handshake:
        for client in clients:
            client.open_session()
    return clients


def prepare(clients: Sequence[Client], numbers: range) -> list[list[tuple[Client, Call]]]:
    """The calls in waves: one per client at a time, all in flight together."""
    firsts = range(0, len(numbers), len(clients))
    waves = (numbers[first : first + len(clients)] for first in firsts)
    # The last wave may have fewer calls than clients.
    return [
        [(client, client.prepare(number)) for client, number in zip(clients, wave, strict=False)]
        for wave in waves
    ]


def drive(waves: Iterable[Sequence[tuple[Client, Call]]]) -> None:
    for wave in waves:
        for client, call in wave:
            client.send(call)
        for client, call in wave:
            client.expect(call)


@dataclass(frozen=True, slots=True)
class Pumped:
    """How long a number of calls took, as the client saw it."""

    seconds: float
    latencies: Sequence[float]

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


def pump(clients: Sequence[Client], numbers: range) -> Pumped:
    """Every client sends its next call as soon as it has its reply, until the numbers are used up.

    The replies are checked at the end, so that the client costs little meanwhile.
    """
    queues = [
        [client.prepare(number) for number in numbers[at :: len(clients)]]
        for at, client in enumerate(clients)
    ]
    for client in clients:  # last, because a server may close an idle connection at any moment
        client.connection.reopen_if_closed()
    answered: list[tuple[Client, Call, Reply]] = []
    latencies: list[float] = []
    with selectors.DefaultSelector() as selector:
        entries = [(client, iter(queue)) for client, queue in zip(clients, queues, strict=True)]
        for client, queue in entries:
            selector.register(client.connection.socket, selectors.EVENT_READ, (client, queue))
        started = time.perf_counter()
        flying = {client: first for client, queue in entries if (first := _next(client, queue))}
        while flying:
            ready = selector.select(REPLY_LIMIT_S)
            if not ready:
                raise WrongReply(f"no reply within {REPLY_LIMIT_S:.0f} s to {len(flying)} calls")
            for key, _ in ready:
                client, queue = key.data
                if (reply := client.connection.poll()) is None:
                    continue
                call, sent = flying.pop(client)
                latencies.append(time.perf_counter() - sent)
                answered.append((client, call, reply))
                if following := _next(client, queue):
                    flying[client] = following
        seconds = time.perf_counter() - started
    for client, call, reply in answered:
        client.check(call, reply)
    return Pumped(seconds, latencies)


def _next(client: Client, queue: Iterator[Call]) -> tuple[Call, float] | None:
    call = next(queue, None)
    if call is None:
        return None
    sent = time.perf_counter()
    client.send(call)
    return call, sent
