"""The limits of a tool's results: from the configuration, the tool's own declaration, and the caller.

Says nothing about a given result; `shaper` holds results to these limits.
"""

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..config import ResultsConfig
from ..config.models import ServerResults
from ..kit.features.base import BOUNDED
from ..languages import said
from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode

T = TypeVar("T")

LEAST_BYTES = 1_500
"""An answer in place of a big result needs at least this; lower limits count as this one."""
SUMMARY_BYTES = 2_000
NO_LIMIT = 2**62


class Limits(Struct, frozen=True):
    max_bytes: int = 4_000
    max_items: int = 20
    max_lines: int = 20
    preview_items: int = 10
    preview_chars: int = 1_200
    compact: str = "off"
    max_bounded_bytes: int = 100_000
    """Up to this size a result passes if its tool declares that it bounds its results for a model."""
    shape_always: bool = False
    """Whether to shape every result over a limit, even if that saves nothing: the contract of Suna."""

    @property
    def answer_bytes(self) -> int:
        """The most bytes that the JSON in place of a big result may have."""
        return max(self.max_bytes, LEAST_BYTES)

    def by_bytes_alone(self, max_bytes: int | None = None) -> "Limits":
        """The limit in bytes without those on items and lines."""
        size = self.max_bytes if max_bytes is None else max_bytes
        return replace(self, max_bytes=size, max_items=NO_LIMIT, max_lines=NO_LIMIT)


def limits_for(
    settings: ResultsConfig, server: ServerResults, own: str, full: str, shape_always: bool = False
) -> Limits | None:
    """The limits of a tool, by its own and its full name; None if its results pass as they are."""
    mine = server.tools.get(own, server)
    shape = _first(mine.shape, server.shape, settings.shape)
    if not shape or any(fnmatchcase(full, pattern) for pattern in settings.exempt):
        return None
    return Limits(
        max_bytes=_first(mine.max_bytes, server.max_bytes, settings.max_bytes),
        max_items=_first(mine.max_items, server.max_items, settings.max_items),
        max_lines=_first(mine.max_lines, server.max_lines, settings.max_lines),
        preview_items=settings.preview_items,
        preview_chars=settings.preview_chars,
        compact=settings.compact,
        max_bounded_bytes=_first(mine.bounded, server.bounded, settings.bounded),
        shape_always=shape_always,
    )


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)


MOST_BYTES = 2**20
MOST_FIELDS = 50
FIELDS, MAX_BYTES = OPTION_NAMES = "_fields", "_max_bytes"


class ResultOptions(Struct, frozen=True):
    fields: tuple[str, ...] = ()
    max_bytes: int | None = None


NO_OPTIONS = ResultOptions()


# Begins with the underscore, which is rarer than a quotation mark: a third of the time.
has_options = re.compile(rb'_(?:fields|max_bytes)"').search
"""Whether JSON may hold one of the options; a match can also stand inside a text."""


def take_options(params: Raw, own: Collection[str] = ()) -> tuple[Raw, ResultOptions]:
    """The parameters without the options, and the options. InvalidParams if an option is not valid.

    `own`: parameters of the tool itself, which stay where they are.
    """
    members = decode_params(params, dict[str, Raw])
    try:
        arguments = msgspec.json.decode(members.get("arguments", Raw(b"{}")), type=dict[str, Raw])
    except msgspec.DecodeError:
        return params, NO_OPTIONS  # the upstream will say what is wrong
    found = {name: arguments.pop(name) for name in OPTION_NAMES if name in arguments and name not in own}
    if not found:
        return params, NO_OPTIONS
    fields, most = (msgspec.json.decode(found.get(name, Raw(b"null"))) for name in OPTION_NAMES)
    # Models write `null` for options that they do not want.
    options = ResultOptions(
        () if fields is None else _read_fields(fields), None if most is None else _read_max_bytes(most)
    )
    return Raw(encode({**members, "arguments": arguments})), options


def _read_fields(value: Any) -> tuple[str, ...]:
    names: Any = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    right = isinstance(names, list) and 0 < len(cast(list[Any], names)) <= MOST_FIELDS
    if not right or not all(isinstance(name, str) and name for name in cast(list[Any], names)):
        raise InvalidParams(
            said(
                f'{FIELDS} is a list of 1 to {MOST_FIELDS} names, as in ["id", "user.login"]',
                f'{FIELDS} é uma lista de 1 a {MOST_FIELDS} nomes, como ["id", "user.login"]',
            )
        )
    return tuple(cast(list[str], names))


def _read_max_bytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BYTES:
        raise InvalidParams(
            said(
                f"{MAX_BYTES} is a number of bytes from 1 to {MOST_BYTES}",
                f"{MAX_BYTES} é um número de bytes de 1 a {MOST_BYTES}",
            )
        )
    return value


MOST_CHARS = "anthropic/maxResultSizeChars"
"""In a tool's `_meta`, for Claude Code: results up to so many characters are to be shown whole."""


class _Meta(Struct, gc=False):
    bounded: Any = field(default=None, name=BOUNDED)
    most_chars: Any = field(default=None, name=MOST_CHARS)


class _Schema(Struct, frozen=True):
    properties: dict[str, Any] = {}


class _Definition(Struct, rename="camel"):
    input_schema: _Schema = _Schema()
    meta: Raw = field(default=Raw(b""), name="_meta")


_decode_meta = msgspec.json.Decoder(_Meta).decode
_decode_definition = msgspec.json.Decoder(_Definition).decode


def declared_bound(meta: Raw, most: int) -> int:
    """Up to how many bytes results pass because of what a `_meta` declares; never more than `most`."""
    if not len(memoryview(meta)):
        return 0
    try:
        declared = _decode_meta(meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    if declared.bounded is True:
        return most
    chars = declared.most_chars
    is_number = isinstance(chars, int | float) and not isinstance(chars, bool)
    return int(max(0, min(chars, most))) if is_number else 0


def own_bound(rest: bytes, limits: Limits) -> int:
    """`declared_bound` of a listed tool's JSON, which has its first brace and name missing."""
    if b'"_meta"' not in rest:
        return 0
    return declared_bound(_definition(rest).meta, limits.max_bounded_bytes)


def own_options(rest: bytes) -> tuple[str, ...]:
    """The parameters of a listed tool that are called like our options."""
    if not has_options(rest):
        return ()
    parameters = _definition(rest).input_schema.properties
    return tuple(name for name in OPTION_NAMES if name in parameters)


def _definition(rest: bytes) -> _Definition:
    try:
        return _decode_definition(b"{" + rest)
    except msgspec.DecodeError:
        return _Definition()
