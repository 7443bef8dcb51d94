"""The token of a grant: its form, and how its holder narrows it without asking the gateway.

A token is `tyg_<blocks and signature><checksum>`. The first block says whose rights are lent, and has a name,
an end and patterns. Every narrowing appends a block. The gateway's key signs the first block, and each
signature is the key for the next block, so whoever holds a token can append to it and take nothing away.

Owns the encoding. Who may make grants, and whether one is accepted, is in `grants`.

    bytes     1, then for each block its length in two bytes and its JSON, then the signature (32 bytes)
    text      tyg_, those bytes in base64url, the CRC-32 of all this in base64url (6 characters)
    signature HMAC-SHA256 of the block, with the signature of the block before as key
"""

import base64
import binascii
import hmac
import re
import secrets
import time
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from .names import CallerNameError, canonical_name

PREFIX = "tyg_"
PATTERN = r"tyg_[0-9A-Za-z_-]{130,4092}"
"""For scanners that look for secrets in files."""
MAX_TOKEN = 4096
MAX_BLOCKS = 16
MAX_PATTERNS = 100
MAX_PATTERN = 500
MAX_NOTE = 200
MAX_CALLS = 10**9
MAX_TIME = 1 << 40
_VERSION = b"\x01"
_CHECKSUM_LENGTH = 6
_SIGNATURE_LENGTH = 32
_FORM = re.compile(r"tyg_[0-9A-Za-z_-]{40,4092}")
_NONCE = re.compile(r"[0-9A-Za-z_-]{11}")


class GrantError(Exception):
    """A token that is none, or a grant that cannot be made. The message never has the token in it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class GrantParent(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whose rights are lent. An API key is named by its id only, because its record says the rest."""

    kind: str
    id: str = ""
    tenant: str = ""
    subject: str = ""
    issuer: str = ""
    client: str = ""
    agent: str = ""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()


