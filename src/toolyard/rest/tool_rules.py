"""What must hold for one tool: its path, its parameters together, and what it refers to."""

from collections.abc import Iterator, Mapping
from math import inf

from msgspec import UNSET

from ..config.errors import nearest_or_all
from .mistakes import Keys, Mistake
from .parameter_rules import no_json, rules_of_parameter, types_of, wrong_schema
from .placeholders import placeholders, wrong_path
from .places import places, usual_place
from .table import Parameter, Table, Tool
from .words import ERROR_KEY, MEDIA_TYPE, PARAMETER_NAME, TOOL_NAME

_BODY_PLACES = {
    "json": ("json", "body"),
    "form": ("form",),
    "multipart": ("form", "file"),
    "raw": ("body", "file"),
}
_FITTING = {"json": "json", "form": "form", "file": "multipart", "body": "json"}
"""The form of body that a place belongs to, before others that take it too."""


def rules_of_tool(table: Table, name: str, tool: Tool) -> Iterator[Mistake]:
    keys: Keys = ("tools", name)
    if not TOOL_NAME.fullmatch(name):
        yield Mistake(keys, f"{name!r} is no name of a tool", "letters, digits, '_' and '-', 64 at most")
    if not tool.description.strip():
        yield Mistake((*keys, "description"), "must say what the tool does")
    if not 0 <= tool.timeout < inf:
        yield Mistake((*keys, "timeout"), "must be a number of seconds, and not below 0")
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
    yield from _references(table, tool, parameters, keys)
    yield from _paging(table, tool, parameters, keys)
    yield from _answer(tool, parameters, keys)


def all_parameters(table: Table, tool: Tool) -> dict[str, Parameter]:
    shared = {name: table.shared[name] for name in tool.use if name in table.shared}
    return {**tool.parameters, **{name: item for name, item in shared.items() if name not in tool.parameters}}


def _keys_of(tool: Tool, keys: Keys, parameter: str) -> Keys:
    """Where the reader can do something about it: at the tool, also for a parameter that is shared."""
    if parameter in tool.parameters:
        return (*keys, "parameters", parameter)
    return (*keys, "use", tool.use.index(parameter))


def _use(table: Table, tool: Tool, keys: Keys) -> Iterator[Mistake]:
    for number, name in enumerate(tool.use):
        here = (*keys, "use", number)
        if name not in table.shared:
            yield Mistake(here, f"there is no shared parameter {name!r}", nearest_or_all(name, table.shared))
        elif name in tool.parameters:
            yield Mistake(here, f"the tool has a parameter {name!r} of its own", "remove one of them")
        elif name in tool.use[:number]:
            yield Mistake(here, f"{name!r} is there twice")


