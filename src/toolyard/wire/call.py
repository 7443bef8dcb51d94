"""A call: its caller, era and keys, and the interface of services that answer it.

Owns the keys that both eras use in `_meta`, the reading of a modern request (`ModernReader`), a caller's
key (`Secret`), the conversation of a call (`thread_of`), and the interface between edges and services:
`Call`, `Channel`, `Service`. Does no I/O; the JSON-RPC envelope is in `messages`, HTTP headers in `headers`.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NoReturn, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .errors import HeaderMismatch, InvalidParams, InvalidRequest, UnsupportedVersion
from .headers import NAME_PARAMS, RequestHeaders, check_request
from .messages import Id, decode_params
from .seal import Sealer
from .versions import LATEST_MODERN, LEGACY_VERSIONS, MODERN_VERSIONS, Era, era_of

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_KEY = PREFIX + "clientInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
TASKS_EXTENSION = PREFIX + "tasks"
UI_EXTENSION = PREFIX + "ui"


Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ClientInfo(Struct, frozen=True, omit_defaults=True):
    name: str = "unknown"
    version: str = ""
    title: str | None = None


class _LegacyMeta(Struct):
    progress_token: Id | None = field(default=None, name="progressToken")


class _LegacyParams(Struct):
    meta: _LegacyMeta | None = field(default=None, name="_meta")


class _VersionMeta(Struct):
    version: Any = field(default=UNSET, name=VERSION_KEY)


class _VersionParams(Struct):
    meta: _VersionMeta | None = field(default=None, name="_meta")


_version_decoder = msgspec.json.Decoder(_VersionParams)
# Without the prefix, because JSON can write its slash in two ways.
_VERSION_BYTES = b"protocolVersion"
LATEST_HEADER = LATEST_MODERN.encode()
"""The value of the MCP-Protocol-Version header for the latest version."""
LEGACY_HEADERS = frozenset(version.encode() for version in LEGACY_VERSIONS)


def is_modern(body: bytes, params: Raw, headers: RequestHeaders | None) -> bool:
    """Whether a request claims to be modern. Cheap: most bodies need not be decoded for it."""
    if headers is not None:
        sent = headers.raw.get(b"mcp-protocol-version")
        is_legacy = sent is None or sent in LEGACY_HEADERS or headers.version in LEGACY_VERSIONS
        if not is_legacy:
            return True
    return _VERSION_BYTES in body and _has_version(params)


def _has_version(params: Raw) -> bool:
    # The key may also occur in the arguments, so the bytes alone do not decide.
    try:
        meta = _version_decoder.decode(params).meta
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return meta is not None and meta.version is not UNSET


def read_legacy_progress_token(body: bytes, params: Raw) -> Id | None:
    if b"progressToken" not in body:
        return None
    try:
        meta = msgspec.json.decode(params, type=_LegacyParams).meta
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return meta.progress_token if meta is not None else None


AUTHORIZATION = "authorization"
CALLER_TOKEN = "caller token"
"""Among the secrets of a call: the token of an issuer that its caller came with, where a server has it
exchanged. No header can have this name, so none carries it on."""
MAX_KEY_LENGTH = 4096
_USABLE_KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""Printable ASCII without blanks. No commas, because a proxy may have joined several headers with one."""


class Secret:
    __slots__ = ("_value", "fingerprint", "is_refused")

    def __init__(self, value: str, fingerprint: str) -> None:
        self._value: str | None = value
        self.is_refused = False
        """The service that it is for did not accept it. A gateway that keeps the key asks for another."""
        self.fingerprint = fingerprint
        """A keyed hash. It distinguishes callers in logs, caches and sessions without revealing the key."""

    def reveal(self) -> str:
        """The key itself. Use it only for the request to its service; do not store it."""
        if self._value is None:
            raise RuntimeError("the request is over, and its caller's key has been erased")
        return self._value

    def refuse(self) -> None:
        """Say that the service answered that this key is not valid."""
        self.is_refused = True

    def forget(self) -> None:
        """Erase the key when the request is over; the fingerprint stays."""
        self._value = None

    def __repr__(self) -> str:
        return f"Secret({self.fingerprint[:12]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a caller's key cannot be pickled or copied")

    def __eq__(self, other: Any) -> bool:
        return self is other

    __hash__ = object.__hash__


