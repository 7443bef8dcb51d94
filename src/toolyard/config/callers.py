"""The tables about callers, complete and checked: `[auth]`, `[access]`, `[limits]` and `[audit]`."""

from typing import Literal

from msgspec import Struct

from .secrets import Headers, Secret


class IssuerConfig(Struct, frozen=True, kw_only=True):
    """One issuer of tokens: JWTs that are checked here, or opaque tokens that it is asked about."""

    issuer: str
    audiences: tuple[str, ...] = ()
    """Accepted in `aud`; without any, the address of the endpoint."""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "PS256", "EdDSA")
    jwks_url: str = ""
    """Where its keys are; without it, its metadata say."""
    introspection_url: str = ""
    client_id: str = ""
    client_secret: Secret = ""
    claims: dict[str, str] = {}
    """Which claim gives `tenant`, `subject`, `agent`, `client` or `groups`; a dot leads into an object."""
    tenant: str = ""
    """The tenant of all its users; without it, the claim, else the issuer's host."""
    leeway: float = 60.0
    plain_http: bool = False
    """Whether its addresses may be http beyond this machine, where anybody on the way could answer."""


class ProxyConfig(Struct, frozen=True, kw_only=True):
    """Headers of a proxy that has identified the caller; believed from these addresses only."""

    addresses: tuple[str, ...]
    user: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"
    tenant: str = ""
    agent: str = ""


class LoginClientConfig(Struct, frozen=True, kw_only=True):
    """A client of our authorization server that the operator registers; most register themselves."""

    id: str
    redirect_uris: tuple[str, ...]
    name: str = ""
    secret: Secret = ""
    """Empty for a client that can keep none."""


class LoginServerConfig(Struct, frozen=True, kw_only=True):
    """Our own authorization server: of local users, or in front of an issuer of OpenID Connect."""

    issuer: str = ""
    """Where users sign in; empty: here, as users of `toolyard logins users`."""
    client_id: str = ""
    client_secret: Secret = ""
    issuer_scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What the issuer is asked for."""
    claims: dict[str, str] = {}
    """Which claim of its ID tokens gives `tenant`, `subject` or `groups`; a dot leads into an object."""
    tenant: str = ""
    """The tenant of all who sign in by the issuer; without it, the claim, else the issuer's host."""
    groups: tuple[str, ...] = ()
    """Only members of one of these may sign in; without any, every user."""
    scopes: tuple[str, ...] = ()
    """Scopes that every user may give to a client, beside those that tokens and rules need."""
    clients: tuple[LoginClientConfig, ...] = ()
    access_ttl: float = 3600.0
    refresh_ttl: float = 30 * 24 * 3600.0
    """How long a login lasts if its client keeps using it; after that the user signs in again."""
    session_ttl: float = 12 * 3600.0
    """How long a browser stays signed in."""
    client_hosts: tuple[str, ...] = ()
    """Private addresses from which metadata of clients may be fetched; public ones always may."""
    plain_http: bool = False
    """Whether the issuer's addresses may be http beyond this machine, where others could answer."""


class AuthConfig(Struct, frozen=True, kw_only=True):
    required: bool = False
    """Whether local callers need a credential too. Beyond loopback every caller does."""
    keys: bool = False
    """Whether API keys of `toolyard keys` are accepted."""
    grants: bool = True
    """Whether callers may make grants for sub-agents, and such grants are accepted."""
    grant_ttl: float = 24 * 3600.0
    """The longest life of a grant."""
    issuers: tuple[IssuerConfig, ...] = ()
    scopes: tuple[str, ...] = ()
    """The scopes that every token needs."""
    proxy: ProxyConfig | None = None
    server: LoginServerConfig | None = None

    @property
    def knows_callers(self) -> bool:
        """Whether there is any way for a caller to show who it is."""
        return self.keys or self.has_authorization_server or self.proxy is not None

    @property
    def has_authorization_server(self) -> bool:
        """Whether clients can get tokens for the gateway: from an issuer, or from its own server."""
        return bool(self.issuers) or self.server is not None


