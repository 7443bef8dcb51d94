"""One record of the audit: who asked for what, by which credential, what was decided, and how it ended.

Owns the fields, and what of a call's arguments is recorded. Owns no chain and no store.
"""

import hashlib
import re
import secrets
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import pairwise
from time import gmtime, strftime, time_ns
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..telemetry.redaction import redact, redact_field
from ..wire.text import clean

AuditOutcome = Literal["ok", "tool_error", "error", "refused", "asked", "cancelled"]
"""`asked`: nothing was called yet; the user is asked, and the client comes back with the answer."""
ArgumentMode = Literal["none", "digest", "redacted"]


class AuditRecord(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="event", tag="call"
):
    """A decision and the call that it let through or refused. What is empty is not written."""

    time: datetime
    """When the call ended, with a time zone."""
    outcome: AuditOutcome
    method: str = ""
    server: str = ""
    tool: str = ""
    """By the server's own name; a prompt's name or a resource's address where it is one of those."""
    tenant: str = ""
    subject: str = ""
    issuer: str = ""
    agent: str = ""
    client: str = ""
    credential_kind: str = ""
    credential: str = ""
    """Names the credential and is not secret: a key's id, a digest of a token."""
    decision: str = ""
    rule: str = ""
    confirmed_by: str = ""
    error_code: int | None = None
    arguments_digest: str = ""
    arguments: Any = None
    """Redacted; None unless the configuration wants them."""
    request_bytes: int = 0
    response_bytes: int = 0
    duration_ms: float = 0.0
    request_id: str = ""
    trace_id: str = ""
    thread: str = ""

    @property
    def user(self) -> str:
        """The subject with its issuer, as `Principal.user` writes it."""
        return f"{self.issuer}#{self.subject}" if self.issuer else self.subject


MAX_BODY = 16 * 1024
"""Bytes of a record. Callers choose some of its names, and a line has to stay readable."""
MAX_NAME = 500


def clipped(record: AuditRecord) -> AuditRecord:
    """A record whose names are cut and can be encoded."""
    texts = {
        name: clean(value[:MAX_NAME])
        for name in record.__struct_fields__
        if isinstance(value := getattr(record, name), str)
    }
    return replace(record, **texts)


now = partial(datetime.now, UTC)


MAX_SHARED = 8 * 1024
"""Characters of what a template holds, so that no record made from it is over `MAX_BODY`."""
_SAME_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class CallEnding(Struct, frozen=True, gc=False):
    """How one call went: the fields of its record that no other call shares."""

    outcome: AuditOutcome
    arguments: Raw | None
    request_bytes: int
    response_bytes: int
    seconds: float
    request_id: str
    trace_id: str = ""
    thread: str = ""


class RecordTemplate:
    """Writes the records of calls that differ only in how they went: what they share is encoded once."""

    __slots__ = ("_shared",)

    def __init__(self, shared: str) -> None:
        self._shared = shared

    @classmethod
    def of(cls, **shared: Any) -> "RecordTemplate | None":
        """For fields from `method` to `rule`; None for names that are cut, which only `AuditLog` does."""
        try:
            text = _encode(AuditRecord(time=_SAME_TIME, outcome="ok", **shared)).decode()
        except UnicodeEncodeError:  # a lone surrogate in a name
            return None
        rest = text.partition('"outcome":"ok"')[2][:-1]
        return cls(rest) if len(rest) <= MAX_SHARED else None

    def body(self, ending: CallEnding, policy: "ArgumentPolicy") -> bytes:
        """The encoded record of a call that ends now."""
        # Dates and fractions are put together from integers: to format them took half of the time.
        second, fraction = divmod(time_ns() // 1000, 1_000_000)
        whole, thousandths = divmod(int(ending.seconds * 1e6), 1000)
        named = ""
        if ending.trace_id:
            named = f',"trace_id":{_text(ending.trace_id)}'
        if ending.thread:
            named = f'{named},"thread":{_text(ending.thread)}'
        return (
            f'{{"event":"call","time":"{_date_of(second)}.{fraction:06}Z","outcome":"{ending.outcome}"'
            f"{self._shared}{policy.members(ending.arguments)}"
            f',"request_bytes":{ending.request_bytes},"response_bytes":{ending.response_bytes}'
            f',"duration_ms":{whole}.{thousandths:03},"request_id":"{ending.request_id}"{named}}}'
        ).encode()


@lru_cache(maxsize=4)
def _date_of(second: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))


