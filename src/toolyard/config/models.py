"""The configuration as the rest of Toolyard sees it: complete, checked, with every variable filled in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from .callers import AccessConfig, AuditConfig, AuthConfig, LimitsConfig

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
    era: Literal["auto", "caller"] = "auto"
    """`caller`: a server of both eras is spoken to in that of whoever calls."""
    session_url: str = ""
    """Where a session of its own is begun for each thread; without it there is none."""
    session_header: str = "x-composio-session-id"


class InProcess(Struct, frozen=True, kw_only=True):
    """A server made with the kit: `package.module:attribute`, `/path/to/file.py:attribute`, a bundled one."""

    module: str
    options: Mapping[str, Any] = {}
    """For a module that makes its server with settings."""


class Composio(Struct, frozen=True, kw_only=True):
    """Composio's tool router: tools of many apps, found by its own search, in a session for each thread."""

    api_key: str
    user_id: str = "{user}"
    """As whom apps are connected; `{user}`, `{tenant}`, `{agent}` and `{thread}` are those of the caller."""
    base_url: str = "https://backend.composio.dev"
    api: Literal["router", "labs"] = "router"
    toolkits: tuple[str, ...] = ()
    callback_url: str = ""


class ResultLimits(Struct, frozen=True, kw_only=True):
    """What makes a result big. None: as it is a level higher, for the server or for all of them."""

    shape: bool | None = None
    max_bytes: int | None = None
    max_items: int | None = None
    max_lines: int | None = None
    bounded: int | None = None


class ServerResults(ResultLimits, frozen=True, kw_only=True):
    tools: dict[str, ResultLimits] = {}
    """By the server's own names."""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One upstream. Two that are equal need no reconnection when the file is read anew."""

    name: str
    where: Stdio | Http | InProcess | Composio
    description: str = ""
    """What it is for, in the user's words: shown and searched before the words of its tools."""
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    pinned: tuple[str, ...] = ()
    timeout: float = 60.0
    connect_timeout: float = 15.0
    start_timeout: float | None = None
    """How long a program may take to start. None: minutes, and longer for one that may download itself."""
    concurrency: int = 64
    retries: int = 2
    max_result: int = GIB
    start: Literal["lazy", "eager"] = "lazy"
    results: ServerResults = ServerResults()
    caller_keys: tuple[str, ...] = ()
    """Headers, in lower case, in which callers bring keys of their own for this server, and for no other."""


class Broken(Struct, frozen=True, kw_only=True):
    """An entry that cannot be used; the others go on. The reason holds no values and no paths."""

    name: str
    reason: str


class GatewayConfig(Struct, frozen=True, kw_only=True):
    view: Literal["search", "all", "bare"] = "search"
    server: str = ""
    dialects: tuple[str, ...] = ("native",)
    name: str = "toolyard"
    instructions: str = ""
    state_dir: str = ""
    list_wait: float = 5.0
    page_size: int = 500
    park_ttl: float = 600.0
    park_limit: int = 1000
    keep_alive: float = 150.0
    max_idle: int = 500
    host: str = "127.0.0.1"
    port: int = 8321
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    public_url: str = ""
    """Where clients reach it, without the path of the endpoint."""


class SearchConfig(Struct, frozen=True, kw_only=True):
    learn: bool = True
    limit: int = 5
    list_found: bool = False
    """Whether what a conversation found is listed for it. A changed list costs a client its prompt cache."""
    schema_tokens: int = 2000
    remote_seconds: float = 8.0
    batch_concurrency: int = 8
    batch_seconds: float = 120.0


class StateConfig(Struct, frozen=True, kw_only=True):
    """What outlives a request: sessions, credential profiles, what was learnt."""

    url: str = ""
    session_ttl: float = 3600.0
    key: str = ""


class ResultsConfig(Struct, frozen=True, kw_only=True):
    """When a result is too big for a model's context, and what is sent in its place."""

    shape: bool = True
    max_bytes: int = 4000
    max_items: int = 20
    max_lines: int = 20
    bounded: int = 100_000
    preview_items: int = 10
    preview_chars: int = 1200
    compact: Literal["off", "auto", "csv", "table"] = "off"
    exempt: tuple[str, ...] = ()
    sql_seconds: float = 10.0
    sql_memory: int = GIB // 2


class StoreConfig(Struct, frozen=True, kw_only=True):
    """Where whole results are kept."""

    url: str = ""
    ttl: float = 7 * 24 * 3600.0
    quota: int = GIB
    links: Literal["signed", "public"] = "signed"
    public_url: str = ""
    timeout: float = 20.0
    options: dict[str, str] = {}


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    metrics: bool = True
    traces: Literal["off", "otlp", "console"] = "off"
    endpoint: str = ""
    service_name: str = "toolyard"
    logs: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False
    """A line for each call to a server, also when all went well, with who made it and from where."""


class Config(Struct, frozen=True, kw_only=True):
    """`files` are all that were read, the one asked for first: who watches them sees every change."""

    servers: tuple[ServerConfig, ...] = ()
    broken: tuple[Broken, ...] = ()
    disabled: tuple[str, ...] = ()
    """The names of entries that are turned off."""
    gateway: GatewayConfig = GatewayConfig()
    search: SearchConfig = SearchConfig()
    state: StateConfig = StateConfig()
    results: ResultsConfig = ResultsConfig()
    store: StoreConfig = StoreConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    auth: AuthConfig = AuthConfig()
    access: AccessConfig = AccessConfig()
    limits: LimitsConfig = LimitsConfig()
    audit: AuditConfig = AuditConfig()
    files: tuple[Path, ...] = ()
