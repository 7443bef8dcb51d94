"""Composio's API as every client of it needs it: user ids, the envelope of an execution, errors, local first.

Sends nothing. The gateway's client is in `upstream.composio`, that of the workbench in `workbench.composio`.
"""

import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

BASE_URL = "https://backend.composio.dev"
KEY_HEADER = "x-api-key"
VERSIONS = ("v3.1", "v3")
"""Of the API, the newest first."""
NOT_FOUND = (404, 405, 410)
"""The statuses with which an address says that it does not have a version of the API."""

LOCAL_BYTES = 5_000_000
"""Local first: a result up to this size comes back to the caller; a larger one stays in the workbench."""

MAX_DETAIL = 1000
_UNKNOWN = "it failed without a reason"


def members(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def text(*values: Any) -> str:
    """Return the first of these that is a text and not empty."""
    return next((value for value in values if isinstance(value, str) and value), "")


def path(*parts: str) -> str:
    """Join parts of any characters into a path; each stays one part."""
    return "".join("/" + quote(part, safe="") for part in parts)


# Errors


class _ErrorDetail(Struct):
    message: str = ""
    suggested_fix: str = ""


class _ErrorBody(Struct):
    error: _ErrorDetail | str = ""
    message: str = ""


def read_error(body: bytes) -> tuple[str, str]:
    """Return the message of an error and its suggested fix; empty if the body has another form."""
    try:
        found = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    if isinstance(found.error, str):
        return found.error or found.message, ""
    return found.error.message, found.error.suggested_fix


# Execution


class ExecutedTool(Struct, frozen=True):
    """The result of one execution. `failure` is None if it succeeded."""

    data: Raw = Raw(b"null")
    failure: str | None = None


class _Envelope(Struct):
    data: Raw = Raw(b"null")
    error: Any = None
    successful: Any = None
    result_type: Any = None
    input_requests: Any = None


def executed(body: bytes | Raw) -> ExecutedTool:
    """Read `{data, error, successful}`; msgspec.DecodeError if it has another form."""
    found = msgspec.json.decode(body, type=_Envelope)
    if found.result_type == "input_required":
        return ExecutedTool(found.data, f"it needs more input: {'; '.join(_inputs(found.input_requests))}")
    failed = found.successful is False or found.result_type == "failed" or bool(found.error)
    message = text(found.error, members(found.error).get("message"))
    return ExecutedTool(found.data, (message or _UNKNOWN) if failed else None)


def _inputs(requests: Any) -> Iterable[str]:
    return [text(members(one).get("message")) or name for name, one in members(requests).items()]


# Users

_NAMES = re.compile(r"\{(user|tenant|agent|thread)\}")
_SEPARATOR = re.compile(r"[^A-Za-z0-9%]")
_UNSAFE = re.compile(r"[-._~]")


class UserIds:
    """Composio's user ids, from a template with {user}, {tenant}, {agent} and {thread}."""

    def __init__(self, template: str) -> None:
        pieces = _NAMES.split(template)
        self._texts = pieces[::2]
        self._names = pieces[1::2]
        for number in range(1, len(self._names)):
            if not _SEPARATOR.search(self._texts[number]):
                self._texts[number] += "."

    def of(self, user: str, tenant: str, agent: str, thread: str) -> str:
        given = {"user": user, "tenant": tenant, "agent": agent, "thread": thread}
        values = [given[name] for name in self._names]
        if len(values) > 1:  # `a-b` and `c` must not give the same id as `a` and `b-c`
            values = [_escaped(value) for value in values]
        filled = [text + value for text, value in zip(self._texts, [*values, ""], strict=True)]
        return "".join(filled) or "default"


def _escaped(value: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", quote(value, safe=""))
