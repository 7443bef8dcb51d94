"""Known secrets in texts: the forms in which a text may carry one, and what stands in its place.

`KnownSecrets` are the values that were sent with something; whatever comes back passes there before anybody
sees or stores it. Which values are secret is not known here.

A value is looked for as it is, escaped as in JSON, percent-encoded, in base64 wherever it begins, and in hex.
Base64 and hex stay decodable: the secret in them becomes asterisks. A value that cannot be told from other
words is not hidden: one that is shorter than `MIN_LENGTH`, or that has letters or digits only and is shorter
than `MIN_WORD`. Below that length a value also has to stand alone, so that it is not found inside of others.
"""

import html
import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from .errors import McpError

HIDDEN = "***"
MIN_LENGTH = 6
MIN_WORD = 12
_MIN_ENCODED = 7
"""Characters of base64 that a value alone decides: of fewer, an image would have some by accident."""
MAX_ADDED = 8
"""Of the values that were added, the latest are known: tokens are refreshed as long as a gateway runs."""

_SIMPLE = re.compile(r"[A-Za-z0-9._~-]+")
"""What is written alike everywhere, but for base64 and hex."""
_URL_SAFE = str.maketrans("+/", "-_")
_CODE = re.compile(r"u([0-9a-f]{4})")
_PERCENT = re.compile("%[0-9A-F]{2}")
_DIGITS = re.compile(rb"[0-9.eE+-]+")
_NINES = bytes.maketrans(b"012345678", b"999999999")


def can_be_hidden(value: str) -> bool:
    """Whether a value can be told from other words."""
    if len(value) >= MIN_WORD:
        return True
    return len(value) >= MIN_LENGTH and not value.isalpha() and not value.isdecimal()


def forms_of(value: str) -> dict[str, str]:
    """The forms in which texts carry a value, and what stands in the place of each."""
    found = dict.fromkeys(_written(value), HIDDEN)
    data = value.encode("utf-8", "surrogatepass")
    masked = b"*" * len(data)
    found |= {data.hex(): masked.hex(), data.hex().upper(): masked.hex()}
    for form, stars in zip(_base64(data), _base64(masked), strict=True):
        if len(form) >= _MIN_ENCODED:
            safe = form.translate(_URL_SAFE)
            found |= {form: stars, safe: stars}
            if safe != form:
                found |= dict.fromkeys(_percent(quote(form, safe="")), stars)
    return found


def _written(value: str) -> Iterator[str]:
    """As in a text, in JSON but for its backslashes, in HTML, and percent-encoded."""
    if _SIMPLE.fullmatch(value):
        yield value
        return
    for is_ascii in (False, True):
        escaped = json.dumps(value, ensure_ascii=is_ascii)[1:-1].replace("\\", "")
        yield escaped
        yield _CODE.sub(lambda code: f"u{code[1].upper()}", escaped)
    data = value.encode("utf-8", "surrogatepass")
    yield html.escape(value).replace("\\", "")
    for form in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield from _percent(form)
        yield quote(form, safe="")


def _all_written(values: Iterable[str]) -> frozenset[bytes]:
    return frozenset(form.encode("utf-8", "surrogatepass") for value in values for form in _written(value))


def _percent(quoted: str) -> tuple[str, str]:
    """With either case of its hexadecimal digits."""
    return quoted, _PERCENT.sub(lambda code: code[0].lower(), quoted)


def _base64(data: bytes) -> Iterator[str]:
    """As it is in base64, alone or behind other bytes: the characters that it alone decides."""
    for before in range(3):
        text = b64encode(bytes(before) + data).decode()
        yield text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


_ESCAPE = re.compile(rb"""\\+(?:u00([2-7][0-9A-Fa-f])|(["/]))?""")
"""Of JSON, and of JSON inside of JSON: there are more backslashes at each level."""
_ESCAPED = re.compile(r'(?:\\\\)*\\[^"\\]')
_MOST_ESCAPED = 64
"""Backslashes in a row; more have no meaning that could be lost."""
_ASCII_CODE = re.compile(rb"u00([2-7][0-9A-Fa-f])")


def _character(code: bytes) -> bytes:
    """Nothing for a backslash: forms have none."""
    return b"" if code.lower() == b"5c" else bytes((int(code, 16),))


def _almost_plain(data: bytes) -> bytes:
    """Without backslashes and codes, quickly: what is in none of it is not in the text itself."""
    bare = data.replace(b"\\", b"")
    return _ASCII_CODE.sub(lambda code: _character(code[1]), bare) if b"u00" in bare else bare