class AccessRule(Struct, frozen=True, kw_only=True):
    """One row of the table: these callers, these patterns.

    `who`: `NAME` or `agent:NAME`, `group:NAME`, `user:NAME`, `tenant:NAME`, `client:NAME`, `*`.
    Patterns: `*`; `SERVER`; `SERVER/TOOL`; `SERVER/*:read`, `SERVER/*:write` (by annotations);
    `prompt:SERVER/NAME`; `resource:SERVER/URI`. Names may have `*` and `?`.
    """

    name: str = ""
    who: tuple[str, ...] = ("*",)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    preview: tuple[str, ...] = ()
    when: str = ""
    """A condition in CEL on `args`, `tool`, `server`, `agent`, `user`, `groups`, `tenant`."""
    scopes: tuple[str, ...] = ()
    """Scopes that a token needs for what this rule allows."""


class AccessConfig(Struct, frozen=True, kw_only=True):
    default: Literal["allow", "deny"] = "allow"
    """For what no rule decides. `deny` as soon as there is a rule, unless the file says otherwise."""
    agents: tuple[str, ...] = ()
    """The known agents; a rule that names another one is a mistake. Empty: any."""
    groups: dict[str, tuple[str, ...]] = {}
    """Groups of the file's own: their members, written as in `who`."""
    rules: tuple[AccessRule, ...] = ()
    confirm_seconds: float = 300.0
    """How long a person has to decide; then the call is refused."""

    @property
    def is_on(self) -> bool:
        return bool(self.rules) or self.default == "deny"


class LimitRule(Struct, frozen=True, kw_only=True):
    """One limit. `per` says who shares it: each user, agent, tenant, or all together.

    `who` and `tools` are written as in `[access]`. Of the amounts those that are given apply.
    """

    name: str = ""
    who: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    per: Literal["user", "agent", "tenant", "server", "tool", "all"] = "user"
    rate: float = 0.0
    """Calls a second, in the long run."""
    burst: int = 0
    """How many may come at once; without it, those of one second, and at least 1."""
    concurrent: int = 0
    window: float = 0.0
    """Seconds of a fixed window in which `calls` may be made; without it, `day` or `month` count."""
    calls: int = 0
    calls_a_day: int = 0
    calls_a_month: int = 0
    bytes_a_day: int = 0
    bytes_a_month: int = 0
    tokens_a_day: int = 0
    tokens_a_month: int = 0
    cost_a_day: float = 0.0
    cost_a_month: float = 0.0


class PriceRule(Struct, frozen=True, kw_only=True):
    """What calls of these tools cost: for each call, and for each million tokens of its result."""

    tools: tuple[str, ...]
    call: float = 0.0
    million_tokens: float = 0.0


class LimitsConfig(Struct, frozen=True, kw_only=True):
    rules: tuple[LimitRule, ...] = ()
    prices: tuple[PriceRule, ...] = ()
    currency: str = "USD"
    unavailable: Literal["open", "closed"] = "open"
    """Whether calls pass while the state store cannot be asked."""


class AuditConfig(Struct, frozen=True, kw_only=True):
    url: str = ""
    """`file:` (JSON lines in a folder), `sqlite:` or `postgresql:`; empty: no audit."""
    arguments: Literal["none", "digest", "redacted"] = "digest"
    unavailable: Literal["open", "closed"] = "closed"
    """Whether calls pass while no record can be written."""
    max_bytes: int = 64 * 1024 * 1024
    """A file of JSON lines is rotated at this size."""
    keep: float = 90 * 24 * 3600.0
    """Records older than this are removed, in whole files or in order."""
    webhook: str = ""
    webhook_headers: Headers = {}
    syslog: str = ""
    """`HOST:PORT` (UDP, RFC 5424) or the path of a socket."""

    @property
    def is_on(self) -> bool:
        return bool(self.url)
