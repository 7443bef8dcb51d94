"""A tool made ready to run: its parameters, the `{names}` in its path, and where each value goes.

`rules` checks a definition by the same functions by which requests are built.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import UNSET

from .model import (
    WITH_BODY,
    ApiDefinition,
    BodyForm,
    DefinitionProblem,
    KeyPath,
    Paging,
    ParameterDefinition,
    ParameterLocation,
    ToolDefinition,
)

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")


def placeholders(text: str) -> list[str]:
    return list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def split_path(path: str) -> list[str]:
    """What stands in the path at even places, names of parameters at odd ones."""
    return _PLACEHOLDER.split(path)


def check_path(path: str, keys: KeyPath) -> Iterator[DefinitionProblem]:
    if not path.startswith("/"):
        yield DefinitionProblem(keys, f"{path!r} must begin with '/'")
    rest = _PLACEHOLDER.sub("", path)
    if "{" in rest or "}" in rest:
        yield DefinitionProblem(keys, "has a brace without its other one")
    elif "?" in rest or "#" in rest:
        yield DefinitionProblem(
            keys, "has a query or a fragment", "those are parameters, or belong to 'fixed'"
        )
    elif not _PLAIN.fullmatch(rest):
        yield DefinitionProblem(keys, "has a character that no path has", "percent-encode it")
    elif any(step in (".", "..") for step in path.split("/")):
        yield DefinitionProblem(keys, "has '.' or '..' as a step")
    if "" in placeholders(path):
        yield DefinitionProblem(keys, "{} has no name in it")


def parameter_locations(
    tool: ToolDefinition, parameters: Mapping[str, ParameterDefinition]
) -> dict[str, ParameterLocation]:
    """By the names of parameters; one that helps to find, filter or compare goes nowhere."""
    unsent = {name for also in tool.also.values() for name in also.replace.values()} | {*tool.filters}
    in_path, otherwise = {*placeholders(tool.path)}, default_location(tool)
    found: dict[str, ParameterLocation] = {}
    for name, parameter in parameters.items():
        if parameter.lookup or name in unsent:
            found[name] = "none"
        else:
            found[name] = parameter.place or ("path" if name in in_path else otherwise)
    return found


def default_location(tool: ToolDefinition) -> ParameterLocation:
    """Of what is always sent, and of parameters that do not say otherwise."""
    if tool.method not in WITH_BODY or tool.body == "raw":
        return "query"
    return "json" if tool.body == "json" else "form"


_REPEATABLE = ("GET", "PUT", "DELETE")


class ToolPlan:
    """What the engine needs to know of one tool. Made for each tool, and mostly read when it is called."""

    def __init__(self, name: str, tool: ToolDefinition, table: ApiDefinition) -> None:
        self.name = name
        self.tool = tool
        self.table = table
        self.parameters: dict[str, ParameterDefinition] = dict(tool.parameters)
        for shared in tool.use:
            self.parameters.setdefault(shared, table.shared[shared])
        self.paging: Paging | None = table.paging[tool.paging] if tool.paging else None

    @cached_property
    def steps(self) -> list[str]:
        return split_path(self.tool.path)

    @cached_property
    def with_defaults(self) -> dict[str, ParameterDefinition]:
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
        parameter_locations = set(self.places.values())
        if self.tool.fixed:
            parameter_locations.add(self.fixed_place)
        if parameter_locations & {"json", "body"} and self.tool.body == "json":
            return "json"
        if self.tool.body == "raw" and parameter_locations & {"body", "file"}:
            return "raw"
        if not parameter_locations & {"form", "file"}:
            return None
        return "multipart" if self.tool.body == "multipart" or "file" in parameter_locations else "form"

    @cached_property
    def places(self) -> dict[str, ParameterLocation]:
        return parameter_locations(self.tool, self.parameters)

    @property
    def fixed_place(self) -> ParameterLocation:
        return default_location(self.tool)

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
