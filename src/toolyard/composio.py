"""Composio's API as every client of it needs it: user ids, the envelope of an execution, errors, local first.

Also understands arguments of meta tools in other forms. Sends nothing: the gateway's client is in
`upstream.composio`, that of the workbench in `workbench.composio`.
"""

import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from .wire.call import Principal

BASE_URL = "https://backend.composio.dev"
KEY_VARIABLE, URL_VARIABLE = "COMPOSIO_API_KEY", "COMPOSIO_BASE_URL"
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


def failure(reason: str) -> dict[str, Any]:
    """Return what of the envelope says that a tool failed: prompts for Composio's tools read it."""
    return {"error": reason, "successful": False}


def without_failure(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a failed tool without `failure`."""
    return {name: value for name, value in data.items() if name not in failure("")}


def _inputs(requests: Any) -> Iterable[str]:
    return [text(members(one).get("message")) or name for name, one in members(requests).items()]


# Meta tools

SEARCH, MULTI_EXECUTE = "COMPOSIO_SEARCH_TOOLS", "COMPOSIO_MULTI_EXECUTE_TOOL"
_WISHES = ("intent", "use_case", "query")
_STEP = {"slug": "tool_slug", "params": "arguments"}
"""What some documents call the members of a step, and Composio's names."""


def own_form(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a meta tool in Composio's own form; the same object if they have it.

    Understood are one wish in place of `queries`, and steps of `{slug, params}`.
    """
    tool = tool.upper()
    if tool == SEARCH and not arguments.get("queries"):
        wish = text(*(arguments.get(name) for name in _WISHES))
        known = text(arguments.get("known_fields"))
        query = {"use_case": wish, **({"known_fields": known} if known else {})}
        others = {name: arguments[name] for name in arguments if name not in (*_WISHES, "known_fields")}
        return {**others, "queries": [query]} if wish else arguments
    if tool == MULTI_EXECUTE:
        steps = _decoded(arguments.get("tools"))
        own = [_own_step(step) for step in items(steps)]
        return arguments if own == items(steps) else {**arguments, "tools": own}
    return arguments


def _own_step(step: Any) -> Any:
    """Rename members of a step, unless it has them under their own names already."""
    if not isinstance(step, dict):
        return step
    given = cast(dict[str, Any], step)
    names = {name: own for name, own in _STEP.items() if own not in given}
    return {names.get(name, name): value for name, value in given.items()}


def _decoded(value: Any) -> Any:
    """Decode a list that a model wrote as a text."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, RecursionError):
        return value


# Users

USER_VARIABLE = "DEFAULT_USER_ID"
"""The variable with the user of callers who are not told apart."""
UNKNOWN_OWNER = Principal().owner
"""Of whoever came without a credential."""

_NAMES = re.compile(r"\{(user|tenant|agent|thread)\}")
_SEPARATOR = re.compile(r"[^A-Za-z0-9%]")
_UNSAFE = re.compile(r"[-._~]")


class UserIds:
    """Composio's user ids: the one place that decides as whom sessions, calls, uploads and workbenches act.

    `template` is the configured one, with {user}, {tenant}, {agent} and {thread} of the caller. A caller who
    is not known is `default`, the value of `USER_VARIABLE`; without it, `local`.
    """

    def __init__(self, template: str, default: str = "") -> None:
        self._default = default or UNKNOWN_OWNER
        pieces = _NAMES.split(template)
        self._texts = pieces[::2]
        self._names = pieces[1::2]
        for number in range(1, len(self._names)):
            if not _SEPARATOR.search(self._texts[number]):
                self._texts[number] += "."

    def of(self, user: str, tenant: str, agent: str, thread: str) -> str:
        """Return the id of a caller; `user` is the owner of its data."""
        if user == UNKNOWN_OWNER:
            user = tenant = self._default
        given = {"user": user, "tenant": tenant, "agent": agent, "thread": thread}
        values = [given[name] for name in self._names]
        if len(values) > 1:  # `a-b` and `c` must not give the same id as `a` and `b-c`
            values = [_escaped(value) for value in values]
        filled = [text + value for text, value in zip(self._texts, [*values, ""], strict=True)]
        return "".join(filled) or "default"


def _escaped(value: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", quote(value, safe=""))
