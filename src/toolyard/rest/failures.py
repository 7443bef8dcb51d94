"""What the model is told when a request failed: the table's message for it, or else ours, in its language.

What the API said of it is bounded, made one line, and has no key in it; addresses are never told.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ..kit import Secret, ToolError
from ..wire.secret import MAX_LENGTH
from .auth import blotted, blotted_value
from .connection import Reply
from .faults import Fault, TooLarge, TooSlow, Unreachable
from .wording import Words

MAX_DETAIL = 800
# Compiled when something has failed, which is not at the start.
_SPACE = r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_INVISIBLE = r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
_PLACE = r"(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?:[^/?#]*@)?([^?#]*)"
_HTML = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")
_SAYING = ("message", "error_description", "detail", "error", "title")


def status_error(
    reply: Reply, errors: Mapping[str, str], words: Words, key: Secret | None, wait: float | None = None
) -> ToolError:
    """For a reply that is no success."""
    status = reply.status
    if 300 <= status < 400:
        place = re.match(_PLACE, reply.headers.get("location", ""))
        shown = tidy(place[1] if place else "", 200, key) or "?"
        return ToolError(words.redirected.format(status=status, place=shown))
    names = (str(status), f"{status // 100}xx")
    template = next((errors[name] for name in names if name in errors), None)
    if template is None:
        template = next((words.statuses[n] for n in names if n in words.statuses), words.statuses["xxx"])
    said = detail(reply, key)
    text = template.replace("{status}", str(status)).replace("{detail}", said).strip().rstrip(":")
    if wait is not None:
        text += " " + words.wait.format(seconds=f"{wait:g}")
    return ToolError(text)


def fault_error(fault: Fault, words: Words, repeatable: bool) -> ToolError:
    """For a request without a reply."""
    reason = words.reasons.get(str(fault), str(fault))
    if isinstance(fault, Unreachable) and not fault.sent:
        return ToolError(words.unreachable.format(reason=reason))
    if isinstance(fault, TooLarge):
        return ToolError(words.large.format(limit=fault.limit))
    if isinstance(fault, TooSlow):
        text = words.slow.format(seconds=f"{fault.seconds:g}")
    else:
        template = words.broken if isinstance(fault, Unreachable) else words.garbled
        text = template.format(reason=reason)
    return ToolError(text if repeatable else f"{text} {words.doubt}")


def detail(reply: Reply, key: Secret | None) -> str:
    """What the API said of its refusal, as one bounded line."""
    if not reply.body or is_html(reply):
        return ""
    try:
        said: Any = blotted_value(msgspec.json.decode(reply.body), key, reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A key that begins in what can be shown is looked at as a whole, or its first half would be shown.
        said = reply.body[: 4 * MAX_DETAIL + MAX_LENGTH].decode("utf-8", "replace")
        said = blotted(said, key)[: 4 * MAX_DETAIL]
    return tidy(_sentence(said), MAX_DETAIL, key)


def _sentence(said: Any) -> str:
    """Its message where that is all it says; else the whole, which may name the fields at fault."""
    if isinstance(said, str):
        return said
    if isinstance(said, dict):
        entries = cast(dict[str, Any], said)
        if len(entries) == 1 and isinstance(only := next(iter(entries.values())), dict):
            entries = cast(dict[str, Any], only)
        told = [value for name, value in entries.items() if name in _SAYING and isinstance(value, str)]
        more = any(value and not isinstance(value, str | int | float) for value in entries.values())
        if told and not more:
            return ": ".join(dict.fromkeys(told))
    return msgspec.json.encode(said).decode()


def tidy(text: str, most: int, key: Secret | None = None) -> str:
    """One line, without the key, looked for last: what is taken out may have stood between its letters."""
    line = blotted(re.sub(_SPACE, " ", re.sub(_INVISIBLE, "", text)).strip(), key)
    return line if len(line) <= most else line[: most - 1] + "…"


def is_html(reply: Reply) -> bool:
    kind = reply.headers.get("content-type", "").lower()
    return "html" in kind or ("json" not in kind and reply.body[:200].lstrip().lower().startswith(_HTML))
