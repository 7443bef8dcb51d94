"""One keep-alive HTTP/1.1 connection of the client: prepared bytes out, whole replies in.

Reads replies, chunked or not, with as little work as possible. It does not know MCP.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from bench.process import HOST

REPLY_LIMIT_S = 60.0
_READ = 65536


class WrongReply(Exception):
    """The server's answer is wrong."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection((HOST, self._port), timeout=REPLY_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def reopen_if_closed(self) -> None:
        """Reconnects if the server closed the connection while other subjects were measured."""
        if select.select([self.socket], [], [], 0)[0]:  # no reply is due, so the server closed it
            self.socket.close()
            self._open()

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def receive(self) -> Reply:
        """Wait for the next reply."""
        while (reply := self.poll()) is None:
            pass
        return reply

    def poll(self) -> Reply | None:
        """Read once; the next reply, if it is complete now."""
        self._buffer += self._read()
        return self._parse()

    def _read(self) -> bytes:
        data = self.socket.recv(_READ)
        if not data:
            raise WrongReply("the server closed the connection in the middle of a reply")
        return data

    def receive_huge(self) -> Reply:
        """Wait for a reply of thousands of reads, and parse it once it is complete."""
        data = bytearray()
        while (at := data.find(b"\r\n\r\n")) < 0:
            data += self._read()
        sized = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data[: at + 2])
        while len(data) < at + 4 + int(sized[1]) if sized else not data.endswith(b"\r\n0\r\n\r\n"):
            data += self._read()
        self._buffer = bytes(data)
        if (reply := self._parse()) is None:
            raise WrongReply("a reply stopped before its end")
        return reply

    def close(self) -> None:
        self.socket.close()

    def _parse(self) -> Reply | None:
        # Parses from the start every time: replies come in one to three reads.
        head, mark, rest = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return None
        status_line, *lines = head.split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            found = _chunks(rest)
        else:
            size = int(headers.get(b"content-length", b"0"))
            found = (rest[:size], rest[size:]) if len(rest) >= size else None
        if found is None:
            return None
        body, self._buffer = found
        return Reply(int(status_line.split(b" ", 2)[1]), headers, body)


def _chunks(data: bytes) -> tuple[bytes, bytes] | None:
    """The body of a chunked reply and the bytes after it; None while it is incomplete."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(data[at:end].partition(b";")[0], 16)
        start, at = end + 2, end + 2 + size + 2
        if len(data) < at:
            return None
        if size == 0:
            return b"".join(parts), data[at:]
        parts.append(data[start : start + size])
