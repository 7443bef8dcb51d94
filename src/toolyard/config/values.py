"""Values of a configuration by kind: what a key takes, checked and in its final type.

A reader takes what the file has and returns the value, or raises `Wrong` with what was expected.
"""

import re
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from .errors import Wrong, nearest

Reader = Callable[[Any], Any]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGT]B|[KMGT]iB)", re.I)
_FACTORS = {"b": 1} | {
    f"{letter}{unit}": base**power
    for power, letter in enumerate("kmgt", 1)
    for unit, base in (("b", 1000), ("ib", 1024))
}
# In this order, since true and false are numbers to Python. What is left is one of TOML's dates and times.
_KINDS = {
    type(None): "null",
    bool: "true or false",
    str: "text",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}
_LONGEST_WAIT = 1e9
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_NAME = re.compile(r"\*|(?:[^\s/:\[\]@]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/@]+/?")
_PLACE = re.compile(r"\{([^{}]*)\}")
_SHOWN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def kind_of(value: Any) -> str:
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "a date")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be text, not {kind_of(value)}")
    if "\0" in value:
        raise Wrong("has a zero byte")
    return value


def filled(value: Any) -> str:
    if not text(value).strip():
        raise Wrong("is empty")
    return value


def short_text(longest: int) -> Reader:
    """Text on one line, without characters that nobody sees: a model would read them."""

    def read(value: Any) -> str:
        visible = "".join(sign for sign in text(value) if sign.isprintable() or sign.isspace())
        line = " ".join(visible.split())
        if len(line) > longest:
            raise Wrong(f"must have at most {longest} characters, not {len(line)}")
        return line

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {kind_of(value)}")
    return value


def whole(least: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"must be a whole number, not {kind_of(value)}")
        if value < least:
            raise Wrong(f"must be {least} or more, not {value}")
        return value

    return read


def seconds(value: Any) -> float:
    return _seconds(value, zero=False)


def seconds_or_none(value: Any) -> float:
    return _seconds(value, zero=True)


