"""Legacy sessions, whose id contains their state, and calls made from legacy messages.

The id is a signed token with the negotiated version, the client, its capabilities and its owner. Any
process with the same key can serve it, also after a restart. Later changes (log level, subscriptions, the
end) are known only to the process that received them.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ..wire.call import (
    NO_CHANNEL,
    Call,
    Caller,
    Channel,
    ClientInfo,
    Identity,
    LegacySession,
    Secret,
    read_legacy_progress_token,
)
from ..wire.errors import InvalidParams, InvalidRequest, McpError
from ..wire.headers import RequestHeaders
from ..wire.messages import JsonRpcMessage, encode_error
from ..wire.seal import BrokenSeal, Sealer
from ..wire.types import InitializeParams
from ..wire.versions import ASSUMED_VERSION, LEGACY_VERSIONS, negotiate

MAX_ID_BYTES = 8 * 1024
LIFETIME = 7 * 24 * 3600
MAX_REMEMBERED = 10_000
MAX_OPENED = 256
_PURPOSE = "session"
_NONE = Raw(b"{}")


class SessionToken(Struct, array_like=True, frozen=True):
    nonce: str
    version: str
    issued: int
    binding: str
    """Of the principal that opened it."""
    client: str
    client_version: str
    capabilities: Raw


_decode_token = msgspec.json.Decoder(SessionToken).decode


class OpenedSession(Struct, frozen=True):
    """A session whose id is valid."""

    token: SessionToken
    caller: Caller
    session: LegacySession


def read_client_info(info: dict[str, Any]) -> ClientInfo:
    """Read `clientInfo`, which is untrusted, and shorten it."""
    name, version = info.get("name"), info.get("version")
    return ClientInfo(
        name[:100] if isinstance(name, str) else "unknown", version[:100] if isinstance(version, str) else ""
    )


class LegacySessions:
    def __init__(self, sealer: Sealer, *, last: bool = True) -> None:
        """`last`: this process serves a session's later requests too."""
        self._sealer = sealer
        self._last = last
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._saved: OrderedDict[str, LegacySession] = OrderedDict()
        self._pinned: dict[str, LegacySession] = {}
        self._cache: dict[tuple[str, Identity], OpenedSession] = {}

    def start(self, params: InitializeParams, identity: Identity) -> tuple[str, Caller, LegacySession]:
        """Open a session: returns its id, its caller and its initial state."""
        client = read_client_info(params.client_info)
        token = SessionToken(
            nonce=secrets.token_urlsafe(12),
            version=negotiate(params.protocol_version),
            issued=int(time.time()),
            binding=identity.principal.binding,
            client=client.name,
            client_version=client.version,
            capabilities=Raw(msgspec.json.encode(params.capabilities)),
        )
        id = self._sealer.seal(msgspec.json.encode(token), _PURPOSE)
        if len(id) > MAX_ID_BYTES:
            raise InvalidParams("clientInfo and capabilities are too large for a session")
        return id, _caller_of(token, identity), LegacySession(token.nonce, lasts=self._last)

    def anonymous(self, version: str, identity: Identity) -> OpenedSession:
        """A temporary session for one request without a session; it is not stored."""
        token = SessionToken(
            secrets.token_urlsafe(12), version, 0, identity.principal.binding, "unknown", "", _NONE
        )
        return OpenedSession(token, _caller_of(token, identity), LegacySession(token.nonce, lasts=False))

    def find(self, id: str, identity: Identity) -> OpenedSession | None:
        """The session of an id; None if the id is forged, another caller's, expired or ended."""
        opened = self._cache.get((id, identity)) or self._open(id, identity)
        if opened is None:
            return None
        token = opened.token
        ours = token.binding == identity.principal.binding
        current = time.time() - token.issued < LIFETIME
        return opened if ours and current and token.nonce not in self._ended else None

    def _open(self, id: str, identity: Identity) -> OpenedSession | None:
        if len(id) > MAX_ID_BYTES:
            return None
        try:
            token = _decode_token(self._sealer.open(id, _PURPOSE))
        except (BrokenSeal, msgspec.DecodeError):
            return None
        if token.version not in LEGACY_VERSIONS:
            return None
        session = LegacySession(token.nonce, lasts=self._last)
        opened = OpenedSession(token, _caller_of(token, identity), session)
        # Opening a token costs a tenth of a call, so recent ones are cached.
        if len(self._cache) >= MAX_OPENED:
            self._cache.clear()
        self._cache[id, identity] = opened
        return opened

    def end(self, nonce: str) -> None:
        self._saved.pop(nonce, None)
        self._ended[nonce] = None
        while len(self._ended) > MAX_REMEMBERED:
            self._ended.popitem(last=False)

    def state(self, opened: OpenedSession) -> LegacySession:
        nonce = opened.token.nonce
        return self._pinned.get(nonce) or self._saved.get(nonce) or opened.session

    def pin(self, session: LegacySession) -> None:
        """Keep the state while a listening stream is open, so that the stream and later requests share it."""
        self._pinned[session.id] = session

    def unpin(self, id: str) -> None:
        session = self._pinned.pop(id, None)
        if session is not None:
            self.remember(session)

    def remember(self, session: LegacySession) -> None:
        """Store a session that differs from the default; other sessions need no memory."""
        if session.log_level is None and not session.subscriptions:
            return
        self._saved[session.id] = session
        self._saved.move_to_end(session.id)
        while len(self._saved) > MAX_REMEMBERED:
            self._saved.popitem(last=False)


