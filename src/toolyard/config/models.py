"""The configuration as the rest of Toolyard sees it: complete, checked, with every variable filled in."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..languages import Locale
from .callers import AccessConfig, AuditConfig, AuthConfig, LimitsConfig
from .references import Resolution, SecretReference
from .secrets import Arguments, Headers, Options, Secret, Texts, Variables
from .server_auth import ServerAuth

GIB = 2**30


ServerEra = Literal["caller", "modern"]
"""In which era a server of both is spoken to: that of whoever calls, or the modern one."""


class Stdio(Struct, frozen=True, kw_only=True):
    """A child process that speaks MCP on its standard input and output."""

    command: str
    args: Arguments = ()
    env: Variables = {}
    cwd: str | None = None
    max_memory: int = 2 * GIB
    era: ServerEra = "caller"


class Http(Struct, frozen=True, kw_only=True):
    url: str
    headers: Headers = {}
    transport: Literal["auto", "sse"] = "auto"
    era: ServerEra = "caller"
    session_url: str = ""
    """The address that starts a session for each thread. If empty, there are no such sessions."""
    session_header: str = "x-composio-session-id"


class InProcess(Struct, frozen=True, kw_only=True):
    """A kit server: `package.module:attribute`, `/path/to/file.py:attribute`, or a bundled one."""

    module: str
    options: Options = {}
    """Settings for a module that builds its server from them."""


class Composio(Struct, frozen=True, kw_only=True):
    """Composio's tool router: tools of many apps, with its own search and a session for each thread."""

    api_key: Secret
    user_id: str = "{user}"
    """The user whose apps are connected; `{user}`, `{tenant}`, `{agent}` and `{thread}` are the caller's."""
    default_user: str = ""
    """Who a caller is that is not known; empty: `local`."""
    base_url: str = "https://backend.composio.dev"
    api: Literal["router", "labs"] = "router"
    toolkits: tuple[str, ...] = ()
    callback_url: str = ""


class ResultLimits(Struct, frozen=True, kw_only=True):
    """The limits above which a result is big. None: use the limit of the server, or the global one."""

    shape: bool | None = None
    max_bytes: int | None = None
    max_items: int | None = None
    max_lines: int | None = None
    bounded: int | None = None


class ServerResults(ResultLimits, frozen=True, kw_only=True):
    tools: dict[str, ResultLimits] = {}
    """By the server's own names of its tools."""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One upstream. If it is unchanged when the file is read again, its connections stay open."""

    name: str
    where: Stdio | Http | InProcess | Composio
    description: str = ""
    """Its purpose in the user's words. It is shown, and searched, before the descriptions of its tools."""
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    pinned: tuple[str, ...] = ()
    timeout: float = 60.0
    connect_timeout: float = 15.0
    start_timeout: float | None = None
    """The time limit for starting a program. None: some minutes, more for package runners that download."""
    concurrency: int = 64
    retries: int = 2
    max_result: int = GIB
    start: Literal["lazy", "eager"] = "lazy"
    results: ServerResults = ServerResults()
    auth: ServerAuth | None = None
    """How the gateway gets tokens or keys for it; None: it needs none, or `headers` has what it needs."""
    caller_keys: tuple[str, ...] = ()
    """Lower-case names of headers with callers' own keys for this server. No other server gets them."""

    @property
    def acts_for_caller(self) -> bool:
        """Whether the token that a caller came with is exchanged for one at this server."""
        return self.auth is not None and self.auth.acts_for_caller


class Broken(Struct, frozen=True, kw_only=True):
    """An entry that cannot be used; the others still work. The reason contains no values and no paths."""

    name: str
    reason: str


class GatewayConfig(Struct, frozen=True, kw_only=True):
    view: Literal["auto", "search", "index", "all", "bare"] = "auto"
    server: str = ""
    dialects: tuple[str, ...] = ("native",)
    search_first: bool = True
    """Whether the dialect `suna` refuses tools that a conversation has neither found nor enabled."""
    name: str = "toolyard"
    instructions: str = ""
    locale: Locale = "en"
    """The language of what the gateway itself says to models and their users."""
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
    proxies: tuple[str, ...] = ()
    """Addresses of proxies whose X-Forwarded-For names the client; nobody else's does."""
    public_url: str = ""
    """The URL under which clients reach the gateway, without the path of the endpoint."""


class SearchConfig(Struct, frozen=True, kw_only=True):
    learn: bool = True
    limit: int = 5
    list_found: bool = False
    """Whether found tools are listed for their conversation. A changed list invalidates a prompt cache."""
    schema_tokens: int = 2000
    remote_seconds: float = 8.0
    batch_concurrency: int = 8
    batch_seconds: float = 120.0


class StateConfig(Struct, frozen=True, kw_only=True):
    """Data that outlives a request: sessions, credential profiles, search feedback."""

    url: str = ""
    session_ttl: float = 3600.0
    key: Secret = ""


class VaultConfig(Struct, frozen=True, kw_only=True):
    """Where the master key of the vault is: `file:PATH`, `env:NAME` and so on."""

    key: str = ""
    """Empty: the key of `[state]`, or a file in the state folder of this machine."""
    previous: tuple[str, ...] = ()
    """Where earlier ones are, until `toolyard vault rotate` is done."""


class ResultsConfig(Struct, frozen=True, kw_only=True):
    """When a result is too big for a model's context, and what replaces it."""

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
    """Where whole results are stored."""

    url: str = ""
    ttl: float = 7 * 24 * 3600.0
    quota: int = GIB
    links: Literal["signed", "public"] = "signed"
    public_url: str = ""
    timeout: float = 20.0
    options: Texts = {}


TraceSink = Literal["local", "otlp", "logfire", "console"]
TraceContent = Literal["off", "arguments", "all"]


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    metrics: bool = True
    traces: tuple[TraceSink, ...] | None = None
    """Where spans go. None: nothing is configured, so that a gateway has none, and agents' runs decide."""
    endpoint: str = ""
    content: TraceContent = "off"
    """What spans hold of arguments and results."""
    trace_bytes: int = 64 * 2**20
    trace_days: int = 14
    """The bounds of the local trace store."""
    service_name: str = "toolyard"
    logs: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False
    """Log every call to a server, also a successful one, with its caller and the client's address."""


class EnvFile(Struct, frozen=True, kw_only=True):
    """The file that the configuration names for variables, and what came of them."""

    path: Path
    names: tuple[str, ...]
    already_set: tuple[str, ...]
    """Names in the file that the environment had before, with its own values."""


class Config(Struct, frozen=True, kw_only=True):
    """`files` are all files that were read, the main one first; watch them to see every change."""

    servers: tuple[ServerConfig, ...] = ()
    broken: tuple[Broken, ...] = ()
    disabled: tuple[str, ...] = ()
    """The names of disabled entries."""
    gateway: GatewayConfig = GatewayConfig()
    search: SearchConfig = SearchConfig()
    state: StateConfig = StateConfig()
    vault: VaultConfig = VaultConfig()
    results: ResultsConfig = ResultsConfig()
    store: StoreConfig = StoreConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    auth: AuthConfig = AuthConfig()
    access: AccessConfig = AccessConfig()
    limits: LimitsConfig = LimitsConfig()
    audit: AuditConfig = AuditConfig()
    files: tuple[Path, ...] = ()
    references: tuple[SecretReference, ...] = ()
    """The secrets that it refers to. They may change while the files stay the same."""
    env_file: EnvFile | None = None


ResolveReferences = Callable[[Config, Sequence[SecretReference]], Resolution]
"""Finds the values of references. The configuration has `state`, `gateway` and `vault` only; it may block."""
