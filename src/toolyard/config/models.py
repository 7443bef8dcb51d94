"""The configuration as the rest of Toolyard sees it: complete, checked, with every variable filled in."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

GIB = 2**30


class Stdio(Struct, frozen=True, kw_only=True):
    """A process of ours that speaks on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    max_memory: int = 2 * GIB


class Http(Struct, frozen=True, kw_only=True):
    url: str
    headers: dict[str, str] = {}
    transport: Literal["auto", "sse"] = "auto"


class InProcess(Struct, frozen=True, kw_only=True):
    """A server made with the kit: `package.module:attribute`, or `/path/to/file.py:attribute`."""

    module: str


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One upstream. Two that are equal need no reconnection when the file is read anew."""

    name: str
    where: Stdio | Http | InProcess
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    pinned: tuple[str, ...] = ()
    timeout: float = 60.0
    connect_timeout: float = 15.0
    concurrency: int = 64
    retries: int = 2
    max_result: int = GIB
    start: Literal["lazy", "eager"] = "lazy"


class Broken(Struct, frozen=True, kw_only=True):
    """An entry that cannot be used; the others go on. The reason holds no values and no paths."""

    name: str
    reason: str


class GatewayConfig(Struct, frozen=True, kw_only=True):
    view: Literal["all", "bare"] = "all"
    server: str = ""
    name: str = "toolyard"
    instructions: str = ""
    state_dir: str = ""
    list_wait: float = 5.0
    page_size: int = 500
    park_ttl: float = 600.0
    park_limit: int = 1000


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    metrics: bool = True
    traces: Literal["off", "otlp", "console"] = "off"
    endpoint: str = ""
    service_name: str = "toolyard"
    logs: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Config(Struct, frozen=True, kw_only=True):
    """`files` are all that were read, the one asked for first: who watches them sees every change."""

    servers: tuple[ServerConfig, ...] = ()
    broken: tuple[Broken, ...] = ()
    gateway: GatewayConfig = GatewayConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    files: tuple[Path, ...] = ()
