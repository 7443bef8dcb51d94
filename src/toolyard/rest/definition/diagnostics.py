"""Which keys of a definition file are unknown, missing or of a wrong type, and on which line they stand.

msgspec stops at the first error and parsers give no lines, so both are worked out here; only when something
is wrong.
"""

import re
import typing
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, cast

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType

from ...config.errors import nearest, nearest_or_all
from .model import DefinitionProblem, KeyPath

_AT = re.compile(r"(.*) - at `\$(.*)`$", re.S)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_PLAIN = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list: […]",
    "object": "a table",
}


def structure_problems(raw: Any, kind: type[Struct], keys: KeyPath = ()) -> Iterator[DefinitionProblem]:
    if not isinstance(raw, dict):
        yield DefinitionProblem(keys, f"must be a table, not {_name(raw)}")
        return
    values = cast("dict[str, Any]", raw)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind)
    for key, value in values.items():
        if key not in fields:
            yield DefinitionProblem((*keys, key), f"there is no key {key!r} here", _known_key(key, fields))
        else:
            yield from _of_value(value, hints[fields[key].name], (*keys, key))
    for key, field in fields.items():
        if field.default is NODEFAULT and field.default_factory is NODEFAULT and key not in values:
            yield DefinitionProblem(keys, f"the key {key!r} is missing")


def _known_key(key: str, fields: Mapping[str, Any]) -> str:
    return nearest(key, fields) or f"known: {', '.join(fields)}"


def _of_value(value: Any, kind: Any, keys: KeyPath) -> Iterator[DefinitionProblem]:
    struct = _struct_of(kind)
    if struct is not None:
        yield from structure_problems(value, struct, keys)
        return
    inner = _struct_in_dict(kind)
    if inner is not None and isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from structure_problems(item, inner, (*keys, name))
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        yield _explained(str(error), value, kind, keys)


def _struct_of(kind: Any) -> type[Struct] | None:
    """A struct, or a struct that may be left out."""
    if typing.get_origin(kind) in (Union, UnionType):
        kinds = [item for item in typing.get_args(kind) if item not in (type(None), UnsetType)]
        kind = kinds[0] if len(kinds) == 1 else None
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None


def _struct_in_dict(kind: Any) -> type[Struct] | None:
    return _struct_of(typing.get_args(kind)[1]) if typing.get_origin(kind) is dict else None


def _explained(message: str, value: Any, kind: Any, keys: KeyPath) -> DefinitionProblem:
    at = _AT.match(message)
    message, inside = (at[1], _steps(at[2])) if at else (message, ())
    if typing.get_origin(kind) is Literal and isinstance(value, str):
        choices = [choice for choice in typing.get_args(kind) if choice]
        return DefinitionProblem(keys, f"{value!r} is not possible here", nearest_or_all(value, choices))
    expected = re.match(r"Expected `([^`]*)`, got `([^`]*)`", message)
    if expected:
        wanted = " or ".join(_PLAIN.get(name.strip(), name.strip()) for name in expected[1].split("|"))
        return DefinitionProblem((*keys, *inside), f"must be {wanted}, not {_name(_at(value, inside))}")
    return DefinitionProblem((*keys, *inside), message[:1].lower() + message[1:])


def _steps(path: str) -> KeyPath:
    return tuple(name if name else int(number) for name, number in _STEP.findall(path))


def _at(value: Any, keys: KeyPath) -> Any:
    """Values of dictionaries are `[...]` in msgspec's paths, without their names: then the nearest known."""
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _name(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"


_BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:[^"\\]|\\.)*"|' r"'[^']*'",
    re.S,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.S)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class LineIndex:
    """Line numbers of a text, by keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = (0, 1)
        self._found: dict[KeyPath, int] = {}
        self._numbers: dict[KeyPath, int] = {}  # how many tables of an array (`[[x]]`) there are so far

    @classmethod
    def of_toml(cls, text: str) -> "LineIndex":
        lines = cls(text)
        lines._document()
        return lines

    @classmethod
    def of_json(cls, text: str) -> "LineIndex":
        lines = cls(text)
        lines._blank()
        lines._value(())
        return lines

    def __getitem__(self, keys: KeyPath) -> int:
        """The line of the last of these keys that is in the file; of a missing one, where it would belong."""
        for length in range(len(keys), 0, -1):
            line = self._found.get(keys[:length])
            if line is not None:
                return line
        return 1

    def _document(self) -> None:
        table: KeyPath = ()
        while True:
            self._blank()
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        line = self._line()
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        names = self._dotted()
        self._at = self._text.index("]", self._at) + (2 if many else 1)
        table = self._numbered(names)
        if many:
            number = self._numbers.get(table, -1) + 1
            self._numbers[table] = number
            self._found.setdefault(table, line)
            table = (*table, number)
        for length in range(1, len(table) + 1):
            self._found.setdefault(table[:length], line)
        # A table that was only named as part of another one's name begins where it has its own header.
        self._found[table] = line
        return table

    def _numbered(self, names: list[str]) -> KeyPath:
        """Names after the name of an array of tables are those of its last table."""
        keys: KeyPath = ()
        for position, name in enumerate(names):
            keys = (*keys, name)
            if position < len(names) - 1 and keys in self._numbers:
                keys = (*keys, self._numbers[keys])
        return keys

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        keys = table
        for name in self._dotted():
            keys = (*keys, name)
            self._found.setdefault(keys, line)
        self._skip(_SPACE)
        self._at += 1  # the = of TOML, the : of JSON
        self._blank()
        self._value(keys)

    def _dotted(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            names.append(self._name())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return names
            self._at += 1

    def _name(self) -> str:
        bare = _BARE.match(self._text, self._at)
        if bare is not None:
            self._at = bare.end()
            return bare[0]
        string = self._string()
        return string[1:-1] if string.startswith("'") else _ESCAPE.sub(_unescaped, string[1:-1])

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return found[0]

    def _value(self, keys: KeyPath) -> None:
        begins = self._text[self._at : self._at + 1]
        if begins == "{":
            self._inside("}", keys)
        elif begins == "[":
            self._inside("]", keys)
        elif begins in ('"', "'"):
            self._string()
        else:
            self._skip(_SCALAR)

    def _inside(self, end: str, keys: KeyPath) -> None:
        self._at += 1
        number = 0
        while True:
            self._blank()
            if self._text.startswith(end, self._at):
                self._at += 1
                return
            if end == "}":
                self._pair(keys)
            else:
                item = (*keys, number)
                self._found[item] = self._line()
                self._value(item)
                number += 1

    def _blank(self) -> None:
        self._skip(_BLANK)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _line(self) -> int:
        at, line = self._counted
        self._counted = (self._at, line + self._text.count("\n", at, self._at))
        return self._counted[1]


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else _ESCAPED.get(found[3], found[3])
