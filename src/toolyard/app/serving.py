"""The gateway as an ASGI app: its view at `/mcp`, each upstream at `/mcp/NAME`, /health and /metrics."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from ..artifacts.links import PATH
from ..config import GatewayConfig
from ..edge.http import HttpEdge
from ..edge.identity import Identify
from ..edge.pace import Pace
from ..edge.paths import Page, Paths, json_page
from ..telemetry.metrics import CONTENT_TYPE
from ..wire.call import Service
from .downloads import Downloads
from .gateway import Gateway


def asgi(
    gateway: Gateway,
    *,
    path: str = "/mcp",
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    identify: Identify | None = None,
    max_body: int = 4 * 1024 * 1024,
    pace: Pace | None = None,
    on_start: Callable[[], Awaitable[Any]] | None = None,
    on_stop: Callable[[], Awaitable[Any]] | None = None,
) -> Paths:
    """`on_start` and `on_stop` are for whoever needs the gateway running, such as a watcher of its file.

    Hosts and origins that are not given are those of the configuration; that of `public_url` may always call.
    """
    settings = gateway.config.gateway
    hosts = [*(settings.allowed_hosts if allowed_hosts is None else allowed_hosts), *_public_host(settings)]
    origins = list(settings.allowed_origins) if allowed_origins is None else allowed_origins
    gateway.many_tenants = identify is not None or gateway.caller_keys() is not None

    def edge(service: Service, at: str, name: str | None = None) -> HttpEdge:
        return HttpEdge(
            service,
            gateway.sealer,
            path=at,
            allowed_hosts=hosts,
            allowed_origins=origins,
            identify=identify,
            keys=lambda: gateway.caller_keys(name),
            max_body=max_body,
            pace=pace,
        )

    async def start() -> None:
        await gateway.start()
        if on_start is not None:
            await on_start()

    async def stop() -> None:
        if on_stop is not None:
            await on_stop()
        await gateway.close()

    pages = {"/health": json_page(gateway.checked_health, lambda health: {"status": health["status"]})}
    metrics = gateway.metrics
    if metrics is not None:
        pages["/metrics"] = Page(lambda: (CONTENT_TYPE, metrics.render()))
    return Paths(
        path,
        edge(gateway.view(), path),
        names=lambda: gateway.servers,
        open=lambda name, at: edge(gateway.bare(name), at, name),
        pages=pages,
        start=start,
        stop=stop,
        routes={PATH: Downloads(gateway.keeping.store, gateway.keeping.links)},
    )


def _public_host(settings: GatewayConfig) -> list[str]:
    host = urlsplit(settings.public_url).hostname
    return [f"[{host}]" if ":" in host else host] if host else []
