"""What must hold for a definition: the whole server, each tool, each parameter.

Reports every problem, not only the first. The form of the file is checked before, by `diagnostics`.
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
"""What the APIs of models take as the name of an argument; others make them refuse every tool."""
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
"""Those that say how a message is carried; a table that wrote them could make two requests of one."""


TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_BESIDE = ("type", "description", "default")


def rules_of_parameter(
    parameter: ParameterDefinition, keys: KeyPath, name: str
) -> Iterator[DefinitionProblem]:
    if not PARAMETER_NAME.fullmatch(name):
        hint = "letters, digits, '_', '-' and '.', 64 at most; 'as' says what the API calls it"
        yield DefinitionProblem(keys, f"{name!r} is no name that models take", hint)
    yield from _type(parameter, keys)
    yield from _files_and_ids(parameter, keys)
    yield from _parameter_lookup(parameter, keys)
    if parameter.setting and not parameter.setting.isidentifier():
        yield DefinitionProblem((*keys, "setting"), f"{parameter.setting!r} is no name of a setting")
    if parameter.required and (parameter.setting or not _unset(parameter)):
        yield DefinitionProblem(
            (*keys, "required"), "what has a default or a setting is never required", "leave one of them out"
        )
    if parameter.place == "header":
        wire = parameter.name or name
        if not HEADER_NAME.fullmatch(wire) or wire.lower() in OUR_HEADERS:
            yield DefinitionProblem((*keys, "as"), f"{wire!r} is no header that a parameter can be")


def _unset(parameter: ParameterDefinition) -> bool:
    from msgspec import UNSET

    return parameter.default is UNSET


def types_of(parameter: ParameterDefinition) -> tuple[str, ...]:
    return (parameter.type,) if isinstance(parameter.type, str) else parameter.type


def parameter_schema(parameter: ParameterDefinition) -> dict[str, Any]:
    named = {"type": parameter.type} if isinstance(parameter.type, str) else {"type": list(parameter.type)}
    return {**named, **parameter.schema}


def _type(parameter: ParameterDefinition, keys: KeyPath) -> Iterator[DefinitionProblem]:
    for kind in types_of(parameter) or ("",):
        if kind not in TYPES:
            yield DefinitionProblem(
                (*keys, "type"), f"{kind!r} is no type of JSON", nearest_or_all(kind, TYPES)
            )
            return
    for key in _BESIDE:
        if key in parameter.schema:
            yield DefinitionProblem((*keys, "schema", key), f"{key!r} is said beside 'schema', not in it")
            return
    yield from (found := list(wrong_schema(parameter.schema, (*keys, "schema"))))
    if not found and not _unset(parameter):
        yield from _default(parameter, (*keys, "default"))


def _default(parameter: ParameterDefinition, keys: KeyPath) -> Iterator[DefinitionProblem]:
    found = list(no_json(parameter.default, keys))
    yield from found
    if found or parameter.ids or parameter.place == "file":
        return
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(parameter_schema(parameter)).validate(parameter.default)
    except jsonschema_rs.ValidationError as error:
        yield DefinitionProblem(keys, f"does not fit its own schema: {error.message[:200]}")


def wrong_schema(schema: dict[str, Any], keys: KeyPath) -> Iterator[DefinitionProblem]:
    """What is no JSON Schema, as far as its own rules go; a schema's `$ref` stays inside it."""
    found = list(no_json(schema, keys))
    yield from found
    if found:
        return
    import jsonschema_rs  # checks of files only; 3 ms of CPU

    outside = [reference for reference in _schema_references(schema) if not reference.startswith("#")]
    if outside:
        yield DefinitionProblem(keys, f"refers to {outside[0]!r}, which is outside of it")
        return
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        message = getattr(error, "message", None) or str(error).splitlines()[0]
        yield DefinitionProblem(keys, f"is no JSON Schema: {message[:200]}")


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


