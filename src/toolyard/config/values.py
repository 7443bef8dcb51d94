"""Readers of single values, and of tables made of them.

Each checks what a key takes and returns it in its final type.

A reader raises `ConfigValueError`, which says what was expected. `substitute` fills in `${NAME}`,
`${NAME:-default}` and references to secrets first.
"""

import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from ..languages import Locale, locale_named
from .errors import ConfigError, ConfigValueError, UnusableEntryError, nearest, nearest_or_all
from .files import display_path
from .references import ReferenceKind, SecretReference, SecretText, placeholders_in, value_of

Reader = Callable[[Any], Any]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGT]B|[KMGT]iB)", re.I)
_FACTORS = {"b": 1} | {
    f"{letter}{unit}": base**power
    for power, letter in enumerate("kmgt", 1)
    for unit, base in (("b", 1000), ("ib", 1024))
}
# In this order, because bool is a subclass of int. Any other type is one of TOML's dates and times.
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
        raise ConfigValueError(f"must be text, not {kind_of(value)}")
    if "\0" in value:
        raise ConfigValueError("contains a null byte")
    return value


def nonempty(value: Any) -> str:
    if not text(value).strip():
        raise ConfigValueError("is empty")
    return value


def short_text(longest: int) -> Reader:
    """Text on one line, without invisible characters, which a model would read."""

    def read(value: Any) -> str:
        visible = "".join(sign for sign in text(value) if sign.isprintable() or sign.isspace())
        line = " ".join(visible.split())
        if len(line) > longest:
            raise ConfigValueError(f"must have at most {longest} characters, not {len(line)}")
        return line

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigValueError(f"must be true or false, not {kind_of(value)}")
    return value


