"""The rules of a definition: for the whole server, each tool, each parameter.

Reports every problem, not only the first. `diagnostics` checks the form of the file before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from math import inf, isfinite
from typing import Any, cast

from msgspec import UNSET

from ...config.errors import nearest_or_all
from ..http.client import ApiOrigin, BaseUrlError
from .model import (
    ApiDefinition,
    Auth,
    DefinitionProblem,
    Gate,
    KeyPath,
    Lookup,
    Overlay,
    Paging,
    ParameterDefinition,
    Retry,
    ToolDefinition,
)
from .plan import check_path, default_location, parameter_locations, placeholders

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARAMETER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of arguments that the APIs of models accept; with another name they refuse every tool."""
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ERROR_KEY = re.compile(r"[1-5][0-9][0-9]|[45]xx")
MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,100}/([A-Za-z0-9!#$&^_.+-]{1,100}|\*)(; ?[\x21-\x7e]{1,100})*"
)
NO_CONTROLS = re.compile(r"[\x20-\x7e]*")

OUR_HEADERS = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "expect",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
    }
)
"""Headers of the transport; a definition that set them could make two requests of one."""


TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_BESIDE = ("type", "description", "default")


def rules_of_parameter(
    parameter: ParameterDefinition, key_path: KeyPath, name: str
) -> Iterator[DefinitionProblem]:
    if not PARAMETER_NAME.fullmatch(name):
        hint = "letters, digits, '_', '-' and '.', 64 at most; 'as' says what the API calls it"
        yield DefinitionProblem(key_path, f"{name!r} is not a name that models accept", hint)
    yield from _type(parameter, key_path)
    yield from _files_and_ids(parameter, key_path)
    yield from _parameter_lookup(parameter, key_path)
    if parameter.setting and not parameter.setting.isidentifier():
        yield DefinitionProblem((*key_path, "setting"), f"{parameter.setting!r} is not the name of a setting")
    if parameter.required and (parameter.setting or not _unset(parameter)):
        yield DefinitionProblem(
            (*key_path, "required"),
            "a parameter with a default or a setting is never required",
            "leave one of them out",
        )
    if parameter.place == "header":
        wire = parameter.name or name
        if not HEADER_NAME.fullmatch(wire) or wire.lower() in OUR_HEADERS:
            yield DefinitionProblem((*key_path, "as"), f"{wire!r} is not a header that a parameter can set")


def _unset(parameter: ParameterDefinition) -> bool:
    from msgspec import UNSET

    return parameter.default is UNSET


def types_of(parameter: ParameterDefinition) -> tuple[str, ...]:
    return (parameter.type,) if isinstance(parameter.type, str) else parameter.type


def parameter_schema(parameter: ParameterDefinition) -> dict[str, Any]:
    named = {"type": parameter.type} if isinstance(parameter.type, str) else {"type": list(parameter.type)}
    return {**named, **parameter.schema}


