"""The result of a response for the model: the decoded body, the selected fields, or the error message.

An object is `{"data": {…}}`; a list is `{"items": […], "total": …, "next": …}`, with `total` if the API gives
it and `next` if there is more; a response without content is `{"message": "…"}`. A tool with its own `output`
schema returns the object itself, unless that schema has `data`. Error details are one bounded line without
the key and without addresses.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, ParamSpec, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct

from ...kit import Secret, ToolError, ToolResult
from ...wire.call import MAX_KEY_LENGTH
from ...wire.secrets import KnownSecrets
from ..definition.model import ResultDefinition
from ..definition.plan import ToolPlan
from ..http.connection import (
    ApiTimeoutError,
    ApiUnreachableError,
    ResponseTooLargeError,
    RestResponse,
    RestTransportError,
)
from ..request.builder import text
from ..texts import RestTexts, shortened

MAX_VALUES = 1_000_000
"""Values that a response may have, and all pages of a list together. Decoding so many takes a tenth of a
second, which nothing interrupts, and some 150 MB."""
BIG = 64 * 1024
"""Bytes of a response whose values are looked at in a thread."""

P = ParamSpec("P")
R = TypeVar("R")


async def aside(size: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that walks over responses of so many bytes, so that others get their turn meanwhile."""
    if size <= BIG:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


_TOKENS = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{,]+'
"""Strings, also one that does not end, and what values begin after."""


def count_values(body: bytes) -> int:
    """At most how many values a JSON text has, or that they are more than `MAX_VALUES`."""
    count = len(body) - len(body.translate(None, b"[{,"))
    if count <= MAX_VALUES:
        return count
    count = 0
    for token in re.finditer(_TOKENS, body, re.DOTALL):
        if not token[0].startswith(b'"'):
            count += len(token[0])
            if count > MAX_VALUES:
                break
    return count


class RestResult(Struct, frozen=True):
    """The selected content of a response, or of all pages of a list."""

    value: Any
    items: list[Any] | None = None
    total: int | None = None
    following: int | str | None = None
    truncated: bool = False
    size: int = 0
    """Bytes of the responses that it was made of."""

    def plain(self) -> dict[str, Any]:
        if self.items is None:
            return {} if self.value is UNSET else {"data": self.value}
        result: dict[str, Any] = {"items": self.items}
        if self.total is not None:
            result["total"] = self.total
        if self.following is not None:
            result["next"] = self.following
        if self.truncated:
            result["truncated"] = True
        return result


def tool_result(
    plan: ToolPlan, part: RestResult, arguments: Mapping[str, Any], texts: RestTexts
) -> ToolResult:
    if part.value is UNSET:
        message = _filled_sentence(plan.tool.result.said, arguments) or texts.done
        return ToolResult(content=[message], structured={"message": message})
    value: Any = part.value
    if plan.tool.output and part.items is None and isinstance(value, dict):
        value = cast(dict[str, Any], value)
        if "data" not in plan.tool.output.get("properties", {}) or "data" in value:
            return ToolResult(structured=value)
    return ToolResult(structured=part.plain())


def _filled_sentence(sentence: str, arguments: Mapping[str, Any]) -> str:
    return re.sub(r"\{([^{}]+)\}", lambda match: shortened(text(arguments.get(match[1]))), sentence)


MAX_DETAIL = 800
MAX_TIDIED = 64 * 1024
"""Characters that are looked at for a line."""
# Compiled at the first failure, not at the start.
_SPACE = r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_INVISIBLE = r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
_ADDRESS = r"(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?(?:[^/?#]*@)?([^?#]*)"
_HTML = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")
_MESSAGE_FIELDS = ("message", "error_description", "detail", "error", "title")


def status_error(
    reply: RestResponse,
    errors: Mapping[str, str],
    texts: RestTexts,
    key: Secret | None,
    wait: float | None = None,
) -> ToolError:
    """The error for an unsuccessful response."""
    status = reply.status
    if 300 <= status < 400:
        place = re.match(_ADDRESS, reply.headers.get("location", ""))
        shown = tidy(place[1] if place else "", 200, key) or "?"
        return ToolError(texts.redirected.format(status=status, place=shown))
    names = (str(status), f"{status // 100}xx")
    template = next((errors[name] for name in names if name in errors), None)
    if template is None:
        template = next((texts.statuses[n] for n in names if n in texts.statuses), texts.statuses["xxx"])
    text = (
        template.replace("{status}", str(status)).replace("{detail}", detail(reply, key)).strip().rstrip(":")
    )
    if wait is not None:
        text += " " + texts.wait.format(seconds=f"{wait:g}")
    return ToolError(text)


def transport_error(error: RestTransportError, texts: RestTexts, repeatable: bool) -> ToolError:
    """The error for a request without a response."""
    reason = texts.reasons.get(str(error), str(error))
    if isinstance(error, ApiUnreachableError) and not error.sent:
        return ToolError(texts.unreachable.format(reason=reason))
    if isinstance(error, ResponseTooLargeError):
        return ToolError(texts.large.format(limit=error.limit))
    if isinstance(error, ApiTimeoutError):
        text = texts.slow.format(seconds=f"{error.seconds:g}")
    else:
        template = texts.broken if isinstance(error, ApiUnreachableError) else texts.garbled
        text = template.format(reason=reason)
    return ToolError(text if repeatable else f"{text} {texts.doubt}")


