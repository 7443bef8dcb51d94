"""`toolyard show`: one tool, its schemas as tables, and an example call to copy."""

import shlex
from collections.abc import Iterator
from typing import Any, Unpack

import click
import msgspec
from msgspec import Struct

from ..client.connection import ConnectOptions, connected
from ..client.lists import find_tool, location_flags
from ..json_values import JsonMapping, as_list, as_object
from ..ui.arguments import follow_reference, format_types, json_types
from ..ui.messages import one_line, printable
from ..ui.output import print_json
from ..ui.tables import TextLayout
from ..ui.terminal import Terminal
from . import completion
from .options import ServerOptions, debug_option, json_option, server_options, target_option

MAX_DEPTH = 8
MAX_ROWS = 200
MAX_CELL = 200
"""Longer defaults and lists of values are cut."""
MIN_DESCRIPTION = 20
HEADINGS = ("name", "type", "required", "default", "limits", "description")
NARROW = ("name", "type", "required", "description")
_ANNOTATIONS = {
    "readOnlyHint": ("read-only", "writes"),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", "not idempotent"),
    "openWorldHint": ("open world", "closed world"),
}
_EXAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ann@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}


class PropertyRow(Struct, frozen=True):
    """One property of a schema, `depth` levels in."""

    depth: int
    name: str
    kind: str
    required: bool
    default: str
    limits: str
    description: str

    @property
    def cells(self) -> tuple[str, ...]:
        name = f"{'  ' * self.depth}{self.name}"
        return name, self.kind, "yes" if self.required else "", self.default, self.limits, self.description

    @property
    def few_cells(self) -> tuple[str, ...]:
        """For a narrow layout: limits, default and description in one cell."""
        name, kind, required, default, limits, about = self.cells
        default = f"default {default}" if default else ""
        return name, kind, required, "; ".join(text for text in (limits, default, about) if text)


@click.command("show", short_help="Show one tool with its arguments.")
@click.argument("tool", shell_complete=completion.tools)
@target_option
@server_options
@json_option
@debug_option
def command(tool: str, as_json: bool, **options: Unpack[ServerOptions]) -> None:
    """Show TOOL: its description, its arguments and its result as tables, and an example call."""
    where = ConnectOptions(**options, wanted=tool)
    with Terminal() as user, connected(where, user) as client:
        definition = find_tool(client, tool, where)
    if as_json:
        print_json(definition)
    else:
        click.echo("\n".join(_format_tool(definition, where)))


def _format_tool(tool: JsonMapping, where: ConnectOptions) -> Iterator[str]:
    page = TextLayout()
    title = as_object(tool.get("annotations")).get("title") or tool.get("title")
    name = click.style(one_line(str(tool["name"])), fg="cyan", bold=True)
    yield f"{name}: {one_line(str(title))}" if title else name
    if about := str(tool.get("description") or "").strip():
        yield from page.wrapped(about, 2)
    if words := _annotations(tool):
        yield from ("", f"  {click.style(words, dim=True)}")
    schema = as_object(tool.get("inputSchema"))
    yield from _section("Arguments", schema, page, "none")
    if tool.get("outputSchema") is not None:
        yield from _section("Result", as_object(tool.get("outputSchema")), page, "anything")
    yield from ("", click.style("Example", bold=True), f"  {_example(tool, schema, where)}")


def _annotations(tool: JsonMapping) -> str:
    """The tool's annotations, false ones included."""
    said = as_object(tool.get("annotations"))
    words = [yes if said[key] else no for key, (yes, no) in _ANNOTATIONS.items() if key in said]
    return ", ".join(words)


def _section(title: str, schema: JsonMapping, page: TextLayout, nothing: str) -> Iterator[str]:
    yield from ("", click.style(title, bold=True))
    rows: list[PropertyRow] = []
    for row in _rows(schema, schema, 0, ()):
        rows.append(row)
        if len(rows) == MAX_ROWS:
            rows.append(PropertyRow(0, "…", "", False, "", "", "--json shows all of it"))
            break
    if not rows:
        kind = format_types(schema, schema)
        yield f"  {nothing if kind in ('any', 'object') else kind}"
        return
    yield from _table(rows, page)