def _type(parameter: ParameterDefinition, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    for kind in types_of(parameter) or ("",):
        if kind not in TYPES:
            yield DefinitionProblem(
                (*key_path, "type"), f"{kind!r} is not a JSON type", nearest_or_all(kind, TYPES)
            )
            return
    for key in _BESIDE:
        if key in parameter.schema:
            yield DefinitionProblem((*key_path, "schema", key), f"{key!r} belongs beside 'schema', not in it")
            return
    yield from (found := list(check_schema(parameter.schema, (*key_path, "schema"))))
    if not found and not _unset(parameter):
        yield from _default(parameter, (*key_path, "default"))


def _default(parameter: ParameterDefinition, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    found = list(check_json(parameter.default, key_path))
    yield from found
    if found or parameter.ids or parameter.place == "file":
        return
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(parameter_schema(parameter)).validate(parameter.default)
    except jsonschema_rs.ValidationError as error:
        yield DefinitionProblem(key_path, f"does not fit its own schema: {error.message[:200]}")


def check_schema(schema: dict[str, Any], key_path: KeyPath) -> Iterator[DefinitionProblem]:
    """Check a JSON Schema; its `$ref` must stay inside it."""
    found = list(check_json(schema, key_path))
    yield from found
    if found:
        return
    import jsonschema_rs  # 3 ms of CPU

    outside = [reference for reference in _schema_references(schema) if not reference.startswith("#")]
    if outside:
        yield DefinitionProblem(key_path, f"refers to {outside[0]!r}, which is outside it")
        return
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        message = getattr(error, "message", None) or str(error).splitlines()[0]
        yield DefinitionProblem(key_path, f"is not a JSON Schema: {message[:200]}")


def _schema_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for item in found.values():
            yield from _schema_references(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _schema_references(item)


def check_json(value: Any, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    """Refuse values that TOML has and JSON has not: dates, NaN, infinities, and larger integers."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from check_json(item, (*key_path, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from check_json(item, (*key_path, number))
    elif isinstance(value, date | datetime | time):
        yield DefinitionProblem(key_path, "JSON has no dates", "put it in quotes")
    elif isinstance(value, float) and not isfinite(value):
        yield DefinitionProblem(key_path, f"JSON has no {value}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield DefinitionProblem(key_path, "is too large a number")


def _files_and_ids(parameter: ParameterDefinition, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    kinds = types_of(parameter)
    if parameter.place == "file":
        if "array" not in kinds:
            yield DefinitionProblem((*key_path, "type"), "files come as an array", "set type to 'array'")
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) < 1:
                yield DefinitionProblem((*key_path, key), "must be 1 at least")
    else:
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) != getattr(ParameterDefinition(), key):
                yield DefinitionProblem((*key_path, key), "is for files", "set 'in' to 'file'")
    if parameter.ids < 0:
        yield DefinitionProblem((*key_path, "ids"), "must not be below 0")
    if parameter.ids and not {"string", "array"} & {*kinds}:
        yield DefinitionProblem((*key_path, "type"), "a list of ids is a string or an array")


def _parameter_lookup(parameter: ParameterDefinition, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    if parameter.lookup and not parameter.gives:
        yield DefinitionProblem(key_path, "the key 'gives' is missing: the parameter that gets the id")
    if parameter.gives and not parameter.lookup:
        yield DefinitionProblem((*key_path, "gives"), "nothing is looked up", "name a lookup in 'lookup'")
    if parameter.lookup and "string" not in types_of(parameter):
        yield DefinitionProblem((*key_path, "type"), "a name that is looked up is a string")


_BODY_PLACES = {
    "json": ("json", "body"),
    "form": ("form",),
    "multipart": ("form", "file"),
    "raw": ("body", "file"),
}
_FITTING = {"json": "json", "form": "form", "file": "multipart", "body": "json"}
"""The preferred form of body for a location."""


def rules_of_tool(definition: ApiDefinition, name: str, tool: ToolDefinition) -> Iterator[DefinitionProblem]:
    key_path: KeyPath = ("tools", name)
    if not TOOL_NAME.fullmatch(name):
        yield DefinitionProblem(
            key_path, f"{name!r} is not a tool name", "letters, digits, '_' and '-', 64 at most"
        )
    if not tool.description.strip():
        yield DefinitionProblem((*key_path, "description"), "must say what the tool does")
    if not 0 <= tool.timeout < inf:
        yield DefinitionProblem((*key_path, "timeout"), "must be a number of seconds, and not below 0")
    for number, group in enumerate(tool.groups):
        if not TOOL_NAME.fullmatch(group):
            hint = "letters, digits, '_' and '-', 64 at most"
            yield DefinitionProblem(
                (*key_path, "groups", number), f"{group!r} is not a name of a group", hint
            )
    yield from _use(definition, tool, key_path)
    for parameter, values in tool.parameters.items():
        yield from rules_of_parameter(values, (*key_path, "parameters", parameter), parameter)
    parameters = all_parameters(definition, tool)
    yield from _path(tool, parameters, key_path)
    for parameter, values in parameters.items():
        yield from _placed(tool, parameter, values, _keys_of(tool, key_path, parameter))
        yield from _looked_up(definition, parameters, parameter, _keys_of(tool, key_path, parameter))
    yield from _same_names(tool, parameters, key_path)
    yield from _whole_body(tool, parameters, key_path)
    yield from _tool_references(definition, tool, parameters, key_path)
    yield from _tool_paging(definition, tool, parameters, key_path)
    yield from _answer(tool, parameters, key_path)


def all_parameters(definition: ApiDefinition, tool: ToolDefinition) -> dict[str, ParameterDefinition]:
    shared = {name: definition.shared[name] for name in tool.use if name in definition.shared}
    return {**tool.parameters, **{name: item for name, item in shared.items() if name not in tool.parameters}}


def _keys_of(tool: ToolDefinition, key_path: KeyPath, parameter: str) -> KeyPath:
    """The place in the tool, also for a shared parameter."""
    if parameter in tool.parameters:
        return (*key_path, "parameters", parameter)
    return (*key_path, "use", tool.use.index(parameter))


def _use(definition: ApiDefinition, tool: ToolDefinition, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    for number, name in enumerate(tool.use):
        here = (*key_path, "use", number)
        if name not in definition.shared:
            yield DefinitionProblem(
                here, f"there is no shared parameter {name!r}", nearest_or_all(name, definition.shared)
            )
        elif name in tool.parameters:
            yield DefinitionProblem(
                here, f"the tool has a parameter {name!r} of its own", "remove one of them"
            )
        elif name in tool.use[:number]:
            yield DefinitionProblem(here, f"{name!r} is listed twice")


def _path(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    here = (*key_path, "path")
    yield from check_path(tool.path, here)
    filled = {parameter.gives for parameter in parameters.values()} | {
        name for group in tool.needs for name in group
    }
    for word in placeholders(tool.path):
        if word not in parameters:
            if word:
                hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
                yield DefinitionProblem(here, f"{{{word}}} is not a parameter of the tool", hint)
            continue
        yield from _in_path(tool, word, parameters[word], word in filled, key_path)


def _in_path(
    tool: ToolDefinition, name: str, item: ParameterDefinition, filled: bool, key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    where = _keys_of(tool, key_path, name)
    if item.place not in ("", "path"):
        yield DefinitionProblem(
            (*where, "in"), f"{name!r} is in the path, not in {item.place!r}", "leave 'in' out"
        )
    if item.name:
        yield DefinitionProblem(
            (*where, "as"), f"{name!r} is in the path, where it has no other name", "leave 'as' out"
        )
    if item.lookup:
        yield DefinitionProblem(
            (*where, "lookup"), f"{name!r} is in the path, but a name is never sent", "send what it gives"
        )
    if {"array", "object"} & {*types_of(item)}:
        yield DefinitionProblem((*where, "type"), f"{name!r} is in the path, which takes one value")
    known = item.required or item.setting or item.default is not UNSET or filled
    if not known:
        yield DefinitionProblem(where, f"{name!r} is in the path, so it must be required")


def _placed(
    tool: ToolDefinition, name: str, item: ParameterDefinition, key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    here = (*key_path, "in")
    if item.place == "path" and name not in placeholders(tool.path):
        yield DefinitionProblem(here, f"the path {tool.path!r} has no {{{name}}}")
    if item.place in _FITTING:
        if tool.method == "GET":
            yield DefinitionProblem(
                here, f"{tool.method} has no body for it", "leave 'in' out, or set it to 'query'"
            )
        elif item.place not in _BODY_PLACES[tool.body]:
            fits = _FITTING[item.place]
            yield DefinitionProblem(
                here, f"the body of the tool is {tool.body}, not {fits}", f"set its 'body' to {fits!r}"
            )


def _looked_up(
    definition: ApiDefinition, parameters: dict[str, ParameterDefinition], name: str, key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    item = parameters[name]
    if not item.lookup:
        return
    lookup = definition.lookups.get(item.lookup)
    if lookup is None:
        hint = (
            nearest_or_all(item.lookup, definition.lookups) if definition.lookups else "there is no [lookups]"
        )
        yield DefinitionProblem((*key_path, "lookup"), f"there is no lookup {item.lookup!r}", hint)
        return
    if item.gives and item.gives not in parameters:
        hint = nearest_or_all(item.gives, parameters)
        yield DefinitionProblem((*key_path, "gives"), f"the tool has no parameter {item.gives!r}", hint)
    if item.gives == name:
        yield DefinitionProblem((*key_path, "gives"), "a name cannot become itself")
    for word in placeholders(lookup.path):
        if word not in parameters:
            yield DefinitionProblem(
                (*key_path, "lookup"), f"it needs {{{word}}}, which the tool does not have"
            )


def _same_names(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    """Refuse two parameters with one name in one location."""
    seen: dict[tuple[str, str], str] = {}
    within = dict.fromkeys(tool.fixed, "fixed") if default_location(tool) == "json" else {}
    for name, place in parameter_locations(tool, parameters).items():
        if place in ("none", "path", "body"):
            continue
        wire = (place, parameters[name].name or name)
        if wire in seen:
            where = _keys_of(tool, key_path, name)
            yield DefinitionProblem(
                where, f"is sent as {wire[1]!r}, as {seen[wire]!r} is", "give one of them another 'as'"
            )
        seen[wire] = name
        if place == "json":
            yield from _nested(wire[1], within, _keys_of(tool, key_path, name))
            within[wire[1]] = name


def _whole_body(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    """A parameter that is the whole body excludes others."""
    if tool.content_type and not (
        tool.body == "raw" or (tool.body == "json" and "json" in tool.content_type)
    ):
        yield DefinitionProblem(
            (*key_path, "content_type"), "is that of a raw body, or a kind of JSON", "set 'body' to 'raw'"
        )
    elif tool.content_type and not MEDIA_TYPE.fullmatch(tool.content_type):
        yield DefinitionProblem(
            (*key_path, "content_type"), f"{tool.content_type!r} is not a media type", "as in 'image/png'"
        )
    placed = parameter_locations(tool, parameters)
    whole = [name for name, place in placed.items() if place == "body"]
    if tool.body == "raw":
        whole += [name for name, place in placed.items() if place == "file"]
        if not whole:
            yield DefinitionProblem(
                (*key_path, "body"), "no parameter is the raw body", "set the 'in' of one to 'body' or 'file'"
            )
    for name in whole[1:]:
        yield DefinitionProblem(_keys_of(tool, key_path, name), f"{whole[0]!r} is the whole body already")
    for name in whole:
        yield from _whole(tool, parameters[name], placed[name], _keys_of(tool, key_path, name))
    beside = [name for name, place in placed.items() if place == "json"]
    if whole and beside:
        here = _keys_of(tool, key_path, beside[0])
        yield DefinitionProblem(here, f"{whole[0]!r} is the whole body", "set 'in' to 'query' or 'header'")
    if whole and tool.fixed and default_location(tool) == "json":
        yield DefinitionProblem((*key_path, "fixed"), f"{whole[0]!r} is the whole body")


def _whole(
    tool: ToolDefinition, item: ParameterDefinition, place: str, key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    if item.name:
        yield DefinitionProblem((*key_path, "as"), "the whole body has no name", "leave 'as' out")
    if tool.body != "raw":
        return
    if place == "file" and item.max_files != 1:
        yield DefinitionProblem((*key_path, "max_files"), "a raw body is one file", "set 'max_files' to 1")
    if place == "body" and not {*types_of(item)} <= {"string", "null"}:
        yield DefinitionProblem(
            (*key_path, "type"), "a raw body is a text", "set type to 'string', or 'in' to 'file'"
        )


def _nested(path: str, within: Mapping[str, str], key_path: KeyPath) -> Iterator[DefinitionProblem]:
    """Check a path into the body: no other value may be inside it or around it."""
    if "" in path.split("."):
        yield DefinitionProblem((*key_path, "as"), f"{path!r} is not a path: use names with dots between")
    for other, name in within.items():
        if path.startswith(f"{other}.") or other.startswith(f"{path}."):
            yield DefinitionProblem(
                key_path, f"is sent as {path!r}, and {name!r} as {other!r}: one is inside the other"
            )


def _tool_references(
    definition: ApiDefinition,
    tool: ToolDefinition,
    parameters: dict[str, ParameterDefinition],
    key_path: KeyPath,
) -> Iterator[DefinitionProblem]:
    hint_of = parameters or {"none": ParameterDefinition()}
    for number, group in enumerate(tool.needs):
        if not group:
            yield DefinitionProblem((*key_path, "needs", number), "does not name a parameter")
        for position, name in enumerate(group):
            if name not in parameters:
                yield DefinitionProblem(
                    (*key_path, "needs", number, position),
                    f"the tool has no parameter {name!r}",
                    nearest_or_all(name, hint_of),
                )
    for name, also in tool.also.items():
        here = (*key_path, "also", name)
        if name == "current":
            yield DefinitionProblem(here, "'current' is the tool's own result", "name it otherwise")
        if not also.replace:
            yield DefinitionProblem((*here, "replace"), "replaces nothing")
        for named in (*also.when, *also.replace, *also.replace.values()):
            if named not in parameters:
                yield DefinitionProblem(
                    here, f"the tool has no parameter {named!r}", nearest_or_all(named, hint_of)
                )
    for name, fields in tool.filters.items():
        if name not in parameters:
            hint = nearest_or_all(name, hint_of)
            yield DefinitionProblem((*key_path, "filters", name), f"the tool has no parameter {name!r}", hint)
        if not fields:
            yield DefinitionProblem((*key_path, "filters", name), "must name a field of the items")
    if tool.flag and definition.gate is None:
        yield DefinitionProblem((*key_path, "flag"), "is a field of the gate's reply, and there is no [gate]")
    yield from check_json(tool.fixed, (*key_path, "fixed"))


def _tool_paging(
    definition: ApiDefinition,
    tool: ToolDefinition,
    parameters: dict[str, ParameterDefinition],
    key_path: KeyPath,
) -> Iterator[DefinitionProblem]:
    yield from unknown_paging(definition, tool.paging, (*key_path, "paging"))
    paging = definition.paging.get(tool.paging)
    if paging is not None and not tool.all_pages:
        sent = {item.name or name for name, item in parameters.items()}
        for name in (paging.position, paging.size):
            if name and not PARAMETER_NAME.fullmatch(name) and name not in sent:
                hint = f"give the tool a parameter with as = {name!r}"
                yield DefinitionProblem(
                    (*key_path, "paging"), f"{name!r} is not a name that models accept", hint
                )
    if tool.all_pages and not tool.paging:
        yield DefinitionProblem((*key_path, "all_pages"), "the tool has no 'paging'")
    if tool.paging and tool.also:
        yield DefinitionProblem((*key_path, "also"), "a paged list cannot have a second request")


def unknown_paging(definition: ApiDefinition, name: str, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    if name and name not in definition.paging:
        hint = nearest_or_all(name, definition.paging) if definition.paging else "there is no [paging]"
        yield DefinitionProblem(key_path, f"there is no paging {name!r}", hint)


def _answer(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    for key in ("rich", "compact"):
        for number, path in enumerate(getattr(tool.result, key)):
            if not path or "" in path.split("."):
                yield DefinitionProblem(
                    (*key_path, "result", key, number), f"{path!r} is not a path: use names with dots between"
                )
    details = tool.result.details
    if details and details not in parameters:
        hint = nearest_or_all(details, parameters) if parameters else "the tool has none"
        yield DefinitionProblem(
            (*key_path, "result", "details"), f"the tool has no parameter {details!r}", hint
        )
    for word in placeholders(tool.result.said):
        if word not in parameters:
            hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
            yield DefinitionProblem(
                (*key_path, "result", "said"), f"{{{word}}} is not a parameter of the tool", hint
            )
    yield from rules_of_errors(tool.errors, (*key_path, "errors"))
    if tool.output:
        yield from check_schema(tool.output, (*key_path, "output"))
        if tool.output.get("type") != "object":
            yield DefinitionProblem((*key_path, "output"), "an output schema is of type 'object'")


def rules_of_errors(errors: Mapping[str, str], key_path: KeyPath) -> Iterator[DefinitionProblem]:
    for status, message in errors.items():
        here = (*key_path, status)
        if not ERROR_KEY.fullmatch(status):
            yield DefinitionProblem(
                here, f"{status!r} is not a status", "write one such as '404', or a class, '4xx' or '5xx'"
            )
        for word in placeholders(message):
            if word not in ("detail", "status"):
                yield DefinitionProblem(here, f"{{{word}}} is unknown here", "use {detail} and {status}")


def problems(definition: ApiDefinition) -> Iterator[DefinitionProblem]:
    yield from _server(definition)
    yield from _auth(definition.auth)
    yield from _retry(definition.retry)
    if definition.gate is not None:
        yield from _gate(definition.gate, definition.auth)
    for name, paging in definition.paging.items():
        yield from _server_paging(paging, ("paging", name))
    yield from rules_of_errors(definition.errors, ("errors",))
    for name, lookup in definition.lookups.items():
        yield from _server_lookup(definition, lookup, ("lookups", name))
    for name, parameter in definition.shared.items():
        yield from rules_of_parameter(parameter, ("shared", name), name)
    for name, tool in definition.tools.items():
        yield from rules_of_tool(definition, name, tool)


def problems_of_overlay(overlay: Overlay, definition: ApiDefinition) -> Iterator[DefinitionProblem]:
    if overlay.denied and definition.gate is None:
        yield DefinitionProblem(("denied",), "the definition has no gate")
    yield from rules_of_errors(overlay.errors, ("errors",))
    yield from _check_known(overlay.shared, definition.shared, ("shared",), "shared parameter")
    yield from _check_known(overlay.lookups, definition.lookups, ("lookups",), "lookup")
    yield from _check_known(overlay.tools, definition.tools, ("tools",), "tool")
    for name, texts in overlay.tools.items():
        tool = definition.tools.get(name)
        if tool is None:
            continue
        here: KeyPath = ("tools", name)
        own = [*tool.parameters, *tool.use]
        yield from _check_known(texts.parameters, own, (*here, "parameters"), "parameter")
        yield from rules_of_errors(texts.errors, (*here, "errors"))
        for word in placeholders(texts.said):
            if word not in own:
                yield DefinitionProblem(
                    (*here, "said"), f"{{{word}}} is not a parameter of the tool", nearest_or_all(word, own)
                )


def _check_known(
    names: Iterable[str], known: Iterable[str], key_path: KeyPath, what: str
) -> Iterator[DefinitionProblem]:
    known = list(known)
    for name in names:
        if name not in known:
            yield DefinitionProblem(
                (*key_path, name), f"the definition has no {what} {name!r}", nearest_or_all(name, known)
            )


def _server(definition: ApiDefinition) -> Iterator[DefinitionProblem]:
    if not TOOL_NAME.fullmatch(definition.name):
        yield DefinitionProblem(
            ("name",), f"{definition.name!r} is not a valid name", "letters, digits, '_' and '-', 64 at most"
        )
    try:
        ApiOrigin.parse(definition.base_url)
    except BaseUrlError as error:
        yield DefinitionProblem(("base_url",), error.what, error.hint)
    if not definition.tools:
        yield DefinitionProblem((), "there are no tools", "begin one with [tools.NAME]")
    if not 0 < definition.timeout < inf:
        yield DefinitionProblem(("timeout",), "must be a number of seconds over 0")
    if definition.max_reply <= 0:
        yield DefinitionProblem(("max_reply",), "must be over 0 bytes")
    for name, value in definition.headers.items():
        yield from header_name(name, ("headers", name))
        if not NO_CONTROLS.fullmatch(value):
            yield DefinitionProblem(("headers", name), "a header's value is one line of printable ASCII")


def header_name(name: str, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    if not HEADER_NAME.fullmatch(name):
        yield DefinitionProblem(key_path, f"{name!r} is not a header name")
    elif name.lower() in OUR_HEADERS:
        yield DefinitionProblem(key_path, f"the header {name!r} is written by Toolyard")


def _auth(auth: Auth) -> Iterator[DefinitionProblem]:
    if auth.kind == "none":
        for key in ("name", "prefix", "caller", "variable"):
            if getattr(auth, key):
                yield DefinitionProblem(
                    ("auth", key), "without a 'kind' no key is sent", "set kind to bearer, header or query"
                )
        return
    named = auth.kind in ("header", "query")
    if named and not auth.name:
        yield DefinitionProblem(("auth",), f"the key 'name' is missing: of the {auth.kind} that has the key")
    if auth.name and not named:
        yield DefinitionProblem(
            ("auth", "name"), "bearer has no name of its own", "the header is Authorization"
        )
    if auth.prefix and auth.kind != "header":
        yield DefinitionProblem(("auth", "prefix"), f"{auth.kind} takes no prefix")
    if auth.name and auth.kind == "header":
        yield from header_name(auth.name, ("auth", "name"))
    for number, name in enumerate(auth.caller):
        here = ("auth", "caller", number)
        yield from header_name(name, here)
        if name != name.lower():
            yield DefinitionProblem(
                here, f"{name!r} is never found", f"headers are compared as {name.lower()!r}"
            )
    if auth.variable and not VARIABLE.fullmatch(auth.variable):
        yield DefinitionProblem(("auth", "variable"), f"{auth.variable!r} is not the name of a variable")


def _retry(retry: Retry) -> Iterator[DefinitionProblem]:
    if not 0 <= retry.most <= 10:
        yield DefinitionProblem(("retry", "most"), "must be from 0 to 10")
    for key in ("pause", "longest"):
        if not 0 <= getattr(retry, key) <= 3600:
            yield DefinitionProblem(("retry", key), "must be from 0 to 3600 seconds")


def _gate(gate: Gate, auth: Auth) -> Iterator[DefinitionProblem]:
    yield from check_path(gate.path, ("gate", "path"))
    for word in placeholders(gate.path):
        yield DefinitionProblem(("gate", "path"), f"{{{word}}} has no value: the gate has no parameters")
    if not gate.field:
        yield DefinitionProblem(("gate", "field"), "must name a field of the reply")
    if gate.seconds < 0:
        yield DefinitionProblem(("gate", "seconds"), "must not be below 0")
    if auth.kind == "none" or not auth.caller:
        yield DefinitionProblem(
            ("gate",), "no caller can send a key", "name their headers in 'caller' of [auth]"
        )


def _server_paging(paging: Paging, key_path: KeyPath) -> Iterator[DefinitionProblem]:
    if paging.kind != "link" and not paging.position:
        yield DefinitionProblem(
            key_path, f"the key 'position' is missing: the query parameter of the {paging.kind}"
        )
    if paging.kind == "cursor" and not paging.next:
        yield DefinitionProblem(key_path, "the key 'next' is missing: where the reply has the next cursor")
    if paging.next and paging.kind != "cursor":
        yield DefinitionProblem((*key_path, "next"), f"{paging.kind} has no cursor")
    if paging.position and paging.kind == "link":
        yield DefinitionProblem((*key_path, "position"), "link uses the Link header and needs no position")
    if paging.position and paging.position == paging.size:
        yield DefinitionProblem((*key_path, "size"), "is the same as 'position'")
    if paging.most < 1:
        yield DefinitionProblem((*key_path, "most"), "must be 1 at least")
    if not 1 <= paging.default <= max(paging.most, 1):
        yield DefinitionProblem((*key_path, "default"), f"must be from 1 to {paging.most}, which is 'most'")
    if paging.first < 0:
        yield DefinitionProblem((*key_path, "first"), "must not be below 0")
    if paging.most_items < 1:
        yield DefinitionProblem((*key_path, "most_items"), "must be 1 at least")


def _server_lookup(
    definition: ApiDefinition, lookup: Lookup, key_path: KeyPath
) -> Iterator[DefinitionProblem]:
    yield from check_path(lookup.path, (*key_path, "path"))
    if not lookup.match:
        yield DefinitionProblem((*key_path, "match"), "must name a field at least")
    if not lookup.id:
        yield DefinitionProblem((*key_path, "id"), "must name a field")
    for name, value in lookup.query.items():
        if not isinstance(value, str | int | float):
            yield DefinitionProblem((*key_path, "query", name), "must be a text, a number, true or false")
        elif isinstance(value, str) and {*placeholders(value)} - {"name"}:
            yield DefinitionProblem(
                (*key_path, "query", name), "only {name} can be used here: the name to look up"
            )
    yield from unknown_paging(definition, lookup.paging, (*key_path, "paging"))
    paging = definition.paging.get(lookup.paging)
    for name in (paging.position, paging.size) if paging is not None else ():
        if name in lookup.query:
            yield DefinitionProblem(
                (*key_path, "query", name), f"the paging {lookup.paging!r} sends it", "leave it out"
            )
