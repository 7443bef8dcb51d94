"""Legacy sessions that carry their own state in their id.

The id is a signed token with the negotiated version, the client and its capabilities, and whose it
is. Any process with the same key can serve it; a restarted one too. What a session changes later
(log level, subscriptions) and the fact that it was ended are known to the process that was told.
"""

import secrets
import time
from collections import OrderedDict
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..wire.call import Caller, Identity, Session
from ..wire.eras import ClientInfo
from ..wire.errors import InvalidParams
from ..wire.seal import BrokenSeal, Sealer
from ..wire.types import InitializeParams
from ..wire.versions import LEGACY_VERSIONS, negotiate

MAX_ID_BYTES = 8 * 1024
LIFETIME = 7 * 24 * 3600
MAX_REMEMBERED = 10_000
MAX_OPENED = 256
_PURPOSE = "session"
_NONE = Raw(b"{}")


class Token(Struct, array_like=True, frozen=True):
    nonce: str
    version: str
    issued: int
    tenant: str
    agent: str
    client: str
    client_version: str
    capabilities: Raw


_decode_token = msgspec.json.Decoder(Token).decode


class Opened(Struct, frozen=True):
    """A session whose id was found good."""

    token: Token
    caller: Caller
    session: Session


def client_from(info: dict[str, Any]) -> ClientInfo:
    """`clientInfo` as a stranger sent it, cut to what we keep."""
    name, version = info.get("name"), info.get("version")
    return ClientInfo(
        name[:100] if isinstance(name, str) else "unknown", version[:100] if isinstance(version, str) else ""
    )


class Sessions:
    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._remembered: OrderedDict[str, Session] = OrderedDict()
        self._held: dict[str, Session] = {}
        self._opened: dict[tuple[str, Identity], Opened] = {}

    def start(self, params: InitializeParams, identity: Identity) -> tuple[str, Caller, Session]:
        """A new session: its id, who opened it, and what it begins with."""
        client = client_from(params.client_info)
        token = Token(
            nonce=secrets.token_urlsafe(12),
            version=negotiate(params.protocol_version),
            issued=int(time.time()),
            tenant=identity.tenant,
            agent=identity.agent,
            client=client.name,
            client_version=client.version,
            capabilities=Raw(msgspec.json.encode(params.capabilities)),
        )
        id = self._sealer.seal(msgspec.json.encode(token), _PURPOSE)
        if len(id) > MAX_ID_BYTES:
            raise InvalidParams("clientInfo and capabilities are too large to open a session with")
        return id, _caller_of(token, identity), Session(token.nonce)

    def passing(self, version: str, identity: Identity) -> Opened:
        """For one request that has no session: nothing of it is kept."""
        token = Token(
            secrets.token_urlsafe(12), version, 0, identity.tenant, identity.agent, "unknown", "", _NONE
        )
        return Opened(token, _caller_of(token, identity), Session(token.nonce))

    def find(self, id: str, identity: Identity) -> Opened | None:
        """The session of an id, or None when it is forged, foreign, expired or ended."""
        opened = self._opened.get((id, identity)) or self._open(id, identity)
        if opened is None:
            return None
        token = opened.token
        ours = token.tenant == identity.tenant and token.agent == identity.agent
        current = time.time() - token.issued < LIFETIME
        return opened if ours and current and token.nonce not in self._ended else None

    def _open(self, id: str, identity: Identity) -> Opened | None:
        if len(id) > MAX_ID_BYTES:
            return None
        try:
            token = _decode_token(self._sealer.open(id, _PURPOSE))
        except (BrokenSeal, msgspec.DecodeError):
            return None
        if token.version not in LEGACY_VERSIONS:
            return None
        opened = Opened(token, _caller_of(token, identity), Session(token.nonce))
        # Opening costs a tenth of a call; a few recent ones are worth keeping.
        if len(self._opened) >= MAX_OPENED:
            self._opened.clear()
        self._opened[id, identity] = opened
        return opened

    def end(self, nonce: str) -> None:
        self._remembered.pop(nonce, None)
        self._ended[nonce] = None
        while len(self._ended) > MAX_REMEMBERED:
            self._ended.popitem(last=False)

    def state(self, opened: Opened) -> Session:
        nonce = opened.token.nonce
        return self._held.get(nonce) or self._remembered.get(nonce) or opened.session

    def hold(self, session: Session) -> None:
        """While a listening stream is open, the stream and later requests must see one and the same state."""
        self._held[session.id] = session

    def release(self, id: str) -> None:
        session = self._held.pop(id, None)
        if session is not None:
            self.remember(session)

    def remember(self, session: Session) -> None:
        """Keep a session that has something to remember; the others cost nothing."""
        if session.log_level is None and not session.subscriptions:
            return
        self._remembered[session.id] = session
        self._remembered.move_to_end(session.id)
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


def _caller_of(token: Token, identity: Identity) -> Caller:
    return Caller(token.version, token.capabilities, ClientInfo(token.client, token.client_version), identity)
