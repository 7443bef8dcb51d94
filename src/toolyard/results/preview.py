"""The answer sent in place of a big result: a summary, a preview, and where the whole is stored.

Its JSON is held to the limits of its tool. It goes out as text and as structured content, with a
resource link to the whole; images and links of the result stay with it. Also widens the listed output
schemas to admit this answer, because clients validate against them.
"""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ..languages import said
from .formats.definitions import fit_definitions
from .formats.tables import are_records
from .formats.truncation import excerpt, fit_items, has_marks, shorten, size_of
from .limits import SUMMARY_BYTES, Limits
from .measure import estimate_tokens
from .payload import NOTHING
from .storage import StoredResult
from .summary import ResultSummary, fit_summary

Records = Sequence[dict[str, Any]]

# Escapes characters that would end a cell or a row of a plain table.
_ESCAPES = str.maketrans({"|": r"\|", "\n": r"\n", "\r": r"\r", "\\": r"\\"})


def compact_records(records: Records, form: str, room: int) -> tuple[dict[str, Any], int]:
    """Returns the records in a form, and how many are whole. `auto` takes the form that shows most records,
    and among equals the cheapest."""
    plain = fit_items(records, room)
    best: dict[str, Any] = {"preview": plain}
    shown = len(plain) if plain == records[: len(plain)] else 0
    cost = (-len(plain), estimate_tokens(msgspec.json.encode(plain).decode())) if form == "auto" else (1, 0)
    for name, make in COMPACT_FORMS.items():
        text, count = _longest(records, make, room)
        if form in ("auto", name) and count and (-count, estimate_tokens(text)) < cost:
            best, cost, shown = (
                {"preview": text, "preview_format": name},
                (-count, estimate_tokens(text)),
                count,
            )
    return best, shown


def _longest(records: Records, make: Callable[[Records], str], room: int) -> tuple[str, int]:
    """Returns the text of as many records as fit, and their number."""
    for count in range(len(records), 0, -1):
        text = make(records[:count])
        if size_of(text) <= room:
            return text, count
    return "", 0


def _names(records: Records) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _as_csv(records: Records) -> str:
    names = _names(records)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_cell(record.get(name)) for name in names] for record in records])
    return out.getvalue().removesuffix("\n")


def _as_table(records: Records) -> str:
    names = _names(records)
    rows = [names, *([_cell(record.get(name)) for name in names] for record in records)]
    return "\n".join(" | ".join(cell.translate(_ESCAPES) for cell in row) for row in rows)


COMPACT_FORMS: dict[str, Callable[[Records], str]] = {"csv": _as_csv, "table": _as_table}


def preview_of(summary: ResultSummary, limits: Limits, room: int) -> tuple[dict[str, Any], bool]:
    """Returns `preview` (and `preview_format` if not JSON) in `room` bytes, and whether it is complete."""
    if summary.definitions is not None:
        defined = fit_definitions(summary.definitions, room)
        if defined is not None:
            return {"preview": defined}, defined == summary.definitions
    if summary.text is not None:
        text = _text(summary.text, limits, room)
        return {"preview": text}, text == summary.text and len(text) == summary.fields.get("char_count")
    is_inside = "path" in summary.fields
    if summary.members is not None:
        members = _members(dict(list(summary.members.items())[: limits.preview_items]), room)
        is_all = len(members) == summary.fields["key_count"] and members == summary.members
        return {"preview": members}, is_all and not is_inside
    items = summary.items[: limits.preview_items]
    count = summary.fields["item_count"]
    if limits.compact != "off" and are_records(items):
        shown, rows = compact_records(items, limits.compact, room)
        return shown, rows == count and not is_inside
    shown = fit_items(items, room)
    return {"preview": shown}, len(shown) == count and shown == items and not is_inside


