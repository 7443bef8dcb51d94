"""The one way out of a browser context: a proxy in this process that every connection of its pages takes.

It looks a name up once, asks the rules about each address found, and connects to the very address it asked
about, so that a name which answers differently the next time changes nothing. Owns no rule itself.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from .addresses import Rules

Resolve = Callable[[str, int], Awaitable[list[str]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
OWN_SERVICES = frozenset(
    f"{name}.googleapis.com"
    for name in ("content-autofill", "optimizationguide-pa", "safebrowsing", "update")
)
"""Whom Chromium would tell about forms and pages by itself; no page needs them."""

HEAD_BYTES = 256 * 1024
CONNECT_SECONDS = 15.0
MAX_TROUBLES = 100
_HOP = re.compile(rb"(?im)^(?:proxy-[^:\r\n]+|connection|keep-alive|te|upgrade):[^\r\n]*\r\n")
_HOST = re.compile(rb"(?im)^host:[^\r\n]*\r\n")


class Trouble(Struct, frozen=True):
    """A connection that was not made."""

    kind: Literal["refused", "unknown", "unreachable", "too_much"]
    host: str
    port: int


class _NoWay(Exception):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Door:
    """Open it before its context and close it after; `troubles` are what it did not let through."""

    def __init__(self, rules: Rules, max_bytes: int, resolve: Resolve = look_up) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.troubles: deque[Trouble] = deque(maxlen=MAX_TROUBLES)

    async def open(self) -> str:
        """Its address, as a browser is told it."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def take_troubles(self) -> list[Trouble]:
        """Those since the last time, each once."""
        found = list(dict.fromkeys(self.troubles))
        self.troubles.clear()
        return found

    def trouble_with(self, url: str) -> Trouble | None:
        host = urlsplit(url).hostname
        return next((trouble for trouble in reversed(self.troubles) if trouble.host == host), None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        except _NoWay as error:
            self.troubles.append(error.trouble)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the browser, or the other side, hung up or is not speaking HTTP
        except asyncio.CancelledError:
            pass  # we are closing
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        method, target, _ = line.split(b" ")
        if method == b"CONNECT":
            host, _, port = target.decode("ascii").rpartition(":")
            await self._tunnel((reader, writer), host.strip("[]"), int(port))
        else:
            await self._forward((reader, writer), method, target.decode("ascii"), fields)

    async def _tunnel(self, browser: Streams, host: str, port: int) -> None:
        site = await self._reach(host, port)
        browser[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        await self._between(browser, site[0], site[1], (host, port))

    async def _forward(self, browser: Streams, method: bytes, target: str, fields: bytes) -> None:
        """One request without TLS. The connection ends with it: the next may be for somebody else."""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("not a request to a proxy")
        port = parts.port or 80
        site = await self._reach(parts.hostname, port)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        kept = _HOST.sub(b"", _HOP.sub(b"", fields))
        start = f"{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode("ascii")
        site[1].write(method + b" " + start + kept)
        await self._between(browser, _Headed(site[0]), site[1], (parts.hostname, port))

    async def _reach(self, host: str, port: int) -> Streams:
        if host.lower() in OWN_SERVICES:
            raise ValueError("not a request of a page")
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            try:
                addresses = await self._resolve(host, port)
            except OSError:
                raise _NoWay(Trouble("unknown", host, port)) from None
        if not all(self._rules.admits(host, address, port) for address in addresses):
            raise _NoWay(Trouble("refused", host, port))
        for address in addresses:
            with contextlib.suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port, limit=HEAD_BYTES)
        raise _NoWay(Trouble("unreachable", host, port))

    async def _between(
        self,
        browser: Streams,
        coming: "asyncio.StreamReader | _Headed",
        going: asyncio.StreamWriter,
        site: tuple[str, int],
    ) -> None:
        up = asyncio.create_task(_pump(browser[0], going, None))
        try:
            if not await _pump(coming, browser[1], self._max_bytes):
                self.troubles.append(Trouble("too_much", *site))
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
            going.close()


async def _pump(
    source: "asyncio.StreamReader | _Headed", sink: asyncio.StreamWriter, most: int | None
) -> bool:
    """False when there was more than it may carry."""
    carried = 0
    while data := await source.read(65536):
        carried += len(data)
        if most is not None and carried > most:
            return False
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
    return True


class _Headed:
    """A response whose head says that the connection ends with it, whatever the site would like."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._headed = False

    async def read(self, size: int) -> bytes:
        if self._headed:
            return await self._reader.read(size)
        head = await self._reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        if line.split(b" ", 2)[1][:1] == b"1":  # an interim response: another head follows
            return head
        self._headed = True
        return line + b"\r\nConnection: close\r\n" + _HOP.sub(b"", fields)
