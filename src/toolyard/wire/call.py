"""The seam between an edge and whatever answers it.

An edge turns bytes into a `Call` and hands it to a `Service`; the service answers with a result
object or raises McpError, and may speak through the call's `Channel` while it works.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct, field

from .eras import ClientInfo
from .errors import InvalidParams, InvalidRequest
from .messages import Id
from .secret import Secret
from .versions import Era, era_of


class Identity(Struct, frozen=True, cache_hash=True):
    """Whose request it is. An edge reads it from the request; without authentication all are `local`."""

    tenant: str = "local"
    agent: str = ""
    thread: str = ""

    @property
    def principal(self) -> str:
        """What sealed state and tasks are bound to. The length keeps `a/b` + `c` apart from `a` + `b/c`."""
        return f"{len(self.tenant)}:{self.tenant}/{self.agent}"


class Caller:
    """Who asks and what their client can do: read from the request, never from a global."""

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
    def tenant(self) -> str:
        return self.identity.tenant

    @property
    def agent(self) -> str:
        return self.identity.agent

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
                raise InvalidParams(f"The client's capabilities cannot be read: {error}") from None
        return self._capabilities

    def supports(self, extension: str) -> bool:
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and extension in extensions


class Session(Struct):
    """What a legacy session has set and a request cannot carry: log level and subscriptions."""

    id: str = ""
    log_level: str | None = None
    subscriptions: set[str] = field(default_factory=set[str])


class Channel(Protocol):
    """The way back to the client while a call runs."""

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification that belongs to this call."""
        ...

    async def ask(self, method: str, params: Any) -> Raw:
        """Legacy only: send a request to the client and wait for its result."""
        ...

    async def release(self, retry_ms: int | None) -> None:
        """Legacy HTTP: let the connection go; the client comes back for the rest. Elsewhere nothing."""
        ...


class _NoChannel:
    """Where nobody listens: notifications, and calls before their edge gives them a channel."""

    async def notify(self, method: str, params: Any) -> None:
        return None

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest("nobody can be asked here")

    async def release(self, retry_ms: int | None) -> None:
        return None


NO_CHANNEL = _NoChannel()


class Call(Struct, gc=False):
    """One request or notification, its parameters still raw."""

    method: str
    params: Raw
    caller: Caller
    channel: Channel
    id: Id | None = None
    progress_token: Id | None = None
    session: Session | None = None
    param_headers: Callable[[], dict[str, str]] | None = None
    """Reads the Mcp-Param-* headers, on modern HTTP; None where the transport has no headers."""
    more_headers: Mapping[str, str] | None = None
    """What this call carries to its upstream besides, such as a session's id; never a client's own words."""
    secrets: Mapping[str, Secret] | None = None
    """The keys that its caller brought, by the lower-case header each came in. They go with the call."""


class Streamed:
    """A result too big to hold: one JSON object that lies elsewhere and is sent in pieces.

    Whoever is handed one closes it.
    """

    size: int

    def chunks(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of where it lies."""
        raise NotImplementedError


class Service(Protocol):
    """Whatever answers calls: a kit server, or the gateway's pipeline."""

    async def handle(self, call: Call) -> Any:
        """Answer a request (or take a notification, whose result is ignored)."""
        ...

    async def listen(self, call: Call) -> None:
        """Legacy: pass change notifications to `call.channel` until cancelled or the service closes."""
        ...

    async def end_session(self, call: Call) -> None:
        """A legacy client has ended its session: nothing more will come in its name."""
        ...

    async def close(self) -> None:
        """End listeners and background work."""
        ...

    def health(self) -> dict[str, Any]:
        """What GET /health shows."""
        ...
