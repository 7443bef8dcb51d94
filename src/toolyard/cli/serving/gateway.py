"""Serves a gateway over HTTP until it is interrupted, or to one client on standard input and output."""

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..._version import __version__
from ..configuration import loader
from ..ui.messages import CommandError
from ..ui.tables import counted
from .http import ServeOptions, client_snippets, default_hosts, listen, program_name, run_http, warn_if_public
from .session_key import session_key

if TYPE_CHECKING:
    from ...app import Gateway
    from ...config import Config


def serve_gateway(file: Path, options: ServeOptions, debug: bool) -> None:
    from ...app import asgi

    config = loader.load_config(file)
    _setup_logging(config, debug)
    settings = options.settings(config.gateway)
    gateway = loader.make_gateway(config, session_key(settings.key_file))
    watch, stop = _config_watcher(gateway, file)
    listening = listen(settings.host, settings.port)
    url = settings.url(listening)
    gateway.storage.links.set_base(config.store.public_url or settings.base(listening))
    listens = (
        f"  (listening on {settings.host}, port {listening.getsockname()[1]})" if settings.public_url else ""
    )

    async def start() -> None:
        await watch()
        _ready(config, url, file, listens)

    edge = asgi(
        gateway,
        path=settings.path.rstrip("/") or "/",
        allowed_hosts=[*default_hosts(settings.host), *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins),
        on_start=start,
        on_stop=stop,
    )
    with listening:
        warn_if_public(settings.host, settings.allowed_hosts)
        run_http(
            edge, listening, debug, keep_alive=config.gateway.keep_alive, max_idle=config.gateway.max_idle
        )


def stdio_gateway(file: Path, server: str | None, debug: bool) -> None:
    """Serve one client. The upstreams start with its first request."""
    from ...edge.stdio import run

    config = loader.load_config(file)
    _setup_logging(config, debug)
    if server is not None and server not in {item.name for item in config.servers}:
        raise CommandError(f"no server {server!r} in {file}", f"it has {_names(config)}")
    gateway = loader.make_gateway(config, session_key(None), one_client=True)
    start, stop = _config_watcher(gateway, file)
    service = _StdioGateway(gateway, server, start, stop)
    run(service, service.end)


class _StdioGateway:
    """The gateway's view as a service: starts the gateway with the first call, ends it with the process."""

    def __init__(
        self,
        gateway: "Gateway",
        server: str | None,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._view = gateway.view() if server is None else gateway.bare(server)
        self._start = start
        self._stop = stop
        self._started = False

    async def handle(self, call: Any) -> Any:
        if not self._started:
            self._started = True
            await self._gateway.start()
            await self._start()
        return await self._view.handle(call)

    async def listen(self, call: Any) -> None:
        await self._view.listen(call)

    async def end_session(self, call: Any) -> None:
        await self._view.end_session(call)

    async def close(self) -> None:
        await self._view.close()

    async def end(self) -> None:
        if self._started:
            await self._stop()
            await self._gateway.close()

    def health(self) -> dict[str, Any]:
        return self._gateway.health()


def _config_watcher(
    gateway: "Gateway", file: Path
) -> tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    """Functions that start and stop watching the file. SIGHUP reloads it at once."""
    from ...app import watch

    tasks: list[asyncio.Task[None]] = []

    async def start() -> None:
        reload_now = asyncio.Event()
        with suppress(NotImplementedError, AttributeError, ValueError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_now.set)
        tasks.append(asyncio.create_task(watch(gateway, file, reload_now=reload_now)))

    async def stop() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return start, stop


def _setup_logging(config: "Config", debug: bool) -> None:
    from ...telemetry import logs

    logs.setup(config.telemetry.logs, "debug" if debug else config.telemetry.log_level)


def _names(config: "Config") -> str:
    return ", ".join(item.name for item in config.servers[:20]) or "none yet; `toolyard add` adds one"


def _ready(config: "Config", url: str, file: Path, listens: str) -> None:
    # What exists now stays for good. Collecting it again and again took a tenth of the CPU of a call.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    _print_banner(config, url, file, listens)


def _print_banner(config: "Config", url: str, file: Path, listens: str) -> None:
    count = counted(len(config.servers), "servers")
    lines = [
        f"Toolyard {__version__} serves {count} of {file}: {_names(config)}",
        *(f"  skipped: {item.name}: {item.reason}" for item in config.broken),
        "",
        f"  {click.style(url, bold=True)}",
        *([listens] if listens else []),
        "",
        *client_snippets("toolyard", url, ["stdio", "--config", str(file.resolve())]),
        "In another terminal:",
        f"  {program_name()} list --url {url}",
        "",
        "Ctrl-C stops it. Changes of the file are applied while it runs.",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()
