"""The seam between a way to an upstream and whoever uses it.

A `Link` is an open way in one era. It carries requests as members of `params` whose values are still
JSON, and gives results back the same way. What it hears meanwhile goes to the request's `Ear`.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct, field

from .. import __version__
from ..wire.call import Caller, Identity
from ..wire.eras import ClientInfo
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.versions import LATEST_MODERN, Era, era_of
from .spool import Spooled

Params = dict[str, Raw]
Result = Raw | Spooled

ASKED_BY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The questions there are, and the capability that says a client can be asked them."""


class About(Struct, frozen=True):
    """What an upstream says of itself when asked first."""

    version: str
    info: Raw = Raw(b"{}")
    capabilities: dict[str, Any] = {}
    instructions: str | None = None

    @property
    def era(self) -> Era:
        return era_of(self.version)


class Start(Struct, frozen=True):
    """A connection that is being opened: for how long already, and what the upstream wrote last."""

    seconds: float
    activity: str = ""
    """A line of a program's standard error, such as what a package runner is downloading."""

    def __str__(self) -> str:
        return f"for {self.seconds:.0f} s" + (f", {self.activity}" if self.activity else "")


class Profile(Struct, frozen=True):
    """As whom a legacy session speaks: what its client can be asked, and which client that is.

    Callers who can be asked nothing, and bring no key, share one. The others have one each, or a question,
    or what a server remembers of a session, could be another client's.
    """

    capabilities: bytes = b"{}"
    askable: frozenset[str] = frozenset()
    principal: str = ""
    client: str = ""


NOBODY = Profile()


_DETAILS = {
    "elicitation": ("form", "url"),
    "sampling": ("context", "tools"),
    "roots": ("listChanged",),
}


def askable(caller: Caller) -> dict[str, Any]:
    """What a caller declared that it can be asked, less what the protocol does not know."""
    found: dict[str, Any] = {}
    for name, details in _DETAILS.items():
        declared: Any = caller.capabilities.get(name)
        if isinstance(declared, dict):
            members = cast(dict[str, Any], declared)
            found[name] = {detail: members[detail] for detail in details if detail in members}
    return found


def profile_of(caller: Caller, session: str) -> Profile:
    """`session` tells a legacy client from others; a modern one is told by its name and thread."""
    declared = askable(caller)
    if not declared:
        return NOBODY
    identity = caller.identity
    client = "\0".join((identity.thread, caller.client.name, session))
    capabilities = msgspec.json.encode(declared, order="sorted")
    return Profile(capabilities, frozenset(declared), identity.principal, client)


OURS = Caller(LATEST_MODERN, {}, ClientInfo("toolyard", __version__), Identity(tenant="", agent="toolyard"))
"""The caller of what we ask in our own name: lists, changes, whether somebody is there."""


class Ear(Protocol):
    """Hears what an upstream says while it works on a request."""

    @property
    def principal(self) -> str:
        """Whose request it is; empty for what is asked in our own name."""
        ...

    @property
    def asks_at_once(self) -> bool:
        """A question is with the client as soon as it is put, and can be answered when the call is over."""
        ...

    async def notify(self, method: str, params: Raw) -> None: ...

    async def ask(self, method: str, params: Raw) -> Raw:
        """A legacy upstream's question; McpError when nobody can answer it."""
        ...

    async def release(self, retry_ms: int | None) -> None:
        """A legacy upstream let the connection of a call go, to be asked again after `retry_ms`."""
        ...


class Deaf:
    """For what we ask of an upstream ourselves."""

    principal = ""
    asks_at_once = False

    async def notify(self, method: str, params: Raw) -> None:
        return None

    async def ask(self, method: str, params: Raw) -> Raw:
        raise McpError(METHOD_NOT_FOUND, f"nobody can be asked {method[:80]!r} now")

    async def release(self, retry_ms: int | None) -> None:
        return None


DEAF = Deaf()


class Standing(Struct):
    """What has been agreed on a legacy session since it began."""

    log_level: str | None = None
    held: Counter[str] = field(default_factory=Counter[str])
    """How many of our listeners want each resource; it is subscribed to once."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Subscribing and unsubscribing go one after the other."""


class Watcher(Protocol):
    """Hears what a legacy upstream says of its own accord: changed lists, updated resources."""

    def __call__(self, method: str, params: Raw) -> None: ...


class Link(Protocol):
    @property
    def about(self) -> About: ...

    @property
    def server(self) -> str: ...

    @property
    def standing(self) -> Standing: ...

    @property
    def closed(self) -> bool:
        """It will not carry another request; a new one has to be opened."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a caller's request is under way on it."""
        ...

    @property
    def shares_tokens(self) -> bool:
        """Whether progress tokens of different requests meet on it and so must differ."""
        ...

    async def request(
        self,
        method: str,
        params: Params,
        ear: Ear,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        """The result; McpError as the upstream said it, UpstreamError when it did not say any.

        `token` is the progress token in `params`, if there is one; `headers` are the Mcp-Param-* ones.
        """
        ...

    async def notify(self, method: str, params: Params) -> None: ...

    def watch(self, watcher: Watcher) -> None:
        """Legacy: call `watcher` until `unwatch`, or until the link closes; then with method ''."""
        ...

    def unwatch(self, watcher: Watcher) -> None: ...

    async def close(self) -> None: ...


class Connector(Protocol):
    """Opens links to one upstream: negotiates the era, shakes hands."""

    @property
    def activity(self) -> str:
        """What an upstream that is being opened wrote last; empty where it has no way to say anything."""
        ...

    async def open(self, profile: Profile) -> Link: ...
