"""Meta tools, dialects, and the answers of the service before a dialect gives them its shape.

A dialect only translates names, argument shapes and reply shapes.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct, field

from ...wire.call import Call

if TYPE_CHECKING:
    from ...search.documents import ToolQuery
    from ...sessions.leases import Lease
    from .service import MetaToolService


MetaToolHandler = Callable[["MetaToolService", Call, dict[str, Any]], Awaitable[Any]]
"""Takes the arguments as they came, unchecked. Gives a CallToolResult, or an upstream's own result as it is.

`kit.content.ToolError` becomes an `isError` result, and so do an UpstreamError and InvalidParams.
"""


class MetaTool(Struct, kw_only=True):
    name: str
    description: str
    input_schema: dict[str, Any]
    answer: MetaToolHandler
    title: str = ""
    annotations: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None

    def shown(self) -> dict[str, Any]:
        """As `tools/list` has it."""
        shown: dict[str, Any] = {"name": self.name, "description": self.description}
        if self.title:
            shown["title"] = self.title
        shown["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        return shown


class Dialect(Protocol):
    @property
    def name(self) -> str: ...

    def tools(self) -> Sequence[MetaTool]: ...


@runtime_checkable
class RenamingDialect(Protocol):
    """A dialect in which some tools, besides their full names, have names of its own for a caller."""

    async def listed(self, desk: "MetaToolService", call: Call) -> Sequence[dict[str, Any]]:
        """Those tools as `tools/list` has them, under the dialect's names."""
        ...

    async def full_name(self, desk: "MetaToolService", call: Call, name: str) -> str | None:
        """Where a name that nothing else answers to leads; ToolError says why one leads nowhere here."""
        ...


class ToolMatch(Struct, kw_only=True):
    """A tool that fits a query."""

    tool: str
    """Its full name."""
    server: str
    title: str = ""
    description: str = ""
    score: float = 0.0
    recommended: bool = False
    connected: bool = True
    """False: its server is down, or its app waits to be connected."""
    auth: str = "none"
    input_schema: dict[str, Any] | None = None
    """None: ask for it; those of the best few are given at once."""
    toolkit: str = ""
    """The app it is of, where a remote has many."""
    parts: dict[str, float] = field(default_factory=dict[str, float])

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "tool": self.tool,
            "server": self.server,
            "title": self.title,
            "description": self.description,
            "score": round(self.score, 3),
            "recommended": self.recommended,
            "connected": self.connected,
            "auth": self.auth,
        }
        if self.input_schema is not None:
            found["input_schema"] = self.input_schema
        return found


class QueryMatches(Struct, kw_only=True):
    """What was found for one query, best first. `total` counts those that were left out too."""

    query: "ToolQuery"
    results: list[ToolMatch]
    total: int = 0

    def shown(self) -> dict[str, Any]:
        query: dict[str, Any] = {"use_case": self.query.use_case}
        for name in ("known_fields", "category", "server"):
            if getattr(self.query, name):
                query[name] = getattr(self.query, name)
        if self.query.limit is not None:
            query["limit"] = self.query.limit
        return {
            "query": query,
            "results": [one.shown() for one in self.results],
            "total_results": self.total,
        }


class SearchAnswer(Struct, kw_only=True):
    """One finding for each query, in order."""

    findings: list[QueryMatches]
    session: "Lease"
    source: str
    """`composio`, `local`, `composio+local`, or `fallback`: a remote was to be asked and gave nothing."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Servers that are not there, and why."""
    guidance: tuple[str, ...] = ()
    """What a remote says should be done with what it found."""

    @property
    def results(self) -> list[list[ToolMatch]]:
        return [finding.results for finding in self.findings]

    def shown(self) -> dict[str, Any]:
        """The contract of the design."""
        return {
            "results": [finding.shown() for finding in self.findings],
            "session": self.session.shown(),
            "source": self.source,
            "missing": [{"server": server, "reason": reason} for server, reason in self.missing.items()],
        }


class ToolDescription(Struct, kw_only=True):
    """All that is known of a tool."""

    tool: str
    server: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    connected: bool = True
    auth: str = "none"
    toolkit: str = ""

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = {"tool": self.tool, "server": self.server}
        if self.title:
            found["title"] = self.title
        found["description"] = self.description
        found["input_schema"] = self.input_schema
        if self.output_schema is not None:
            found["output_schema"] = self.output_schema
        if self.annotations:
            found["annotations"] = self.annotations
        if not self.connected:
            found |= {"connected": False, "auth": self.auth}
        return found


class DescribeAnswer(Struct, kw_only=True):
    found: list[ToolDescription]
    unknown: dict[str, str]
    """Names that lead nowhere, each with what may help."""
    left_out: list[str] = field(default_factory=list[str])
    """Those for which there was no room any more."""
    instructions: dict[str, str] = field(default_factory=dict[str, str])
    """What the servers of these tools say of their use."""

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"tools": [one.shown() for one in self.found]}
        if self.unknown:
            shown["unknown"] = self.unknown
        if self.left_out:
            shown["left_out"] = {
                "tools": self.left_out,
                "reason": "too long for one answer: ask for these alone",
            }
        if self.instructions:
            shown["instructions"] = self.instructions
        return shown


class BatchItem(Struct, frozen=True):
    """One call of a batch."""

    tool: str
    arguments: dict[str, Any] = {}


class BatchResult(Struct, kw_only=True):
    """What became of one call of a batch."""

    tool: str
    ok: bool
    result: dict[str, Any] | None = None
    """The CallToolResult, decoded; there for a tool that says it failed too."""
    error: str | None = None
    """Why there is no result, or what the tool says went wrong."""
    late: bool = False
    """The time was over: it was cancelled, or never begun."""
