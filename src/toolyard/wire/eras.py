"""Which era a request belongs to, and the names both eras go by.

Modern requests are recognised by their `_meta` or by a modern version header; everything else is
legacy. What a modern request must further get right is `modern`'s business.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, field

from .headers import Head
from .messages import Id
from .versions import LATEST_MODERN, LEGACY_VERSIONS

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_KEY = PREFIX + "clientInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"
TASKS_EXTENSION = PREFIX + "tasks"
UI_EXTENSION = PREFIX + "ui"


Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ClientInfo(Struct, frozen=True, omit_defaults=True):
    name: str = "unknown"
    version: str = ""
    title: str | None = None


class _LegacyMeta(Struct):
    progress_token: Id | None = field(default=None, name="progressToken")


class _LegacyHead(Struct):
    meta: _LegacyMeta | None = field(default=None, name="_meta")


class _VersionOnly(Struct):
    version: Any = field(default=UNSET, name=VERSION_KEY)


class _VersionHead(Struct):
    meta: _VersionOnly | None = field(default=None, name="_meta")


_version_decoder = msgspec.json.Decoder(_VersionHead)
# Without the prefix, whose slash JSON may spell in two ways.
_VERSION_BYTES = b"protocolVersion"
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return meta is not None and meta.version is not UNSET


def read_legacy_progress_token(body: bytes, params: Raw) -> Id | None:
    if b"progressToken" not in body:
        return None
    try:
        meta = msgspec.json.decode(params, type=_LegacyHead).meta
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return meta.progress_token if meta is not None else None