def key_header_value(name: str, key: Secret) -> str:
    """The value of the header that carries a key."""
    return f"Bearer {key.reveal()}" if name.lower() == AUTHORIZATION else key.reveal()


def is_usable_key(value: str) -> bool:
    """Whether a key can be sent in a header."""
    return len(value) <= MAX_KEY_LENGTH and _USABLE_KEY.fullmatch(value) is not None


CredentialKind = Literal["local", "key", "jwt", "introspection", "login", "proxy", "grant", "application"]
"""How a caller showed who it is. `application`: by the hook of whoever embeds the edge."""
ISSUED: tuple[CredentialKind, ...] = ("jwt", "introspection")
"""Those that are an issuer's access token."""


class Right(Struct, frozen=True):
    """What a grant leaves of its parent's rights: the items that these patterns name, less the denied."""

    allow: tuple[str, ...]
    deny: tuple[str, ...] = ()


class CallBudget(Struct, frozen=True):
    """How many calls one grant of a chain permits, those of the grants made from it included."""

    id: str
    calls: int
    expires: float


class Grant(Struct, frozen=True, cache_hash=True):
    """The limits of a sub-agent. Each right narrows the one before it, so all of them must permit a call."""

    id: str
    chain: tuple[str, ...]
    """The ids of the grants it was narrowed from, the first one first, and its own last."""
    rights: tuple[Right, ...]
    expires: float
    """Seconds since 1970."""
    budgets: tuple[CallBudget, ...] = ()
    """Of the grants of the chain that count calls."""
    parent_agents: tuple[str, ...] = ()
    """The agent that made the first grant, then those of the chain above this one: their rules apply too."""
    blocks: tuple[bytes, ...] = ()
    """The signed blocks, without the signature: the gateway can narrow the grant for its holder."""


class Principal(Struct, frozen=True, cache_hash=True):
    """Who asks. An edge makes it from the credentials of a request before it looks at anything else.

    Without credentials everybody is the local user.
    """

    tenant: str = "local"
    agent: str = ""
    subject: str = ""
    """The user, as the issuer names it, or the name of an API key."""
    issuer: str = ""
    client: str = ""
    """The application that asks in the user's name: `client_id` or `azp` of a token."""
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    kind: CredentialKind = "local"
    credential: str = ""
    """Names the credential in logs and the audit, and is not secret: a key's id, a digest of a token."""
    grant: Grant | None = None
    expires: float | None = None
    """When the credential ends, in seconds since 1970, if that is known. Grants made with it end then."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The agent, after those whose grants it uses. Whatever limits one of them limits it too."""
        return (self.agent,) if self.grant is None else (*self.grant.parent_agents, self.agent)

    # Several parts ask for these two on every call, so they are remembered.

    @property
    @lru_cache(maxsize=4096)  # noqa: B019 (bounded, and a principal has no secrets)
    def owner(self) -> str:
        """The tenant, or the one user of it that the data belongs to: sessions, leases, results, rankings.

        Tenants of users are hashed in, so that no name of a tenant can be mistaken for an owner. A tenant
        whose name looks like an owner gets a hash of its own.
        """
        if self.subject or _OWNER_MARK in self.tenant:
            return _owner_of(self.tenant, self.issuer, self.subject)
        return self.tenant

    @property
    def user(self) -> str:
        """Whose memories and conversations they are within the tenant: the user, else the agent.

        A grant works with the data of whoever made it.
        """
        if not self.subject:
            return self.agents[0]
        return f"{self.issuer}#{self.subject}" if self.issuer else self.subject

    @property
    @lru_cache(maxsize=4096)  # noqa: B019
    def binding(self) -> str:
        """What sealed state and tasks are bound to. The length keeps `a/b` + `c` apart from `a` + `b/c`."""
        owner = self.owner
        bound = f"{len(owner)}:{owner}/{self.agent}"
        # Whoever makes a grant chooses its name, so the name alone must not open what belongs to an agent.
        return bound if self.grant is None else f"grant {self.grant.id} of {bound}"


