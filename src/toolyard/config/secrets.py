"""Which values of a configuration are secret: the one list, for what is sent, traced and recorded.

A model of the configuration marks its secret fields by their type: `Secret`, `Headers`, `Variables`,
`Options` and `Arguments`. Whatever came from a reference counts, and so does what a URL carries.

In tables whose names are free, the name decides first. A header or variable whose name tells nothing counts
by its form: `secret_values` has those that look like a credential and like nothing else, so that no result
of a server loses words to them; `possible_secrets` has those that may be one, for what only we read.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, cast, get_type_hints
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from .references import SecretText

Secret = Annotated[str, "secret"]
Headers = Annotated[dict[str, str], "headers"]
Variables = Annotated[dict[str, str], "variables"]
Options = Annotated[Mapping[str, Any], "options"]
Texts = Annotated[dict[str, str], "options"]
Arguments = Annotated[tuple[str, ...], "arguments"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TELLING = re.compile(
    r".*(?:authorization|auth|keys?|token|secret|pass(?:wd|word|phrase)?|pwd|credentials?|cookie|dsn|pin"
    r"|bearer|signature|jwt)"
)
_ABOUT = re.compile(
    r"algorithm|dir|enabled|file|header|host|id|length|method|mode|name|path|prefix|scheme|sock|ttl|type|ur[il]"
    r"|version"
)
"""Last words of names that say something about a secret, and have none: `key_id`, `AUTH_TYPE`."""
_HARMLESS = re.compile(
    r"accept|account|agent|client|encoding|env|environment|host|id|ids|lang|language|locale|mode|model|name"
    r"|org|organization|origin|project|readonly|referer|region|site|team|tenant|timezone|tools|toolsets|type"
    r"|ur[il]|user|version|workspace"
)
"""Last words of the names of headers with identifiers, which results of the server are full of."""
_PLACE = re.compile(r"[./~]|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://|[a-z]+/[a-z0-9.+-]+(?:$|;)", re.I)
"""Paths, addresses and media types."""
_WORDS = re.compile(r"[a-z]+|[A-Z]?[a-z]+|[\d.]+|[A-Z]+", re.ASCII)
_MIXED = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{12,}")
_SEGMENT = re.compile(r"(?=.*[A-Za-z0-9]{16})[\w~.-]{24,}")
"""A part of an address that is a key, as some services have it there; no UUID is one."""
_LINE = re.compile(r"[\w+/=.~-]{16,}")
_HEADER = re.compile(r"([\w-]+)\s*:\s*([^\s/].*)", re.S)
MIN_HEADER = 12
MIN_VARIABLE = 16
MIN_POSSIBLE = 6

_IsSecret = Callable[[str, str], bool]


def secret_values(settings: Any) -> Iterator[str]:
    """What certainly is a secret in a part of a configuration, or in all of it."""
    return filter(None, _with_parts(_values(settings, _is_header, _is_variable)))


def possible_secrets(settings: Any) -> Iterator[str]:
    """The same, and what may be one."""
    return filter(None, _with_parts(_values(settings, _may_be_header, _may_be_variable)))


def is_secret_name(name: str) -> bool:
    """Whether a header, variable or key with this name has a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and not _ABOUT.fullmatch(words[-1]) and any(map(_TELLING.fullmatch, words))


def parts_of(value: str) -> Iterator[str]:
    """A credential without its scheme, and the parts of it that appear alone."""
    yield from _in_url(value)
    if _is_place(value):
        return
    scheme, _, rest = value.partition(" ")
    if not rest or not scheme.isalpha():
        yield value
        for pair in value.split("; ") if "=" in value else ():  # of cookies
            yield pair.partition("=")[2]
        return
    yield rest
    if scheme.lower() == "basic":
        with suppress(ValueError):
            yield b64decode(rest, validate=True).decode().partition(":")[2]


def _with_parts(values: Iterator[str]) -> Iterator[str]:
    for value in values:
        yield value
        yield from _inside(value)


