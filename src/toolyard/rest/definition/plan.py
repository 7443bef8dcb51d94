"""A tool made ready to run: its parameters, the `{names}` in its path, and where each value goes.

`rules` checks a definition with the same functions that build requests.
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
    """Fixed text at even indices, names of parameters at odd ones."""
    return _PLACEHOLDER.split(path)


def check_path(path: str, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    if not path.startswith("/"):
        yield DefinitionProblem(key_path, f"{path!r} must begin with '/'")
    rest = _PLACEHOLDER.sub("", path)
    if "{" in rest or "}" in rest:
        yield DefinitionProblem(key_path, "has an unmatched brace")
    elif "?" in rest or "#" in rest:
        yield DefinitionProblem(key_path, "has a query or a fragment", "use parameters, or 'fixed'")
    elif not _PLAIN.fullmatch(rest):
        yield DefinitionProblem(
            key_path, "has a character that is not allowed in a path", "percent-encode it"
        )
    elif any(step in (".", "..") for step in path.split("/")):
        yield DefinitionProblem(key_path, "has '.' or '..' as a step")
    if "" in placeholders(path):
        yield DefinitionProblem(key_path, "{} has no name in it")


def parameter_locations(
    tool: ToolDefinition, parameters: Mapping[str, ParameterDefinition]
) -> dict[str, ParameterLocation]:
    """The location of each parameter; those for lookups, filters and comparisons are not sent."""
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
    """The location of fixed values, and of parameters without a location of their own."""
    if tool.method not in WITH_BODY or tool.body == "raw":
        return "query"
    return "json" if tool.body == "json" else "form"


_REPEATABLE = ("GET", "PUT", "DELETE")


class ToolPlan:
    """One tool of a definition, ready to run. Most properties are computed at the first call."""

    def __init__(self, name: str, tool: ToolDefinition, definition: ApiDefinition) -> None:
        self.name = name
        self.tool = tool
        self.definition = definition
        self.parameters: dict[str, ParameterDefinition] = dict(tool.parameters)
        for shared in tool.use:
            self.parameters.setdefault(shared, definition.shared[shared])
        self.paging: Paging | None = definition.paging[tool.paging] if tool.paging else None

    @cached_property
    def steps(self) -> list[str]:
        return split_path(self.tool.path)

    @cached_property
    def with_defaults(self) -> dict[str, ParameterDefinition]:
        """Parameters with a default or a setting."""
        items = self.parameters.items()
        return {name: item for name, item in items if item.setting or item.default is not UNSET}

    @cached_property
    def with_names(self) -> bool:
        """Whether any parameter is a name to look up."""
        return any(parameter.lookup for parameter in self.parameters.values())

    @cached_property
    def body_form(self) -> BodyForm | None:
        """The form of the body; None if there is none."""
        locations = set(self.locations.values())
        if self.tool.fixed:
            locations.add(self.fixed_location)
        if locations & {"json", "body"} and self.tool.body == "json":
            return "json"
        if self.tool.body == "raw" and locations & {"body", "file"}:
            return "raw"
        if not locations & {"form", "file"}:
            return None
        return "multipart" if self.tool.body == "multipart" or "file" in locations else "form"

    @cached_property
    def locations(self) -> dict[str, ParameterLocation]:
        return parameter_locations(self.tool, self.parameters)

    @property
    def fixed_location(self) -> ParameterLocation:
        return default_location(self.tool)

    @property
    def repeatable(self) -> bool:
        """Whether a request of this tool may be sent twice."""
        for declared in (self.tool.retry, self.tool.idempotent):
            if declared is not None:
                return declared
        return self.tool.method in _REPEATABLE

    @property
    def seconds(self) -> float:
        return self.tool.timeout or self.definition.timeout