_OWNER_MARK = "/user:"


def _owner_of(tenant: str, issuer: str, subject: str) -> str:
    mark = hashlib.blake2b(digest_size=12)
    for part in (tenant, issuer, subject):
        mark.update(len(part.encode()).to_bytes(4, "big") + part.encode())
    return f"{tenant}{_OWNER_MARK}{mark.hexdigest()}"


class Identity(Struct, frozen=True, cache_hash=True):
    """Whose request it is: the principal, and the conversation that the request names."""

    principal: Principal = Principal()
    thread: str = ""


class Caller:
    """The caller and the capabilities of its client: read from the request, never from a global."""

    __slots__ = ("_capabilities", "client", "era", "identity", "log_level", "version")

    def __init__(
        self,
        version: str,
        capabilities: Raw | Mapping[str, Any],
        client: ClientInfo = ClientInfo(),  # noqa: B008 (frozen)
        identity: Identity = Identity(),  # noqa: B008 (frozen)
        log_level: str | None = None,
    ) -> None:
        self.version = version
        self.era: Era = era_of(version)
        self.client = client
        self.identity = identity
        self.log_level = log_level
        self._capabilities = capabilities if isinstance(capabilities, Raw) else MappingProxyType(capabilities)

    @property
    def principal(self) -> Principal:
        return self.identity.principal

    @property
    def tenant(self) -> str:
        return self.identity.principal.tenant

    @property
    def agent(self) -> str:
        return self.identity.principal.agent

    @property
    def owner(self) -> str:
        """Whom data belongs to that is kept from one request to the next."""
        return self.identity.principal.owner

    @property
    def thread(self) -> str:
        return self.identity.thread

    @property
    def capabilities(self) -> Mapping[str, Any]:
        # Most calls never ask, so the bytes are decoded on first use. Read-only: callers are shared.
        if isinstance(self._capabilities, Raw):
            try:
                decoded = msgspec.json.decode(self._capabilities, type=dict[str, Any])
                self._capabilities = MappingProxyType(decoded)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InvalidParams(f"The client's capabilities are not valid: {error}") from None
        return self._capabilities

    def supports(self, extension: str) -> bool:
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and extension in extensions


class LegacySession(Struct):
    """The state of a legacy session that its requests do not carry: log level and subscriptions."""

    id: str = ""
    log_level: str | None = None
    subscriptions: set[str] = field(default_factory=set[str])
    lasts: bool = True
    """Whether more requests can follow in it; false for one that was made up for a single request."""
    label: str = ""
    """What authors know it by where it has no id; made when one asks."""


class Channel(Protocol):
    """The way back to the client while a call runs."""

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to this call."""
        ...

    async def ask(self, method: str, params: Any) -> Raw:
        """Legacy only: send a request to the client and wait for its result."""
        ...

    async def release(self, retry_ms: int | None) -> None:
        """Legacy HTTP: close the connection; the client resumes the stream later. Elsewhere does nothing."""
        ...


class _NoChannel:
    """For notifications, and for calls before their edge sets a channel: there is no client to reach."""

    async def notify(self, method: str, params: Any) -> None:
        return None

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest("No client is connected that could be asked")

    async def release(self, retry_ms: int | None) -> None:
        return None


NO_CHANNEL = _NoChannel()


CallTool = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls another tool of the same caller, by name, and returns its result as JSON has it. Raises McpError."""


