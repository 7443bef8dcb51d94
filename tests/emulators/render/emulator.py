"""`RenderEmulator`: serves the emulated API on loopback, and misbehaves as it is told."""

import asyncio
import re
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

from aiohttp import web

from .door import Door, Handler, Refusal
from .world import World

API_KEY = "rnd_keyForTheTestsOnly"


@dataclass
class Fault:
    """What happens to requests for a path: after so many good ones, to `times` of them, or all."""

    path: re.Pattern[str]
    how: int | Literal["hang", "drop", "garbage", "half", "huge"]
    headers: dict[str, str] = field(default_factory=dict)
    message: str = ""
    times: int = -1
    after: int = 0


class RenderEmulator:
    """`async with RenderEmulator() as render: … render.url …`"""

    def __init__(self) -> None:
        self.world = World()
        self.door = Door(self.world)
        self.url = ""
        self.asked: list[tuple[str, list[tuple[str, str]]]] = []
        """Path and query of every request so far, those that failed included."""
        self.faults: list[Fault] = []
        self.quota: int | None = None
        """How many more requests are let in before the rate limit."""
        self.most_at_once = 0
        self.at_once = 0
        self._meeting: tuple[re.Pattern[str], asyncio.Barrier] | None = None

    def fail(
        self,
        path: str,
        how: int | Literal["hang", "drop", "garbage", "half", "huge"],
        times: int = -1,
        after: int = 0,
        **more: str,
    ) -> None:
        """Let requests for paths that match go wrong; `more` are `message` and headers (Retry_After)."""
        message = more.pop("message", "")
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        self.faults.append(Fault(re.compile(path), how, headers, message, times, after))

    def wait_for(self, count: int, path: str) -> None:
        """Answer no request for such paths before so many of them wait."""
        self._meeting = re.compile(path), asyncio.Barrier(count)

    def asked_for(self, path: str) -> list[list[tuple[str, str]]]:
        return [query for asked, query in self.asked if asked == path]

    async def __aenter__(self) -> "RenderEmulator":
        app = web.Application(middlewares=[self._answer])
        app.add_routes(self.door.routes())
        # Whoever hangs is not waited for.
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path.removeprefix("/v1")
        self.asked.append((path, list(request.query.items())))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._let_in(request)
            if self._meeting is not None and self._meeting[0].fullmatch(path):
                await self._meeting[1].wait()
                self._meeting = None
            if fault := self._fault(path):
                return await _misbehave(request, fault)
            return await handler(request)
        except Refusal as refusal:
            headers = {"Retry-After": "600"} if refusal.status == 429 else {}
            return web.json_response(
                {"id": "req-1", "message": str(refusal)}, status=refusal.status, headers=headers
            )
        except web.HTTPNotFound:
            return web.json_response({"message": "not found"}, status=404)
        finally:
            self.at_once -= 1

    def _let_in(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {API_KEY}":
            raise Refusal(401, "Unauthorized")
        if self.quota is not None:
            if self.quota <= 0:
                raise Refusal(429, "rate limit exceeded")
            self.quota -= 1

    def _fault(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.path.fullmatch(path):
                if fault.after:
                    fault.after -= 1
                    continue
                fault.times -= 1
                return fault
        return None


async def _misbehave(request: web.Request, fault: Fault) -> web.StreamResponse:
    if isinstance(fault.how, int):
        body = {"id": "req-2", "message": fault.message or "it did not work"}
        return web.json_response(body, status=fault.how, headers=fault.headers)
    if fault.how == "hang":
        await asyncio.Event().wait()
    if fault.how == "drop":
        assert request.transport is not None
        request.transport.abort()
    if fault.how == "half":
        return web.Response(text='[{"cursor": "a", "ser', content_type="application/json")
    if fault.how == "huge":
        return web.Response(text="[" + "0," * (9 << 20) + "0]", content_type="application/json")
    return web.Response(text="<html>welcome", content_type="text/html")
