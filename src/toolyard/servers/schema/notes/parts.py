"""A file as parts that know their place, so that whatever is wrong can be said with the line.

YAML is composed and never constructed: no tag makes an object. A file that is too big, too deep or unfolds
into too much is refused before anything walks through it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from .knowledge import NotesError

MOST_BYTES = 2 * 1024 * 1024
MOST_DEPTH = 20
MOST_PARTS = 100_000
"""With every alias written out: a few lines of YAML can stand for billions."""


class Part(Struct, frozen=True):
    value: "str | list[Part] | dict[str, Part]"
    """A text, a list of parts, or parts by their names; a number or nothing is its text."""
    place: str
    """As in `shop.yaml, line 3`."""

    def wrong(self, why: str) -> NotesError:
        return NotesError(f"{self.place}: {why}")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"a text is expected here, not {_kind(self.value)}")
        return self.value.strip()

    def items(self) -> "list[Part]":
        if self.value == "":  # `rules:` with nothing behind it
            return []
        if not isinstance(self.value, list):
            raise self.wrong(f"a list is expected here, not {_kind(self.value)}")
        return self.value

    def members(self) -> "dict[str, Part]":
        if self.value == "":
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong(f"names with values are expected here, not {_kind(self.value)}")
        return self.value


def _kind(value: Any) -> str:
    return (
        "a list" if isinstance(value, list) else "names with values" if isinstance(value, dict) else "a text"
    )


def read(path: Path, shown: str) -> Part:
    """A file; `shown` is how it is called in messages."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NotesError(f"{shown}: the file is over {MOST_BYTES >> 20} MiB; split it")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise NotesError(f"{shown}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise NotesError(f"{shown}: is not UTF-8 (byte {error.start})") from None
    return _json(text, shown) if path.suffix == ".json" else _yaml(text, shown)


# JSON


def _json(text: str, shown: str) -> Part:
    try:
        return _of_data(json.loads(text), shown, "", MOST_DEPTH)
    except json.JSONDecodeError as error:
        raise NotesError(f"{shown}, line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise NotesError(f"{shown}: is nested too deeply") from None


def _of_data(data: Any, shown: str, path: str, depth: int) -> Part:
    place = f"{shown}, {path}" if path else shown
    if depth == 0:
        raise NotesError(f"{place}: is nested too deeply")
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data).items()
        value = {name: _of_data(one, shown, f"{path}.{name}".lstrip("."), depth - 1) for name, one in members}
        return Part(value, place)
    if isinstance(data, list):
        items = enumerate(cast("list[Any]", data))
        return Part([_of_data(one, shown, f"{path}[{at}]", depth - 1) for at, one in items], place)
    return Part("" if data is None else data if isinstance(data, str) else json.dumps(data), place)


# YAML


def _yaml(text: str, shown: str) -> Part:
    import yaml as package  # 15 ms of CPU, and only where there are such files

    yaml = cast(Any, package)  # it comes without types
    # The same in C where it was built with it; both only compose here.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(yaml.parse(text, loader), shown)
        node = yaml.compose(text, loader)
    except yaml.YAMLError as error:
        raise NotesError(_syntax(error, shown)) from None
    if node is None:
        return Part("", shown)
    _check_extent(node, {}, shown)
    return _of_node(node, shown)


def _check_depth(events: Iterator[Any], shown: str) -> None:
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MOST_DEPTH:
            raise NotesError(f"{shown}, line {event.start_mark.line + 1}: is nested too deeply")


class _Extent(Struct, frozen=True):
    """How much a node is when all aliases are written out."""

    parts: int
    depth: int


def _check_extent(node: Any, known: dict[int, "_Extent | None"], shown: str) -> _Extent:
    place = f"{shown}, line {node.start_mark.line + 1}"
    if id(node) in known:
        extent = known[id(node)]
        if extent is None:
            raise NotesError(f"{place}: contains itself")
        return extent
    known[id(node)] = None  # still counting
    inside = [_check_extent(child, known, shown) for child in _children(node)]
    extent = _Extent(1 + sum(one.parts for one in inside), 1 + max((one.depth for one in inside), default=0))
    if extent.parts > MOST_PARTS:
        raise NotesError(f"{place}: is too much with its aliases written out (over {MOST_PARTS:,} parts)")
    if extent.depth > MOST_DEPTH:
        raise NotesError(f"{place}: is nested too deeply with its aliases written out")
    known[id(node)] = extent
    return extent


def _children(node: Any) -> list[Any]:
    if node.id == "mapping":
        return [part for pair in node.value for part in pair]
    return list(node.value) if node.id == "sequence" else []


def _of_node(node: Any, shown: str) -> Part:
    place = f"{shown}, line {node.start_mark.line + 1}"
    if node.id == "sequence":
        return Part([_of_node(child, shown) for child in node.value], place)
    if node.id == "mapping":
        return Part(_of_pairs(node, shown), place)
    empty = node.tag == "tag:yaml.org,2002:null"
    return Part("" if empty else str(node.value), place)


def _of_pairs(node: Any, shown: str) -> dict[str, Part]:
    members: dict[str, Part] = {}
    for key, value in node.value:
        place = f"{shown}, line {key.start_mark.line + 1}"
        if key.id != "scalar":
            raise NotesError(f"{place}: a name is expected before the colon")
        if key.value in members:
            raise NotesError(f"{place}: {key.value!r} is there twice")
        members[key.value] = _of_node(value, shown)
    return members


def _syntax(error: Any, shown: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
    return f"{shown}, line {mark.line + 1}: {problem}" if mark is not None else f"{shown}: {problem}"
