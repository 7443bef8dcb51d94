"""What a model sees of a result: its texts or its structured content, by its client; and what may be sent so.

Servers send both for clients that know only one, and most clients show their model only one of them. Which
one was found out client by client (`docs/concepts/tokens.md`). Clients that are not known get both forms
whole, and are taken to read the text, as most do.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from ..kit.options import BOUNDED
from ..wire.call import Caller
from .payload import NOTHING

MOST_CHARS = "anthropic/maxResultSizeChars"
"""In the same place, for Claude Code: up to so many characters it is to be shown whole."""
READ_STRUCTURED = (
    "claude-code",
    "codex-mcp-client",
    "Visual Studio Code",
    "Visual Studio Code - Insiders",
)
"""Clients that show their model the structured content alone wherever there is any, by the name they give."""

LONG = 64 * 1024
_MARK, _TEXTS = b'"structuredContent":', b'"content":'
_NO_TEXTS = len(b'{"resultType": "complete", "content": [], ')


class _Forms(Struct, rename="camel", gc=False):
    content: Raw = NOTHING
    structured_content: Raw = NOTHING


class _Meta(Struct, gc=False):
    bounded: Any = field(default=None, name=BOUNDED)
    most_chars: Any = field(default=None, name=MOST_CHARS)


_decode = msgspec.json.Decoder(_Forms).decode
_decode_meta = msgspec.json.Decoder(_Meta).decode


def reads_structured(caller: Caller) -> bool:
    return caller.client.name in READ_STRUCTURED


def about_seen_of(body: bytes | bytearray, caller: Caller) -> int:
    """What `seen_of` says, but for a few bytes, without decoding: results may be long."""
    at = body.find(_MARK)
    if at < 0:
        return len(body)
    if body.find(_TEXTS, 0, at) < 0:  # few send the structured content first
        return seen_of(body, caller) if len(body) <= LONG else len(body) // 2
    return len(body) - at - len(_MARK) if at <= _NO_TEXTS or reads_structured(caller) else at


def seen_of(body: bytes | bytearray, caller: Caller) -> int:
    """Of a result's JSON: how many bytes of it a model sees."""
    if _MARK not in body:
        return len(body)
    try:
        forms = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return len(body)
    texts, structured = len(memoryview(forms.content)), len(memoryview(forms.structured_content))
    is_read = reads_structured(caller) or texts <= len(b"[]")
    return structured if is_read and bytes(memoryview(forms.structured_content)[:4]) != b"null" else texts


def bound_in(meta: Raw, most: int) -> int:
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


def short_text(size: int, answer: dict[str, Any]) -> str:
    """In the place of an answer that the model reads in the other form; enough to go on with without it."""
    hint = answer.get("hint") or answer["storage"].get("resource") or answer["storage"].get("error", "")
    return f"{size} bytes, of which the structured content has a summary and the beginning. {hint}"
