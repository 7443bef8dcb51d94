"""The protocol of a remote: an upstream that searches by itself and whose tools need accounts, as Composio.

`views.meta.search` decides how long a search waits for it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from ..catalogue.items import prefix_of
from ..search.documents import ToolQuery
from ..sessions.leases import Lease
from ..state.store import StateError
from ..upstream.composio.api import Toolkit
from ..wire.call import Call
from ..wire.errors import McpError


class RemoteTool(Struct, frozen=True):
    """A tool of the remote."""

    own: str
    """Its name at the remote."""
    name: str
    """Its full name at the gateway; it can be called by it once it was added to a conversation."""
    toolkit: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    recommended: bool = False
    connected: bool = True
    auth: str = "none"
    """`none`, `connected`, or the authorisation it needs: `oauth`, `api_key`, `unknown`."""


class RemoteAnswer(Struct, frozen=True):
    """The tools for each query, best first."""

    results: tuple[tuple[RemoteTool, ...], ...]
    session: Lease | None = None
    guidance: tuple[str, ...] = ()


class AppConnection(Struct, frozen=True):
    """The state of a user's connection to an app."""

    server: str
    toolkit: str
    status: str
    """`active`, `initiated`, `requires_parameters`, `failed`, `none`."""
    link: str | None = None
    """The address at which the user authorises it."""
    account: str | None = None
    message: str = ""
    required: tuple[str, ...] = ()
    """Missing parameters."""

    @property
    def is_active(self) -> bool:
        return self.status == "active"


class Remote(Protocol):
    """Acts for the call's tenant and conversation. All methods raise UpstreamError if the remote fails."""

    @property
    def server(self) -> str: ...

    async def session(self, call: Call) -> Lease:
        """Return the session of this conversation; begins one if there is none."""
        ...

    async def search(self, call: Call, queries: Sequence[ToolQuery], limit: int) -> RemoteAnswer:
        """Search with the remote's own search. The tools found can be called at once in this conversation."""
        ...

    async def toolkits(self, call: Call, text: str, category: str, limit: int) -> Sequence[Toolkit]: ...

    async def toolkit(self, call: Call, slug: str) -> Toolkit | None: ...

    async def tools_of(self, call: Call, toolkit: str) -> Sequence[RemoteTool]:
        """Return all tools of an app, and add them to this conversation."""
        ...

    async def describe(self, call: Call, names: Sequence[str]) -> Sequence[RemoteTool]:
        """Return tools with schemas, by own or full names, without unknown ones; adds them as well."""
        ...

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[AppConnection]: ...

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        """Begin to connect an app; returns an active connection, or one with a link for the user."""
        ...

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[AppConnection]:
        """Wait until all of them are active (or one, without `every`), or until `seconds` have passed."""
        ...


async def discover(
    remotes: "Mapping[str, Remote]", call: Call, names: Sequence[str], seconds: float
) -> list[RemoteTool]:
    """Ask the remotes for tools with these names; this conversation may call those they describe."""
    asking = [
        _described(remote, call, own, seconds)
        for remote in remotes.values()
        if (own := [name for name in names if _may_have(remote, name)])
    ]
    return [tool for tools in await asyncio.gather(*asking) for tool in tools]


async def _described(
    remote: Remote, call: Call, names: Sequence[str], seconds: float
) -> Iterable[RemoteTool]:
    try:
        async with asyncio.timeout(seconds):
            return await remote.describe(call, names)
    except (McpError, StateError, TimeoutError):
        return ()


def _may_have(remote: Remote, name: str) -> bool:
    """Return whether a name may belong to this remote: it has the remote's prefix, or no server's."""
    return not name.startswith("mcp__") or name.startswith(prefix_of(remote.server))
