"""From arguments to a request: every value at its place, encoded so that it stays a value there."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from ..kit import ToolError
from .client import Request
from .files import File, read_files
from .forms import multipart, urlencoded
from .placeholders import split_path
from .plan import Plan
from .wording import Words, shortened

Pairs = list[tuple[str, str]]


class Draft(Struct):
    """A request in the making; paging and auth add to it."""

    method: str
    path: str
    """Below the base URL, encoded."""
    query: Pairs = []
    headers: dict[str, str] = {}
    body: bytes = b""
    repeatable: bool = False
    raw_query: str = ""
    """A query that the API wrote itself, in the place of ours."""

    def __repr__(self) -> str:
        """Without query and headers: the key is in one of them."""
        return f"Draft({self.method} {self.path})"

    def ready(self, base: str) -> Request:
        query = self.raw_query or urlencoded(self.query)
        target = base + self.path + (f"?{query}" if query else "")
        return Request(self.method, target or "/", self.headers, self.body, self.repeatable)


class _Filling(Struct):
    query: Pairs = []
    headers: dict[str, str] = {}
    fields: Pairs = []
    json: dict[str, Any] = {}
    whole: Any = UNSET
    """The body, where one parameter is all of it."""
    files: list[File] = []


def draft(plan: Plan, arguments: dict[str, Any], words: Words) -> Draft:
    filling, places = _Filling(), plan.places
    for name, value in plan.tool.fixed.items():
        _place(filling, plan.fixed_place, name, value)
    for name, parameter in plan.parameters.items():
        place = places[name]
        if name not in arguments or place == "path" or place == "none":
            continue
        value, called = arguments[name], parameter.name or name
        if place == "file":
            filling.files += read_files(name, called, value, parameter, words)
        elif place == "header":
            filling.headers[called] = _header(name, value, words)
        else:
            _place(filling, place, called, value)
    body, kind = _body(plan, filling)
    headers = plan.table.headers | filling.headers
    if kind:
        headers["Content-Type"] = kind
    path = _joined(plan.steps, arguments, words)
    return Draft(plan.tool.method, path, filling.query, headers, body, plan.repeatable)


def _place(filling: _Filling, place: str, name: str, value: Any) -> None:
    if place == "query":
        filling.query += texts(name, value)
    elif place == "form":
        filling.fields += texts(name, value)
    elif place == "body":
        filling.whole = value
    elif place == "json":
        *outer, last = name.split(".")
        node = filling.json
        for step in outer:
            node = node.setdefault(step, {})
        node[last] = value


def _body(plan: Plan, filling: _Filling) -> tuple[bytes, str]:
    if plan.body_form is None:
        return b"", ""
    if plan.body_form == "raw":
        return _raw(plan.tool.content_type, filling)
    if plan.body_form == "json":
        whole = filling.whole if "body" in plan.places.values() else filling.json
        if whole is UNSET:
            return b"", ""
        return msgspec.json.encode(whole), plan.tool.content_type or "application/json"
    if plan.body_form == "multipart":
        # There is no such body without parts.
        return multipart(filling.fields, filling.files) if filling.fields or filling.files else (b"", "")
    return urlencoded(filling.fields).encode(), "application/x-www-form-urlencoded"


def _raw(kind: str, filling: _Filling) -> tuple[bytes, str]:
    """One file or one text as it is; nothing, and no type of it, when neither was given."""
    if filling.files:
        (file,) = filling.files
        return file.content, kind if kind and not kind.endswith("*") else file.kind
    if filling.whole is UNSET or filling.whole is None:
        return b"", ""
    return text(filling.whole).encode(errors="replace"), kind or "text/plain; charset=utf-8"


def filled_path(path: str, arguments: Mapping[str, Any], words: Words) -> str:
    """The path with its `{parameters}`, none of which can become more than one step of it."""
    return _joined(split_path(path), arguments, words)


def _joined(steps: list[str], arguments: Mapping[str, Any], words: Words) -> str:
    found = list(steps)
    for place in range(1, len(steps), 2):
        found[place] = _step(steps[place], text(arguments.get(steps[place])), words)
    return "".join(found)


def _step(name: str, value: str, words: Words) -> str:
    if value.isalnum() and value.isascii():
        return value
    if not value:
        raise ToolError(words.empty.format(name=name))
    if value in (".", "..") or _has_control(value):
        raise ToolError(_unusable(name, value, words))
    return quote(value, safe="", errors="replace")


def _header(name: str, value: Any, words: Words) -> str:
    written = text(value)
    if not written.isascii() or _has_control(written):
        raise ToolError(_unusable(name, written, words))
    return written


def _has_control(value: str) -> bool:
    return any(character < " " or character == "\x7f" for character in value)


def _unusable(name: str, value: str, words: Words) -> str:
    return words.unusable.format(name=name, value=shortened(value))


def texts(name: str, value: Any) -> Pairs:
    """A value of a query or a form: an array is several of that name, and null is not there."""
    if isinstance(value, list):
        return [(name, text(item)) for item in cast(list[Any], value) if item is not None]
    return [] if value is None else [(name, text(value))]


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
