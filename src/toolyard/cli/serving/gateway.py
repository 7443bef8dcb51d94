"""Serves a gateway over HTTP until it is interrupted, or to one client on standard input and output."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..._version import __version__
from ...wire.call import Identity, Principal
from ...wire.errors import InvalidRequest
from ...wire.headers import RequestHeaders
from .. import traffic
from ..configuration import loader
from ..ui.messages import CommandError
from ..ui.tables import counted
from .credentials import open_credentials
from .http import (
    ServeOptions,
    check_exposure,
    client_snippets,
    default_hosts,
    listen,
    program_name,
    run_http,
    warn_of_exposure,
)
from .session_key import session_key

if TYPE_CHECKING:
    from ...app import Gateway
    from ...config import Config


_KNOW_CALLERS = (
    "add [auth] with keys = true to the configuration, and make a key for each caller: `toolyard keys create`"
)


def serve_gateway(file: Path, options: ServeOptions, debug: bool) -> None:
    from ...app import asgi

    config = loader.load_config(file)
    _setup_logging(config, debug)
    settings = options.settings(config.gateway)
    check_exposure(settings, config.auth.knows_callers, _KNOW_CALLERS)
    gateway = loader.make_gateway(config, session_key(settings.key_file))
    watch, stop = _config_watcher(gateway, file)
    listening = listen(settings.host, settings.port)
    url = settings.url(listening)
    gateway.storage.links.set_base(config.store.public_url or settings.base(listening))
    gateway.callers.base = config.gateway.public_url or settings.base(listening)
    gateway.base_url = (config.gateway.public_url or settings.base(listening)).rstrip("/")
    listens = (
        f"  (listening on {settings.host}, port {listening.getsockname()[1]})" if settings.public_url else ""
    )

    auth = config.auth
    needs_key = auth.keys and not settings.open_to_all and (settings.is_exposed or auth.required)

    async def start() -> None:
        await watch()
        _ready(config, url, file, listens, needs_key)

    with listening, _explained():
        edge = asgi(
            gateway,
            path=settings.path.rstrip("/") or "/",
            allowed_hosts=[*default_hosts(settings.host), *settings.allowed_hosts],
            allowed_origins=list(settings.allowed_origins),
            exposed=settings.is_exposed,
            open_to_all=settings.open_to_all,
            on_start=start,
            on_stop=stop,
        )
        warn_of_exposure(settings, config.auth.knows_callers, _KNOW_CALLERS)
        run_http(
            edge, listening, debug, keep_alive=config.gateway.keep_alive, max_idle=config.gateway.max_idle
        )


@contextmanager
def _explained() -> Generator[None]:
    """Why a gateway does not start, in the words of a command."""
    from ...config import ConfigError
    from ...state.store import StateError
    from ...vault.base import VaultError

    try:
        yield
    except (ConfigError, StateError, VaultError) as error:
        raise loader.config_error(error) from None


def stdio_gateway(file: Path, server: str | None, debug: bool) -> None:
    """Serve one client."""
    from ...edge.stdio import run

    config = loader.load_config(file)
    _setup_logging(config, debug)
    if server is not None and server not in {item.name for item in config.servers}:
        raise CommandError(f"no server {server!r} in {file}", f"it has {_names(config)}")
    key = session_key(None)
    principal = process_principal(config, key)
    gateway = loader.make_gateway(config, key, one_client=True)
    service = _StdioGateway(gateway, server, *_config_watcher(gateway, file))
    if principal.kind in ("key", "grant"):
        service.authenticate = gateway.callers.authenticator(config).authenticate
    with _explained():
        run(service, service.end, Identity(principal), on_start=service.start)


API_KEY_VARIABLE = "TOOLYARD_API_KEY"


def _environment_headers() -> RequestHeaders:
    """The key of the environment as a request would bring it."""
    return RequestHeaders.of([(b"authorization", f"Bearer {os.environ[API_KEY_VARIABLE]}".encode())])


def process_principal(config: "Config", key: bytes | None) -> Principal:
    """Who started this process: the holder of the key or grant in TOOLYARD_API_KEY, else the local user."""
    text = os.environ.get(API_KEY_VARIABLE, "")
    auth = config.auth
    if not text or not (auth.keys or (auth.grants and text.startswith("tyg_"))):
        if auth.required:
            raise CommandError(
                "[auth] is required, and nobody has shown who they are",
                f"set {API_KEY_VARIABLE} to a key of `toolyard keys create`",
            )
        return Principal()
    from ...callers.errors import CallerError
    from ...callers.grant_token import GrantError, GrantToken
    from ...callers.keys import MalformedKeyError, check_key
    from ...state.store import StateError

    is_grant = text.startswith("tyg_")

    async def verify() -> Principal:
        async with open_credentials(config, key) as (keys, grants):
            return await (grants if is_grant else keys).verify(text, "stdio")

    try:
        if is_grant:
            GrantToken.read(text)
        else:
            check_key(text)
        return asyncio.run(verify())
    except (MalformedKeyError, GrantError) as error:
        raise CommandError(f"{API_KEY_VARIABLE}: {error.message}", error.hint) from None
    except CallerError:
        hint = "`toolyard keys list` shows the keys; `toolyard keys rotate NAME` makes a new one"
        if is_grant:
            hint = "`toolyard grant list` shows the grants; `toolyard grant NAME` makes a new one"
        what = "grant" if is_grant else "key"
        raise CommandError(f"the {what} in {API_KEY_VARIABLE} is not valid", hint) from None
    except StateError as error:
        raise loader.config_error(error) from None


class _StdioGateway:
    """The gateway's view as a service, and the gateway's start and end."""

    def __init__(
        self,
        gateway: "Gateway",
        server: str | None,
        watch: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._gateway = gateway
        self._view = gateway.view() if server is None else gateway.bare(server)
        self._watch = watch
        self._stop = stop
        self.authenticate: Callable[..., Awaitable[Principal]] | None = None
        """Asked with every call, where a key was shown: it may be revoked while this process runs."""

    async def start(self) -> None:
        await self._gateway.start()
        self._gateway.storage.check_soon()
        await self._watch()

    async def handle(self, call: Any) -> Any:
        if self.authenticate is not None:
            await self._check_key(self.authenticate)
        return await self._view.handle(call)

    async def _check_key(self, authenticate: Callable[..., Awaitable[Principal]]) -> None:
        from ...edge.request import Refused

        try:
            await authenticate(_environment_headers(), "", resource="stdio")
        except Refused as refused:
            raise InvalidRequest(f"{API_KEY_VARIABLE}: {refused.message}") from None

    async def listen(self, call: Any) -> None:
        await self._view.listen(call)

    async def end_session(self, call: Any) -> None:
        await self._view.end_session(call)

    async def close(self) -> None:
        await self._view.close()

    async def end(self) -> None:
        await self._stop()
        await self._gateway.close()

    def health(self) -> dict[str, Any]:
        return self._gateway.health()


def _config_watcher(
    gateway: "Gateway", file: Path
) -> tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    """Functions that start and stop watching the file. SIGHUP reloads it at once."""
    from ...app import watch

    tapped = traffic.current()
    if tapped is not None and not tapped.watches_file:
        return _nothing, _nothing
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


async def _nothing() -> None:
    """There is no file to watch."""


def _setup_logging(config: "Config", debug: bool) -> None:
    from ...telemetry import logs

    logs.setup(config.telemetry.logs, "debug" if debug else config.telemetry.log_level)


def _names(config: "Config") -> str:
    return ", ".join(item.name for item in config.servers[:20]) or "none yet; `toolyard add` adds one"


def _ready(config: "Config", url: str, file: Path, listens: str, needs_key: bool) -> None:
    # What exists now stays for good. Collecting it again and again took a tenth of the CPU of a call.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    _print_banner(config, url, file, listens, _KEY_HEADER if needs_key else None)


_KEY_HEADER = ("Authorization", "Bearer ty_…")


def _print_banner(
    config: "Config", url: str, file: Path, listens: str, header: tuple[str, str] | None
) -> None:
    count = counted(len(config.servers), "servers")
    tapped = traffic.current()
    words = None if tapped is None else tapped.stdio_words
    stdio = ["stdio", "--config", str(file.resolve())] if words is None else list(words)
    lines = [
        f"Toolyard {__version__} serves {count} of {file if words is None else words[-1]}: {_names(config)}",
        *(f"  skipped: {item.name}: {item.reason}" for item in config.broken),
        "",
        f"  {click.style(url, bold=True)}",
        *([listens] if listens else []),
        "",
        *client_snippets("toolyard", url, stdio, header),
        "In another terminal:",
        f"  {program_name()} list --url {url}{' --key ty_…' if header else ''}",
        "",
        f"Ctrl-C stops it.{' Changes of the file are applied while it runs.' if words is None else ''}",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()
