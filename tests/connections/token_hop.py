"""A hop in front of an issuer's token endpoint, which can hold a refresh on its way there or back."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

import aiohttp

from tests.serving import live, serving


class Hold:
    """One refresh that is held: before the issuer sees it, or after the issuer has answered."""

    def __init__(self, when: Literal["before", "after"]) -> None:
        self.when = when
        self.is_dropped = False
        self._ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._released = asyncio.Event()

    async def holder(self, pids: Iterable[int]) -> int:
        """Waits until a refresh is held; returns which of these processes has sent it."""
        ports = await self._ports
        found = [pid for pid in pids if _owns(pid, ports)]
        assert len(found) == 1, f"the connection {ports} belongs to {found}"
        return found[0]

    async def reached(self) -> None:
        await self._ports

    @property
    def is_over(self) -> bool:
        """It has held a request, or shall hold none any more."""
        return self._ports.done() or self.is_dropped

    def release(self) -> None:
        self._released.set()

    def drop(self) -> None:
        """Its sender is gone: the issuer shall not see it."""
        self.is_dropped = True
        self._released.set()

    async def wait(self, ports: tuple[int, int]) -> None:
        """`ports` are those of the connection, the sender's first."""
        self._ports.set_result(ports)
        await self._released.wait()


class TokenHop:
    path = "/token"

    def __init__(self, target: str, http: aiohttp.ClientSession) -> None:
        self._target = target
        self._http = http
        self._holds: dict[str, Hold] = {}
        self.url = ""
        self.sent: list[str] = []
        """The refresh tokens that the issuer was shown, in order."""

    def hold(self, token: str, when: Literal["before", "after"]) -> Hold:
        """Holds the next request with this refresh token."""
        self._holds[token] = made = Hold(when)
        return made

    def release(self) -> None:
        """Lets everything go that is still held."""
        for hold in self._holds.values():
            hold.drop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        ports = (scope["client"][1], scope["server"][1])
        token = parse_qs(body.decode()).get("refresh_token", [""])[0]
        found = self._holds.get(token)
        hold = None if found is None or found.is_over else found
        if hold is not None and hold.when == "before":
            await hold.wait(ports)
            if hold.is_dropped:
                await _respond(send, 503, b"{}")
                return
        self.sent.append(token)
        passed = {"content-type", "authorization", "accept"}
        headers = {
            name.decode(): value.decode() for name, value in scope["headers"] if name.decode() in passed
        }
        async with self._http.post(self._target, data=body, headers=headers) as reply:
            answer = await reply.read()
        if hold is not None and hold.when == "after":
            await hold.wait(ports)
        await _respond(send, reply.status, answer)

    async def close(self) -> None:
        self.release()


@asynccontextmanager
async def token_hop(target: str) -> AsyncIterator[TokenHop]:
    async with aiohttp.ClientSession() as http:
        hop = TokenHop(target, http)
        async with serving(hop) as served:
            hop.url = f"http://127.0.0.1:{served.port}/token"
            try:
                yield hop
            finally:
                hop.release()


async def _respond(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _owns(pid: int, ports: tuple[int, int]) -> bool:
    """Whether the process has a connection between these local and remote ports."""
    inodes: set[str] = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(field.rpartition(":")[2], 16) for field in fields[1:3])
        if (local, remote) == ports:
            inodes.add(f"socket:[{fields[9]}]")
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if os.readlink(entry) in inodes:
                return True
    return False
