"""Reading a modern request: its `_meta`, its headers, and so who calls.

Everything a modern request must get right before its method matters is checked here, from top to
bottom, so that whoever answers it can rely on all of it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .call import Caller, Identity
from .eras import CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY, VERSION_KEY, ClientInfo, Level
from .errors import HeaderMismatch, InvalidParams, UnsupportedVersion
from .headers import NAMED_BY, Head, check_request
from .messages import Id, decode_params
from .versions import MODERN_VERSIONS

MAX_REMEMBERED = 256
MAX_REMEMBERED_BYTES = 2048

_NOTHING = Raw(b"")


class _Meta(Struct):
    version: str | UnsetType = field(default=UNSET, name=VERSION_KEY)
    capabilities: Raw = field(default=_NOTHING, name=CAPABILITIES_KEY)
    client: ClientInfo = field(default=ClientInfo(), name=CLIENT_KEY)
    log_level: Level | None = field(default=None, name=LOG_LEVEL_KEY)
    progress_token: Id | None = field(default=None, name="progressToken")


class _Params(Struct, gc=False):
    meta: Raw = field(default=_NOTHING, name="_meta")
    name: Any = None
    uri: Any = None
    task_id: Any = field(default=None, name="taskId")


_decode_meta = msgspec.json.Decoder(_Meta).decode


class ModernReader:
    """Remembers the callers it has read lately.

    A client sends the same `_meta` with nearly every request, and reading it anew took a tenth of a
    call's CPU. One with a progress token differs each time and is not kept.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, Identity], tuple[Caller, bytes]] = {}

    def read(
        self, method: str, params: Raw, head: Head | None, identity: Identity
    ) -> tuple[Caller, Id | None]:
        """The caller and the progress token; with `head`, the HTTP headers are held against the body."""
        parsed = decode_params(params, _Params)
        raw = bytes(parsed.meta)
        token = None
        seen = self._seen.get((raw, identity))
        if seen is None:
            meta = _read_meta(raw, head)
            token = meta.progress_token
            seen = self._remember(raw, meta, identity)
        elif head is not None and head.raw.get(b"mcp-protocol-version") != seen[1]:
            _check_version(head.version, seen[0].version)
        if head is not None:
            check_request(head, method, _name_in(method, parsed))
        return seen[0], token

    def _remember(self, raw: bytes, meta: _Meta, identity: Identity) -> tuple[Caller, bytes]:
        assert isinstance(meta.version, str)
        caller = Caller(meta.version, Raw(bytes(meta.capabilities)), meta.client, identity, meta.log_level)
        seen = (caller, meta.version.encode())
        if meta.progress_token is None and len(raw) <= MAX_REMEMBERED_BYTES:
            if len(self._seen) >= MAX_REMEMBERED:
                self._seen.clear()
            self._seen[raw, identity] = seen
        return seen


def _read_meta(raw: bytes, head: Head | None) -> _Meta:
    sent = None if head is None else head.version
    try:
        meta = _decode_meta(raw) if raw else _Meta()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams(f"Invalid params._meta: {error}") from None
    if sent is not None and sent not in MODERN_VERSIONS and meta.version in (UNSET, sent):
        raise UnsupportedVersion(sent[:80])
    if meta.version is UNSET:
        raise InvalidParams(f"params._meta must carry {VERSION_KEY!r} and {CAPABILITIES_KEY!r}")
    if meta.capabilities is _NOTHING or memoryview(meta.capabilities)[0] != 0x7B:
        raise InvalidParams(f"params._meta must carry {CAPABILITIES_KEY!r}, an object")
    if head is not None:
        _check_version(sent, meta.version)
    if meta.version not in MODERN_VERSIONS:
        raise UnsupportedVersion(meta.version[:80])
    return meta


def _check_version(sent: str | None, said: str) -> None:
    if sent is None:
        raise HeaderMismatch("the MCP-Protocol-Version header is missing")
    if sent != said:
        raise HeaderMismatch(f"MCP-Protocol-Version is {sent[:80]!r}, the body says {said[:80]!r}")


def _name_in(method: str, parsed: _Params) -> str | None:
    key = NAMED_BY.get(method)
    if key is None:
        return None
    value = parsed.name if key == "name" else parsed.uri if key == "uri" else parsed.task_id
    if not isinstance(value, str):
        raise InvalidParams(f"params.{key} must be a string")
    return value
