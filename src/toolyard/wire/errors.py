"""Protocol errors: one tree, with the HTTP status each travels under.

McpError                    any JSON-RPC error, by code
├── ParseError              -32700  the bytes are not JSON
├── InvalidRequest          -32600  JSON, but not a JSON-RPC message
├── MethodNotFound          -32601  no such method, or not in this era
├── InvalidParams           -32602  the method is known, its parameters are wrong
├── InternalError           -32603  our fault; says nothing of the inside
│   └── Unavailable         -32603  we are closing; under HTTP 503
├── HeaderMismatch          -32020  a header is missing, doubled, or contradicts the body
├── MissingCapability       -32021  the client did not declare what the request needs
└── UnsupportedVersion      -32022  a revision this server does not speak
"""

from typing import Any

import msgspec

from .text import clean
from .versions import MODERN_VERSIONS

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002  # legacy; the modern era uses invalid params

# A gateway's own.
NOT_CONFIRMED = -32005
LIMIT_EXCEEDED = -32029
GRANT_ENDED = -32030
INSUFFICIENT_SCOPE = -32031
GATEWAY_CODES = frozenset(
    {NOT_CONFIRMED, LIMIT_EXCEEDED, GRANT_ENDED, INSUFFICIENT_SCOPE, HEADER_MISMATCH, UNSUPPORTED_VERSION}
)
"""Of errors between a caller and whoever it asked: a server behind that has nothing to say with them."""

# Modern HTTP only. Codes that are not here travel under 200, and so does every error of a legacy session.
HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}


class ErrorObject(msgspec.Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class McpError(Exception):
    """A JSON-RPC error on its way to the other side."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an error's code is an integer, not {code!r}")
        super().__init__(message)
        self.code = code
        self.message = clean(str(message))
        self.data = data

    @property
    def http_status(self) -> int:
        return HTTP_STATUS.get(self.code, 200)

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        """What an HTTP reply carries beside the error, such as Retry-After and WWW-Authenticate."""
        return []

    def to_wire(self) -> ErrorObject:
        return ErrorObject(self.code, self.message, self.data)


class ParseError(McpError):
    def __init__(self, message: str) -> None:
        super().__init__(PARSE_ERROR, message)


class InvalidRequest(McpError):
    def __init__(self, message: str) -> None:
        super().__init__(INVALID_REQUEST, message)


class MethodNotFound(McpError):
    def __init__(self, method: str) -> None:
        super().__init__(METHOD_NOT_FOUND, f"Method not found: {method!r}")


class InvalidParams(McpError):
    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(INVALID_PARAMS, message, data)


class InternalError(McpError):
    def __init__(self, message: str = "Internal error; the server's log has the details") -> None:
        super().__init__(INTERNAL_ERROR, message)


class Unavailable(InternalError):
    """Not now; whoever stands between may try elsewhere."""

    @property
    def http_status(self) -> int:
        return 503


class HeaderMismatch(McpError):
    def __init__(self, message: str) -> None:
        super().__init__(HEADER_MISMATCH, f"Header mismatch: {message}")


class MissingCapability(McpError):
    """`required` has the shape of ClientCapabilities: `{"sampling": {}}`."""

    def __init__(self, required: dict[str, Any]) -> None:
        names = ", ".join(sorted(_leaf_names(required)))
        super().__init__(
            MISSING_CAPABILITY,
            f"The client must declare the capability: {names}",
            {"requiredCapabilities": required},
        )


class UnsupportedVersion(McpError):
    def __init__(self, requested: str) -> None:
        super().__init__(
            UNSUPPORTED_VERSION,
            f"Unsupported protocol version {requested!r}",
            {"supported": list(MODERN_VERSIONS), "requested": requested},
        )


def _leaf_names(required: dict[str, Any]) -> list[str]:
    extensions = required.get("extensions")
    names = [name for name in required if name != "extensions"]
    return names + list(extensions or ())
