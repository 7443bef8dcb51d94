"""What goes wrong on request: a status, HTML, silence, a dropped line, too much, the key in an error."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

How = int | Literal["html", "slow", "never", "drop", "half", "huge", "echo_key"]
HUGE = 40 * 1024 * 1024


@dataclass
class Fault:
    """For requests to paths that match, `times` of them, after so many good ones."""

    how: How
    path: re.Pattern[str]
    method: str = ""
    times: int = 1
    after: int = 0
    retry_after: str = ""
    message: str = ""
    struck: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first request has met it."""
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, method: str, path: str) -> bool:
        if not self.times or self.method not in ("", method) or not self.path.fullmatch(path):
            return False
        if self.after:
            self.after -= 1
            return False
        return True

    def release(self) -> None:
        """Let the slow ones go on, and those still to come."""
        self._released.set()

    async def strike(self, request: web.Request, key: str) -> web.StreamResponse | None:
        """The reply; None when the request is to be answered as if nothing had been."""
        self.times -= 1
        self.struck += 1
        self.arrived.set()
        if self.how == "slow":
            await self._released.wait()
            return None
        if self.how == "never":
            await asyncio.Event().wait()
        if self.how == "drop":
            assert request.transport is not None
            request.transport.abort()
        if self.how == "huge":
            return await _flood(request)
        return self._reply(key)

    def _reply(self, key: str) -> web.Response:
        if self.how == "half":
            return web.Response(text='[{"id": 1, "na', content_type="application/json")
        if self.how == "echo_key":
            said = {
                "error_code": 40101,
                "message": f"Token {key} is not valid; see /tokens%2F{key}",
                "detail": {"token": [key]},
            }
            return web.json_response(said, status=422)
        if isinstance(self.how, int):
            headers = {"Retry-After": self.retry_after} if self.retry_after else {}
            said = {"error_code": self.how * 100, "message": self.message or "It did not work"}
            return web.json_response(said, status=self.how, headers=headers)
        return web.Response(text="<html><h1>Maintenance</h1></html>", content_type="text/html")


async def _flood(request: web.Request) -> web.StreamResponse:
    """A list without an end, piece by piece, so that nobody needs the memory for it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    piece = json.dumps([{"id": 1, "name": "x" * 1000}] * 64).encode()[:-1] + b","
    await response.write(b"[")
    for _ in range(HUGE // len(piece)):
        await response.write(piece[1:])
    await response.write(b"{}]")
    return response
