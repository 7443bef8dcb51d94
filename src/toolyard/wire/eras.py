"""Which era a request belongs to, and what it says of its client.

Modern requests are recognised by their `_meta` or by a modern version header; everything else is
legacy. A request that claims to be modern is checked from top to bottom here, so that whoever
answers it can rely on all of it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .errors import HeaderMismatch, InvalidParams, UnsupportedVersion
from .headers import NAMED_BY, Head, check_request
from .messages import Id, decode_params
from .versions import LATEST_MODERN, LEGACY_VERSIONS, MODERN_VERSIONS

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_KEY = PREFIX + "clientInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
TASKS_EXTENSION = PREFIX + "tasks"
UI_EXTENSION = PREFIX + "ui"

_NOTHING = Raw(b"")


class ClientInfo(Struct, frozen=True, omit_defaults=True):
    name: str = "unknown"
    version: str = ""
    title: str | None = None


class RequestMeta(Struct, gc=False):
    """The `_meta` of a request, as far as the protocol gives it meaning."""

    version: str | UnsetType = field(default=UNSET, name=VERSION_KEY)
    capabilities: Raw = field(default=_NOTHING, name=CAPABILITIES_KEY)
    client: ClientInfo = field(default=ClientInfo(), name=CLIENT_KEY)
    log_level: str | None = field(default=None, name=LOG_LEVEL_KEY)
    progress_token: Id | None = field(default=None, name="progressToken")


class ParamsHead(Struct, gc=False):
    """What the protocol reads of any request's params before it knows the method."""

    meta: RequestMeta | UnsetType = field(default=UNSET, name="_meta")
    name: Any = None
    uri: Any = None
    task_id: Any = field(default=None, name="taskId")


class _LegacyMeta(Struct):
    progress_token: Id | None = field(default=None, name="progressToken")


class _LegacyHead(Struct):
    meta: _LegacyMeta | None = field(default=None, name="_meta")


class _VersionOnly(Struct):
    version: Any = field(default=UNSET, name=VERSION_KEY)


class _VersionHead(Struct):
    meta: _VersionOnly | None = field(default=None, name="_meta")


_version_decoder = msgspec.json.Decoder(_VersionHead)
_VERSION_BYTES = VERSION_KEY.encode()
_LATEST = LATEST_MODERN.encode()


def is_modern(body: bytes, params: Raw, head: Head | None) -> bool:
    """Whether a request wants to be taken for a modern one. Cheap: most bodies need no decoding for it."""
    if head is not None:
        sent = head.raw.get(b"mcp-protocol-version")
        if sent == _LATEST or (sent is not None and head.version not in LEGACY_VERSIONS):
            return True
    return _VERSION_BYTES in body and _has_version(params)


def _has_version(params: Raw) -> bool:
    # The key may also stand somewhere in the arguments, so the bytes alone do not decide.
    try:
        meta = _version_decoder.decode(params).meta
    except (msgspec.DecodeError, RecursionError):
        return False
    return meta is not None and meta.version is not UNSET


def read_modern(method: str, params: Raw, head: Head | None) -> RequestMeta:
    """Check a modern request (with `head`, its HTTP headers too) and return its `_meta`."""
    parsed = decode_params(params, ParamsHead)
    meta = parsed.meta
    sent = None if head is None else head.version
    if sent is not None and sent not in MODERN_VERSIONS:
        claimed = UNSET if meta is UNSET else meta.version
        if claimed is UNSET or claimed == sent:
            raise UnsupportedVersion(sent[:80])
    if meta is UNSET:
        raise InvalidParams(
            f"params._meta is missing; it must carry {VERSION_KEY!r} and {CAPABILITIES_KEY!r}"
        )
    if meta.version is UNSET:
        raise InvalidParams(f"params._meta must carry {VERSION_KEY!r}")
    if meta.capabilities is _NOTHING or memoryview(meta.capabilities)[0] != 0x7B:
        raise InvalidParams(f"params._meta must carry {CAPABILITIES_KEY!r}, an object")
    if head is not None and sent != meta.version:
        if sent is None:
            raise HeaderMismatch("the MCP-Protocol-Version header is missing")
        raise HeaderMismatch(f"MCP-Protocol-Version is {sent[:80]!r}, the body says {meta.version[:80]!r}")
    if meta.version not in MODERN_VERSIONS:
        raise UnsupportedVersion(meta.version[:80])
    if head is not None:
        check_request(head, method, _name_in(method, parsed))
    return meta


def _name_in(method: str, parsed: ParamsHead) -> str | None:
    key = NAMED_BY.get(method)
    if key is None:
        return None
    value = parsed.name if key == "name" else parsed.uri if key == "uri" else parsed.task_id
    if not isinstance(value, str):
        raise InvalidParams(f"params.{key} must be a string")
    return value


def read_legacy_progress_token(body: bytes, params: Raw) -> Id | None:
    if b"progressToken" not in body:
        return None
    try:
        meta = msgspec.json.decode(params, type=_LegacyHead).meta
    except (msgspec.DecodeError, RecursionError):
        return None
    return meta.progress_token if meta is not None else None
