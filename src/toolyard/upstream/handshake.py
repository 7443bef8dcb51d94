"""The handshake with an upstream in either era: builds the requests and reads the answers."""

from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from .._version import __version__
from ..wire.call import CAPABILITIES_KEY, CLIENT_KEY, SERVER_KEY, VERSION_KEY
from ..wire.errors import UNSUPPORTED_VERSION, McpError
from ..wire.versions import LATEST_MODERN, LEGACY_VERSIONS
from .connection import ClientProfile, Params, RawResult, UpstreamInfo
from .errors import InvalidReplyError, UnknownRevision

MAX_INFO = 64 * 1024
INSTANCE = token_hex(4)
"""Distinguishes this process from other gateways, so that a gateway notices when it is its own upstream."""
CLIENT_INFO = {"name": "toolyard", "version": f"{__version__}+{INSTANCE}"}

MODERN_META = Raw(
    msgspec.json.encode({VERSION_KEY: LATEST_MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: CLIENT_INFO})
)
"""The `_meta` of requests that the gateway makes in its own name."""

DISCOVER: Params = {"_meta": MODERN_META}


class _Meta(Struct):
    info: Raw = field(default=Raw(b"{}"), name=SERVER_KEY)


class _Discovery(Struct, rename="camel"):
    supported_versions: list[str] = []
    result_type: str = ""
    """A member that only the modern era knows."""
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    meta: _Meta = field(default_factory=_Meta, name="_meta")


class _Initialized(Struct, rename="camel"):
    protocol_version: Any
    capabilities: dict[str, Any] = {}
    server_info: Raw = Raw(b"{}")
    instructions: str | None = None
    meta: Raw = field(default=Raw(b"{}"), name="_meta")


def read_discovery(server: str, result: RawResult) -> UpstreamInfo:
    """Read the answer to `server/discover`; McpError if the server supports none of our revisions.

    A result of an extension's own type names no revisions.
    """
    found = _decode(server, result, _Discovery)
    is_extensions = found.result_type not in ("", "complete") and not found.supported_versions
    if LATEST_MODERN not in found.supported_versions and not is_extensions:
        raise McpError(UNSUPPORTED_VERSION, f"it supports {', '.join(found.supported_versions[:5])} only")
    return UpstreamInfo(
        LATEST_MODERN, _info(found.meta.info), valid_capabilities(found.capabilities), found.instructions
    )


def discovery(profile: ClientProfile) -> Params:
    """The params of `server/discover`: in our own name, unless the profile brings another."""
    if not profile.info:
        return DISCOVER
    meta = {CAPABILITIES_KEY: Raw(profile.capabilities), CLIENT_KEY: Raw(profile.info)}
    return {"_meta": Raw(msgspec.json.encode({VERSION_KEY: LATEST_MODERN, **meta}))}


def initialize_params(profile: ClientProfile) -> Params:
    return {
        "protocolVersion": Raw(msgspec.json.encode(profile.version)),
        "capabilities": Raw(profile.capabilities),
        "clientInfo": Raw(profile.info or msgspec.json.encode(CLIENT_INFO)),
    }


def read_initialized(server: str, result: RawResult) -> UpstreamInfo:
    """Read the answer to `initialize`."""
    found = _decode(server, result, _Initialized)
    if found.protocol_version not in LEGACY_VERSIONS:
        raise UnknownRevision(server, found.protocol_version)
    capabilities = valid_capabilities(found.capabilities)
    told = found.protocol_version, _info(found.server_info), capabilities, found.instructions
    return UpstreamInfo(*told, _info(found.meta))


def valid_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return declared capabilities without members of the wrong form."""
    found = _objects(capabilities)
    if "extensions" in found:
        found["extensions"] = _objects(found["extensions"])
    return found


def _objects(members: dict[str, Any]) -> dict[str, Any]:
    """Keep the members that are not false; many servers write `true` or `null` for an empty object."""
    return {
        name: value if isinstance(value, dict) else {}
        for name, value in members.items()
        if value is not False
    }


def _info(info: Raw) -> Raw:
    """Return `serverInfo` if it is an object of reasonable size, else an empty one."""
    body = bytes(info)
    return Raw(body) if body.startswith(b"{") and len(body) <= MAX_INFO else Raw(b"{}")


def _decode(server: str, result: RawResult, kind: type[Any]) -> Any:
    if not isinstance(result, Raw):
        result.close()
        raise InvalidReplyError(server, "its answer to the handshake is too large")
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReplyError(server, f"its answer to the handshake is invalid: {error}") from None