class GrantBlock(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step of a chain. What it does not say stays as it was."""

    nonce: str
    """Makes two grants with the same limits different, so that each has its own count and can be revoked."""
    name: str = ""
    allow: tuple[str, ...] | None = None
    """None: everything; empty: nothing."""
    deny: tuple[str, ...] = ()
    expires: int | None = None
    calls: int | None = None
    note: str = ""
    parent: GrantParent | None = None
    """In the first block, and only there."""
    made: int | None = None
    """In the first block, and only there."""


_decoder = msgspec.json.Decoder(GrantBlock)


class GrantToken(Struct, frozen=True):
    """A token, read. Its signature has not been checked."""

    blocks: tuple[bytes, ...]
    signature: bytes

    @classmethod
    def read(cls, text: str) -> "GrantToken":
        """Raises GrantError for a token with a typo, without asking any gateway."""
        if len(text) > MAX_TOKEN:
            raise GrantError("invalid grant: too long", f"a grant has {MAX_TOKEN} characters at most")
        if _FORM.fullmatch(text) is None:
            raise GrantError("invalid grant: form", f"a grant begins with {PREFIX}")
        body, checksum = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
        if _checksum(body) != checksum:
            raise GrantError("invalid grant: checksum", "a character of it is wrong or missing")
        blocks, signature = _split(_from_base64(body.removeprefix(PREFIX)))
        token = cls(blocks, signature)
        if token.text != text:
            # base64 ignores the spare bits of the last character.
            raise GrantError("invalid grant: not the spelling it was made with")
        return token

    @property
    def text(self) -> str:
        joined = b"".join(len(block).to_bytes(2, "big") + block for block in self.blocks)
        body = PREFIX + _to_base64(_VERSION + joined + self.signature)
        return body + _checksum(body)

    @property
    def id(self) -> str:
        return grant_id(self.signature)

    def contents(self) -> tuple[GrantBlock, ...]:
        """Raises GrantError for blocks that are not as we write them."""
        return tuple(decode_block(raw, is_first=at == 0) for at, raw in enumerate(self.blocks))

    def narrowed(self, block: GrantBlock) -> "GrantToken":
        raw = encode_block(block, is_first=False)
        token = GrantToken((*self.blocks, raw), sign(self.signature, raw))
        if len(token.blocks) > MAX_BLOCKS:
            raise GrantError(f"a grant can be narrowed {MAX_BLOCKS - 1} times")
        if len(token.text) > MAX_TOKEN:
            raise GrantError(
                f"the grant would have more than {MAX_TOKEN} characters", "use fewer or shorter patterns"
            )
        return token


def narrow_grant(
    token: str,
    *,
    name: str = "",
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
    ttl: float | None = None,
    expires: float | None = None,
    calls: int | None = None,
    note: str = "",
) -> str:
    """A token that permits less than `token`, for a sub-agent. Asks nobody.

    `allow` and `deny` are patterns as in `[access]`, `ttl` is in seconds from now, `expires` in
    seconds since 1970. What the first token does not permit, the new one does not either, whatever is asked
    for. Raises GrantError.
    """
    if ttl is not None:
        expires = min(time.time() + ttl, MAX_TIME if expires is None else expires)
    end = None if expires is None else int(expires)
    block = new_block(name=name, allow=allow, deny=deny, expires=end, calls=calls, note=note)
    return GrantToken.read(token).narrowed(block).text


def show_grant(token: str) -> dict[str, Any]:
    """What a token says, without its signature. Only the gateway can tell whether it is genuine."""
    read = GrantToken.read(token)
    blocks = read.contents()
    shown = [msgspec.to_builtins(block) for block in blocks]
    for block in shown:
        del block["nonce"]
    return {
        "id": read.id,
        "name": next((block.name for block in reversed(blocks) if block.name), ""),
        "expires": min(block.expires for block in blocks if block.expires is not None),
        "blocks": shown,
    }


# Blocks


def new_block(
    *,
    name: str = "",
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
    expires: int | None = None,
    calls: int | None = None,
    note: str = "",
    parent: GrantParent | None = None,
    made: int | None = None,
) -> GrantBlock:
    """Brings names to their canonical form. Raises GrantError."""
    if isinstance(allow, str) or isinstance(deny, str):
        raise GrantError("allow and deny are lists of patterns", 'such as ["notes/*"]')
    try:
        name = canonical_name(name, "name of a grant") if name else ""
    except CallerNameError as error:
        raise GrantError(str(error)) from None
    return GrantBlock(
        nonce=secrets.token_urlsafe(8),
        name=name,
        allow=None if allow is None else tuple(dict.fromkeys(allow)),
        deny=tuple(dict.fromkeys(deny)),
        expires=expires,
        calls=calls,
        note=note,
        parent=parent,
        made=made,
    )


def encode_block(block: GrantBlock, *, is_first: bool) -> bytes:
    for problem in _problems(block, is_first):
        raise GrantError(problem)
    return msgspec.json.encode(block)


def decode_block(raw: bytes, *, is_first: bool) -> GrantBlock:
    try:
        block = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise GrantError("invalid grant: a block cannot be read") from None
    for problem in _problems(block, is_first):
        raise GrantError(f"invalid grant: {problem}")
    if msgspec.json.encode(block) != raw:
        # Two spellings of one block would be two grants with the same meaning.
        raise GrantError("invalid grant: a block is not in canonical form")
    return block


def _problems(block: GrantBlock, is_first: bool) -> Iterator[str]:
    if _NONCE.fullmatch(block.nonce) is None:
        yield "the nonce has 11 characters of base64url"
    if block.name and not _is_canonical(block.name):
        yield f"the name {block.name[:100]!a} is not in canonical form"
    for patterns in (block.allow or (), block.deny):
        if len(patterns) > MAX_PATTERNS:
            yield f"{len(patterns)} patterns are more than {MAX_PATTERNS}"
        for pattern in patterns:
            if not pattern or len(pattern) > MAX_PATTERN or not pattern.isprintable():
                yield f"{pattern[:80]!a} is no pattern: it has 1 to {MAX_PATTERN} printable characters"
    if block.calls is not None and not 1 <= block.calls <= MAX_CALLS:
        yield f"a number of calls is 1 to {MAX_CALLS}"
    if block.expires is not None and not 0 <= block.expires <= MAX_TIME:
        yield "the end is out of range"
    if len(block.note) > MAX_NOTE or not block.note.isprintable():
        yield f"a note has {MAX_NOTE} printable characters at most"
    first = (block.parent, block.made, block.name or None, block.expires)
    if is_first and None in first:
        yield "the first block needs parent, made, name and expires"
    if not is_first and (block.parent is not None or block.made is not None):
        yield "only the first block has parent and made"
    if block.made is not None and not 0 <= block.made <= MAX_TIME:
        yield "the time it was made is out of range"


def _is_canonical(name: str) -> bool:
    try:
        return canonical_name(name) == name
    except CallerNameError:
        return False


# Signatures and bytes


def sign(key: bytes, block: bytes) -> bytes:
    return hmac.digest(key, block, "sha256")


def signatures(root: bytes, blocks: Sequence[bytes]) -> list[bytes]:
    """The signature of each block; `root` is the gateway's key."""
    found: list[bytes] = []
    for block in blocks:
        root = sign(root, block)
        found.append(root)
    return found


def grant_id(signature: bytes) -> str:
    """Names a grant without revealing its signature. Nobody can choose the id of another grant."""
    return sha256(b"toolyard grant id:" + signature).hexdigest()[:16]


def _split(raw: bytes) -> tuple[tuple[bytes, ...], bytes]:
    if raw[:1] != _VERSION:
        raise GrantError("invalid grant: unknown version")
    at, end = 1, len(raw) - _SIGNATURE_LENGTH
    blocks: list[bytes] = []
    while at < end:
        start = at + 2
        at = start + int.from_bytes(raw[at:start], "big")
        blocks.append(raw[start:at])
    if at != end or not blocks or len(blocks) > MAX_BLOCKS:
        raise GrantError("invalid grant: its blocks do not fit")
    return tuple(blocks), raw[end:]


def _checksum(text: str) -> str:
    return _to_base64(zlib.crc32(text.encode()).to_bytes(4, "big"))


def _to_base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise GrantError("invalid grant: form") from None
