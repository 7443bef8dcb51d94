"""The first exchange with an upstream, in either era: what we send about ourselves, what it tells us."""

from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from .. import __version__
from ..wire.call import CAPABILITIES_KEY, CLIENT_KEY, SERVER_KEY, VERSION_KEY
from ..wire.errors import UNSUPPORTED_VERSION, McpError
from ..wire.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY_VERSIONS
from .connection import ClientProfile, Params, RawResult, UpstreamInfo
from .errors import InvalidReplyError

MAX_INFO = 64 * 1024
INSTANCE = token_hex(4)
"""Tells this process from other gateways, so that one notices when it is its own upstream."""
CLIENT_INFO = {"name": "toolyard", "version": f"{__version__}+{INSTANCE}"}

MODERN_META = Raw(
    msgspec.json.encode({VERSION_KEY: LATEST_MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: CLIENT_INFO})
)
"""Goes with what we ask in our own name."""

DISCOVER: Params = {"_meta": MODERN_META}


class _Meta(Struct):
    info: Raw = field(default=Raw(b"{}"), name=SERVER_KEY)


class _Discovery(Struct, rename="camel"):
    supported_versions: list[str]
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    meta: _Meta = field(default_factory=_Meta, name="_meta")


class _Initialized(Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any] = {}
    server_info: Raw = Raw(b"{}")
    instructions: str | None = None


def read_discovery(server: str, result: RawResult) -> UpstreamInfo:
    """From the answer to `server/discover`; McpError when it does not speak what we do."""
    found = _decode(server, result, _Discovery)
    if LATEST_MODERN not in found.supported_versions:
        raise McpError(UNSUPPORTED_VERSION, f"it speaks {', '.join(found.supported_versions[:5])} only")
    return UpstreamInfo(
        LATEST_MODERN, _info(found.meta.info), valid_capabilities(found.capabilities), found.instructions
    )


def initialize_params(profile: ClientProfile) -> Params:
    """The params of `initialize`."""
    return {
        "protocolVersion": Raw(msgspec.json.encode(LATEST_LEGACY)),
        "capabilities": Raw(profile.capabilities),
        "clientInfo": Raw(msgspec.json.encode(CLIENT_INFO)),
    }


def read_initialized(server: str, result: RawResult) -> UpstreamInfo:
    """From the answer to `initialize`."""
    found = _decode(server, result, _Initialized)
    if found.protocol_version not in LEGACY_VERSIONS:
        raise InvalidReplyError(
            server, f"it wants to speak the unknown revision {found.protocol_version[:40]!r}"
        )
    capabilities = valid_capabilities(found.capabilities)
    return UpstreamInfo(found.protocol_version, _info(found.server_info), capabilities, found.instructions)


def valid_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Capabilities as a stranger declared them, less what is not of the right form."""
    found = _objects(capabilities)
    if "extensions" in found:
        found["extensions"] = _objects(found["extensions"])
    return found


def _objects(members: dict[str, Any]) -> dict[str, Any]:
    """That a member is there is what counts; many say `true` or `null` for an empty object."""
    return {
        name: value if isinstance(value, dict) else {}
        for name, value in members.items()
        if value is not False
    }


def _info(info: Raw) -> Raw:
    """`serverInfo`, if it is an object of reasonable size."""
    body = bytes(info)
    return Raw(body) if body.startswith(b"{") and len(body) <= MAX_INFO else Raw(b"{}")


def _decode(server: str, result: RawResult, kind: type[Any]) -> Any:
    if not isinstance(result, Raw):
        result.close()
        raise InvalidReplyError(server, "its first answer is too big")
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReplyError(server, f"its first answer cannot be understood: {error}") from None