class _PlainText:
    """A text without its escapes, and where each part of it stands in the text itself."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._plain, self._from, self._to = [0], [0], [0]
        """Where parts begin, here and there; `_to` is where one ends that is an escape, else 0."""
        pieces: list[bytes] = []
        size = end = 0
        for found in _ESCAPE.finditer(data):
            pieces.append(data[end : found.start()])
            size += found.start() - end
            end = found.end()
            character = _character(found[1]) if found[1] else found[2]
            if character:
                pieces.append(character)
                self._begin(size, found.start(), end)
                size += 1
            self._begin(size, end, 0)
        self.text = bytearray(b"".join([*pieces, data[end:]]))

    def _begin(self, plain: int, start: int, end: int) -> None:
        self._plain.append(plain)
        self._from.append(start)
        self._to.append(end)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of it stands in the text itself."""
        first, last = (bisect_right(self._plain, at) - 1 for at in (start, end - 1))
        begins = self._from[first] + start - self._plain[first]
        return begins, self._to[last] or self._from[last] + end - self._plain[last]

    def backslashes(self, at: int) -> int:
        """How many stand before a place; if they are odd, an escape begins there, as in \\n."""
        before = self._data[max(at - _MOST_ESCAPED, 0) : at]
        return len(before) - len(before.rstrip(b"\\"))

    def stands_alone(self, start: int, end: int) -> bool:
        data = self._data
        if data[end : end + 1].isalnum():
            return False
        is_code = data[start - 3 : start - 2] == b"%"
        return not data[start - 1 : start].isalnum() or is_code or self.backslashes(start - 1) % 2 == 1


class KnownSecrets:
    """`values` are the secrets that count; empty if there is nothing to hide.

    Those that it begins with stay; of those that are added later the latest stay.
    """

    __slots__ = ("_added", "_escapes", "_forms", "_short", "values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values: tuple[str, ...] = tuple(dict.fromkeys(filter(can_be_hidden, values)))
        self._added: tuple[str, ...] = ()
        self._forms: dict[bytes, bytes] | None = None
        """What stands in the place of each form, the longest first. Made when first needed."""
        self._short: frozenset[bytes] = frozenset()
        """Those that have to stand alone."""
        self._escapes: frozenset[bytes] = frozenset()
        """Those that begin with an escape in JSON."""

    def add(self, *values: str) -> None:
        for value in values:
            if value in self.values or not can_be_hidden(value):
                continue
            old, self._added = self._added[: 1 - MAX_ADDED], (*self._added[1 - MAX_ADDED :], value)
            self.values = (*(known for known in self.values if known not in old), value)
            self._forms = None

    def with_more(self, values: Iterable[str]) -> "KnownSecrets":
        """These and others, for what is sent once."""
        return KnownSecrets((*self.values, *values))

    # What they are taken out of

    def clean(self, data: bytes) -> bytes:
        """A text without them; the same object if it has none. JSON stays JSON."""
        forms = self._prepared() if self._forms is None else self._forms
        bare = _almost_plain(data) if b"\\" in data else data
        for form in forms:
            if form in bare:
                return self._cleaned(data, forms)
        return data

    def clean_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        cleaned = self.clean(data)
        return text if cleaned is data else cleaned.decode("utf-8", "surrogatepass")

    def clean_value(self, value: Any) -> Any:
        """A value as JSON has it; the same object if it has none of them, or cannot be JSON."""
        try:
            data = msgspec.json.encode(value)
        except (TypeError, ValueError, msgspec.MsgspecError):
            return value
        cleaned = self.clean(data)
        return value if cleaned is data else msgspec.json.decode(cleaned)

    def clean_error(self, error: McpError) -> None:
        error.message = self.clean_text(error.message)
        error.args = (error.message,)
        error.data = self.clean_value(error.data)

    def clean_start(self, data: bytes) -> tuple[bytes, bytes]:
        """Of a text of which more will come: what is clean, and the rest, where one of them may begin."""
        found = self.clean(data)
        # No escape is torn either: the rest begins with a whole one, or with none.
        cut = len(found[: max(len(found) - self.reach, 0)].rstrip(b"\\"))
        return found[:cut], found[cut:]

    @property
    def reach(self) -> int:
        """How long a form of one can be, with escapes."""
        return max([0, *(8 * len(value.encode("utf-8", "surrogatepass")) for value in self.values)])

    def _prepared(self) -> dict[bytes, bytes]:
        forms = {
            form.encode("utf-8", "surrogatepass"): stars.encode()
            for value in self.values
            for form, stars in forms_of(value).items()
        }
        self._forms = {form: forms[form] for form in sorted(forms, key=len, reverse=True)}
        self._short = _all_written(value for value in self.values if len(value) < MIN_WORD)
        self._escapes = _all_written(value for value in self.values if _ESCAPED.match(json.dumps(value)[1:]))
        return self._forms

    def _cleaned(self, data: bytes, forms: dict[bytes, bytes]) -> bytes:
        # No pattern is made of them: `re` keeps patterns, and some of these are erased after their call.
        plain = _PlainText(data)
        text = plain.text
        found: list[tuple[int, int, bytes]] = []
        for form, stars in forms.items():
            at = text.find(form)
            while at >= 0:
                end = at + len(form)
                start, stop = plain.place(at, end)
                escaped = plain.backslashes(start)
                if form in self._escapes:
                    start, escaped = start - escaped, 0
                if escaped % 2 == 0 and (form not in self._short or plain.stands_alone(start, stop)):
                    # Digits alone may be a number of the JSON, which asterisks are not.
                    number = form.translate(_NINES) if _DIGITS.fullmatch(form) else stars
                    found.append((start, stop, number))
                    text[at:end] = bytes(len(form))
                at = text.find(form, at + 1)
        pieces: list[bytes] = []
        last = 0
        for start, stop, stars in sorted(found):
            pieces += (data[last:start], stars)
            last = stop
        return b"".join([*pieces, data[last:]]) if found else data


NO_SECRETS = KnownSecrets()
"""Of what is sent nothing. Nobody adds to it."""