def _text(value: str) -> str:
    try:
        return _encode(value[:MAX_NAME]).decode()
    except UnicodeEncodeError:
        return _encode(clean(value[:MAX_NAME])).decode()


MAX_TEXT = 200
MAX_ITEMS = 20
MAX_DEPTH = 6
MAX_RECORDED = 4096
"""Bytes of redacted arguments in one record. A record has to fit into one datagram of syslog."""
_MASK = "***"
_decode = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token", "apikey", "bearer"}
    | {"authorization", "auth", "cookie", "cookies", "credential", "credentials", "signature", "otp", "pin"}
    | {"cvv", "cvc", "ssn", "cpf", "iban"}
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("session", "id")}
    | {("card", "number"), ("account", "number"), ("encryption", "key"), ("signing", "key")}
)


class ArgumentPolicy:
    """What of a call's arguments goes into its record: nothing, a digest, or a redacted copy."""

    def __init__(self, mode: ArgumentMode, key: bytes | None) -> None:
        """Without a key the digests are comparable within this process only."""
        self.mode = mode
        root = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32).digest()
        key = hashlib.blake2b(b"audit arguments", key=root, digest_size=32).digest()
        self._hash = partial(hashlib.blake2b, key=key, digest_size=16)

    def digest(self, arguments: Raw | bytes | None) -> str:
        """A keyed hash. Nobody without the key can find short arguments by trying them all."""
        return self.digest_of(arguments) if self.mode == "digest" and arguments is not None else ""

    def redacted(self, arguments: Raw | bytes | None) -> Any:
        return redacted_arguments(arguments) if self.mode == "redacted" and arguments is not None else None

    def members(self, arguments: Raw | bytes | None) -> str:
        """What goes into a record of these arguments, as encoded members that begin with a comma."""
        if arguments is None or self.mode == "none":
            return ""
        if self.mode == "digest":
            try:
                data = _encode_sorted(_decode(arguments))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                data = bytes(arguments)
            return f',"arguments_digest":"{self._hash(data).hexdigest()}"'
        return f',"arguments":{_encode(redacted_arguments(arguments)).decode()}'

    def digest_of(self, arguments: Raw | bytes) -> str:
        """Independent of the order of keys and of blanks, so that a person can repeat it."""
        try:
            data = _encode_sorted(_decode(arguments))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            data = bytes(arguments)  # it counts byte by byte
        return self._hash(data).hexdigest()


def redacted_arguments(arguments: Raw | bytes) -> Any:
    """A copy without secrets, as far as names and forms tell them, and of bounded size."""
    try:
        value = msgspec.json.decode(arguments)
        short = Raw(msgspec.json.encode(_redacted("", value, 0)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"unreadable": True}
    if len(bytes(short)) > MAX_RECORDED:
        keys = sorted(cast("dict[str, Any]", value))[:MAX_ITEMS] if isinstance(value, dict) else []
        return {"too_long": len(bytes(arguments)), "keys": [key[:MAX_TEXT] for key in keys]}
    return short


def _redacted(name: str, value: Any, depth: int) -> Any:
    if name and is_secret_name(name):
        return _MASK
    if isinstance(value, str):
        # Cut first: the rules take time, and a cut secret is still known by what stands before it.
        cut = value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
        return redact_field(name, cut) if name else redact(cut)
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        members = list(cast("dict[str, Any]", value).items())
        short = {redact(key[:MAX_TEXT]): _redacted(key, item, depth + 1) for key, item in members[:MAX_ITEMS]}
        return short if len(members) <= MAX_ITEMS else {**short, "…": len(members) - MAX_ITEMS}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        shown = [_redacted(name, item, depth + 1) for item in items[:MAX_ITEMS]]
        return shown if len(items) <= MAX_ITEMS else [*shown, f"… {len(items) - MAX_ITEMS} more"]
    return value


def is_secret_name(name: str) -> bool:
    """`password`, `apiKey`, `X-Auth-Token`; not `max_tokens`."""
    words = [word.lower() for word in _WORDS.findall(name[:MAX_TEXT])]
    return not _SECRET_WORDS.isdisjoint(words) or any(pair in _SECRET_PAIRS for pair in pairwise(words))
