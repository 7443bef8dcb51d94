"""The desk: what every dialect's meta tools do, under no particular name.

Owns the order of things: which thread, who is asked, what is checked before anything leaves. Finding is
the index's and the remotes' work, calling the yard's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...kit.content import ToolError
from ...wire.call import Call
from .answers import Described, Done, Item, SearchAnswer
from .supplies import Supplies

if TYPE_CHECKING:
    from ...dispatch.remote import Connection
    from ...search.documents import Query

MAX_ITEMS = 50
MAX_QUERIES = 20


class UnknownTool(ToolError):
    """No such tool, or none that this caller may know of. `tool` is the name as it came."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


class BadArguments(ToolError):
    """The arguments do not fit the tool's input schema; nothing has left."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


class Desk:
    def __init__(self, supplies: Supplies) -> None:
        self.supplies = supplies

    async def search(
        self, call: Call, queries: Sequence["Query"], session: str | None = None
    ) -> SearchAnswer:
        """ToolError when there is no query, or one without a use case."""
        raise NotImplementedError

    async def describe(self, call: Call, tools: Sequence[str], session: str | None = None) -> Described:
        raise NotImplementedError

    async def call_tool(
        self, call: Call, tool: str, arguments: dict[str, Any], session: str | None = None
    ) -> Any:
        """The upstream's own result object; UnknownTool, BadArguments, or McpError as the upstream said it."""
        raise NotImplementedError

    async def call_tools(
        self,
        call: Call,
        items: Sequence[Item],
        *,
        parallel: int | None = None,
        seconds: float | None = None,
        session: str | None = None,
    ) -> list[Done]:
        """In the order of the items; ToolError when there are none or more than MAX_ITEMS."""
        raise NotImplementedError

    async def connections(
        self,
        call: Call,
        names: Sequence[str] = (),
        action: Literal["status", "link", "wait"] = "status",
        *,
        seconds: float = 60.0,
        alias: str = "",
        fields: dict[str, Any] | None = None,
        every: bool = True,
        session: str | None = None,
    ) -> list["Connection"]:
        """Of servers and of remotes' apps; of all our servers when none is named."""
        raise NotImplementedError

    async def thread(self, call: Call, session: str | None) -> Call:
        """The same call in the thread that a `session` argument names: one of its ids, or a name of its own."""
        raise NotImplementedError
