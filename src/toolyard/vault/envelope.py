"""The form of the vault in a store: addresses as keys, secrets as envelopes, keys of tenants.

An envelope names the key it was sealed with, so that keys can change while both are known. The whole
address is authenticated with it (AES-256-GCM), so that a record that somebody moves or copies to another
tenant, principal or server does not open there. Does no I/O.
"""

import hashlib
import os
from typing import TYPE_CHECKING, get_args
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from ..extras import install_command
from .base import GATEWAY_TENANT, SecretAddress, SecretKind, VaultDamagedError, VaultError, tenant_words

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = 1
KEY_BYTES = 32
NONCE_BYTES = 12
MAX_SECRET = 512 << 10
"""Bytes of one secret: half of what a store takes for a value."""
MAX_PART = 150
SECRETS = "vault:secret:"
TENANTS = "vault:tenant:"
"""The prefixes of all keys of the vault in a store."""

_KINDS: tuple[str, ...] = get_args(SecretKind)


class Envelope(Struct, frozen=True, array_like=True):
    """A secret as it is stored."""

    format: int
    key: str
    """The id of the tenant's key that it is sealed with."""
    nonce: bytes
    sealed: bytes
    address: SecretAddress | None = None
    """Only if a part of it is too long for the key of the store."""

    @property
    def version(self) -> str:
        return self.nonce.hex()


class WrappedKey(Struct, frozen=True, array_like=True):
    """A key of a tenant, wrapped by a master key."""

    id: str
    master: str
    """The id of the master key."""
    wrapped: bytes


class TenantKeys(Struct, frozen=True, array_like=True):
    """The keys of a tenant; the last one seals what is new."""

    format: int
    tenant: str
    keys: tuple[WrappedKey, ...]


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)

encode = msgspec.msgpack.Encoder().encode
_decode_envelope = msgspec.msgpack.Decoder(Envelope).decode
_decode_tenant = msgspec.msgpack.Decoder(TenantKeys).decode


def aes(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 10 to 20 ms, once
    except ImportError:
        raise VaultError(
            "the vault needs a package that is not installed", install_command("vault")
        ) from None
    return AESGCM(key)


# Keys of the store


def secret_key(address: SecretAddress) -> str:
    parts = (address.tenant, address.principal, address.kind, address.upstream, address.name)
    return SECRETS + ":".join(map(_part, parts))


def secrets_prefix(tenant: str, principal: str | None, kind: SecretKind | None) -> str:
    start = f"{SECRETS}{_part(tenant)}:"
    if principal is None:
        return start
    return f"{start}{_part(principal)}:" + ("" if kind is None else f"{kind}:")


def tenant_key(tenant: str) -> str:
    return TENANTS + _part(tenant)


def address_in(key: str) -> SecretAddress | None:
    """The address that a key of the store spells; None if a part of it is hashed."""
    parts = key.removeprefix(SECRETS).split(":")
    if len(parts) != 5 or parts[2] not in _KINDS:
        raise VaultDamagedError(
            f"the store has a record of the vault that cannot be read: {key[:80]!r}",
            "a newer Toolyard may have written it; otherwise delete that record from the store",
        )
    if any(part.startswith("#") for part in parts):
        return None
    tenant, principal, kind, upstream, name = (unquote(part, errors="surrogatepass") for part in parts)
    return msgspec.convert(
        {"tenant": tenant, "kind": kind, "upstream": upstream, "principal": principal, "name": name},
        SecretAddress,
    )


def _part(text: str) -> str:
    written = quote(text, safe="", errors="surrogatepass")
    if len(written) <= MAX_PART:
        return written
    # An escaped part never begins with "#".
    return "#" + hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=20).hexdigest()


# Envelopes


def seal(cipher: "AESGCM", key_id: str, address: SecretAddress, value: bytes) -> Envelope:
    nonce = os.urandom(NONCE_BYTES)
    is_hashed = "#" in secret_key(address)
    sealed = cipher.encrypt(nonce, value, associated_data(key_id, address))
    return Envelope(FORMAT, key_id, nonce, sealed, address if is_hashed else None)


def open_envelope(cipher: "AESGCM", envelope: Envelope, address: SecretAddress) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(envelope.nonce, envelope.sealed, associated_data(envelope.key, address))
    except (InvalidTag, ValueError):
        raise damaged(address) from None


def associated_data(key_id: str, address: SecretAddress) -> bytes:
    """Each part with its length before it, so that no two addresses are spelled alike."""
    parts = (key_id, address.tenant, address.kind, address.upstream, address.principal, address.name)
    encoded = [part.encode(errors="surrogatepass") for part in parts]
    return b"toolyard vault 1" + b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def read_envelope(raw: bytes, address: SecretAddress) -> Envelope:
    try:
        envelope = _decode_envelope(raw)
    except UNREADABLE:
        raise damaged(address) from None
    if envelope.format != FORMAT:
        raise VaultDamagedError(
            f"{described(address)} has the form {envelope.format}, which this Toolyard does not know",
            "update Toolyard; nothing was changed",
        )
    return envelope


def read_tenant(raw: bytes, tenant: str) -> TenantKeys:
    try:
        found = _decode_tenant(raw)
        if found.format == FORMAT and found.tenant == tenant and found.keys:
            return found
    except UNREADABLE:
        pass
    raise VaultDamagedError(
        f"the record with the keys of {tenant_words(tenant)} is damaged",
        "restore the state store from its backup, or delete that tenant's secrets and "
        "`toolyard vault import` an export; nothing was changed",
    )


def damaged(address: SecretAddress) -> VaultDamagedError:
    return VaultDamagedError(
        f"{described(address)} is damaged, or was moved there from another place",
        "enter it again or log in again, or `toolyard vault import` an export; nothing was changed",
    )


def described(address: SecretAddress) -> str:
    """The secret in words, for messages."""
    whose = "" if address.tenant in ("local", GATEWAY_TENANT) else f" of {tenant_words(address.tenant)}"
    what = {
        "token": "the token",
        "registration": "the client registration",
        "key": "the API key",
        "profile": "the credential profiles",
        "named": "the secret",
        "signing": "the signing key",
    }[address.kind]
    name = f" {address.name[:80]!r}" if address.kind in ("named", "signing") else ""
    return f"{what}{name}" + (f" for {address.upstream[:80]!r}" if address.upstream else "") + whose
