"""Meta tools and dialects, as the view serves them.

A dialect only translates names, argument shapes and reply shapes; the work is the desk's.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from ...wire.call import Call

if TYPE_CHECKING:
    from .desk import Desk

Answer = Callable[["Desk", Call, dict[str, Any]], Awaitable[Any]]
"""Takes the arguments as they came, unchecked. Gives a CallToolResult, or an upstream's own result as it is.

`kit.content.ToolError` becomes an `isError` result, and so do an UpstreamError and InvalidParams.
"""


class MetaTool(Struct, kw_only=True):
    name: str
    description: str
    input_schema: dict[str, Any]
    answer: Answer
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
class Renames(Protocol):
    """A dialect in which some tools, besides their full names, have names of its own for a caller."""

    async def listed(self, desk: "Desk", call: Call) -> Sequence[dict[str, Any]]:
        """Those tools as `tools/list` has them, under the dialect's names."""
        ...

    async def full_name(self, desk: "Desk", call: Call, name: str) -> str | None:
        """Where a name that nothing else answers to leads; ToolError says why one leads nowhere here."""
        ...