def _path(tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    here = (*keys, "path")
    yield from wrong_path(tool.path, here)
    filled = {parameter.gives for parameter in parameters.values()} | {
        name for group in tool.needs for name in group
    }
    for word in placeholders(tool.path):
        if word not in parameters:
            if word:
                hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
                yield Mistake(here, f"{{{word}}} is no parameter of the tool", hint)
            continue
        yield from _in_path(tool, word, parameters[word], word in filled, keys)


def _in_path(tool: Tool, name: str, item: Parameter, filled: bool, keys: Keys) -> Iterator[Mistake]:
    where = _keys_of(tool, keys, name)
    if item.place not in ("", "path"):
        yield Mistake((*where, "in"), f"{name!r} is in the path, not in {item.place!r}", "leave 'in' out")
    if item.name:
        yield Mistake(
            (*where, "as"), f"{name!r} is in the path, where it has no other name", "leave 'as' out"
        )
    if item.lookup:
        yield Mistake(
            (*where, "lookup"), f"{name!r} is in the path, but a name is never sent", "send what it gives"
        )
    if {"array", "object"} & {*types_of(item)}:
        yield Mistake((*where, "type"), f"{name!r} is in the path, which takes one value")
    known = item.required or item.setting or item.default is not UNSET or filled
    if not known:
        yield Mistake(where, f"{name!r} is in the path, so it must be required")


def _placed(tool: Tool, name: str, item: Parameter, keys: Keys) -> Iterator[Mistake]:
    here = (*keys, "in")
    if item.place == "path" and name not in placeholders(tool.path):
        yield Mistake(here, f"the path {tool.path!r} has no {{{name}}}")
    if item.place in _FITTING:
        if tool.method == "GET":
            yield Mistake(here, f"{tool.method} has no body for it", "leave 'in' out, or set it to 'query'")
        elif item.place not in _BODY_PLACES[tool.body]:
            fits = _FITTING[item.place]
            yield Mistake(
                here, f"the body of the tool is {tool.body}, not {fits}", f"set its 'body' to {fits!r}"
            )


def _looked_up(table: Table, parameters: dict[str, Parameter], name: str, keys: Keys) -> Iterator[Mistake]:
    item = parameters[name]
    if not item.lookup:
        return
    lookup = table.lookups.get(item.lookup)
    if lookup is None:
        hint = nearest_or_all(item.lookup, table.lookups) if table.lookups else "there is no [lookups]"
        yield Mistake((*keys, "lookup"), f"there is no lookup {item.lookup!r}", hint)
        return
    if item.gives and item.gives not in parameters:
        hint = nearest_or_all(item.gives, parameters)
        yield Mistake((*keys, "gives"), f"the tool has no parameter {item.gives!r}", hint)
    if item.gives == name:
        yield Mistake((*keys, "gives"), "a name cannot become itself")
    for word in placeholders(lookup.path):
        if word not in parameters:
            yield Mistake((*keys, "lookup"), f"it needs {{{word}}}, which the tool does not have")


def _same_names(tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    """Two parameters that the API gets under one name, in one place."""
    seen: dict[tuple[str, str], str] = {}
    within = dict.fromkeys(tool.fixed, "fixed") if usual_place(tool) == "json" else {}
    for name, place in places(tool, parameters).items():
        if place in ("none", "path", "body"):
            continue
        wire = (place, parameters[name].name or name)
        if wire in seen:
            where = _keys_of(tool, keys, name)
            yield Mistake(
                where, f"is sent as {wire[1]!r}, as {seen[wire]!r} is", "give one of them another 'as'"
            )
        seen[wire] = name
        if place == "json":
            yield from _nested(wire[1], within, _keys_of(tool, keys, name))
            within[wire[1]] = name


def _whole_body(tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    """A parameter that is the whole body leaves no room for another."""
    if tool.content_type and not (
        tool.body == "raw" or (tool.body == "json" and "json" in tool.content_type)
    ):
        yield Mistake(
            (*keys, "content_type"), "is that of a raw body, or a kind of JSON", "set 'body' to 'raw'"
        )
    elif tool.content_type and not MEDIA_TYPE.fullmatch(tool.content_type):
        yield Mistake((*keys, "content_type"), f"{tool.content_type!r} is no media type", "as in 'image/png'")
    placed = places(tool, parameters)
    whole = [name for name, place in placed.items() if place == "body"]
    if tool.body == "raw":
        whole += [name for name, place in placed.items() if place == "file"]
        if not whole:
            yield Mistake(
                (*keys, "body"), "no parameter is the raw body", "set the 'in' of one to 'body' or 'file'"
            )
    for name in whole[1:]:
        yield Mistake(_keys_of(tool, keys, name), f"{whole[0]!r} is the whole body already")
    for name in whole:
        yield from _whole(tool, parameters[name], placed[name], _keys_of(tool, keys, name))
    beside = [name for name, place in placed.items() if place == "json"]
    if whole and beside:
        here = _keys_of(tool, keys, beside[0])
        yield Mistake(here, f"{whole[0]!r} is the whole body", "set 'in' to 'query' or 'header'")
    if whole and tool.fixed and usual_place(tool) == "json":
        yield Mistake((*keys, "fixed"), f"{whole[0]!r} is the whole body")


def _whole(tool: Tool, item: Parameter, place: str, keys: Keys) -> Iterator[Mistake]:
    if item.name:
        yield Mistake((*keys, "as"), "the whole body has no name", "leave 'as' out")
    if tool.body != "raw":
        return
    if place == "file" and item.max_files != 1:
        yield Mistake((*keys, "max_files"), "a raw body is one file", "set 'max_files' to 1")
    if place == "body" and not {*types_of(item)} <= {"string", "null"}:
        yield Mistake((*keys, "type"), "a raw body is a text", "set type to 'string', or 'in' to 'file'")


def _nested(path: str, within: Mapping[str, str], keys: Keys) -> Iterator[Mistake]:
    """A path into the body, which no other value may stand in the way of."""
    if "" in path.split("."):
        yield Mistake((*keys, "as"), f"{path!r} is no path: names with dots between")
    for other, name in within.items():
        if path.startswith(f"{other}.") or other.startswith(f"{path}."):
            yield Mistake(keys, f"is sent as {path!r}, and {name!r} as {other!r}: one is inside the other")


def _references(table: Table, tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    hint_of = parameters or {"none": Parameter()}
    for number, group in enumerate(tool.needs):
        if not group:
            yield Mistake((*keys, "needs", number), "names no parameter")
        for position, name in enumerate(group):
            if name not in parameters:
                yield Mistake(
                    (*keys, "needs", number, position),
                    f"the tool has no parameter {name!r}",
                    nearest_or_all(name, hint_of),
                )
    for name, also in tool.also.items():
        here = (*keys, "also", name)
        if name == "current":
            yield Mistake(here, "'current' is the tool's own result", "name it otherwise")
        if not also.replace:
            yield Mistake((*here, "replace"), "replaces nothing")
        for named in (*also.when, *also.replace, *also.replace.values()):
            if named not in parameters:
                yield Mistake(here, f"the tool has no parameter {named!r}", nearest_or_all(named, hint_of))
    for name, fields in tool.filters.items():
        if name not in parameters:
            hint = nearest_or_all(name, hint_of)
            yield Mistake((*keys, "filters", name), f"the tool has no parameter {name!r}", hint)
        if not fields:
            yield Mistake((*keys, "filters", name), "must name a field of the items")
    if tool.flag and table.gate is None:
        yield Mistake((*keys, "flag"), "is a field of the gate's reply, and there is no [gate]")
    yield from no_json(tool.fixed, (*keys, "fixed"))


def _paging(table: Table, tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    yield from unknown_paging(table, tool.paging, (*keys, "paging"))
    paging = table.paging.get(tool.paging)
    if paging is not None and not tool.all_pages:
        sent = {item.name or name for name, item in parameters.items()}
        for name in (paging.position, paging.size):
            if name and not PARAMETER_NAME.fullmatch(name) and name not in sent:
                hint = f"give the tool a parameter with as = {name!r}"
                yield Mistake((*keys, "paging"), f"{name!r} is no name that models take", hint)
    if tool.all_pages and not tool.paging:
        yield Mistake((*keys, "all_pages"), "the tool has no 'paging'")
    if tool.paging and tool.also:
        yield Mistake((*keys, "also"), "a list in parts has no second request beside it")


def unknown_paging(table: Table, name: str, keys: Keys) -> Iterator[Mistake]:
    if name and name not in table.paging:
        hint = nearest_or_all(name, table.paging) if table.paging else "there is no [paging]"
        yield Mistake(keys, f"there is no paging {name!r}", hint)


def _answer(tool: Tool, parameters: dict[str, Parameter], keys: Keys) -> Iterator[Mistake]:
    for key in ("rich", "compact"):
        for number, path in enumerate(getattr(tool.result, key)):
            if not path or "" in path.split("."):
                yield Mistake((*keys, "result", key, number), f"{path!r} is no path: names with dots between")
    details = tool.result.details
    if details and details not in parameters:
        hint = nearest_or_all(details, parameters) if parameters else "the tool has none"
        yield Mistake((*keys, "result", "details"), f"the tool has no parameter {details!r}", hint)
    for word in placeholders(tool.result.said):
        if word not in parameters:
            hint = nearest_or_all(word, parameters) if parameters else "the tool has none"
            yield Mistake((*keys, "result", "said"), f"{{{word}}} is no parameter of the tool", hint)
    yield from rules_of_errors(tool.errors, (*keys, "errors"))
    if tool.output:
        yield from wrong_schema(tool.output, (*keys, "output"))
        if tool.output.get("type") != "object":
            yield Mistake((*keys, "output"), "an output schema is of type 'object'")


def rules_of_errors(errors: Mapping[str, str], keys: Keys) -> Iterator[Mistake]:
    for status, message in errors.items():
        here = (*keys, status)
        if not ERROR_KEY.fullmatch(status):
            yield Mistake(
                here, f"{status!r} is no status", "write one such as '404', or a class, '4xx' or '5xx'"
            )
        for word in placeholders(message):
            if word not in ("detail", "status"):
                yield Mistake(here, f"{{{word}}} is not known there", "{detail} and {status} are")
