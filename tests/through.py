"""The gateway in front of one server, in this process: what conversations are held through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any, Literal

from tests.serving import MODERN, Client, serving
from toolyard.app import Gateway, asgi
from toolyard.config import Config, GatewayConfig, Http, InProcess, ResultsConfig, ServerConfig, Stdio
from toolyard.edge.http.app import HttpEdge, PathRouter

KEY = b"for the conversations of the tests"


class LegacyOnly:
    """A server that has never heard of the modern era."""

    def __init__(self, app: HttpEdge) -> None:
        self._app = app
        self.path = app.path

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"mcp-protocol-version", MODERN.encode()) in scope["headers"]:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Bad Request: no valid session ID provided"})
            return
        await self._app(scope, receive, send)

    async def close(self) -> None:
        await self._app.close()


@asynccontextmanager
async def gateway_to(
    where: Http | Stdio | InProcess, page_size: int = 500, view: Literal["bare", "all"] = "bare"
) -> AsyncIterator[tuple[Client, PathRouter]]:
    """A view of one upstream, served on loopback; what another has seen of its server is forgotten."""
    upstream = ServerConfig(name="up", where=where, timeout=30)
    with TemporaryDirectory() as state:
        settings = GatewayConfig(view=view, server="up", state_dir=state, page_size=page_size)
        app = asgi(
            Gateway(Config(servers=(upstream,), gateway=settings, results=ResultsConfig(shape=False)), KEY)
        )
        async with serving(app) as served:
            yield served, app
