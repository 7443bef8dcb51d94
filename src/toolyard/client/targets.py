"""From what a client was given to the connector that opens links to it, and what has to be closed after it.

A target is a server object of the kit (or any `Service`), an http(s) URL, a command, or a configuration file.
The transports themselves are the gateway's own (`toolyard.upstream`).
"""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from ..upstream.connection import Connector
from ..wire.call import Identity
from ..wire.versions import Era
from .errors import TargetError
from .memory import MemoryConnector

if TYPE_CHECKING:
    from ..config import Config
    from .auth import OAuth

MAX_RESULT = 2**30
CONNECT_SECONDS = 30.0
EXAMPLE = "as in http://127.0.0.1:8321/mcp"


async def _nothing() -> None:
    return None


class TargetOptions(Struct, frozen=True):
    """How to connect, besides where."""

    headers: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    cwd: str | None = None
    era: Era | None = None
    open_timeout: float | None = None
    identity: Identity | None = None
    keys: Mapping[str, str] = {}
    auth: "OAuth | None" = None


class Opened(Struct):
    """A connector; `close` ends what was started for it."""

    name: str
    connector: Connector
    is_http: bool = False
    close: Callable[[], Awaitable[None]] = _nothing


def name_of(target: Any) -> str:
    """What errors call it."""
    if isinstance(target, str | Path):
        return str(target)
    if isinstance(target, list | tuple):
        return shlex.join(str(part) for part in target)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return f"server {target.name!r}" if hasattr(target, "name") else type(target).__name__


async def open_target(target: Any, options: TargetOptions) -> Opened:
    """TargetError when it is nothing that can be connected to."""
    if isinstance(target, str) and "://" in target:
        return _at_address(target, options)
    if options.headers:
        raise TargetError("headers are for servers at an address", "give a URL, or leave them out")
    if options.auth is not None:
        raise TargetError("auth is for servers at an address", "give a URL, or leave it out")
    if isinstance(target, list | tuple):
        return _by_command([str(part) for part in target], options)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if options.env or options.cwd is not None:
        raise TargetError("env and cwd are for commands", "give a list such as ['python', 'server.py']")
    if isinstance(target, str | Path):
        return await _by_file(Path(target), options)
    return _in_memory(target, options)


def _in_memory(target: Any, options: TargetOptions) -> Opened:
    service = getattr(target, "service", target)
    if not all(callable(getattr(service, method, None)) for method in ("handle", "listen", "end_session")):
        raise TargetError(
            f"a client cannot connect to {type(target).__name__!r}",
            "give a Server, a URL, a command as a list, or the path of a configuration file",
        )
    connector = MemoryConnector(service, options.era or "modern", options.identity, options.keys)
    if service is target:
        return Opened(name_of(target), connector)
    target.begin_client()
    return Opened(name_of(target), connector, close=target.end_client)


def _at_address(url: str, options: TargetOptions) -> Opened:
    from ..config import Http
    from ..upstream.http.connector import HttpConnector
    from ..upstream.http.direct import DirectHttpClient

    check_url(url)
    client = DirectHttpClient()
    seconds = options.open_timeout or CONNECT_SECONDS
    where = Http(url=url, headers=dict(options.headers))
    auth = options.auth
    if auth is None:
        connector = HttpConnector(url, where, client, seconds, MAX_RESULT, options.era)
        return Opened(url, connector, True, client.close)
    connector = HttpConnector(
        url,
        where,
        client,
        seconds,
        MAX_RESULT,
        options.era,
        auth=auth.session(url, url),
        open_timeout=options.open_timeout or auth.seconds,
    )

    async def close() -> None:
        await auth.close()
        await client.close()

    return Opened(url, connector, True, close)


def check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise TargetError(f"{url!r} is not an address: {error}", EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not host:
        raise TargetError(f"{url!r} is not an http:// or https:// address", EXAMPLE)
    if parts.username is not None:
        advice = "headers={'Authorization': 'Basic …'} carries it"
        raise TargetError("a URL with a password in it is not supported", advice)


def _by_command(command: list[str], options: TargetOptions) -> Opened:
    from ..config import Stdio
    from ..upstream.stdio.connector import StdioConnector

    if not command or not command[0]:
        raise TargetError("the command is empty", "as in ['python', 'server.py']")
    where = Stdio(command=command[0], args=tuple(command[1:]), env=dict(options.env), cwd=options.cwd)
    name = shlex.join(command)
    return Opened(name, StdioConnector(name, where, options.open_timeout, MAX_RESULT, options.era))


async def _by_file(file: Path, options: TargetOptions) -> Opened:
    """All servers of a configuration, mounted in this process for as long as the client is open."""
    from ..app import Gateway  # 150 ms of CPU with all that it mounts servers by
    from ..config import ConfigError
    from ..state.store import StateError
    from ..telemetry.tracing import TracesUnavailableError

    try:
        gateway = Gateway(_loaded(file))
    except (ConfigError, TracesUnavailableError, StateError) as error:
        raise TargetError(str(error), getattr(error, "hint", None) or _meant(file)) from None
    await gateway.start()
    found = _in_memory(gateway.view(), options)
    return Opened(str(file), found.connector, close=gateway.close)


def _loaded(file: Path) -> "Config":
    from ..vault.references import load_resolved

    return load_resolved(file.expanduser())


def _meant(file: Path) -> str:
    """What somebody may have meant who named something that is no file of ours."""
    if os.sep not in str(file) and not file.suffix:
        return f"a command is a list: ['{file}']; a URL begins with http://"
    return ""
