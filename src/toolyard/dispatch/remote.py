"""The protocol of an upstream that searches by itself and whose tools need accounts, such as Composio.

Implementations decide how; the search decides how long to wait.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from ..search.documents import ToolQuery
from ..sessions.leases import Lease
from ..wire.call import Call


class RemoteTool(Struct, frozen=True):
    """A tool that the upstream knows, in its own words."""

    own: str
    """Its name there."""
    name: str
    """Its full name here; it can be called under it once it is lent."""
    toolkit: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    recommended: bool = False
    connected: bool = True
    auth: str = "none"
    """`none`, `connected`, or what has to be done: `oauth`, `api_key`, `unknown`."""


class RemoteAnswer(Struct, frozen=True):
    """One list of tools for each query, best first."""

    results: tuple[tuple[RemoteTool, ...], ...]
    session: Lease | None = None
    guidance: tuple[str, ...] = ()


class Toolkit(Struct, frozen=True):
    """An app whose tools the upstream has."""

    slug: str
    name: str
    description: str = ""
    logo: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    auth_schemes: tuple[str, ...] = ()
    managed_auth_schemes: tuple[str, ...] = ()
    connected: bool | None = None


class AppConnection(Struct, frozen=True):
    """How it stands with an app's account."""

    server: str
    toolkit: str
    status: str
    """`active`, `initiated`, `requires_parameters`, `failed`, `none`."""
    link: str | None = None
    """Where the user authorises it."""
    account: str | None = None
    message: str = ""
    required: tuple[str, ...] = ()
    """Parameters that are missing."""

    @property
    def is_active(self) -> bool:
        return self.status == "active"


class Remote(Protocol):
    """Everything is done in the name of the call's tenant and thread. UpstreamError when it does not work."""

    @property
    def server(self) -> str: ...

    async def session(self, call: Call) -> Lease:
        """The session of this thread, begun if there is none."""
        ...

    async def search(self, call: Call, queries: Sequence[ToolQuery], limit: int) -> RemoteAnswer:
        """What it finds by itself. The tools found can be called at once: they are lent to this thread."""
        ...

    async def toolkits(self, call: Call, text: str, category: str, limit: int) -> Sequence[Toolkit]: ...

    async def toolkit(self, call: Call, slug: str) -> Toolkit | None: ...

    async def tools_of(self, call: Call, toolkit: str) -> Sequence[RemoteTool]:
        """All tools of an app, lent to this thread."""
        ...

    async def describe(self, call: Call, names: Sequence[str]) -> Sequence[RemoteTool]:
        """With schemas, by own or full names; the unknown are left out. Lent to this thread."""
        ...

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[AppConnection]: ...

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        """Begin to connect an app: an active connection, or one with a link for the user."""
        ...

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[AppConnection]:
        """Until all of them (or one) are active, or the time is over."""
        ...
