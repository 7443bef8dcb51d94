"""A tool of a table, made ready to run: its parameters gathered, and where each of them goes."""

from functools import cached_property

from msgspec import UNSET

from .placeholders import split_path
from .places import places, usual_place
from .table import BodyForm, Paging, Parameter, Place, Table, Tool

_REPEATABLE = ("GET", "PUT", "DELETE")


class Plan:
    """What the engine needs to know of one tool. Made for each tool, and mostly read when it is called."""

    def __init__(self, name: str, tool: Tool, table: Table) -> None:
        self.name = name
        self.tool = tool
        self.table = table
        self.parameters: dict[str, Parameter] = dict(tool.parameters)
        for shared in tool.use:
            self.parameters.setdefault(shared, table.shared[shared])
        self.paging: Paging | None = table.paging[tool.paging] if tool.paging else None

    @cached_property
    def steps(self) -> list[str]:
        return split_path(self.tool.path)

    @cached_property
    def with_defaults(self) -> dict[str, Parameter]:
        """Those for which something may be sent when the caller gives nothing."""
        found = self.parameters.items()
        return {name: one for name, one in found if one.setting or one.default is not UNSET}

    @cached_property
    def with_names(self) -> bool:
        """Whether any parameter is a name to look up."""
        return any(parameter.lookup for parameter in self.parameters.values())

    @cached_property
    def body_form(self) -> BodyForm | None:
        """How the body is written; None when there is none."""
        places = set(self.places.values())
        if self.tool.fixed:
            places.add(self.fixed_place)
        if places & {"json", "body"} and self.tool.body == "json":
            return "json"
        if self.tool.body == "raw" and places & {"body", "file"}:
            return "raw"
        if not places & {"form", "file"}:
            return None
        return "multipart" if self.tool.body == "multipart" or "file" in places else "form"

    @cached_property
    def places(self) -> dict[str, Place]:
        return places(self.tool, self.parameters)

    @property
    def fixed_place(self) -> Place:
        return usual_place(self.tool)

    @property
    def repeatable(self) -> bool:
        """Whether the API may see a request of this tool twice."""
        for said in (self.tool.retry, self.tool.idempotent):
            if said is not None:
                return said
        return self.tool.method in _REPEATABLE

    @property
    def seconds(self) -> float:
        return self.tool.timeout or self.table.timeout
