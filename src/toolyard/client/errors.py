"""What can go wrong between a client and its server, and what to do about it.

ClientError             any of these; `hint` says what to do
├── TargetError         what the client was given to connect to cannot be used
├── ConnectError        nothing answers there, or the program did not start
├── RefusedError        an HTTP server answered with an error of its own; `status` and `location`
├── ClientTimeoutError  no sign of the server for `timeout` seconds
├── ConnectionLostError the server left before it answered
├── ProtocolError       the server does not speak MCP
│   └── UnknownVersionError   it speaks a revision that we do not know
├── UnsupportedError    the server, or its era, does not have what was asked for
├── ToolCallError       a tool says it failed, and the caller wanted that raised; `result` is the result
└── TaskError           a task failed or was cancelled

McpError (of `toolyard.wire.errors`) is a JSON-RPC error in the server's own words. It is no ClientError:
the server was reached and said no.
"""

import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..upstream.errors import (
    ConnectionLostError,
    ConsentRequiredError,
    HttpRpcError,
    InvalidReplyError,
    NotReachedError,
    UnknownRevision,
    UpstreamDownError,
    UpstreamError,
)
from ..upstream.stdio.launch import StartError
from ..wire.errors import McpError
from ..wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS

if TYPE_CHECKING:
    from .types import CallResult

UNWELCOME = (401, 403, 407)
"""About who asks, not about what: the status says more than the JSON-RPC error below it."""


class ClientError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class TargetError(ClientError):
    pass


class ConnectError(ClientError):
    pass


class RefusedError(ClientError):
    def __init__(self, message: str, hint: str = "", status: int = 0, location: str | None = None) -> None:
        super().__init__(message, hint)
        self.status = status
        self.location = location


class ClientTimeoutError(ClientError, TimeoutError):
    pass


class ServerLostError(ClientError):
    pass


class ProtocolError(ClientError):
    pass


class UnknownVersionError(ProtocolError):
    pass


class UnsupportedError(ClientError):
    pass


class ToolCallError(ClientError):
    def __init__(self, tool: str, result: "CallResult") -> None:
        super().__init__(f"tool {tool!r} failed: {result.text or 'it does not say why'}")
        self.result = result


class TaskError(ClientError):
    pass


# From what the transports raise


def explained(error: McpError, name: str, method: str, timeout: float | None) -> Exception:
    """The error to raise for one of a transport; one in the server's own words stays as it is."""
    if not isinstance(error, UpstreamError):
        return _refused(name, error, error.message) if _is_unwelcome(error) else error
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, HttpRpcError):
            return _refused(name, cause, cause.message) if _is_unwelcome(cause) else _own_words(cause)
        if isinstance(cause, TimeoutError) and not isinstance(cause, UpstreamError):
            return timed_out(name, timeout)
        if isinstance(cause, UnknownRevision):
            known = ", ".join((*LEGACY_VERSIONS, *MODERN_VERSIONS))
            what = f"the server speaks version {cause.version!r} of MCP, which is none we know"
            return UnknownVersionError(what, f"known: {known}")
        if isinstance(cause, UpstreamError) and cause.status:
            return _refused(name, cause, cause.said)
        if isinstance(cause, StartError):
            return ConnectError(f"{name} did not start: {cause.reason}", cause.hint or "")
        if isinstance(cause, ConnectionRefusedError):
            return ConnectError(
                f"nothing listens at {name}", "is the server running? `toolyard serve` starts one"
            )
        if isinstance(cause, socket.gaierror):
            return ConnectError(f"no host {urlsplit(name).hostname!r}: {cause.args[-1]}", "check the URL")
        if isinstance(cause, ssl.SSLError):
            advice = "is it an http:// address? a private certificate authority goes into SSL_CERT_FILE"
            return ConnectError(f"no secure connection to {name}: {cause.reason or cause}", advice)
    return _by_kind(causes, name, method)


def _by_kind(causes: list[BaseException], name: str, method: str) -> ClientError:
    # The innermost knows best; what is around it says only that nothing of a caller's was lost.
    error = [cause for cause in causes if isinstance(cause, UpstreamError)][-1]
    kind = ConnectError if isinstance(causes[0], NotReachedError) else ServerLostError
    if isinstance(error, InvalidReplyError) and error.reason.startswith("its answer is "):
        reason = error.reason.removeprefix("its answer is not JSON-RPC: ")
        return ProtocolError(f"{name} does not speak MCP: {reason}", "an MCP endpoint often ends in /mcp")
    if isinstance(error, ConnectionLostError) and "without an answer" in error.reason:
        return kind(f"{name} closed the connection before it answered {method!r}")
    if isinstance(error, UpstreamDownError | ConsentRequiredError):  # of a server behind a gateway here
        name = f"server {error.server!r}"
    said = f"{name} {error.reason[3:]}" if error.reason.startswith("it ") else f"{name}: {error.reason}"
    if isinstance(error, InvalidReplyError):
        return ProtocolError(said)
    return kind(said)


def timed_out(name: str, timeout: float | None) -> ClientTimeoutError:
    within = f" within {timeout:g} seconds" if timeout is not None else " in time"
    return ClientTimeoutError(f"{name} gave no answer{within}", "a longer `timeout` waits longer")


def _own_words(error: HttpRpcError) -> McpError:
    return McpError(error.code, error.message, error.data)


def _is_unwelcome(error: McpError) -> bool:
    return isinstance(error, HttpRpcError) and error.status in UNWELCOME


def _refused(name: str, error: Any, said: str = "") -> RefusedError:
    status: int = error.status
    location: str | None = getattr(error, "location", None)
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    message = f"{name} answered {status}{phrase}" + (f": {said}" if said else "")
    return RefusedError(message, _advice(status, location), status, location)


def _advice(status: int, location: str | None) -> str:
    if 300 <= status < 400:
        return f"it has moved to {location}"
    if status == 401:
        return "give what it asks for: headers={'Authorization': 'Bearer …'}"
    if status == 403:
        return "a Toolyard admits names and web pages by `serve --allow-host` and `--allow-origin`"
    return "is the path right? an MCP endpoint often ends in /mcp" if status in (404, 405) else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from; of aiohttp's, also what the system said."""
    while error is not None:
        yield error
        system = getattr(error, "os_error", None)
        if isinstance(system, BaseException):
            yield system
        error = error.__cause__