def _rows(
    schema: JsonMapping, root: JsonMapping, depth: int, above: tuple[int, ...]
) -> Iterator[PropertyRow]:
    """The properties of an object, each with those inside it."""
    schema = follow_reference(schema, root)
    required = as_list(schema.get("required"))
    for name, given in as_object(schema.get("properties")).items():
        prop = follow_reference(as_object(given), root)
        inner = _inner(prop, root)
        # A circular reference would never end.
        circular = inner is not None and id(inner) in (*above, id(schema))
        about = str(as_object(given).get("description") or prop.get("description") or "")
        yield PropertyRow(
            depth,
            _cell(name),
            _kind(prop, root),
            name in required,
            _json(prop["default"]) if "default" in prop else "",
            _limits(prop, root),
            f"{one_line(about)} (as above)".strip() if circular else one_line(about),
        )
        if inner is not None and not circular and depth < MAX_DEPTH:
            yield from _rows(inner, root, depth + 1, (*above, id(schema)))


def _inner(prop: JsonMapping, root: JsonMapping) -> JsonMapping | None:
    """The object whose properties are shown below: the property, its items, or one alternative."""
    for _ in range(MAX_DEPTH):
        if as_object(prop.get("properties")):
            return prop
        options = as_list(prop.get("anyOf")) or as_list(prop.get("oneOf"))
        found = [follow_reference(as_object(option), root) for option in options]
        nested = next((one for one in found if "properties" in one or "items" in one), None)
        nested = nested or (as_object(prop.get("items")) or as_object(prop.get("additionalProperties")))
        if not nested:
            return None
        prop = follow_reference(nested, root)
    return None


def _kind(prop: JsonMapping, root: JsonMapping) -> str:
    kind = format_types(prop, root)
    items = as_object(prop.get("items"))
    if kind == "array" and items:
        return f"array of {format_types(items, root)}"
    return kind


def _limits(prop: JsonMapping, root: JsonMapping) -> str:
    """`1 to 10`, `3 characters or more`, and so on."""
    found: list[str] = []
    if values := as_list(prop.get("enum")):
        found.append(_cell(", ".join(value if isinstance(value, str) else _json(value) for value in values)))
    if "const" in prop:
        found.append(f"only {_json(prop['const'])}")
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", "character"),
        ("minItems", "maxItems", "item"),
        ("minProperties", "maxProperties", "key"),
    ):
        found += _range(prop.get(least), prop.get(most), unit)
    for key, sign in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        found += [f"{sign} {_json(prop[key])}"] if key in prop else []
    found += [f"a multiple of {_json(prop['multipleOf'])}"] if "multipleOf" in prop else []
    found += ["unique items"] if prop.get("uniqueItems") is True else []
    found += [_cell(f"{key} {prop[key]}") for key in ("format", "pattern") if prop.get(key)]
    if not found and (options := as_list(prop.get("anyOf")) or as_list(prop.get("oneOf"))):
        each = [_limits(option, root) for option in map(as_object, options) if "anyOf" not in option]
        found = [limits for limits in each if limits]
    return "; ".join(found)


def _range(least: Any, most: Any, unit: str) -> Iterator[str]:
    def counted(number: Any) -> str:
        return f"{_json(number)} {unit}{'' if number == 1 else 's'}".rstrip() if unit else _json(number)

    if unit and least == 0:
        least = None
    if least is not None and most is not None:
        yield counted(most) if least == most else f"{_json(least)} to {counted(most)}"
    elif least is not None:
        yield f"{counted(least)} or more"
    elif most is not None:
        yield f"{counted(most)} at most"


def _json(value: Any) -> str:
    try:
        return _cell(msgspec.json.encode(value).decode())
    except (msgspec.MsgspecError, RecursionError, OverflowError, ValueError):
        return "…"


