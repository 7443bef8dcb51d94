"""A small modern client over one keep-alive connection: cheap, and it sees every byte of an answer.

Imports nothing of ours and nothing heavy: the prober starts with it in a tenth of a second.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {
    PREFIX + "protocolVersion": VERSION,
    PREFIX + "clientCapabilities": {},
    PREFIX + "clientInfo": {"name": "talk", "version": "1"},
}


class Talk:
    def __init__(self, port: int, path: str = "/mcp", headers: Mapping[str, str] | None = None) -> None:
        self._port = port
        self._path = path
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._last = 0

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The whole JSON-RPC answer to a tools/call."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return json.loads(await self.raw(method, params))

    async def raw(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        """The bytes of the JSON-RPC answer."""
        self._last += 1
        inside = (params or {}) | {"_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": inside}).encode()
        named = f"Mcp-Name: {inside['name']}\r\n" if "name" in inside else ""
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Content-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
            f"Mcp-Method: {method}\r\n{named}{self._headers}Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + body)

    async def get(self, path: str) -> bytes:
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _exchange(self, data: bytes) -> bytes:
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self.close()  # an idle connection is let go after a while
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        self._writer.write(data)
        try:
            return await self._answer(self._reader)
        except BaseException:
            self.close()
            raise

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = (line.partition(":") for line in head.split("\r\n")[1:])
        headers = {name: value.strip() for name, _, value in lines}
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            parts: list[bytes] = []
            while size := int(await reader.readuntil(b"\r\n"), 16):
                parts.append((await reader.readexactly(size + 2))[:-2])
            await reader.readuntil(b"\r\n")
            body = b"".join(parts)
        if headers.get("content-type", "").startswith("text/event-stream"):
            return _last_data(body)
        return body


def _last_data(stream: bytes) -> bytes:
    """The answer on a stream: the last message, which must be the only one with an id and no method."""
    blocks = [block[6:] for block in stream.split(b"\n") if block.startswith(b"data: ")]
    answers = [block for block in blocks if b'"method"' not in block[:200]]
    if len(answers) != 1:
        raise ValueError(f"{len(answers)} answers on a stream: {stream[:500]!r}")
    return answers[0]
