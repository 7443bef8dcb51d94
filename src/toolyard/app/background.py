"""Serves a gateway in a thread of its own, on loopback, so that tests of every kind can use it.

A test that does not await blocks the loop that it runs on, if it has one; the gateway goes on meanwhile.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from ..config import Config
from ..edge.http.server import uvicorn_server
from ..wire.call import Call, Channel, Service
from .gateway import Gateway
from .http import asgi
from .upstreams import UpstreamTap

T = TypeVar("T")
START_SECONDS = 60.0


class BackgroundGateway:
    """A running gateway, until `close`. `service` is the same gateway for clients in this process."""

    def __init__(self, config: Config, tap: UpstreamTap | None = None) -> None:
        self._config = config
        self._tap = tap
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._fault: BaseException | None = None
        self.service: Service
        self._thread = threading.Thread(target=self._run, name="toolyard-gateway", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError(f"the gateway did not start within {START_SECONDS:g} s")
        if self._fault is not None:
            self._thread.join()
            raise self._fault

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # raised again in the thread that waits for the start
            self._fault = error
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
            self._listener.close()
            self._ready.set()

    async def _serve(self) -> None:
        gateway = Gateway(self._config, None, tap=self._tap)
        app = asgi(gateway)
        self.service = OtherThreadService(gateway.view(), self._loop)
        server = uvicorn_server(app, *self._listener.getsockname()[:2], start=app.start)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        # What `Server.serve` does, less its signal handlers and its loop that looks whether to stop.
        await server.startup(sockets=[self._listener])
        await asyncio.gather(*(one.settled.wait() for one in gateway.catalogue.servers.values()))
        self._ready.set()
        await self._stop.wait()
        await server.shutdown(sockets=[self._listener])


class OtherThreadService:
    """A service whose loop runs in another thread; what it sends on a call's channel comes back to ours."""

    def __init__(self, inner: Service, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    async def handle(self, call: Call) -> Any:
        return await self._there(self._inner.handle, call)

    async def listen(self, call: Call) -> None:
        await self._there(self._inner.listen, call)

    async def end_session(self, call: Call) -> None:
        await self._there(self._inner.end_session, call)

    async def close(self) -> None:
        """Does nothing: whoever started the thread ends it."""

    def health(self) -> dict[str, Any]:
        return self._inner.health()

    async def _there(self, method: Callable[[Call], Coroutine[Any, Any, T]], call: Call) -> T:
        back = _OtherThreadChannel(call.channel, asyncio.get_running_loop())
        running = asyncio.run_coroutine_threadsafe(method(replace(call, channel=back)), self._loop)
        return await asyncio.wrap_future(running)


class _OtherThreadChannel:
    def __init__(self, inner: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    async def notify(self, method: str, params: Any) -> None:
        await self._back(self._inner.notify(method, params))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._back(self._inner.ask(method, params))

    async def release(self, retry_ms: int | None) -> None:
        await self._back(self._inner.release(retry_ms))

    async def _back(self, sending: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sending, self._loop))