def _cell(text: str) -> str:
    text = " ".join(printable(text).split())
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def _table(rows: list[PropertyRow], page: TextLayout) -> Iterator[str]:
    """Omit empty columns, and wrap the last one into the rest of the width."""
    table = _used([HEADINGS, *(row.cells for row in rows)])
    widths = _widths(table, page)
    if page.width - _taken(widths) < MIN_DESCRIPTION:
        table = _used([NARROW, *(row.few_cells for row in rows)])
        widths = _widths(table, page)
    room = max(MIN_DESCRIPTION, page.width - _taken(widths))
    for number, row in enumerate(table):
        parts = [page.folded(cell, room) if at == len(widths) else [cell] for at, cell in enumerate(row)]
        for line in range(len(parts[-1])):
            cells = [part[line] if line < len(part) else "" for part in parts]
            padded = [page.padded(cell, width) for cell, width in zip(cells, widths, strict=False)]
            if number == 0:
                yield click.style("  " + "  ".join([*padded, cells[-1]]).rstrip(), dim=True)
            else:
                first = click.style(padded[0], fg="cyan")
                yield f"  {'  '.join([first, *padded[1:], cells[-1]])}".rstrip()


def _used(table: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    used = [at for at in range(len(table[0])) if at < 2 or any(row[at] for row in table[1:])]
    return [tuple(row[at] for at in used) for row in table]


def _widths(table: list[tuple[str, ...]], page: TextLayout) -> list[int]:
    """The widths of all columns but the last."""
    return [max(page.measure(row[at]) for row in table) for at in range(len(table[0]) - 1)]


def _taken(widths: list[int]) -> int:
    """The width of all columns but the last, with the gaps."""
    return 2 + sum(widths) + 2 * len(widths)


def _example(tool: JsonMapping, schema: JsonMapping, where: ConnectOptions) -> str:
    """A call with the required arguments, with values that should fit their schemas."""
    resolved_schema = follow_reference(schema, schema)
    properties = as_object(resolved_schema.get("properties"))
    required = [name for name in as_list(resolved_schema.get("required")) if isinstance(name, str)]
    pairs = [
        shlex.quote(f"{name}={_typed(_sample(as_object(properties.get(name)), schema, 0))}")
        for name in required[:MAX_ROWS]
    ]
    words = ["toolyard", "call", shlex.quote(str(tool["name"])), *pairs]
    return printable(" ".join(words) + location_flags(where, "--target"))


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _sample(schema: JsonMapping, root: JsonMapping, depth: int) -> Any:
    schema = follow_reference(schema, root)
    if depth > MAX_DEPTH:
        return None
    for key in ("examples", "enum"):
        if values := as_list(schema.get(key)):
            return values[0]
    for key in ("example", "const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options and "type" not in schema:
        return _sample(as_object(options[0]), root, depth + 1)
    kinds = json_types(schema, root)
    if "string" in kinds:
        return _text(schema)
    if kinds & {"integer", "number"}:
        return _number(schema)
    if "boolean" in kinds:
        return True
    if "array" in kinds:
        count = schema.get("minItems")
        item = _sample(as_object(schema.get("items")), root, depth + 1)
        return [item] * min(count if isinstance(count, int) else 1, 3)
    properties, required = as_object(schema.get("properties")), as_list(schema.get("required"))
    return {
        name: _sample(as_object(properties.get(name)), root, depth + 1)
        for name in required[:MAX_ROWS]
        if isinstance(name, str)
    }


def _text(schema: JsonMapping) -> str:
    text = _EXAMPLES.get(str(schema.get("format")), "text")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text = (text * least)[: min(least, MAX_CELL)]
    return text[:most] if isinstance(most, int) and most > 0 else text


def _number(schema: JsonMapping) -> Any:
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        bound = schema.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            least_fits = key in ("minimum", "exclusiveMinimum") and bound < 1
            return 1 if least_fits and not _over(1, schema) else bound + step
    return 1


def _over(number: int, schema: JsonMapping) -> bool:
    most = schema.get("maximum")
    return isinstance(most, int | float) and number > most
