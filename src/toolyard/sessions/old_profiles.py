"""Reads credential profiles that earlier versions encrypted themselves, so that they can move to the vault.

They were encrypted with Fernet under `key` of `[state]`, or under a key file in the state folder. Nothing is
written in that form any more.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..state.store import StateExtraError, is_shared
from .profile_errors import MissingProfileKeyError, ProfileLockedError, WrongProfileKeyError

KEY_FILE = "profiles.key"
_decode = msgspec.json.Decoder(tuple[str, str, dict[str, Any]]).decode


class OldProfiles:
    """Decrypts. Looks for the key when there is something to decrypt; never makes one."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._find = key

    @classmethod
    def of(cls, key: str, url: str, folder: Path | None) -> "OldProfiles":
        """With the key that such a configuration had."""
        if key:
            return cls(lambda: _from_text(key))
        if is_shared(url) or folder is None:
            return cls(_missing)
        return cls(lambda: _from_file(folder / KEY_FILE))

    def open(self, tenant: str, profile_id: str, token: str) -> dict[str, Any]:
        """Raises ProfileLockedError. Derives a key, so it belongs in a thread."""
        try:
            from cryptography.fernet import Fernet, InvalidToken
        except ImportError:
            raise StateExtraError("credential profiles", "profiles") from None
        try:
            opened = Fernet(base64.urlsafe_b64encode(self._find())).decrypt(token.encode())
        except InvalidToken:
            raise WrongProfileKeyError(
                "a credential profile was encrypted with another key by an earlier version",
                "restore that key as key in [state]; the profiles are unchanged",
            ) from None
        owner, id, config = _decode(opened)
        if (owner, id) != (tenant, profile_id):
            raise ProfileLockedError(
                f"the data stored for credential profile {profile_id!r} belongs to another one"
            )
        return config


def _missing() -> bytes:
    raise MissingProfileKeyError(
        "credential profiles of an earlier version need the key that they were encrypted with",
        "set key in [state], or the variable ENCRYPTION_KEY, to the text that it was",
    )


def _from_text(text: str) -> bytes:
    """Returns a Fernet key unchanged; derives one from any other text with scrypt."""
    try:
        key = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) == 32:
        return key
    return hashlib.scrypt(text.encode(), salt=b"toolyard profiles", n=1 << 14, r=8, p=1, dklen=32)


def _from_file(path: Path) -> bytes:
    try:
        return _from_text(path.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise MissingProfileKeyError(
            f"no key for credential profiles of an earlier version in {str(path)!r}: {reason}",
            "restore the file from a backup; the profiles are unchanged",
        ) from None