def no_json(value: Any, keys: KeyPath) -> Iterator[DefinitionProblem]:
    """TOML has dates, and numbers that are none; JSON has neither, and nobody reads longer whole numbers."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from no_json(item, (*keys, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from no_json(item, (*keys, number))
    elif isinstance(value, date | datetime | time):
        yield DefinitionProblem(keys, "JSON has no dates", "put it in quotes")
    elif isinstance(value, float) and not isfinite(value):
        yield DefinitionProblem(keys, f"JSON has no {value}")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield DefinitionProblem(keys, "is too big a number")


def _files_and_ids(parameter: ParameterDefinition, keys: KeyPath) -> Iterator[DefinitionProblem]:
    kinds = types_of(parameter)
    if parameter.place == "file":
        if "array" not in kinds:
            yield DefinitionProblem((*keys, "type"), "files come as an array", "set type to 'array'")
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) < 1:
                yield DefinitionProblem((*keys, key), "must be 1 at least")
    else:
        for key in ("max_files", "max_bytes"):
            if getattr(parameter, key) != getattr(ParameterDefinition(), key):
                yield DefinitionProblem((*keys, key), "is for files", "set 'in' to 'file'")
    if parameter.ids < 0:
        yield DefinitionProblem((*keys, "ids"), "must not be below 0")
    if parameter.ids and not {"string", "array"} & {*kinds}:
        yield DefinitionProblem((*keys, "type"), "a list of ids is a string or an array")


def _parameter_lookup(parameter: ParameterDefinition, keys: KeyPath) -> Iterator[DefinitionProblem]:
    if parameter.lookup and not parameter.gives:
        yield DefinitionProblem(keys, "the key 'gives' is missing: the parameter that gets the id")
    if parameter.gives and not parameter.lookup:
        yield DefinitionProblem((*keys, "gives"), "nothing is looked up", "name a lookup in 'lookup'")
    if parameter.lookup and "string" not in types_of(parameter):
        yield DefinitionProblem((*keys, "type"), "a name that is looked up is a string")


_BODY_PLACES = {
    "json": ("json", "body"),
    "form": ("form",),
    "multipart": ("form", "file"),
    "raw": ("body", "file"),
}
_FITTING = {"json": "json", "form": "form", "file": "multipart", "body": "json"}
"""The form of body that a place belongs to, before others that take it too."""


def rules_of_tool(table: ApiDefinition, name: str, tool: ToolDefinition) -> Iterator[DefinitionProblem]:
    keys: KeyPath = ("tools", name)
    if not TOOL_NAME.fullmatch(name):
        yield DefinitionProblem(
            keys, f"{name!r} is no name of a tool", "letters, digits, '_' and '-', 64 at most"
        )
    if not tool.description.strip():
        yield DefinitionProblem((*keys, "description"), "must say what the tool does")
    if not 0 <= tool.timeout < inf:
        yield DefinitionProblem((*keys, "timeout"), "must be a number of seconds, and not below 0")
    yield from _use(table, tool, keys)
    for parameter, values in tool.parameters.items():
        yield from rules_of_parameter(values, (*keys, "parameters", parameter), parameter)
    parameters = all_parameters(table, tool)
    yield from _path(tool, parameters, keys)
    for parameter, values in parameters.items():
        yield from _placed(tool, parameter, values, _keys_of(tool, keys, parameter))
        yield from _looked_up(table, parameters, parameter, _keys_of(tool, keys, parameter))
    yield from _same_names(tool, parameters, keys)
    yield from _whole_body(tool, parameters, keys)
    yield from _tool_references(table, tool, parameters, keys)
    yield from _tool_paging(table, tool, parameters, keys)
    yield from _answer(tool, parameters, keys)


def all_parameters(table: ApiDefinition, tool: ToolDefinition) -> dict[str, ParameterDefinition]:
    shared = {name: table.shared[name] for name in tool.use if name in table.shared}
    return {**tool.parameters, **{name: item for name, item in shared.items() if name not in tool.parameters}}


def _keys_of(tool: ToolDefinition, keys: KeyPath, parameter: str) -> KeyPath:
    """Where the reader can do something about it: at the tool, also for a parameter that is shared."""
    if parameter in tool.parameters:
        return (*keys, "parameters", parameter)
    return (*keys, "use", tool.use.index(parameter))


def _use(table: ApiDefinition, tool: ToolDefinition, keys: KeyPath) -> Iterator[DefinitionProblem]:
    for number, name in enumerate(tool.use):
        here = (*keys, "use", number)
        if name not in table.shared:
            yield DefinitionProblem(
                here, f"there is no shared parameter {name!r}", nearest_or_all(name, table.shared)
            )
        elif name in tool.parameters:
            yield DefinitionProblem(
                here, f"the tool has a parameter {name!r} of its own", "remove one of them"
            )
        elif name in tool.use[:number]:
            yield DefinitionProblem(here, f"{name!r} is there twice")


def _path(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    here = (*keys, "path")
    yield from check_path(tool.path, here)
    filled = {parameter.gives for parameter in parameters.values()} | {
        name for group in tool.needs for name in group
    }
    for word in placeholders(tool.path):
        if word not in parameters:
            if word:
                hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
                yield DefinitionProblem(here, f"{{{word}}} is no parameter of the tool", hint)
            continue
        yield from _in_path(tool, word, parameters[word], word in filled, keys)


def _in_path(
    tool: ToolDefinition, name: str, item: ParameterDefinition, filled: bool, keys: KeyPath
) -> Iterator[DefinitionProblem]:
    where = _keys_of(tool, keys, name)
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
    tool: ToolDefinition, name: str, item: ParameterDefinition, keys: KeyPath
) -> Iterator[DefinitionProblem]:
    here = (*keys, "in")
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
    table: ApiDefinition, parameters: dict[str, ParameterDefinition], name: str, keys: KeyPath
) -> Iterator[DefinitionProblem]:
    item = parameters[name]
    if not item.lookup:
        return
    lookup = table.lookups.get(item.lookup)
    if lookup is None:
        hint = nearest_or_all(item.lookup, table.lookups) if table.lookups else "there is no [lookups]"
        yield DefinitionProblem((*keys, "lookup"), f"there is no lookup {item.lookup!r}", hint)
        return
    if item.gives and item.gives not in parameters:
        hint = nearest_or_all(item.gives, parameters)
        yield DefinitionProblem((*keys, "gives"), f"the tool has no parameter {item.gives!r}", hint)
    if item.gives == name:
        yield DefinitionProblem((*keys, "gives"), "a name cannot become itself")
    for word in placeholders(lookup.path):
        if word not in parameters:
            yield DefinitionProblem((*keys, "lookup"), f"it needs {{{word}}}, which the tool does not have")


def _same_names(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    """Two parameters that the API gets under one name, in one place."""
    seen: dict[tuple[str, str], str] = {}
    within = dict.fromkeys(tool.fixed, "fixed") if default_location(tool) == "json" else {}
    for name, place in parameter_locations(tool, parameters).items():
        if place in ("none", "path", "body"):
            continue
        wire = (place, parameters[name].name or name)
        if wire in seen:
            where = _keys_of(tool, keys, name)
            yield DefinitionProblem(
                where, f"is sent as {wire[1]!r}, as {seen[wire]!r} is", "give one of them another 'as'"
            )
        seen[wire] = name
        if place == "json":
            yield from _nested(wire[1], within, _keys_of(tool, keys, name))
            within[wire[1]] = name


def _whole_body(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    """A parameter that is the whole body leaves no room for another."""
    if tool.content_type and not (
        tool.body == "raw" or (tool.body == "json" and "json" in tool.content_type)
    ):
        yield DefinitionProblem(
            (*keys, "content_type"), "is that of a raw body, or a kind of JSON", "set 'body' to 'raw'"
        )
    elif tool.content_type and not MEDIA_TYPE.fullmatch(tool.content_type):
        yield DefinitionProblem(
            (*keys, "content_type"), f"{tool.content_type!r} is no media type", "as in 'image/png'"
        )
    placed = parameter_locations(tool, parameters)
    whole = [name for name, place in placed.items() if place == "body"]
    if tool.body == "raw":
        whole += [name for name, place in placed.items() if place == "file"]
        if not whole:
            yield DefinitionProblem(
                (*keys, "body"), "no parameter is the raw body", "set the 'in' of one to 'body' or 'file'"
            )
    for name in whole[1:]:
        yield DefinitionProblem(_keys_of(tool, keys, name), f"{whole[0]!r} is the whole body already")
    for name in whole:
        yield from _whole(tool, parameters[name], placed[name], _keys_of(tool, keys, name))
    beside = [name for name, place in placed.items() if place == "json"]
    if whole and beside:
        here = _keys_of(tool, keys, beside[0])
        yield DefinitionProblem(here, f"{whole[0]!r} is the whole body", "set 'in' to 'query' or 'header'")
    if whole and tool.fixed and default_location(tool) == "json":
        yield DefinitionProblem((*keys, "fixed"), f"{whole[0]!r} is the whole body")


def _whole(
    tool: ToolDefinition, item: ParameterDefinition, place: str, keys: KeyPath
) -> Iterator[DefinitionProblem]:
    if item.name:
        yield DefinitionProblem((*keys, "as"), "the whole body has no name", "leave 'as' out")
    if tool.body != "raw":
        return
    if place == "file" and item.max_files != 1:
        yield DefinitionProblem((*keys, "max_files"), "a raw body is one file", "set 'max_files' to 1")
    if place == "body" and not {*types_of(item)} <= {"string", "null"}:
        yield DefinitionProblem(
            (*keys, "type"), "a raw body is a text", "set type to 'string', or 'in' to 'file'"
        )


def _nested(path: str, within: Mapping[str, str], keys: KeyPath) -> Iterator[DefinitionProblem]:
    """A path into the body, which no other value may stand in the way of."""
    if "" in path.split("."):
        yield DefinitionProblem((*keys, "as"), f"{path!r} is no path: names with dots between")
    for other, name in within.items():
        if path.startswith(f"{other}.") or other.startswith(f"{path}."):
            yield DefinitionProblem(
                keys, f"is sent as {path!r}, and {name!r} as {other!r}: one is inside the other"
            )


def _tool_references(
    table: ApiDefinition, tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    hint_of = parameters or {"none": ParameterDefinition()}
    for number, group in enumerate(tool.needs):
        if not group:
            yield DefinitionProblem((*keys, "needs", number), "names no parameter")
        for position, name in enumerate(group):
            if name not in parameters:
                yield DefinitionProblem(
                    (*keys, "needs", number, position),
                    f"the tool has no parameter {name!r}",
                    nearest_or_all(name, hint_of),
                )
    for name, also in tool.also.items():
        here = (*keys, "also", name)
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
            yield DefinitionProblem((*keys, "filters", name), f"the tool has no parameter {name!r}", hint)
        if not fields:
            yield DefinitionProblem((*keys, "filters", name), "must name a field of the items")
    if tool.flag and table.gate is None:
        yield DefinitionProblem((*keys, "flag"), "is a field of the gate's reply, and there is no [gate]")
    yield from no_json(tool.fixed, (*keys, "fixed"))


def _tool_paging(
    table: ApiDefinition, tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    yield from unknown_paging(table, tool.paging, (*keys, "paging"))
    paging = table.paging.get(tool.paging)
    if paging is not None and not tool.all_pages:
        sent = {item.name or name for name, item in parameters.items()}
        for name in (paging.position, paging.size):
            if name and not PARAMETER_NAME.fullmatch(name) and name not in sent:
                hint = f"give the tool a parameter with as = {name!r}"
                yield DefinitionProblem((*keys, "paging"), f"{name!r} is no name that models take", hint)
    if tool.all_pages and not tool.paging:
        yield DefinitionProblem((*keys, "all_pages"), "the tool has no 'paging'")
    if tool.paging and tool.also:
        yield DefinitionProblem((*keys, "also"), "a list in parts has no second request beside it")


def unknown_paging(table: ApiDefinition, name: str, keys: KeyPath) -> Iterator[DefinitionProblem]:
    if name and name not in table.paging:
        hint = nearest_or_all(name, table.paging) if table.paging else "there is no [paging]"
        yield DefinitionProblem(keys, f"there is no paging {name!r}", hint)


def _answer(
    tool: ToolDefinition, parameters: dict[str, ParameterDefinition], keys: KeyPath
) -> Iterator[DefinitionProblem]:
    for key in ("rich", "compact"):
        for number, path in enumerate(getattr(tool.result, key)):
            if not path or "" in path.split("."):
                yield DefinitionProblem(
                    (*keys, "result", key, number), f"{path!r} is no path: names with dots between"
                )
    details = tool.result.details
    if details and details not in parameters:
        hint = nearest_or_all(details, parameters) if parameters else "the tool has none"
        yield DefinitionProblem((*keys, "result", "details"), f"the tool has no parameter {details!r}", hint)
    for word in placeholders(tool.result.said):
        if word not in parameters:
            hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
            yield DefinitionProblem(
                (*keys, "result", "said"), f"{{{word}}} is no parameter of the tool", hint
            )
    yield from rules_of_errors(tool.errors, (*keys, "errors"))
    if tool.output:
        yield from wrong_schema(tool.output, (*keys, "output"))
        if tool.output.get("type") != "object":
            yield DefinitionProblem((*keys, "output"), "an output schema is of type 'object'")


def rules_of_errors(errors: Mapping[str, str], keys: KeyPath) -> Iterator[DefinitionProblem]:
    for status, message in errors.items():
        here = (*keys, status)
        if not ERROR_KEY.fullmatch(status):
            yield DefinitionProblem(
                here, f"{status!r} is no status", "write one such as '404', or a class, '4xx' or '5xx'"
            )
        for word in placeholders(message):
            if word not in ("detail", "status"):
                yield DefinitionProblem(here, f"{{{word}}} is not known there", "{detail} and {status} are")


def problems(table: ApiDefinition) -> Iterator[DefinitionProblem]:
    yield from _server(table)
    yield from _auth(table.auth)
    yield from _retry(table.retry)
    if table.gate is not None:
        yield from _gate(table.gate, table.auth)
    for name, paging in table.paging.items():
        yield from _server_paging(paging, ("paging", name))
    yield from rules_of_errors(table.errors, ("errors",))
    for name, lookup in table.lookups.items():
        yield from _server_lookup(table, lookup, ("lookups", name))
    for name, parameter in table.shared.items():
        yield from rules_of_parameter(parameter, ("shared", name), name)
    for name, tool in table.tools.items():
        yield from rules_of_tool(table, name, tool)


def problems_of_overlay(overlay: Overlay, table: ApiDefinition) -> Iterator[DefinitionProblem]:
    if overlay.denied and table.gate is None:
        yield DefinitionProblem(("denied",), "the table has no gate")
    yield from rules_of_errors(overlay.errors, ("errors",))
    yield from _check_known(overlay.shared, table.shared, ("shared",), "shared parameter")
    yield from _check_known(overlay.lookups, table.lookups, ("lookups",), "lookup")
    yield from _check_known(overlay.tools, table.tools, ("tools",), "tool")
    for name, texts in overlay.tools.items():
        tool = table.tools.get(name)
        if tool is None:
            continue
        here: KeyPath = ("tools", name)
        own = [*tool.parameters, *tool.use]
        yield from _check_known(texts.parameters, own, (*here, "parameters"), "parameter")
        yield from rules_of_errors(texts.errors, (*here, "errors"))
        for word in placeholders(texts.said):
            if word not in own:
                yield DefinitionProblem(
                    (*here, "said"), f"{{{word}}} is no parameter of it", nearest_or_all(word, own)
                )


def _check_known(
    names: Iterable[str], known: Iterable[str], keys: KeyPath, what: str
) -> Iterator[DefinitionProblem]:
    known = list(known)
    for name in names:
        if name not in known:
            yield DefinitionProblem(
                (*keys, name), f"the table has no {what} {name!r}", nearest_or_all(name, known)
            )


def _server(table: ApiDefinition) -> Iterator[DefinitionProblem]:
    if not TOOL_NAME.fullmatch(table.name):
        yield DefinitionProblem(
            ("name",), f"{table.name!r} is no name", "letters, digits, '_' and '-', 64 at most"
        )
    try:
        ApiOrigin.parse(table.base_url)
    except BaseUrlError as error:
        yield DefinitionProblem(("base_url",), error.what, error.hint)
    if not table.tools:
        yield DefinitionProblem((), "there are no tools", "begin one with [tools.NAME]")
    if not 0 < table.timeout < inf:
        yield DefinitionProblem(("timeout",), "must be a number of seconds over 0")
    if table.max_reply <= 0:
        yield DefinitionProblem(("max_reply",), "must be over 0 bytes")
    for name, value in table.headers.items():
        yield from header_name(name, ("headers", name))
        if not NO_CONTROLS.fullmatch(value):
            yield DefinitionProblem(("headers", name), "a header's value is one line of printable ASCII")


def header_name(name: str, keys: KeyPath) -> Iterator[DefinitionProblem]:
    if not HEADER_NAME.fullmatch(name):
        yield DefinitionProblem(keys, f"{name!r} is no name of a header")
    elif name.lower() in OUR_HEADERS:
        yield DefinitionProblem(keys, f"the header {name!r} is written by Toolyard")


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
                here, f"{name!r} is never found there", f"headers are compared as {name.lower()!r}"
            )
    if auth.variable and not VARIABLE.fullmatch(auth.variable):
        yield DefinitionProblem(("auth", "variable"), f"{auth.variable!r} is no name of a variable")


def _retry(retry: Retry) -> Iterator[DefinitionProblem]:
    if not 0 <= retry.most <= 10:
        yield DefinitionProblem(("retry", "most"), "must be from 0 to 10")
    for key in ("pause", "longest"):
        if not 0 <= getattr(retry, key) <= 3600:
            yield DefinitionProblem(("retry", key), "must be from 0 to 3600 seconds")


def _gate(gate: Gate, auth: Auth) -> Iterator[DefinitionProblem]:
    yield from check_path(gate.path, ("gate", "path"))
    for word in placeholders(gate.path):
        yield DefinitionProblem(
            ("gate", "path"), f"{{{word}}} has no value there: the gate has no parameters"
        )
    if not gate.field:
        yield DefinitionProblem(("gate", "field"), "must name a field of the reply")
    if gate.seconds < 0:
        yield DefinitionProblem(("gate", "seconds"), "must not be below 0")
    if auth.kind == "none" or not auth.caller:
        yield DefinitionProblem(
            ("gate",), "no caller brings a key", "name their headers in 'caller' of [auth]"
        )


def _server_paging(paging: Paging, keys: KeyPath) -> Iterator[DefinitionProblem]:
    if paging.kind != "link" and not paging.position:
        yield DefinitionProblem(
            keys, f"the key 'position' is missing: the query parameter of the {paging.kind}"
        )
    if paging.kind == "cursor" and not paging.next:
        yield DefinitionProblem(keys, "the key 'next' is missing: where the reply has the next cursor")
    if paging.next and paging.kind != "cursor":
        yield DefinitionProblem((*keys, "next"), f"{paging.kind} has no cursor")
    if paging.position and paging.kind == "link":
        yield DefinitionProblem((*keys, "position"), "link follows the Link header, which says all")
    if paging.position and paging.position == paging.size:
        yield DefinitionProblem((*keys, "size"), "is the same as 'position'")
    if paging.most < 1:
        yield DefinitionProblem((*keys, "most"), "must be 1 at least")
    if not 1 <= paging.default <= max(paging.most, 1):
        yield DefinitionProblem((*keys, "default"), f"must be from 1 to {paging.most}, which is 'most'")
    if paging.first < 0:
        yield DefinitionProblem((*keys, "first"), "must not be below 0")
    if paging.most_items < 1:
        yield DefinitionProblem((*keys, "most_items"), "must be 1 at least")


def _server_lookup(table: ApiDefinition, lookup: Lookup, keys: KeyPath) -> Iterator[DefinitionProblem]:
    yield from check_path(lookup.path, (*keys, "path"))
    if not lookup.match:
        yield DefinitionProblem((*keys, "match"), "must name a field at least")
    if not lookup.id:
        yield DefinitionProblem((*keys, "id"), "must name a field")
    for name, value in lookup.query.items():
        if not isinstance(value, str | int | float):
            yield DefinitionProblem((*keys, "query", name), "must be a text, a number, true or false")
        elif isinstance(value, str) and {*placeholders(value)} - {"name"}:
            yield DefinitionProblem(
                (*keys, "query", name), "only {name} is known there: the name that was given"
            )
    yield from unknown_paging(table, lookup.paging, (*keys, "paging"))
    paging = table.paging.get(lookup.paging)
    for name in (paging.position, paging.size) if paging is not None else ():
        if name in lookup.query:
            yield DefinitionProblem(
                (*keys, "query", name), f"the paging {lookup.paging!r} sends it", "leave it out"
            )