def _text(text: str, limits: Limits, room: int) -> str:
    if limits.shape_always:
        text = text[: limits.preview_chars]
        while text and size_of(text) > room:
            text = text[: len(text) * 2 // 3]
        return text
    return excerpt(text, limits.preview_chars, room)


def _members(members: dict[str, Any], room: int) -> dict[str, Any]:
    """Shows short values whole and lets long ones share the rest of the room; omits the others."""
    if size_of(members) <= room:
        return members
    left = room - len("{}") - sum(size_of(name) + len(":,") for name in members)
    sizes = sorted(map(size_of, members.values()))
    share = left
    for at, size in enumerate(sizes):
        share = left // (len(sizes) - at)
        if size > share:
            break
        left -= size
    shown: dict[str, Any] = {}
    left = room - len("{}")
    for name, value in members.items():
        value = value if size_of(value) <= share else shorten(value, max(40, share))
        left -= size_of(name) + size_of(value) + len(":,")
        if left < 0:
            break
        shown[name] = value
    return shown


WORTHWHILE_SHARE = 0.5
"""A replacement costs at most this share of the result's tokens. A model that needs the rest pays for it and
for another turn: half breaks even if every second result is read further."""
PREVIEW_LEAST = 200
SUMMARY_LEAST = 100
SUMMARY_SHARE = 8
SUMMARY_OF_FEW = 400
"""Bytes; a summary takes up to an eighth of its result's size, or this if that is more."""
_QUOTED = ("last_lines", "headings", "title")
_PREVIEW = len(',"preview":,"preview_format":"table"')

SHAPED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string"},
        "truncated": {"type": "boolean"},
        "summary": {"type": "object"},
        "storage": {"type": "object"},
    },
    "required": ["tool_name", "truncated"],
}
"""The schema of an answer, which every tool's output schema admits besides its own."""


class RemainingContent(Struct, frozen=True):
    """The parts of a result that remain when it is shaped."""

    blocks: tuple[Raw, ...] = ()
    meta: Raw = NOTHING
    is_error: bool = False


class ContentForms(Struct, frozen=True):
    """The texts and the structured content of a result; an answer may replace either."""

    texts: tuple[Raw, ...]
    structured: Raw

    @classmethod
    def of(cls, answer: dict[str, Any], text: str | None = None) -> "ContentForms":
        """Puts an answer into both forms. `text` replaces the text form if the client reads the other one."""
        body = msgspec.json.encode(answer)
        return cls((as_block(body.decode() if text is None else text),), Raw(body))


def as_block(text: str) -> Raw:
    return Raw(msgspec.json.encode({"type": "text", "text": text}))


