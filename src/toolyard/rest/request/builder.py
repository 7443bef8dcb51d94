"""Builds a request from arguments: puts every value at its location, encoded so that it stays a value.

Also reads base64 files from arguments, checks their limits, and writes forms and multipart bodies.
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
"""Common types; loading Python's whole list takes 10 ms."""


class FileArgument(Struct, frozen=True):
    field: str
    filename: str
    kind: str
    content: bytes


def read_files(
    name: str, field: str, value: Any, parameter: ParameterDefinition, texts: RestTexts
) -> list[FileArgument]:
    """`name` is the parameter's name for the caller, `field` its name for the API."""
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    if len(items) > parameter.max_files:
        raise ToolError(texts.files_most.format(name=name, most=parameter.max_files, count=len(items)))
    return [_file(name, field, index, item, parameter.max_bytes, texts) for index, item in enumerate(items)]


def _file(name: str, field: str, index: int, item: Any, most: int, texts: RestTexts) -> FileArgument:
    entry = cast(Mapping[str, Any], item if isinstance(item, Mapping) else {})
    content, filename = entry.get("content"), entry.get("filename")
    if not isinstance(content, str) or not isinstance(filename, str):
        raise ToolError(texts.file_form.format(name=name, index=index))
    quoted = shortened(filename)
    if not re.fullmatch(_FILE_NAME, filename) or filename in (".", ".."):
        raise ToolError(texts.file_name.format(name=name, index=index, file=quoted))
    if len(content) * 3 // 4 > most + most // 10 + 3:  # before decoding; line breaks take at most a tenth
        size = len(content) * 3 // 4
        raise ToolError(texts.file_large.format(name=name, index=index, file=quoted, size=size, most=most))
    try:
        data = binascii.a2b_base64("".join(content.split()), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ToolError(texts.file_base64.format(name=name, index=index, file=quoted)) from None
    if not data:
        raise ToolError(texts.file_empty.format(name=name, index=index, file=quoted))
    if len(data) > most:
        size = len(data)
        raise ToolError(texts.file_large.format(name=name, index=index, file=quoted, size=size, most=most))
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


class _RequestParts(Struct):
    query: Pairs = []
    headers: dict[str, str] = {}
    fields: Pairs = []
    json: dict[str, Any] = {}
    whole: Any = UNSET
    """The body, if one parameter is the whole of it."""
    files: list[FileArgument] = []


def draft(plan: ToolPlan, arguments: dict[str, Any], texts: RestTexts) -> RequestDraft:
    parts, locations = _RequestParts(), plan.locations
    for name, value in plan.tool.fixed.items():
        _put(parts, plan.fixed_location, name, value)
    for name, parameter in plan.parameters.items():
        location = locations[name]
        if name not in arguments or location == "path" or location == "none":
            continue
        value, wire_name = arguments[name], parameter.name or name
        if location == "file":
            parts.files += read_files(name, wire_name, value, parameter, texts)
        elif location == "header":
            parts.headers[wire_name] = _header(name, value, texts)
        else:
            _put(parts, location, wire_name, value)
    body, kind = _body(plan, parts)
    headers = plan.definition.headers | parts.headers
    if kind:
        headers["Content-Type"] = kind
    path = _fill(plan.steps, arguments, texts)
    return RequestDraft(plan.tool.method, path, parts.query, headers, body, plan.repeatable)


def _put(parts: _RequestParts, location: str, name: str, value: Any) -> None:
    if location == "query":
        parts.query += text_pairs(name, value)
    elif location == "form":
        parts.fields += text_pairs(name, value)
    elif location == "body":
        parts.whole = value
    elif location == "json":
        *outer, last = name.split(".")
        node = parts.json
        for step in outer:
            node = node.setdefault(step, {})
        node[last] = value


def _body(plan: ToolPlan, parts: _RequestParts) -> tuple[bytes, str]:
    if plan.body_form is None:
        return b"", ""
    if plan.body_form == "raw":
        return _raw(plan.tool.content_type, parts)
    if plan.body_form == "json":
        whole = parts.whole if "body" in plan.locations.values() else parts.json
        if whole is UNSET:
            return b"", ""
        return msgspec.json.encode(whole), plan.tool.content_type or "application/json"
    if plan.body_form == "multipart":
        # A multipart body needs at least one part.
        return multipart(parts.fields, parts.files) if parts.fields or parts.files else (b"", "")
    return urlencoded(parts.fields).encode(), "application/x-www-form-urlencoded"


def _raw(kind: str, parts: _RequestParts) -> tuple[bytes, str]:
    """One file or one text unchanged; no body and no type if neither was given."""
    if parts.files:
        (file,) = parts.files
        return file.content, kind if kind and not kind.endswith("*") else file.kind
    if parts.whole is UNSET or parts.whole is None:
        return b"", ""
    return text(parts.whole).encode(errors="replace"), kind or "text/plain; charset=utf-8"


def filled_path(path: str, arguments: Mapping[str, Any], texts: RestTexts) -> str:
    """The path with its `{parameters}` filled in; a value cannot add a step."""
    return _fill(split_path(path), arguments, texts)


def _fill(steps: list[str], arguments: Mapping[str, Any], texts: RestTexts) -> str:
    filled = list(steps)
    for index in range(1, len(steps), 2):
        filled[index] = _step(steps[index], text(arguments.get(steps[index])), texts)
    return "".join(filled)


def _step(name: str, value: str, texts: RestTexts) -> str:
    if value.isalnum() and value.isascii():
        return value
    if not value:
        raise ToolError(texts.empty.format(name=name))
    if value in (".", "..") or _has_control(value):
        raise ToolError(_unusable(name, value, texts))
    return quote(value, safe="", errors="replace")


def _header(name: str, value: Any, texts: RestTexts) -> str:
    written = text(value)
    if not written.isascii() or _has_control(written):
        raise ToolError(_unusable(name, written, texts))
    return written


def _has_control(value: str) -> bool:
    return any(character < " " or character == "\x7f" for character in value)


def _unusable(name: str, value: str, texts: RestTexts) -> str:
    return texts.unusable.format(name=name, value=shortened(value))


def text_pairs(name: str, value: Any) -> Pairs:
    """The pairs of a query or a form: an array gives several, null gives none."""
    if isinstance(value, list):
        return [(name, text(item)) for item in cast(list[Any], value) if item is not None]
    return [] if value is None else [(name, text(value))]


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
