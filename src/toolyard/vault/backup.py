"""Backups of a vault: all secrets in one file, sealed under a passphrase or another master key.

A backup opens without the vault it came from. It holds the secrets, and neither keys of tenants nor the
master key: what is imported is sealed anew.
"""

import hashlib
import os
from typing import Literal

import msgspec
from msgspec import Struct

from .base import SecretAddress, VaultDamagedError, VaultError, VaultKeyError
from .envelope import KEY_BYTES, NONCE_BYTES, UNREADABLE, aes
from .master_keys import MasterKey
from .vault import Vault

MARK = b"toolyard-vault-backup-1\n"
MIN_PASSPHRASE = 12
_N, _R, _P = 1 << 17, 8, 1
"""scrypt: 128 MiB and some tenths of a second for each guess."""
BACKUP = "backup"
"""Bound to the key of a backup, in the place of a tenant."""


class _Head(Struct, frozen=True):
    nonce: bytes
    salt: bytes = b""
    """With a passphrase."""
    master: str = ""
    wrapped: bytes = b""
    """With a master key: its id, and the key of this backup."""


class SavedSecret(Struct, frozen=True, array_like=True):
    address: SecretAddress
    value: bytes


class BackupImport(Struct, frozen=True):
    written: int
    same: int
    kept: tuple[SecretAddress, ...]
    """Those that the vault has with another value, and that were left as they are."""


async def export(vault: Vault, by: "str | MasterKey") -> tuple[bytes, int]:
    """The content of the file, and how many secrets are in it. `by` is a passphrase or a master key."""
    saved = [SavedSecret(address, found.value) async for address, found in vault.all()]
    nonce = os.urandom(NONCE_BYTES)
    if isinstance(by, str):
        if len(by) < MIN_PASSPHRASE:
            raise VaultKeyError("the passphrase is too short", f"use {MIN_PASSPHRASE} characters or more")
        salt = os.urandom(16)
        key, head = _derived(by, salt), _Head(nonce, salt=salt)
    else:
        key = os.urandom(KEY_BYTES)
        head = _Head(nonce, master=by.id, wrapped=by.wrap(BACKUP, key))
    encoded = msgspec.msgpack.encode(head)
    start = MARK + len(encoded).to_bytes(4, "big") + encoded
    return start + aes(key).encrypt(nonce, msgspec.msgpack.encode(saved), start), len(saved)


def master_of(raw: bytes) -> str:
    """The id of the master key that opens a backup; empty if a passphrase does."""
    return _head(raw)[0].master


def opened(raw: bytes, by: "str | MasterKey") -> list[SavedSecret]:
    from cryptography.exceptions import InvalidTag

    head, start = _head(raw)
    if isinstance(by, str):
        if head.master:
            raise VaultKeyError(
                "the backup was not sealed with a passphrase", f"give the key {head.master!r}"
            )
        key = _derived(by, head.salt)
    elif head.master != by.id:
        sealed_by = f"the key {head.master!r}" if head.master else "a passphrase"
        raise VaultKeyError(f"the backup was sealed with {sealed_by}, not with {by.id!r}", "give that one")
    else:
        key = by.unwrap(BACKUP, head.wrapped)
    try:
        plain = aes(key).decrypt(head.nonce, raw[len(start) :], start)
        return msgspec.msgpack.decode(plain, type=list[SavedSecret])
    except InvalidTag:
        raise VaultKeyError(
            "the backup does not open: the passphrase is wrong, or the file is damaged",
            "try again, or use another copy of the file; nothing was changed",
        ) from None
    except UNREADABLE:
        raise _unreadable() from None


async def import_all(vault: Vault, saved: list[SavedSecret], overwrite: bool = False) -> BackupImport:
    """May be stopped and begun again. What the vault has with another value stays, unless `overwrite`."""
    written = same = 0
    kept: list[SecretAddress] = []
    for one in saved:
        match await _put_back(vault, one, overwrite):
            case "written":
                written += 1
            case "same":
                same += 1
            case "kept":
                kept.append(one.address)
    return BackupImport(written, same, tuple(kept))


async def _put_back(vault: Vault, one: SavedSecret, overwrite: bool) -> Literal["written", "same", "kept"]:
    try:
        found = await vault.read(one.address)
        if found is None and not overwrite:
            if await vault.replace(one.address, one.value, None) is not None:
                return "written"
            found = await vault.read(one.address)  # somebody has entered one in this moment
    except VaultDamagedError:
        found = None  # then the backup is what there is
    if found is not None and found.value == one.value:
        return "same"
    if found is not None and not overwrite:
        return "kept"
    await vault.put(one.address, one.value)
    return "written"


def _derived(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, n=_N, r=_R, p=_P, maxmem=256 << 20, dklen=KEY_BYTES)


def _head(raw: bytes) -> tuple[_Head, bytes]:
    if not raw.startswith(MARK):
        raise VaultError("this is no backup of a vault", "`toolyard vault export` makes one")
    at = len(MARK)
    length = int.from_bytes(raw[at : at + 4], "big")
    start = raw[: at + 4 + length]
    try:
        return msgspec.msgpack.decode(start[at + 4 :], type=_Head), start
    except UNREADABLE:
        raise _unreadable() from None


def _unreadable() -> VaultDamagedError:
    return VaultDamagedError("the backup is damaged", "use another copy of the file; nothing was changed")