def integer(least: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigValueError(f"must be a whole number, not {kind_of(value)}")
        if value < least:
            raise ConfigValueError(f"must be {least} or more, not {value}")
        return value

    return read


def amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigValueError(f"must be a number over 0, not {value!r}"[:80])
    return float(value)


def networks(value: Any) -> tuple[str, ...]:
    """IP addresses, and networks such as 10.0.0.0/8."""
    found = names(value)
    for one in found:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            raise ConfigValueError(f"has {one!r}, which is no IP address or network") from None
    return found


def seconds(value: Any) -> float:
    return _seconds(value, zero=False)


def seconds_or_zero(value: Any) -> float:
    return _seconds(value, zero=True)


def _seconds(value: Any, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigValueError(f"must be a number of seconds, not {kind_of(value)}")
    if not value >= 0 or (value == 0 and not zero):  # TOML has nan
        raise ConfigValueError(f"must be {'0 or more' if zero else 'more than 0'} seconds, not {value}")
    if value > _LONGEST_WAIT:
        raise ConfigValueError(f"must be at most {_LONGEST_WAIT:.0f} seconds")
    return float(value)


def size(value: Any) -> int:
    count = size_or_zero(value)
    if count < 1:
        raise ConfigValueError("must be more than 0 bytes")
    return count


def size_or_zero(value: Any) -> int:
    """Like `size`, but 0 is allowed and means none."""
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise ConfigValueError(
                "is not a size", 'write it as "512MiB", "2GiB", "100MB", or a number of bytes'
            )
        count = int(float(found[1]) * _FACTORS[found[2].lower()])
    if count < 0:
        raise ConfigValueError("must be 0 bytes or more")
    return count


def one_of(*options: str) -> Reader:
    def read(value: Any) -> str:
        if value not in options:
            shown = " or ".join(f'"{option}"' for option in options)
            raise ConfigValueError(
                f"must be {shown}", nearest(value, options) if isinstance(value, str) else None
            )
        return value

    return read


def locale(value: Any) -> Locale:
    found = locale_named(text(value))
    if found is None:
        raise ConfigValueError('must be "en" or "pt"')
    return found


def some_of(*options: str) -> Reader:
    """A list of one or more of the options, without duplicates."""
    one = one_of(*options)

    def read(value: Any) -> tuple[str, ...]:
        found = tuple(one(item) for item in texts(value))
        if not found or len(set(found)) < len(found):
            raise ConfigValueError("must list at least one value, and each only once")
        return found

    return read


def off_or_some_of(*options: str) -> Reader:
    """One of the options, a list of them, or "off" for none."""
    one, several = one_of("off", *options), some_of(*options)

    def read(value: Any) -> tuple[str, ...]:
        if isinstance(value, list):
            return several(cast(Any, value))
        chosen: str = one(value)
        return () if chosen == "off" else (chosen,)

    return read


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigValueError(f"must be a list of texts, not {kind_of(value)}", 'as in ["one", "two"]')
    items = cast(list[Any], value)
    for item in items:
        if not isinstance(item, str) or "\0" in item:
            raise ConfigValueError(f"must be a list of texts, but contains {kind_of(item)}")
    return tuple(items)


def names(value: Any) -> tuple[str, ...]:
    """A list of names or patterns. An empty text is refused, because it would match nothing."""
    if "" in texts(value):
        raise ConfigValueError("contains an empty text")
    return tuple(value)


def table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigValueError(f"must be a table, not {kind_of(value)}")
    return cast(dict[str, Any], value)


def variables(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, item in table(value).items():
        if not name or "=" in name or "\0" in name:
            raise ConfigValueError(f"has {name!r}, which is not a valid variable name")
        if isinstance(item, int | float) and not isinstance(item, bool):
            item = str(item)
        if not isinstance(item, str) or "\0" in item:
            raise ConfigValueError(f"must contain only texts, but {name!r} is {kind_of(item)}")
        found[name] = item
    return found


def variable_name(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text(value)):
        raise ConfigValueError("is not the name of a variable", "letters, digits and _")
    return value


def stripped(value: str) -> str:
    return SecretText(value.strip(), value.parts) if isinstance(value, SecretText) else value.strip()


def headers(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, item in table(value).items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigValueError(f"has {name!r}, which is not a valid header name")
        if not isinstance(item, str):
            raise ConfigValueError(f"must contain only texts, but {name!r} is {kind_of(item)}")
        if name.lower() in map(str.lower, found):
            raise ConfigValueError(f"has {name!r} twice", "upper and lower case are the same in header names")
        item = stripped(item)
        if any((ord(character) < 32 and character != "\t") or ord(character) == 127 for character in item):
            raise ConfigValueError(f"has a line break or another control character in {name!r}")
        found[name] = item
    return found


def header_name(value: Any) -> str:
    if not _HEADER_NAME.fullmatch(text(value)):
        raise ConfigValueError("is not a valid header name")
    return value


def header_names(value: Any) -> tuple[str, ...]:
    """Header names, in lower case for comparison."""
    return tuple(header_name(name).lower() for name in names(value))


def template(*fields: str) -> Reader:
    """A text with placeholders such as `{field}`."""
    known = ", ".join(f"{{{field}}}" for field in fields)

    def read(value: Any) -> str:
        for found in _PLACE.findall(nonempty(value)):
            if found not in fields:
                raise ConfigValueError(f"has an unknown placeholder {{{found}}}", f"known: {known}")
        return value

    return read


def renames(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, shown in table(value).items():
        if not isinstance(shown, str) or not _SHOWN_NAME.fullmatch(shown):
            rule = "a name has 1 to 64 letters, digits, _ and -"
            raise ConfigValueError(f"gives {name!r} an invalid name", rule)
        if shown in found.values():
            raise ConfigValueError(f"gives two items the name {shown!r}")
        found[name] = shown
    return found


def url(value: Any) -> str:
    address = stripped(text(value))
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is not a number, a bracket that is not closed
        usable = False
    if not usable or any(character.isspace() or ord(character) < 32 for character in address):
        raise ConfigValueError("is not an http or https address", "as in https://example.com/mcp")
    return address


def port(value: Any) -> int:
    """A number, or a text with one, because a variable may contain it."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 65535:
        raise ConfigValueError(f"must be a number from 0 to 65535, not {value!r}"[:80])
    return number


def host_names(value: Any) -> tuple[str, ...]:
    """Host names that clients use for the server, with or without a port; `*` is any."""
    for name in names(value):
        if not _HOST_NAME.fullmatch(name):
            raise ConfigValueError(
                "contains a text that is not a host name", "as in tools.example.com or [::1]:8321"
            )
    return tuple(value)


def origins(value: Any) -> tuple[str, ...]:
    """Origins of web pages, as browsers send them; `*` is any."""
    for origin in names(value):
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ConfigValueError("contains a text that is not an origin", "as in https://app.example.com")
    return tuple(value)


def url_or_empty(value: Any) -> str:
    return url(value) if value != "" else ""


def address_of(what: str, schemes: tuple[str, ...], example: str) -> Reader:
    """The address of a store, or an empty text."""

    def read(value: Any) -> str:
        address = stripped(text(value))
        if address and address.partition(":")[0] not in schemes:
            raise ConfigValueError(f"is not an address of {what}", f"as in {example}")
        return address

    return read


state_url = address_of(
    "a store",
    ("memory", "sqlite", "redis", "rediss", "postgresql", "postgres"),
    '"sqlite:", "sqlite:///path", "redis://host" or "postgresql://host/name"',
)
store_url = address_of(
    "a store for results",
    ("local", "s3", "gs", "az", "supabase"),
    '"local:", "local:/path", "s3://bucket/prefix", "gs://bucket", "az://container" or "supabase://bucket"',
)


_MASTER_KEYS = ("file", "env", "keyring", "aws-kms", "age")


def master_key(value: Any) -> str:
    """Where a master key of the vault is. The key itself is refused: a configuration is no place for it."""
    source = text(value).strip()
    kind, colon, place = source.partition(":")
    if source and (kind not in _MASTER_KEYS or not colon or not place.strip()):
        raise ConfigValueError(
            "does not say where the key is",
            'as in "file:vault.key", "env:NAME", "keyring:SERVICE/NAME", "aws-kms:ARN" or "age:PATH"',
        )
    return source


def master_keys(value: Any) -> tuple[str, ...]:
    return tuple(master_key(one) for one in names(value))


# `$${` is a literal `${`.
_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)\}?")
_BODY = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.S)
_EDITORS = re.compile(r"(?P<kind>[a-z]+):(?=\w)")
_FOLDERS = ("workspaceFolder", "workspaceFolderBasename", "workspaceRoot")


def variables_in(value: Any) -> list[str]:
    """The variables that the texts of a table have, each once."""
    found = (_BODY.fullmatch(body) for body in placeholders_in(value))
    return list(dict.fromkeys(parts["name"] for parts in found if parts is not None))


def substitute(value: Any, env: Mapping[str, str], key: str) -> Any:
    """Fill in the variables in all strings of a value; UnusableEntryError names one that is not set."""
    if isinstance(value, str):
        return _filled(value, env, key) if "${" in value else value
    if isinstance(value, list):
        return [substitute(item, env, key) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {name: substitute(item, env, f"{key}.{name}") for name, item in items}
    return value


def _filled(value: str, env: Mapping[str, str], key: str) -> str:
    """A SecretText if any part of it is one."""
    secrets: list[str] = []

    def fill(found: re.Match[str]) -> str:
        filled = _fill_placeholder(found, env, key)
        if isinstance(filled, SecretText):
            secrets.append(str(filled))
        return filled

    whole = _PLACEHOLDER.sub(fill, value)
    return SecretText(whole, secrets) if secrets else whole


def _fill_placeholder(found: re.Match[str], env: Mapping[str, str], key: str) -> str:
    body = found["body"]
    if body is None:
        return "${"
    reference = SecretReference.parse(body) if found[0].endswith("}") else None
    if reference is not None:
        return value_of(reference, env, key)
    parts = _BODY.fullmatch(body) if found[0].endswith("}") else None
    if parts is None:
        raise _not_a_variable(body, key)
    name, default = parts["name"], parts["default"]
    value = env.get(name)
    if value is None and name == "userHome":
        value = os.path.expanduser("~")
    if default is not None:
        return value or default
    if value is None:
        raise _unset(name, key)
    return value


def _unset(name: str, key: str) -> UnusableEntryError:
    if name in _FOLDERS:
        return UnusableEntryError(
            f"{key!r} uses ${{{name}}}, which only an editor knows",
            f"write the folder instead, or set the variable {name}",
        )
    hint = f"set it, or give a default: ${{{name}:-default}}"
    return UnusableEntryError(f"{key!r} needs the variable {name!r}, which is not set", hint)


def _not_a_variable(body: str, key: str) -> ConfigValueError:
    # The text in the braces is not quoted: it may be the secret itself.
    editors = _EDITORS.match(body)
    if editors is not None:
        kind = editors["kind"]
        if guess := nearest(kind, get_args(ReferenceKind)):
            return UnusableEntryError(f"{key!r} uses ${{{kind}:...}}, which is no reference", guess)
        return UnusableEntryError(
            f"{key!r} uses ${{{kind}:...}}, which only an editor can fill in",
            "use an environment variable instead: ${NAME}",
        )
    hint = "write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
    return ConfigValueError("has an invalid variable reference", hint)


def read_table(
    data: Mapping[str, Any],
    name: str,
    readers: Mapping[str, Reader],
    file: Path,
    env: Mapping[str, str] | None = None,
    only: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """The values of a table; with `env`, variables in its texts, or in these keys only, are filled in."""
    try:
        fields = table(data.get(name, {}))
    except ConfigValueError as error:
        raise ConfigError(f"{display_path(file)}: {name!r} {error.message}") from None
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in readers:
            hint = nearest_or_all(key, readers)
            raise ConfigError(f"{display_path(file)}: [{name}] has an unknown key {key!r}", hint)
        try:
            fills = env is not None and (only is None or key in only)
            values[key] = readers[key](substitute(value, env or {}, key) if fills else value)
        except UnusableEntryError as error:
            raise ConfigError(f"{display_path(file)}: [{name}] {error.message}", error.hint) from None
        except ConfigValueError as error:
            raise ConfigError(
                f"{display_path(file)}: {key!r} of [{name}] {error.message}", error.hint
            ) from None
    return values


def read_rows(
    table_data: Any,
    name: str,
    readers: Mapping[str, Reader],
    file: Path,
    env: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The values of each table of a list, as in `[[access.rules]]`."""
    if not isinstance(table_data, list):
        raise ConfigError(f"{display_path(file)}: {name!r} must be a list of tables", f"as in [[{name}]]")
    rows = cast(list[Any], table_data)
    return [
        read_table({label: row}, label, readers, file, env)
        for row, label in ((row, f"{name} {number}") for number, row in enumerate(rows, 1))
    ]
