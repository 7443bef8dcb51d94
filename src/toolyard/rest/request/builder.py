"""Builds a request from arguments: every value at its place, encoded so that it stays a value there.

Also reads base64 files from arguments, holds them against the limits, and writes forms and multipart
bodies.
"""

import binascii
import re
import secrets
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from ...kit import ToolError
from ..definition.model import ParameterDefinition
from ..definition.plan import ToolPlan, split_path
from ..http.client import RestRequest
from ..texts import RestTexts, shortened

_FILE_NAME = r'[^\x00-\x1f\x7f/\\"]{1,255}'
_KINDS = {
    "csv": "text/csv",
    "gif": "image/gif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "webp": "image/webp",
    "xml": "application/xml",
    "zip": "application/zip",
}
"""The usual ones; the whole list that Python has takes 10 ms to read."""


class FileArgument(Struct, frozen=True):
    field: str
    filename: str
    kind: str
    content: bytes


def read_files(
    name: str, field: str, value: Any, parameter: ParameterDefinition, words: RestTexts
) -> list[FileArgument]:
    """`name` is what the caller called it, `field` what the API does."""
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    if len(items) > parameter.max_files:
        raise ToolError(words.files_most.format(name=name, most=parameter.max_files, count=len(items)))
    return [_file(name, field, index, item, parameter.max_bytes, words) for index, item in enumerate(items)]


def _file(name: str, field: str, index: int, item: Any, most: int, words: RestTexts) -> FileArgument:
    entry = cast(Mapping[str, Any], item if isinstance(item, Mapping) else {})
    content, filename = entry.get("content"), entry.get("filename")
    if not isinstance(content, str) or not isinstance(filename, str):
        raise ToolError(words.file_form.format(name=name, index=index))
    quoted = shortened(filename)
    if not re.fullmatch(_FILE_NAME, filename) or filename in (".", ".."):
        raise ToolError(words.file_name.format(name=name, index=index, file=quoted))
    if len(content) * 3 // 4 > most + most // 10 + 3:  # before it is decoded; line breaks are a tenth at most
        size = len(content) * 3 // 4
        raise ToolError(words.file_large.format(name=name, index=index, file=quoted, size=size, most=most))
    try:
        data = binascii.a2b_base64("".join(content.split()), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ToolError(words.file_base64.format(name=name, index=index, file=quoted)) from None
    if not data:
        raise ToolError(words.file_empty.format(name=name, index=index, file=quoted))
    if len(data) > most:
        size = len(data)
        raise ToolError(words.file_large.format(name=name, index=index, file=quoted, size=size, most=most))
    kind = _KINDS.get(filename.rpartition(".")[2].lower(), "application/octet-stream")
    return FileArgument(field, filename, kind, data)


def urlencoded(pairs: list[tuple[str, str]]) -> str:
    return "&".join(
        f"{quote(name, safe='[]', errors='replace')}={quote(value, safe='', errors='replace')}"
        for name, value in pairs
    )


def multipart(fields: list[tuple[str, str]], files: list[FileArgument]) -> tuple[bytes, str]:
    """The body, and its content type."""
    boundary = secrets.token_hex(16)
    pieces: list[bytes] = []
    for name, value in fields:
        pieces += [_part_head(boundary, name), b"\r\n", value.encode(errors="replace"), b"\r\n"]
    for file in files:
        extra = f'; filename="{file.filename}"\r\nContent-Type: {file.kind}\r\n'
        pieces += [
            _part_head(boundary, file.field)[:-2],
            extra.encode(errors="replace"),
            b"\r\n",
            file.content,
            b"\r\n",
        ]
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces), f"multipart/form-data; boundary={boundary}"


def _part_head(boundary: str, name: str) -> bytes:
    safe = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{safe}"\r\n'.encode(errors="replace")


Pairs = list[tuple[str, str]]


class RequestDraft(Struct):
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

    def ready(self, base: str) -> RestRequest:
        query = self.raw_query or urlencoded(self.query)
        target = base + self.path + (f"?{query}" if query else "")
        return RestRequest(self.method, target or "/", self.headers, self.body, self.repeatable)


class _Filling(Struct):
    query: Pairs = []
    headers: dict[str, str] = {}
    fields: Pairs = []
    json: dict[str, Any] = {}
    whole: Any = UNSET
    """The body, where one parameter is all of it."""
    files: list[FileArgument] = []


def draft(plan: ToolPlan, arguments: dict[str, Any], words: RestTexts) -> RequestDraft:
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
    return RequestDraft(plan.tool.method, path, filling.query, headers, body, plan.repeatable)


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


def _body(plan: ToolPlan, filling: _Filling) -> tuple[bytes, str]:
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


def filled_path(path: str, arguments: Mapping[str, Any], words: RestTexts) -> str:
    """The path with its `{parameters}`, none of which can become more than one step of it."""
    return _joined(split_path(path), arguments, words)


def _joined(steps: list[str], arguments: Mapping[str, Any], words: RestTexts) -> str:
    found = list(steps)
    for place in range(1, len(steps), 2):
        found[place] = _step(steps[place], text(arguments.get(steps[place])), words)
    return "".join(found)


def _step(name: str, value: str, words: RestTexts) -> str:
    if value.isalnum() and value.isascii():
        return value
    if not value:
        raise ToolError(words.empty.format(name=name))
    if value in (".", "..") or _has_control(value):
        raise ToolError(_unusable(name, value, words))
    return quote(value, safe="", errors="replace")


def _header(name: str, value: Any, words: RestTexts) -> str:
    written = text(value)
    if not written.isascii() or _has_control(written):
        raise ToolError(_unusable(name, written, words))
    return written


def _has_control(value: str) -> bool:
    return any(character < " " or character == "\x7f" for character in value)


def _unusable(name: str, value: str, words: RestTexts) -> str:
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