def _seconds(value: Any, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Wrong(f"must be a number of seconds, not {kind_of(value)}")
    if not value >= 0 or (value == 0 and not zero):  # TOML has a value that is not a number
        raise Wrong(f"must be {'0 or more' if zero else 'more than 0'} seconds, not {value}")
    if value > _LONGEST_WAIT:
        raise Wrong(f"must be at most {_LONGEST_WAIT:.0f} seconds")
    return float(value)


def size(value: Any) -> int:
    count = size_or_none(value)
    if count < 1:
        raise Wrong("must be more than 0 bytes")
    return count


def size_or_none(value: Any) -> int:
    """0 for none."""
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise Wrong("is not a size", 'write it as "512MiB", "2GiB", "100MB", or a number of bytes')
        count = int(float(found[1]) * _FACTORS[found[2].lower()])
    if count < 0:
        raise Wrong("must be 0 bytes or more")
    return count


def one_of(*options: str) -> Reader:
    def read(value: Any) -> str:
        if value not in options:
            shown = " or ".join(f'"{option}"' for option in options)
            raise Wrong(f"must be {shown}", nearest(value, options) if isinstance(value, str) else None)
        return value

    return read


def some_of(*options: str) -> Reader:
    """A list of these, each once and at least one."""
    one = one_of(*options)

    def read(value: Any) -> tuple[str, ...]:
        found = tuple(one(item) for item in texts(value))
        if not found or len(set(found)) < len(found):
            raise Wrong("must have at least one, and none twice")
        return found

    return read


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Wrong(f"must be a list of texts, not {kind_of(value)}", 'as in ["one", "two"]')
    items = cast(list[Any], value)
    for item in items:
        if not isinstance(item, str) or "\0" in item:
            raise Wrong(f"must be a list of texts, and has {kind_of(item)} in it")
    return tuple(items)


def names(value: Any) -> tuple[str, ...]:
    """A list of names or patterns; an empty one would fit nothing."""
    if "" in texts(value):
        raise Wrong("has an empty text in it")
    return tuple(value)


def table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong(f"must be a table, not {kind_of(value)}")
    return cast(dict[str, Any], value)


def variables(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, item in table(value).items():
        if not name or "=" in name or "\0" in name:
            raise Wrong(f"has {name!r}, which cannot be the name of a variable")
        if isinstance(item, int | float) and not isinstance(item, bool):
            item = str(item)
        if not isinstance(item, str) or "\0" in item:
            raise Wrong(f"must be texts, and {name!r} is {kind_of(item)}")
        found[name] = item
    return found


def headers(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, item in table(value).items():
        if not _HEADER_NAME.fullmatch(name):
            raise Wrong(f"has {name!r}, which cannot be the name of a header")
        if not isinstance(item, str):
            raise Wrong(f"must be texts, and {name!r} is {kind_of(item)}")
        if name.lower() in map(str.lower, found):
            raise Wrong(f"has {name!r} twice", "capital letters make no difference in the name of a header")
        item = item.strip()
        if any((ord(character) < 32 and character != "\t") or ord(character) == 127 for character in item):
            raise Wrong(f"has a line break or another control character in {name!r}")
        found[name] = item
    return found


def header_name(value: Any) -> str:
    if not _HEADER_NAME.fullmatch(text(value)):
        raise Wrong("cannot be the name of a header")
    return value


def header_names(value: Any) -> tuple[str, ...]:
    """Names of headers, in lower case as they are compared."""
    return tuple(header_name(name).lower() for name in names(value))


def template(*fields: str) -> Reader:
    """A text in which `{field}` stands for something."""
    known = ", ".join(f"{{{field}}}" for field in fields)

    def read(value: Any) -> str:
        for found in _PLACE.findall(filled(value)):
            if found not in fields:
                raise Wrong(f"has {{{found}}} in it, which stands for nothing", f"known are {known}")
        return value

    return read


def renames(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, shown in table(value).items():
        if not isinstance(shown, str) or not _SHOWN_NAME.fullmatch(shown):
            rule = "a name has 1 to 64 letters, digits, _ and -"
            raise Wrong(f"cannot show {name!r} under the name that is given", rule)
        if shown in found.values():
            raise Wrong(f"shows two under the one name {shown!r}")
        found[name] = shown
    return found


def url(value: Any) -> str:
    address = text(value).strip()
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable or any(character.isspace() or ord(character) < 32 for character in address):
        raise Wrong("is not an http or https address", "as in https://example.com/mcp")
    return address


def port(value: Any) -> int:
    """A number, or a text of one: a variable may hold it."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 65535:
        raise Wrong("must be 0 to 65535")
    return number


def host_names(value: Any) -> tuple[str, ...]:
    """Names by which clients call a server, with or without a port; `*` is any."""
    for name in names(value):
        if not _HOST_NAME.fullmatch(name):
            raise Wrong("has a text in it that is not a host name", "as in tools.example.com or [::1]:8321")
    return tuple(value)


def origins(value: Any) -> tuple[str, ...]:
    """Web pages as browsers name them; `*` is any."""
    for origin in names(value):
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise Wrong("has a text in it that is not an origin", "as in https://app.example.com")
    return tuple(value)


def url_or_nothing(value: Any) -> str:
    return url(value) if value != "" else ""


def address_of(what: str, schemes: tuple[str, ...], example: str) -> Reader:
    """The address of a store, or nothing."""

    def read(value: Any) -> str:
        address = text(value).strip()
        if address and address.partition(":")[0] not in schemes:
            raise Wrong(f"is not an address of {what}", f"as in {example}")
        return address

    return read


state_url = address_of(
    "a store",
    ("memory", "sqlite", "redis", "rediss", "postgresql", "postgres"),
    '"sqlite:", "sqlite:///path", "redis://host" or "postgresql://host/name"',
)
store_url = address_of(
    "a place for results",
    ("local", "s3", "gs", "az", "supabase"),
    '"local:", "local:/path", "s3://bucket/prefix", "gs://bucket", "az://container" or "supabase://bucket"',
)