class Call(Struct, gc=False):
    """One request or notification, its parameters still raw."""

    method: str
    params: Raw
    caller: Caller
    channel: Channel
    id: Id | None = None
    progress_token: Id | None = None
    session: LegacySession | None = None
    param_headers: Callable[[], dict[str, str]] | None = None
    """Reads the Mcp-Param-* headers on modern HTTP; None if the transport has no headers."""
    secrets: Mapping[str, Secret] | None = None
    """The caller's keys, by the lower-case name of their header. They are erased after the call."""
    call_tool: CallTool | None = None
    """How a server in a gateway's process calls the caller's other tools; None: there are none to call."""
    sealer: Sealer | None = None
    """Seals the state of its questions, in place of the server's own: what a gateway has for this server."""
    depth: int = 0
    """How many tools it was called through, each by the one before."""
    _decoded: tuple[Raw, dict[str, Raw]] | None = None

    def members(self) -> dict[str, Raw]:
        """The members of `params`, their values still JSON. Decoded once; do not change them."""
        known = self._decoded
        if known is None or known[0] is not self.params:
            known = self._decoded = (self.params, decode_params(self.params, dict[str, Raw]))
        return known[1]


class StreamedResult:
    """A result too big for memory: one JSON object that is stored elsewhere and sent in pieces.

    The receiver closes it.
    """

    size: int

    def chunks(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def close(self) -> None:
        """Release its storage."""
        raise NotImplementedError


class Service(Protocol):
    """Answers calls: a kit server or the gateway."""

    async def handle(self, call: Call) -> Any:
        """Answer a request (or take a notification, whose result is ignored)."""
        ...

    async def listen(self, call: Call) -> None:
        """Legacy: pass change notifications to `call.channel` until cancelled or the service closes."""
        ...

    async def end_session(self, call: Call) -> None:
        """A legacy client has ended its session."""
        ...

    async def close(self) -> None:
        """End listeners and background work."""
        ...

    def health(self) -> dict[str, Any]:
        """The answer to GET /health."""
        ...


MAX_CACHED_CALLERS = 256
MAX_CACHED_META_BYTES = 2048

_NOTHING = Raw(b"")


class _ModernMeta(Struct):
    version: str | UnsetType = field(default=UNSET, name=VERSION_KEY)
    capabilities: Raw = field(default=_NOTHING, name=CAPABILITIES_KEY)
    client: ClientInfo = field(default=ClientInfo(), name=CLIENT_KEY)
    log_level: Level | None = field(default=None, name=LOG_LEVEL_KEY)
    progress_token: Id | None = field(default=None, name="progressToken")


class _ModernParams(Struct, gc=False):
    meta: Raw = field(default=_NOTHING, name="_meta")
    name: Any = None
    uri: Any = None
    task_id: Any = field(default=None, name="taskId")


_decode_modern_params = msgspec.json.Decoder(_ModernParams).decode
_decode_modern_meta = msgspec.json.Decoder(_ModernMeta).decode


_TRACED = b'{"traceparent":"'
_TRACE_ENDS = len(_TRACED) + 55 + len('",')


class ModernReader:
    """Reads modern requests, and caches recent callers.

    A client sends the same `_meta` with nearly every request, and reading it each time took a tenth of a
    call's CPU. A `_meta` with a progress token differs each time and is not cached; a `traceparent` differs
    too and is left out where it comes first, as our gateway sends it.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, Identity], tuple[Caller, bytes]] = {}

    def read(
        self, method: str, params: Raw, headers: RequestHeaders | None, identity: Identity
    ) -> tuple[Caller, Id | None]:
        """The caller and the progress token. Compares `headers`, if given, with the body."""
        try:
            parsed = _decode_modern_params(params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidParams(f"Invalid params: {error}") from None
        raw = bytes(parsed.meta)
        if raw.startswith(_TRACED) and raw[_TRACE_ENDS - 2 : _TRACE_ENDS] == b'",':
            raw = b"{" + raw[_TRACE_ENDS:]
        token = None
        seen = self._seen.get((raw, identity))
        if seen is None:
            meta = _read_meta(raw, headers)
            token = meta.progress_token
            seen = self._remember(raw, meta, identity)
        elif headers is not None and headers.raw.get(b"mcp-protocol-version") != seen[1]:
            _check_version(headers.version, seen[0].version)
        if headers is not None:
            name = parsed.name
            # The common case, a plain name, is compared as bytes; `check_request` handles the rest.
            if (
                method != "tools/call"
                or headers.raw.get(b"mcp-method") != b"tools/call"
                or not (isinstance(name, str) and name.isidentifier() and name.isascii())
                or headers.raw.get(b"mcp-name") != name.encode()
            ):
                check_request(headers, method, _name_in(method, parsed))
        return seen[0], token

    def _remember(self, raw: bytes, meta: _ModernMeta, identity: Identity) -> tuple[Caller, bytes]:
        assert isinstance(meta.version, str)
        caller = Caller(meta.version, Raw(bytes(meta.capabilities)), meta.client, identity, meta.log_level)
        seen = (caller, meta.version.encode())
        is_repeated = meta.progress_token is None and b"traceparent" not in raw
        if is_repeated and len(raw) <= MAX_CACHED_META_BYTES:
            if len(self._seen) >= MAX_CACHED_CALLERS:
                self._seen.clear()
            self._seen[raw, identity] = seen
        return seen


def _read_meta(raw: bytes, headers: RequestHeaders | None) -> _ModernMeta:
    sent = None if headers is None else headers.version
    try:
        meta = _decode_modern_meta(raw) if raw else _ModernMeta()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams(f"Invalid params._meta: {error}") from None
    if sent is not None and sent not in MODERN_VERSIONS and meta.version in (UNSET, sent):
        raise UnsupportedVersion(sent[:80])
    if meta.version is UNSET:
        raise InvalidParams(f"params._meta must contain {VERSION_KEY!r} and {CAPABILITIES_KEY!r}")
    if meta.capabilities is _NOTHING or memoryview(meta.capabilities)[0] != 0x7B:
        raise InvalidParams(f"params._meta must contain {CAPABILITIES_KEY!r}, an object")
    if headers is not None:
        _check_version(sent, meta.version)
    if meta.version not in MODERN_VERSIONS:
        raise UnsupportedVersion(meta.version[:80])
    return meta


def _check_version(sent: str | None, said: str) -> None:
    if sent is None:
        raise HeaderMismatch("the MCP-Protocol-Version header is missing")
    if sent != said:
        raise HeaderMismatch(f"MCP-Protocol-Version is {sent[:80]!r}, the body says {said[:80]!r}")


def _name_in(method: str, parsed: _ModernParams) -> str | None:
    key = NAME_PARAMS.get(method)
    if key is None:
        return None
    value = parsed.name if key == "name" else parsed.uri if key == "uri" else parsed.task_id
    if not isinstance(value, str):
        raise InvalidParams(f"params.{key} must be a string")
    return value


THREAD_KEY = "toolyard/thread"
_THREAD_BYTES = THREAD_KEY.encode()
THREAD_HEADER = b"x-toolyard-thread"
MAX_THREAD = 200


class _ThreadMeta(Struct):
    thread: str = field(default="", name=THREAD_KEY)


class _ThreadParams(Struct):
    meta: Raw = field(default=Raw(b"{}"), name="_meta")


_decode_thread_params = msgspec.json.Decoder(_ThreadParams).decode
_decode_thread_meta = msgspec.json.Decoder(_ThreadMeta).decode


def thread_of(call: Call) -> str:
    """The thread of a call: from its identity, `_meta` or legacy session, in this order; "" if none has one.

    A session's id is a secret, so its hash is used.
    """
    thread = call.caller.identity.thread
    # Few calls have one in `_meta`, so look at the bytes before decoding.
    if not thread and _THREAD_BYTES in bytes(call.params):
        thread = _thread_in_meta(call)
    if thread:
        return thread[:MAX_THREAD]
    if call.session is not None and call.session.id:
        return "session-" + hashlib.blake2b(call.session.id.encode(), digest_size=12).hexdigest()
    return ""


def _thread_in_meta(call: Call) -> str:
    try:
        return _decode_thread_meta(_decode_thread_params(call.params).meta).thread
    except msgspec.DecodeError:
        return ""
