"""Signed tokens: state that leaves the process and must come back unchanged.

Its holder can read a token; only a holder of the key can make or change one. Tokens carry legacy session ids
and the `requestState` of multi round trips; neither contains a secret.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import cached_property

_DIGEST = 24

KEY_VARIABLE = "TOOLYARD_KEY"
"""The environment variable with the key of all processes that serve the same clients."""
MIN_KEY_BYTES = 16


class BrokenSeal(ValueError):
    """The token was not made by this key for this purpose."""


class Sealer:
    """`scope` names the owner of the tokens: tokens of another scope are refused, even with the same key."""

    def __init__(self, key: bytes | Callable[[], bytes | None] | None = None, scope: str = "") -> None:
        """A function gives the key when it is first needed. Without a key there is a random one."""
        self._read = key if callable(key) else None
        self._scope = scope
        if not callable(key):
            self._key = self._scoped(key)

    @cached_property
    def _key(self) -> bytes:
        return self._scoped(None if self._read is None else self._read())

    def _scoped(self, key: bytes | None) -> bytes:
        if key is not None and len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a sealing key needs at least {MIN_KEY_BYTES} bytes, this one has {len(key)}")
        # blake2b takes keys of up to 64 bytes; hashing first allows any length.
        root = hashlib.blake2b(key or secrets.token_bytes(32), digest_size=32).digest()
        return hashlib.blake2b(self._scope.encode(), key=root, digest_size=32).digest()

    def _tag(self, payload: bytes, purpose: str) -> bytes:
        return hashlib.blake2b(payload, key=self._key, person=purpose.encode(), digest_size=_DIGEST).digest()

    def seal(self, payload: bytes, purpose: str) -> str:
        """`purpose` (16 bytes at most) prevents that a token of one kind is used as another."""
        return _to_text(self._tag(payload, purpose) + payload)

    def fingerprint(self, text: str, purpose: str) -> str:
        """A keyed hash of the text: the same for the same key; without the key, texts cannot be guessed."""
        return hashlib.blake2b(
            text.encode(), key=self._key, person=purpose.encode(), digest_size=16
        ).hexdigest()

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes for another kind of signature."""
        person = purpose.encode()
        return hashlib.blake2b(b"derived key", key=self._key, person=person, digest_size=32).digest()

    def open(self, token: str, purpose: str) -> bytes:
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise BrokenSeal("not a token") from None
        tag, payload = raw[:_DIGEST], raw[_DIGEST:]
        if len(tag) < _DIGEST or not hmac.compare_digest(tag, self._tag(payload, purpose)):
            raise BrokenSeal("the seal does not match")
        # base64 ignores the spare bits of the last character; a token has one spelling only.
        if _to_text(raw) != token:
            raise BrokenSeal("not the spelling it was made with")
        return payload


def _to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def digest(*parts: bytes) -> str:
    """A short fingerprint of several byte strings, for binding a token to what it was made for."""
    mark = hashlib.blake2b(digest_size=12)
    for part in parts:
        mark.update(len(part).to_bytes(8, "big"))
        mark.update(part)
    return mark.hexdigest()