def _inside(value: str) -> Iterator[str]:
    """Of a secret with several in it: the members of a JSON object, the lines of a key in PEM."""
    if value.startswith("{"):
        with suppress(ValueError, RecursionError):
            members = _marked(msgspec.json.decode(value.encode()))
            yield from _with_parts(text for name, _, text in members if is_secret_name(name))
    for line in value.split("\n") if "\n" in value else ():
        if _LINE.fullmatch(line.strip()) and _MIXED.search(line):
            yield line.strip()


def _values(settings: Any, is_header: _IsSecret, is_variable: _IsSecret) -> Iterator[str]:
    for name, kind, value in _marked(settings):
        if isinstance(value, SecretText):
            yield from value.parts
        if kind == "secret":
            yield value
            continue
        is_secret = (
            (kind == "headers" and is_header(name, value))
            or (kind == "variables" and is_variable(name, value))
            or (kind == "options" and is_secret_name(name))
        )
        yield from (parts_of if is_secret else _in_url)(value)


def _marked(value: Any, name: str = "", kind: str = "") -> Iterator[tuple[str, str, str]]:
    """The texts in a value, each with its name and the mark of what it stands in."""
    if isinstance(value, str):
        yield name, kind, value
    elif isinstance(value, Struct):
        marks = _marks(type(value))
        for field in value.__struct_fields__:
            yield from _marked(getattr(value, field), field, marks.get(field, ""))
    elif isinstance(value, Mapping):
        for key, item in cast(Mapping[str, Any], value).items():
            yield from _marked(item, str(key), kind)
    elif isinstance(value, list | tuple):
        items = cast(Sequence[Any], value)
        if kind == "arguments":
            yield from _arguments(items)
        else:
            for item in items:
                yield from _marked(item, name, kind)


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Of a command: what follows `--token`, or stands behind `--token=` or `Authorization:`."""
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if is_secret_name(before) and before.startswith("-") and not word.startswith("-"):
            yield before, "secret", word
        elif equals and is_secret_name(option):
            yield option, "secret", value
        elif (header := _HEADER.fullmatch(word)) and is_secret_name(header[1]):
            yield header[1], "headers", header[2]
        yield "", "", word


@cache
def _marks(kind: type[Struct]) -> dict[str, str]:
    """The marks of the fields of a model."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def _is_header(name: str, value: str) -> bool:
    if is_secret_name(name):
        return True
    is_open = " " not in value and not _is_place(value) and any(map(str.isdigit, value))
    return is_open and len(value) >= MIN_HEADER and not _names(name, _HARMLESS)


def _is_variable(name: str, value: str) -> bool:
    if is_secret_name(name):
        return True
    is_open = " " not in value and not _is_place(value)
    return is_open and len(value) >= MIN_VARIABLE and _MIXED.search(value) is not None


def _may_be_header(name: str, value: str) -> bool:
    return is_secret_name(name) or not _names(name, _HARMLESS)


def _may_be_variable(name: str, value: str) -> bool:
    if is_secret_name(name):
        return True
    return len(value) >= MIN_POSSIBLE and not _is_place(value) and _WORDS.fullmatch(value) is None


def _names(name: str, words: re.Pattern[str]) -> bool:
    found = _WORD.findall(name)
    return bool(found) and words.fullmatch(found[-1].lower()) is not None


def _is_place(value: str) -> bool:
    """Whether it is a path, an address or a media type; a key in base64 may begin like a path."""
    return _PLACE.match(value) is not None and ("://" in value or _MIXED.search(value) is None)


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return
    if password:
        yield unquote(password)
    for segment in (parts.username or "", *parts.path.split("/")):
        if _is_key(unquote(segment)):
            yield unquote(segment)
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if is_secret_name(unquote(name)) or _is_key(unquote(value)):
            yield unquote(value)


def _is_key(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None and _MIXED.search(text) is not None
