"""When a result is big: the limits of its tool, the caller's options, and the quick check.

Nearly every result is small, and nothing of `results` but this module touches it. What happens to a big
one is decided in `shaper`. `surely_fits` may be wrong in one direction only: False means "measure it".
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..config import ResultsConfig
from ..config.models import ServerResults
from ..kit.features.base import BOUNDED
from ..wire.call import Caller
from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode
from .formats.json_parts import DEEPEST_ENVELOPE
from .payload import MEDIA, NOTHING

T = TypeVar("T")

LEAST_BYTES = 1_500
"""What is sent in place of a big result has to fit somewhere: lower limits mean this one."""
SUMMARY_BYTES = 2_000
NO_LIMIT = 2**62


class Limits(Struct, frozen=True):
    max_bytes: int = 4_000
    max_items: int = 20
    max_lines: int = 20
    preview_items: int = 10
    preview_chars: int = 1_200
    compact: str = "off"
    bounded: int = 100_000
    """What a tool calls bounded for a model passes up to so many bytes."""
    always: bool = False
    """Whether all that is over a limit is shaped, though that may save nothing: the contract of Suna."""

    @property
    def answer_bytes(self) -> int:
        """How long the JSON may be that takes the place of a big result."""
        return max(self.max_bytes, LEAST_BYTES)

    def by_bytes_alone(self, max_bytes: int | None = None) -> "Limits":
        """However many items or lines it has."""
        size = self.max_bytes if max_bytes is None else max_bytes
        return replace(self, max_bytes=size, max_items=NO_LIMIT, max_lines=NO_LIMIT)


def limits_for(
    settings: ResultsConfig, server: ServerResults, own: str, full: str, always: bool = False
) -> Limits | None:
    """Those of a tool, by its own and its full name; None where results pass as they are."""
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
        bounded=_first(mine.bounded, server.bounded, settings.bounded),
        always=always,
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


def may_have_options(params: bytes) -> bool:
    return b'"_fields"' in params or b'"_max_bytes"' in params


def take_options(params: Raw, own: Collection[str] = ()) -> tuple[Raw, ResultOptions]:
    """The parameters without them, and what they say; InvalidParams when they make no sense.

    `own`: parameters of the tool's own, which are left alone.
    """
    members = decode_params(params, dict[str, Raw])
    try:
        arguments = msgspec.json.decode(members.get("arguments", Raw(b"{}")), type=dict[str, Raw])
    except msgspec.DecodeError:
        return params, NO_OPTIONS  # not ours to complain of
    found = {name: arguments.pop(name) for name in OPTION_NAMES if name in arguments and name not in own}
    if not found:
        return params, NO_OPTIONS
    fields, most = (msgspec.json.decode(found.get(name, Raw(b"null"))) for name in OPTION_NAMES)
    # Models write `null` for what they do not want.
    options = ResultOptions(
        () if fields is None else _read_fields(fields), None if most is None else _read_max_bytes(most)
    )
    return Raw(encode({**members, "arguments": arguments})), options


def _read_fields(value: Any) -> tuple[str, ...]:
    names: Any = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    right = isinstance(names, list) and 0 < len(cast(list[Any], names)) <= MOST_FIELDS
    if not right or not all(isinstance(name, str) and name for name in cast(list[Any], names)):
        example = 'as in ["id", "user.login"]'
        raise InvalidParams(f"{FIELDS} is a list of 1 to {MOST_FIELDS} names, {example}")
    return tuple(cast(list[str], names))


def _read_max_bytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BYTES:
        raise InvalidParams(f"{MAX_BYTES} is a number of bytes from 1 to {MOST_BYTES}")
    return value


_WRAPPED = b'{"result":"'
"""A text as most SDKs send it once more, as structured content."""


class _Block(Struct, gc=False):
    type: str
    text: Raw = NOTHING


class _Result(Struct, rename="camel", gc=False):
    content: list[_Block] = []
    structured_content: Raw = NOTHING
    is_error: bool = False


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def surely_fits(body: bytes, limits: Limits) -> bool:
    if len(body) > limits.max_bytes:
        return False
    if body.count(b",") < limits.max_items:
        breaks = body.count(b"\\n")
        # Some write line breaks and commas by their numbers: those have to be read.
        if breaks < limits.max_lines and breaks < limits.max_items and b"\\u00" not in body:
            return True
    try:
        return _result_fits(_decode_result(body), limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _result_fits(result: _Result, limits: Limits) -> bool:
    """It has few enough bytes; what counts are items, keys and lines."""
    if result.is_error:
        return True
    said = b""
    for block in result.content:
        if block.type == "text" and not said:
            said = bytes(block.text)
        elif block.type not in MEDIA:
            return False
    if said and not _text_fits(_decode_text(said), limits):
        return False
    structured = bytes(result.structured_content)
    if not structured:
        return True
    if not structured.startswith(_WRAPPED):
        return _value_fits(structured, limits)
    # Written in the same letters it is the text that was looked at; else it is measured.
    return structured[len(_WRAPPED) - 1 : -1] == said


def _text_fits(text: str, limits: Limits) -> bool:
    first = text[:1]
    if first in ("[", "{"):
        return _container_fits(text.encode(), limits)
    # What begins with white space may be JSON too.
    return not first.isspace() and text.count("\n") < min(limits.max_lines, limits.max_items)


def _value_fits(body: bytes, limits: Limits) -> bool:
    if body[:1] not in (b"[", b"{"):
        return body[:1] != b'"'  # numbers have neither items nor lines
    return _container_fits(body, limits)


def _container_fits(body: bytes, limits: Limits, depth: int = DEEPEST_ENVELOPE) -> bool:
    """A list of few items, or an object of few members, of which none has more; that may be an envelope."""
    if body[:1] == b"[":
        return len(_decode_items(body)) <= limits.max_items
    members = _decode_members(body)
    if len(members) > limits.max_items or depth == 0:
        return False
    inner = [bytes(raw) for raw in members.values()]
    if len(inner) == 1 and inner[0][:1] == b'"':
        return False  # a text, perhaps, in an object that is there only because it has to be
    return all(
        value.count(b",") < limits.max_items or _container_fits(value, limits, depth - 1)
        for value in inner
        if value[:1] in (b"[", b"{")
    )


MOST_CHARS = "anthropic/maxResultSizeChars"
"""In the same place, for Claude Code: up to so many characters it is to be shown whole."""
READ_STRUCTURED = (
    "claude-code",
    "codex-mcp-client",
    "Visual Studio Code",
    "Visual Studio Code - Insiders",
)
"""Clients that show their model the structured content alone wherever there is any, by the name they give."""

LONGEST_DECODED = 64 * 1024
_MARK, _TEXTS = b'"structuredContent":', b'"content":'
_NO_TEXTS = len(b'{"resultType": "complete", "content": [], ')


class _Forms(Struct, rename="camel", gc=False):
    content: Raw = NOTHING
    structured_content: Raw = NOTHING


class _Meta(Struct, gc=False):
    bounded: Any = field(default=None, name=BOUNDED)
    most_chars: Any = field(default=None, name=MOST_CHARS)


_decode_forms = msgspec.json.Decoder(_Forms).decode
_decode_meta = msgspec.json.Decoder(_Meta).decode


def reads_structured(caller: Caller) -> bool:
    return caller.client.name in READ_STRUCTURED


def estimate_visible_bytes(body: bytes | bytearray, caller: Caller) -> int:
    """What `seen_of` says, but for a few bytes, without decoding: results may be long."""
    at = body.find(_MARK)
    if at < 0:
        return len(body)
    if body.find(_TEXTS, 0, at) < 0:  # few send the structured content first
        return visible_bytes(body, caller) if len(body) <= LONGEST_DECODED else len(body) // 2
    return len(body) - at - len(_MARK) if at <= _NO_TEXTS or reads_structured(caller) else at


def visible_bytes(body: bytes | bytearray, caller: Caller) -> int:
    """Of a result's JSON: how many bytes of it a model sees."""
    if _MARK not in body:
        return len(body)
    try:
        forms = _decode_forms(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return len(body)
    texts, structured = len(memoryview(forms.content)), len(memoryview(forms.structured_content))
    is_read = reads_structured(caller) or texts <= len(b"[]")
    return structured if is_read and bytes(memoryview(forms.structured_content)[:4]) != b"null" else texts


def declared_bound(meta: Raw, most: int) -> int:
    """Up to how many bytes a result is to pass by what its `_meta`, or that of its tool, says; never over
    `most`."""
    if not len(memoryview(meta)):
        return 0
    try:
        said = _decode_meta(meta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    if said.bounded is True:
        return most
    chars = said.most_chars
    is_number = isinstance(chars, int | float) and not isinstance(chars, bool)
    return int(max(0, min(chars, most))) if is_number else 0


def pointer_text(size: int, answer: dict[str, Any]) -> str:
    """In the place of an answer that the model reads in the other form; enough to go on with without it."""
    hint = answer.get("hint") or answer["storage"].get("resource") or answer["storage"].get("error", "")
    return f"{size} bytes, of which the structured content has a summary and the beginning. {hint}"