def detail(reply: RestResponse, key: Secret | None) -> str:
    """The API's own error message, as one bounded line."""
    if not reply.body or is_html(reply) or count_values(reply.body) > MAX_VALUES:
        return ""
    try:
        message: Any = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = reply.body[: 4 * MAX_DETAIL].decode("utf-8", "replace")
    return tidy(_sentence(message), MAX_DETAIL, key)


def _sentence(body: Any) -> str:
    """The message if there is nothing else; else the whole body, which may name the fields at fault."""
    if isinstance(body, str):
        return body
    if isinstance(body, dict):
        entries = cast(dict[str, Any], body)
        if len(entries) == 1 and isinstance(only := next(iter(entries.values())), dict):
            entries = cast(dict[str, Any], only)
        messages = [
            value for name, value in entries.items() if name in _MESSAGE_FIELDS and isinstance(value, str)
        ]
        more = any(value and not isinstance(value, str | int | float) for value in entries.values())
        if messages and not more:
            return ": ".join(dict.fromkeys(messages))
    return msgspec.json.encode(body).decode()


def tidy(text: str, most: int, key: Secret | None = None) -> str:
    """One line without the key. The key is hidden last: removed characters may have been inside it."""
    begin = text[:MAX_TIDIED]
    line = re.sub(_SPACE, " ", re.sub(_INVISIBLE, "", begin)).strip()
    if key is not None:
        line = KnownSecrets((key.reveal(),)).clean_text(line)
    if len(begin) < len(text):
        line = line[: -(MAX_KEY_LENGTH + 1)] + "…"  # the end may be a part of the key
    return line if len(line) <= most else line[: most - 1] + "…"


def is_html(reply: RestResponse) -> bool:
    kind = reply.headers.get("content-type", "").lower()
    return "html" in kind or ("json" not in kind and reply.body[:200].lstrip().lower().startswith(_HTML))


_BOM = b"\xef\xbb\xbf"
"""Some APIs put it before their JSON."""

Verbosity = Literal["rich", "compact"]
Tree = dict[str, "Tree"]


def decoded(reply: RestResponse, texts: RestTexts, key: Secret | None = None) -> Any:
    """The body as JSON, or as text if its type is text; UNSET if there is none."""
    if not reply.body.strip():
        return UNSET
    if not is_html(reply):
        too_many = count_values(reply.body) > MAX_VALUES
        if not too_many:
            try:
                return msgspec.json.decode(reply.body.removeprefix(_BOM))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
        if reply.headers.get("content-type", "").lower().startswith("text/"):
            return reply.body.decode("utf-8", "replace")
        if too_many:
            raise ToolError(texts.many.format(limit=MAX_VALUES))
    if not is_html(reply) and "json" in reply.headers.get("content-type", "").lower():
        damaged = "its JSON is damaged"
        raise ToolError(texts.garbled.format(reason=texts.reasons.get(damaged, damaged)))
    kind = "HTML" if is_html(reply) else tidy(reply.headers.get("content-type", ""), 60, key) or "?"
    raise ToolError(texts.not_json.format(kind=kind, status=reply.status))


def at(value: Any, path: str) -> Any:
    """The value at a path with dots; None if there is none; the whole value for an empty path."""
    for step in path.split(".") if path else ():
        if isinstance(value, dict):
            value = cast(dict[str, Any], value).get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step[:9]) < len(cast(list[Any], value)):
            value = cast(list[Any], value)[int(step[:9])]
        else:
            return None
    return value


def extracted(value: Any, result: ResultDefinition) -> tuple[Any, list[Any] | None]:
    """The content of a response, and its list if it has one."""
    found = at(value, result.unwrap)
    if found is None:
        found = value
    items = at(found, result.items) if result.items else found
    return found, cast(list[Any], items) if isinstance(items, list) else None


class FieldSelection:
    """Selects fields of an object or of each item, by paths with dots that go through lists."""

    def __init__(self, result: ResultDefinition, verbosity: Verbosity) -> None:
        self._result = result
        self._verbosity = verbosity

    @cached_property
    def _tree(self) -> Tree:
        result = self._result
        return _tree(result.compact or result.rich if self._verbosity == "compact" else result.rich)

    def for_arguments(self, arguments: Mapping[str, Any]) -> Callable[[Any], Any]:
        """The function that selects fields for these arguments."""
        details = self._result.details
        tree = {} if details and arguments.get(details) is True else self._tree
        return lambda value: _selected(value, tree)


def _tree(paths: tuple[str, ...]) -> Tree:
    root: Tree = {}
    for path in paths:
        node = root
        for step in path.split("."):
            node = node.setdefault(step, {})
    return root


def _selected(value: Any, tree: Tree) -> Any:
    """A path keeps everything below its end; a path that does not exist is ignored."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_selected(item, tree) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value)
        return {name: _selected(entries[name], below) for name, below in tree.items() if name in entries}
    return value
