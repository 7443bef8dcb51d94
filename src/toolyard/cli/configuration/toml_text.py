"""Adds, replaces and removes server entries in the text of a TOML file; all other text stays as it is.

Entries with their own header (`[servers.git]`) are edited as lines, because a comment above the next
header belongs to that header. Other forms (`git = { ... }`, `git.command = ...`) are edited by
tomlkit.
"""

import json
import re
import tomllib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from ..json_values import JsonMapping, as_list, as_object

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.S,
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Lines = list[str]


class TomlEditError(Exception):
    """Valid TOML that tomlkit cannot edit."""


class TomlSection(Struct, frozen=True):
    """A header and the lines under it, up to `end`. Blanks and comments before the next header are from
    `end` to `stop`."""

    path: tuple[str, ...]
    start: int
    end: int
    stop: int


def add_entry(text: str, table: str, name: str, fields: Mapping[str, Any]) -> str:
    """Append the entry under its own header."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{_key(table)}.{_key(name)}]", *(f"{_key(key)} = {_value(fields[key])}" for key in fields), ""]
    if text and not text.endswith("\n"):
        text += end
    return text + (end if text.strip() else "") + end.join(lines)


def remove_entry(text: str, table: str, name: str) -> str:
    lines = _LINE.findall(text)
    found = _sections_of(lines, table, name)
    if not found:
        return _without_header(text, table, name)
    for section in reversed(found):
        _cut(lines, section)
    return "".join(lines)


def replace_entry(text: str, table: str, name: str, fields: Mapping[str, Any], keep: tuple[str, ...]) -> str:
    """Replace the fields of an entry; the old ones in `keep` stay, with their comments."""
    lines = _LINE.findall(text)
    sections = _sections_of(lines, table, name)
    main = next((section for section in sections if len(section.path) == 2), None)
    if main is None:
        old = tomllib.loads(text)[table][name]
        kept = {key: old[key] for key in keep if key in old and key not in fields}
        return add_entry(remove_entry(text, table, name), table, name, {**fields, **kept})
    for section in reversed(sections):
        if section is main:
            body = "".join(lines[section.start : section.end])
            lines[section.start : section.end] = [_edited(body, table, name, fields, keep)]
        elif section.path[2] not in keep:
            _cut(lines, section)
    return "".join(lines)


def _edited(body: str, table: str, name: str, fields: Mapping[str, Any], keep: tuple[str, ...]) -> str:
    import tomlkit  # 11 ms of CPU, and most edits do not need it

    with _editing():
        document: Any = tomlkit.parse(body)
        entry = document[table][name]
        for key in [key for key in entry if key not in fields and key not in keep]:
            del entry[key]
        for key, value in fields.items():
            entry[key] = _inline(value) if isinstance(value, dict) else value
        written = tomlkit.dumps(document)
    return written if written.endswith("\n") else f"{written}\n"


def _inline(value: Any) -> Any:
    import tomlkit

    item: Any = tomlkit.inline_table()
    item.update(value)
    return item


def _without_header(text: str, table: str, name: str) -> str:
    import tomlkit

    with _editing():
        document: Any = tomlkit.parse(text)
        del document[table][name]
        return tomlkit.dumps(document)


@contextmanager
def _editing() -> Generator[None, None, None]:
    from tomlkit.exceptions import TOMLKitError

    try:
        yield
    except (TOMLKitError, KeyError) as error:
        raise TomlEditError(str(error)) from error


def _sections_of(lines: Lines, table: str, name: str) -> list[TomlSection]:
    return [section for section in _sections(lines) if section.path[:2] == (table, name)]


def _cut(lines: Lines, section: TomlSection) -> None:
    del lines[section.start : section.end]
    # Blank lines on both sides would add up.
    at = section.start
    while at and not lines[at - 1].strip() and (at == len(lines) or not lines[at].strip()):
        at -= 1
        del lines[at]
    if at == 0:
        while lines and not lines[0].strip():
            del lines[0]


def _sections(lines: Lines) -> Iterator[TomlSection]:
    headers = list(_headers(lines))
    ends = [start for start, _ in headers[1:]] + [len(lines)]
    for (start, path), stop in zip(headers, ends, strict=False):
        yield TomlSection(path, start, _end(lines, start, stop), stop)


def _end(lines: Lines, start: int, stop: int) -> int:
    """Comments right under the last key belong to the section, unless the next header follows directly."""
    last = stop
    while last > start + 1 and _is_blank_or_comment(lines[last - 1]):
        last -= 1
    blank = next((number for number in range(last, stop) if not lines[number].strip()), None)
    if blank is None:
        return stop if stop == len(lines) else last
    return blank


def _is_blank_or_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _headers(lines: Lines) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line and path of each table header. Brackets in strings, arrays and comments do not count."""
    text = "".join(lines)
    number, line_start, depth = 0, 0, 0
    for token in _TOKEN.finditer(text):
        found = token[0]
        if found == "[" and depth == 0 and not text[line_start : token.start()].strip():
            yield number, _path(lines[number])
        if found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        elif "\n" in found:
            number += found.count("\n")
            line_start = token.start() + found.rindex("\n") + 1


def _path(header: str) -> tuple[str, ...]:
    found: JsonMapping = tomllib.loads(header)
    path: list[str] = []
    while found:
        key, inside = next(iter(found.items()))
        path.append(key)
        found = as_object(inside)
    return tuple(path)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _string(value: str) -> str:
    # TOML escapes as JSON does, and one more character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        items = [f"{_key(key)} = {_value(item)}" for key, item in as_object(value).items()]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in as_list(value))}]"
    return repr(value)
