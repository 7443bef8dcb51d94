"""What a POST says, whatever brought it: whether its form is right, and which call it is.

Used by every edge that speaks HTTP. Reads and sends nothing itself.
"""

from msgspec import UNSET

from ..wire.call import NO_CHANNEL, Call, Caller, Identity
from ..wire.eras import is_modern
from ..wire.errors import InvalidRequest, UnsupportedVersion
from ..wire.headers import Head, check_doubles
from ..wire.messages import Message
from ..wire.modern import ModernReader
from ..wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from .accepting import Accepted

JSON = b"application/json"


def wrong_form(head: Head, accepted: Accepted) -> tuple[int, str] | None:
    """Why a POST with these headers is not read, as a status and a sentence, or None."""
    content_type = head.raw.get(b"content-type")
    if content_type != JSON and not _is_json(content_type):
        return 415, "Content-Type must be application/json"
    if not accepted.json:
        return 406, "Accept must admit application/json and should admit text/event-stream"
    return None


def _is_json(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.split(b";")[0].strip().lower() == JSON


class Understanding:
    """Reads calls; remembers what modern clients say of themselves every time."""

    def __init__(self) -> None:
        self._reader = ModernReader()

    def call_of(self, head: Head, identity: Identity, body: bytes, message: Message) -> Call | None:
        """A modern message as a call, None for a legacy one."""
        method, id = message.method, message.id
        if len(head.raw) != len(head.pairs):
            check_doubles(head)
        if isinstance(method, str):
            if id is UNSET and not method.startswith("notifications/"):
                raise InvalidRequest(f"{method[:80]!r} is a request and needs an 'id'")
            if is_modern(body, message.params, head):
                if isinstance(id, int | str):
                    caller, token = self._reader.read(method, message.params, head, identity)
                    return Call(method, message.params, caller, NO_CHANNEL, id, token, None, head.params)
                return _modern_notification(head, identity, message, method)
        check_legacy_version(head)
        return None


def _modern_notification(head: Head, identity: Identity, message: Message, method: str) -> Call:
    """The modern era defines none over HTTP, and no headers for one but the version."""
    version = head.version or ""
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(version[:80])
    return Call(method, message.params, Caller(version, {}, identity=identity), NO_CHANNEL)


def check_legacy_version(head: Head) -> None:
    version = head.version
    if version is not None and version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(version[:80])
