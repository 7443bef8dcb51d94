"""How credentials are closed and opened: Fernet, and where its key comes from.

Owns the key. What is closed with it is somebody else's.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..state.address import is_shared, kind_of
from ..state.errors import MissingExtra
from .errors import NoKey, WrongKey

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

FILE = "profiles.key"
_MAKE_ONE = "set key in [state], or the variable ENCRYPTION_KEY, to the same text for every gateway"


class Cipher:
    """The key is found when it is first needed: who keeps no profile needs none."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._find = key
        self._found: tuple[bytes, Fernet] | None = None

    async def ready(self) -> None:
        """Find the key beside the event loop: making one from a text takes about 50 ms."""
        if self._found is None:
            await asyncio.to_thread(self._opened)

    def close(self, text: bytes) -> str:
        return self._opened()[1].encrypt(text).decode()

    def open(self, token: str) -> bytes:
        fernet = self._opened()[1]
        from cryptography.fernet import InvalidToken

        try:
            return fernet.decrypt(token.encode())
        except InvalidToken:
            raise WrongKey(
                "the credential profiles were encrypted with another key",
                "bring that key back as key in [state]; they are untouched",
            ) from None

    def fingerprint(self, text: bytes) -> str:
        """Equal for equal texts, and of no use to who wants to guess one without the key."""
        return hmac.new(self._opened()[0], text, hashlib.sha256).hexdigest()

    def _opened(self) -> "tuple[bytes, Fernet]":
        if self._found is None:
            try:
                from cryptography.fernet import Fernet  # 10 to 20 ms, once, and only for who keeps profiles
            except ImportError:
                raise MissingExtra("credential profiles", "profiles") from None
            key = self._find()
            self._found = key, Fernet(base64.urlsafe_b64encode(key))
        return self._found


def cipher_for(key: str, url: str, folder: Path | None) -> Cipher:
    """With the key given; without one, with a key of this machine, where the state is this machine's too."""
    if key:
        return Cipher(lambda: _from_text(key))
    if is_shared(url):
        return Cipher(_refused)
    if folder is None:
        if kind_of(url) != "memory":
            return Cipher(_refused)
        # What is kept in memory is gone with it.
        made = secrets.token_bytes(32)
        return Cipher(lambda: made)
    return Cipher(lambda: _from_file(folder / FILE))


def _refused() -> bytes:
    raise NoKey("credential profiles in a store that is not this gateway's alone need a key", _MAKE_ONE)


def _from_text(text: str) -> bytes:
    """A Fernet key as it is; any other text through scrypt, which makes guessing it slow."""
    try:
        key = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) == 32:
        return key
    # The salt is the same everywhere because every gateway has to come to the same key.
    return hashlib.scrypt(text.encode(), salt=b"toolyard profiles", n=1 << 14, r=8, p=1, dklen=32)


def _from_file(path: Path) -> bytes:
    try:
        if not path.exists():
            _create(path)
        return _from_text(path.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NoKey(f"no key for credential profiles in {str(path)!r}: {reason}", _MAKE_ONE) from None


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written whole elsewhere, for our eyes only, and then linked: two processes that start together agree.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.urlsafe_b64encode(secrets.token_bytes(32)))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
