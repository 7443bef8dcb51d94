"""On which line of a TOML or JSON file a key stands, since their parsers do not say.

Owns no syntax errors: the text has been parsed before, so whatever is met here is well-formed.
"""

import re

from .mistakes import Keys

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


class Lines:
    """Line numbers of a text, by keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = (0, 1)
        self._found: dict[Keys, int] = {}
        self._numbers: dict[Keys, int] = {}  # how many tables of an array (`[[x]]`) there are so far

    @classmethod
    def of_toml(cls, text: str) -> "Lines":
        lines = cls(text)
        lines._document()
        return lines

    @classmethod
    def of_json(cls, text: str) -> "Lines":
        lines = cls(text)
        lines._blank()
        lines._value(())
        return lines

    def __getitem__(self, keys: Keys) -> int:
        """The line of the last of these keys that is in the file; of a missing one, where it would belong."""
        for length in range(len(keys), 0, -1):
            line = self._found.get(keys[:length])
            if line is not None:
                return line
        return 1

    def _document(self) -> None:
        table: Keys = ()
        while True:
            self._blank()
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Keys:
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

    def _numbered(self, names: list[str]) -> Keys:
        """Names after the name of an array of tables are those of its last table."""
        keys: Keys = ()
        for position, name in enumerate(names):
            keys = (*keys, name)
            if position < len(names) - 1 and keys in self._numbers:
                keys = (*keys, self._numbers[keys])
        return keys

    def _pair(self, table: Keys) -> None:
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

    def _value(self, keys: Keys) -> None:
        begins = self._text[self._at : self._at + 1]
        if begins == "{":
            self._inside("}", keys)
        elif begins == "[":
            self._inside("]", keys)
        elif begins in ('"', "'"):
            self._string()
        else:
            self._skip(_SCALAR)

    def _inside(self, end: str, keys: Keys) -> None:
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
