"""The answers of the meta tool service, before a dialect gives them its shape."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ...languages import said
from ..signatures import Access

if TYPE_CHECKING:
    from ...search.documents import ToolQuery
    from ...sessions.leases import Lease


class ToolMatch(Struct, kw_only=True):
    """A tool that matches a query."""

    tool: str
    """Its full name."""
    server: str
    title: str = ""
    description: str = ""
    score: float = 0.0
    recommended: bool = False
    connected: bool = True
    """False if its server is down, or its app is not connected."""
    auth: str = "none"
    input_schema: dict[str, Any] | None = None
    """None for all but the best few; `describe_tools` returns it."""
    schema: dict[str, Any] | None = None
    """Its input schema, of every tool whose schema is known: signatures are made of it."""
    purpose: str = ""
    """What it does, in a sentence."""
    access: Access = ""
    about: str = ""
    """Its server's purpose, in the words of the configuration."""
    toolkit: str = ""
    """Its app, for a tool of a remote."""
    parts: dict[str, float] = field(default_factory=dict[str, float])

    def shown(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "server": self.server,
            "title": self.title,
            "description": self.description,
            "score": round(self.score, 3),
            "recommended": self.recommended,
            "connected": self.connected,
            "auth": self.auth,
        }


class QueryMatches(Struct, kw_only=True):
    """The tools found for one query, best first. `total` also counts those left out."""

    query: "ToolQuery"
    results: list[ToolMatch]
    total: int = 0
    weak: bool = False
    """Whether nothing fits well."""

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
    """The matches for each query, in order."""

    findings: list[QueryMatches]
    session: "Lease"
    source: str
    """`composio`, `local`, `composio+local`, or `fallback` if a remote was asked and returned nothing."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Servers that are not available, and why."""
    guidance: tuple[str, ...] = ()
    """A remote's advice on using the tools it found."""

    @property
    def results(self) -> list[list[ToolMatch]]:
        return [finding.results for finding in self.findings]

    def shown(self) -> dict[str, Any]:
        return {
            "results": [finding.shown() for finding in self.findings],
            "session": self.session.shown(),
            "source": self.source,
            "missing": [{"server": server, "reason": reason} for server, reason in self.missing.items()],
        }


class ToolDescription(Struct, kw_only=True):
    """A tool in full."""

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
        found: dict[str, Any] = {"tool": self.tool}
        if self.server:
            found["server"] = self.server
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
    """Unknown names, each with a hint."""
    left_out: list[str] = field(default_factory=list[str])
    """Tools that did not fit into the answer."""
    instructions: dict[str, str] = field(default_factory=dict[str, str])
    """The instructions of the tools' servers."""

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"tools": [one.shown() for one in self.found]}
        if self.unknown:
            shown["unknown"] = self.unknown
        if self.left_out:
            shown["left_out"] = {
                "tools": self.left_out,
                "reason": said(
                    "too long for one answer; request these separately",
                    "longas demais para uma só resposta; peça-as separadamente",
                ),
            }
        if self.instructions:
            shown["instructions"] = self.instructions
        return shown


class BatchItem(Struct, frozen=True):
    """One call of a batch."""

    tool: str
    arguments: dict[str, Any] = {}


class BatchResult(Struct, kw_only=True):
    """The result of one call of a batch."""

    tool: str
    ok: bool
    result: dict[str, Any] | None = None
    """The decoded CallToolResult, also of a tool that reports a failure."""
    error: str | None = None
    """Why there is no result, or the tool's error message."""
    late: bool = False
    """It did not finish in time: it was cancelled, or never started."""
