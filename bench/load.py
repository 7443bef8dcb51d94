"""The client: builds the requests of both eras, drives them, and checks every reply.

It is blocking sockets and prepared bytes, so that the client stays cheap beside the server it
loads. A reply that is not the right echo raises `WrongReply`: errors are never timed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from bench.servers import HOST

Era = Literal["modern", "legacy"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
VERSIONS: Mapping[Era, str] = {"modern": "2026-07-28", "legacy": "2025-11-25"}
REPLY_LIMIT_S = 30.0

_CLIENT_INFO = {"name": "bench", "version": "1.0.0"}
_META = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
    "io.modelcontextprotocol/clientInfo": _CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_encode = msgspec.json.encode


class WrongReply(Exception):
    """The server answered something else than the echo that was asked for."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class Connection:
    """One keep-alive connection that sends prepared bytes and reads whole replies."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=REPLY_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> Reply:
        head = self._until(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if headers.get(b"transfer-encoding") == b"chunked":
            body = self._chunks()
        else:
            body = self._exactly(int(headers.get(b"content-length", b"0")))
        return Reply(int(status_line.split(b" ", 2)[1]), headers, body)

    def close(self) -> None:
        self._socket.close()

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(self._until(b"\r\n"), 16):
            parts.append(self._exactly(size))
            self._until(b"\r\n")
        self._until(b"\r\n")
        return b"".join(parts)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._read()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _read(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise WrongReply("the server closed the connection in the middle of a reply")
        self._buffer += data


@dataclass(frozen=True, slots=True)
class Call:
    """A tools/call ready to be sent, and what its reply has to say."""

    number: int
    text: str
    request: bytes


class Client:
    """One connection that speaks one era; a legacy one holds a session."""

    def __init__(self, port: int, era: Era, session: str | None = None) -> None:
        self.era: Era = era
        self.session = session
        self._port = port
        self._connection = Connection(port)

    def open_session(self) -> None:
        """The legacy handshake: initialize, then notifications/initialized."""
        params = {
            "protocolVersion": VERSIONS["legacy"],
            "capabilities": {},
            "clientInfo": _CLIENT_INFO,
        }
        opening = {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}
        self._connection.send(self._post(opening, {}))
        reply = self._connection.receive()
        session = reply.headers.get(b"mcp-session-id")
        if reply.status != 200 or session is None:
            raise WrongReply(f"initialize: status {reply.status}, session {session}: {reply.body[:300]!r}")
        self.session = session.decode("ascii")
        self._connection.send(
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._headers())
        )
        reply = self._connection.receive()
        if reply.status != 202:
            raise WrongReply(f"notifications/initialized: status {reply.status}: {reply.body[:300]!r}")

    def prepare(self, number: int) -> Call:
        text = f"echo {number}: forty characters or so of text"
        params: dict[str, Any] = {"name": "echo", "arguments": {"text": text}}
        if self.era == "modern":
            params["_meta"] = _META
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return Call(number, text, self._post(message, self._headers()))

    def send(self, call: Call) -> None:
        self._connection.send(call.request)

    def expect(self, call: Call) -> None:
        """Read the reply to `call`; anything but the right echo raises."""
        reply = self._connection.receive()
        try:
            message = msgspec.json.decode(_json_of(reply))
            result = message["result"]
            echoed = result["content"][0]["text"] == call.text and not result.get("isError", False)
            right = reply.status == 200 and message["id"] == call.number and echoed
        except (msgspec.DecodeError, KeyError, IndexError, TypeError):
            right = False
        if not right:
            raise WrongReply(f"call {call.number} ({self.era}): status {reply.status}: {reply.body[:300]!r}")

    def close(self) -> None:
        self._connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": VERSIONS[self.era]}
        if self.era == "modern":
            return headers | {"Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        return headers | {"Mcp-Session-Id": self.session or ""}

    def _post(self, message: object, more: Mapping[str, str]) -> bytes:
        body = _encode(message)
        headers = {
            "Host": f"{HOST}:{self._port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **more,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body


def _json_of(reply: Reply) -> bytes:
    """The JSON-RPC message, also where a server chose to answer in SSE."""
    if not reply.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        return reply.body
    data = [line[5:].strip() for line in reply.body.splitlines() if line.startswith(b"data:")]
    return next((line for line in reversed(data) if line), b"")


def connect(port: int, era: Era, connections: int, *, handshake: bool) -> list[Client]:
    """`connections` clients; without `handshake` a legacy one names a session that nobody checks."""
    clients = [Client(port, era, session="0123456789abcdef0123456789abcdef") for _ in range(connections)]
    if era == "legacy" and handshake:
        for client in clients:
            client.open_session()
    return clients


def prepare(clients: Sequence[Client], numbers: range) -> list[list[tuple[Client, Call]]]:
    """The calls in waves: one per client at a time, all in flight together."""
    firsts = range(0, len(numbers), len(clients))
    waves = (numbers[first : first + len(clients)] for first in firsts)
    # The last wave may be short of a number for every client.
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