def _caller_of(token: SessionToken, identity: Identity) -> Caller:
    return Caller(token.version, token.capabilities, ClientInfo(token.client, token.client_version), identity)


NO_SESSION = (
    "No Mcp-Session-Id header: send 'initialize' first, or use 2026-07-28 with its headers and params._meta"
)
NEEDS_SESSION = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods that only affect later requests. All others are also answered without a session."""
SESSION_HEADER = b"mcp-session-id"


def find_session(
    sessions: LegacySessions, headers: RequestHeaders, identity: Identity
) -> OpenedSession | None:
    """The session that a request names; None if it is not one of ours."""
    id = headers.get(SESSION_HEADER)
    return None if id is None else sessions.find(id, identity)


def anonymous_session(
    sessions: LegacySessions, headers: RequestHeaders, identity: Identity, message: JsonRpcMessage
) -> OpenedSession | None:
    """A temporary session for a request without one, such as from curl. The client cannot be asked."""
    known = SESSION_HEADER in headers.raw
    if known or not isinstance(message.id, int | str) or message.method in (UNSET, *NEEDS_SESSION):
        return None
    return sessions.anonymous(headers.version or ASSUMED_VERSION, identity)


def session_error(headers: RequestHeaders, id: Any = None) -> tuple[int, bytes]:
    """The error for a missing or unknown session."""
    status, error = 404, McpError(-32001, "Session not found; send 'initialize' to open a new one")
    if SESSION_HEADER not in headers.raw:
        status, error = 400, InvalidRequest(NO_SESSION)
    return status, encode_error(id if isinstance(id, int | str) else None, error)


def legacy_call(
    body: bytes,
    message: JsonRpcMessage,
    opened: OpenedSession,
    session: LegacySession,
    keys: Mapping[str, Secret] | None,
    channel: Channel = NO_CHANNEL,
) -> Call:
    """Make a call from a request or notification of this session."""
    method, params, id = message.method, message.params, message.id
    assert isinstance(method, str)
    if not isinstance(id, int | str):
        return Call(method, params, opened.caller, channel, session=session, secrets=keys)
    token = read_legacy_progress_token(body, params)
    return Call(method, params, opened.caller, channel, id, token, session, secrets=keys)
