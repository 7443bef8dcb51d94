"""`SupabaseEmulator`: serves the emulated storage on loopback, in a thread of its own."""

import asyncio
import threading
from types import TracebackType
from typing import Literal

from aiohttp import web

from .door import Door, Handler
from .world import Bucket, Refusal, World

SERVICE_KEY = "service.role.key-for-tests"
ANON_KEY = "anon.key-for-tests"
Fault = Literal["500", "html", "hang", "drop", "mute"]
"""Of these, `mute` does what it was asked for and never says so."""


class SupabaseEmulator:
    """`with SupabaseEmulator() as supabase: … supabase.url …`. May be started once for many tests."""

    def __init__(self) -> None:
        self.world = World()
        self.fault: Fault | None = None
        """What happens to every request while it is set."""
        self.asked: list[tuple[str, str]] = []
        """Method and path of every request so far."""
        self.url = ""
        self._door = Door(self.world, SERVICE_KEY, ANON_KEY)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def bucket(self, id: str) -> Bucket:
        return self.world.buckets[id]

    def __enter__(self) -> "SupabaseEmulator":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=2**30, middlewares=[self._answer])
        app.add_routes(self._door.routes())
        # Whoever hangs is not waited for.
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        if self.fault == "hang":
            await asyncio.Event().wait()
        if self.fault == "drop":
            assert request.transport is not None
            request.transport.abort()
        if self.fault == "html":
            return web.Response(status=502, text="<html>Bad gateway", content_type="text/html")
        try:
            if self.fault == "500":
                raise Refusal(500, "Internal", "Internal Server Error")
            reply = await handler(request)
            if self.fault == "mute":
                await asyncio.Event().wait()
            return reply
        except Refusal as refusal:
            return web.json_response(refusal.body, status=refusal.sent_as)
