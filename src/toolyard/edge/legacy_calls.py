"""Legacy messages as calls: whose session they belong to, and what those are told that have none.

Used by every edge that speaks HTTP. Streams, and what a session changes later, are `legacy`'s business.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from ..wire.call import NO_CHANNEL, Call, Identity, Session
from ..wire.eras import read_legacy_progress_token
from ..wire.errors import InvalidRequest, McpError
from ..wire.headers import Head
from ..wire.messages import Message, encode_error
from ..wire.secret import Secret
from ..wire.versions import ASSUMED_VERSION
from .sessions import Opened, Sessions

NO_SESSION = (
    "No Mcp-Session-Id header: send 'initialize' first, or speak 2026-07-28 with its headers and params._meta"
)
NEEDS_SESSION = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What only makes sense for later requests. Everything else is answered without a session too."""
SESSION = b"mcp-session-id"


def session_of(sessions: Sessions, head: Head, identity: Identity) -> Opened | None:
    """The session that a request names, if it is one of ours."""
    id = head.get(SESSION)
    return None if id is None else sessions.find(id, identity)


def passer_by(sessions: Sessions, head: Head, identity: Identity, message: Message) -> Opened | None:
    """A request without a session, as from curl: served for itself. Its client can be asked nothing."""
    known = SESSION in head.raw
    if known or not isinstance(message.id, int | str) or message.method in (UNSET, *NEEDS_SESSION):
        return None
    return sessions.passing(head.version or ASSUMED_VERSION, identity)


def turned_away(head: Head, id: Any = None) -> tuple[int, bytes]:
    """No session, or not one of ours."""
    status, error = 404, McpError(-32001, "Session not found; send 'initialize' to open a new one")
    if SESSION not in head.raw:
        status, error = 400, InvalidRequest(NO_SESSION)
    return status, encode_error(id if isinstance(id, int | str) else None, error)


def call_of(
    body: bytes, message: Message, opened: Opened, session: Session, secrets: Mapping[str, Secret] | None
) -> Call:
    """A request, or a notification, in the name of this session."""
    assert isinstance(message.method, str)
    call = Call(message.method, message.params, opened.caller, NO_CHANNEL, session=session)
    if isinstance(message.id, int | str):
        call.id = message.id
        call.progress_token = read_legacy_progress_token(body, message.params)
    call.secrets = secrets
    return call
