"""Files that come as base64 in arguments: read, and held against the limits before anything is sent."""

import binascii
import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from ..kit import ToolError
from .table import Parameter
from .wording import Words, shortened

_NAME = r'[^\x00-\x1f\x7f/\\"]{1,255}'
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


class File(Struct, frozen=True):
    field: str
    filename: str
    kind: str
    content: bytes


def read_files(name: str, field: str, value: Any, parameter: Parameter, words: Words) -> list[File]:
    """`name` is what the caller called it, `field` what the API does."""
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    if len(items) > parameter.max_files:
        raise ToolError(words.files_most.format(name=name, most=parameter.max_files, count=len(items)))
    return [_file(name, field, index, item, parameter.max_bytes, words) for index, item in enumerate(items)]


def _file(name: str, field: str, index: int, item: Any, most: int, words: Words) -> File:
    entry = cast(Mapping[str, Any], item if isinstance(item, Mapping) else {})
    content, filename = entry.get("content"), entry.get("filename")
    if not isinstance(content, str) or not isinstance(filename, str):
        raise ToolError(words.file_form.format(name=name, index=index))
    quoted = shortened(filename)
    if not re.fullmatch(_NAME, filename) or filename in (".", ".."):
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
    return File(field, filename, kind, data)