def preview_answer(
    tool: str, summary: ResultSummary, stored: StoredResult, limits: Limits, hint: str
) -> dict[str, Any]:
    """Builds the answer in place of a big result."""
    room = limits.answer_bytes
    answer: dict[str, Any] = {
        "tool_name": tool,
        "truncated": True,
        "summary": {},
        "preview": "",
        "storage": _storage(stored, room // 2),
    }
    if hint and stored.location is not None:
        is_linked = "url" in answer["storage"]
        address = said(", as storage.url does", ", assim como storage.url") if is_linked else ""
        answer["hint"] = hint.replace("{id}", stored.location.artifact.id).replace("{url}", address)
    fixed = size_of(answer) + _PREVIEW
    most = min(SUMMARY_BYTES, max(room - fixed - PREVIEW_LEAST, SUMMARY_LEAST))
    if not limits.shape_always:
        most = min(most, max(summary.fields["approx_size_bytes"] // SUMMARY_SHARE, SUMMARY_OF_FEW))
    answer["summary"] = fit_summary(
        summary.fields if limits.shape_always else _summary_beside_preview(summary), most
    )
    preview, is_all = preview_of(summary, limits, room - fixed - size_of(answer["summary"]))
    return answer | preview | {"truncated": limits.shape_always or not is_all}


def _summary_beside_preview(summary: ResultSummary) -> dict[str, Any]:
    """Returns the summary without what the preview shows, and without text that needs untrusted marks."""
    fields = {name: _without_marked(value) for name, value in summary.fields.items()}
    if summary.text is None:
        return fields
    # An untrusted part that ends in the last lines may begin before them.
    ends = "\n".join(summary.fields.get("last_lines", ())).replace("</", "<")
    is_marked = has_marks(summary.text) or has_marks(ends)
    left_out = ("first_lines", *(_QUOTED if is_marked else ()))
    return {name: value for name, value in fields.items() if name not in left_out}


def _without_marked(value: Any) -> Any:
    """Removes texts that open an untrusted mark: they were cut, so it would never be closed."""
    if isinstance(value, list):
        return [_without_marked(item) for item in cast(list[Any], value) if not _is_marked(item)]
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _without_marked(item) for name, item in members.items() if not _is_marked(item)}
    return value


def _is_marked(value: Any) -> bool:
    return isinstance(value, str) and has_marks(value)


def token_cost(answer: dict[str, Any], link: dict[str, Any] | None) -> int:
    """Returns the tokens that an answer costs a model."""
    links = "" if link is None else f"{link['name']} {link['uri']}"
    return estimate_tokens(msgspec.json.encode(answer).decode()) + estimate_tokens(links)


def _storage(stored: StoredResult, room: int) -> dict[str, Any]:
    """Leaves out a very long link of the store; the resource leads to the same data."""
    members = stored.as_json()
    if size_of(members) <= room:
        return members
    return {name: value for name, value in members.items() if name not in ("url", "key")}


def as_tool_result(
    forms: ContentForms, beside: RemainingContent, link: dict[str, Any] | None, era: str
) -> Raw:
    """Builds the tool result for an answer."""
    links = () if link is None else (link,)
    result: dict[str, Any] = {
        "content": [*forms.texts, *links, *beside.blocks],
        "structuredContent": forms.structured,
    }
    if beside.is_error:
        result["isError"] = True
    if era == "modern":
        result = {"resultType": "complete", **result}
    if beside.meta is not NOTHING and len(memoryview(beside.meta)):
        result["_meta"] = beside.meta
    return Raw(msgspec.json.encode(result))


_MARK = b'"outputSchema"'
_DATA = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose values are data, whatever they look like."""
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Keywords whose values are objects of schemas under free names."""
_NOT_REBASABLE = frozenset(("$recursiveRef", "$dynamicRef"))


class _CannotRebaseError(Exception):
    """The schema refers to its root in a way that cannot be moved."""


def widen_output_schema(rest: bytes) -> bytes:
    """Widens the output schema in a listed tool's JSON, which lacks its first brace and name."""
    if _MARK not in rest:
        return rest
    try:
        members = msgspec.json.decode(b"{" + rest, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return rest
    schema = members.get("outputSchema")
    if not isinstance(schema, dict):
        return rest
    members["outputSchema"] = either_schema(cast(dict[str, Any], schema))
    return msgspec.json.encode(members)[1:]


def either_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema that also admits the answer in place of a big result."""
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    around = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    # Legacy clients reject a schema without "type": "object" at its top.
    kind = {"type": "object"} if inner.get("type") == "object" else {}
    try:
        return {**around, **kind, "anyOf": [_rebased(inner), SHAPED_SCHEMA]}
    except _CannotRebaseError:
        return {**around, **kind}


def _rebased(schema: Any) -> Any:
    """Adapts references to the schema's new place."""
    if isinstance(schema, list):
        return [_rebased(item) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    members = cast(dict[str, Any], schema)
    if not str(members.get("$id", "#")).startswith("#"):
        return members  # its references are relative to itself
    return {key: _rebased_member(key, value) for key, value in members.items()}


def _rebased_member(key: str, value: Any) -> Any:
    if key in _NOT_REBASABLE:
        raise _CannotRebaseError
    if key == "$ref" and isinstance(value, str):
        return f"#/anyOf/0{value[1:]}" if value == "#" or value.startswith("#/") else value
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, dict):
        return {name: _rebased(item) for name, item in cast(dict[str, Any], value).items()}
    return _rebased(value)
