"""Credential profiles: the credentials of a tenant for a service, encrypted at rest.

Owns names, defaults, the key, and the separation of tenants. The caller knows what a configuration means
and whether it still works. No error message contains a credential or a key.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import random
import secrets
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from ..state.store import MAX_VALUE, State, StateExtraError, StateUnusableError, is_shared, kind_of
from .leases import state_key

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


class CredentialProfile(Struct, frozen=True, kw_only=True):
    """Belongs to one tenant (`account_id`). Only `config` is secret."""

    profile_id: str
    account_id: str
    mcp_qualified_name: str
    """The service it is for, such as `composio.gmail`."""
    profile_name: str
    """Unique among the tenant's profiles for the same service."""
    display_name: str
    config: dict[str, Any]
    config_hash: str
    """Equal for equal configurations. Keyed, so it does not help to guess one."""
    is_active: bool
    is_default: bool
    created_at: str
    updated_at: str
    """ISO 8601, UTC."""

    def shown(self) -> dict[str, Any]:
        """Returns everything except the configuration."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "config"}

    def __repr__(self) -> str:
        return (
            f"Profile({self.profile_id!r}, {self.mcp_qualified_name!r}, {self.profile_name!r}, "
            f"config={sorted(self.config)})"
        )


class StoredProfile(Struct, frozen=True, kw_only=True):
    """A profile as stored; the key names its tenant."""

    profile_id: str
    mcp_qualified_name: str
    profile_name: str
    display_name: str
    encrypted_config: str
    config_hash: str
    is_active: bool
    is_default: bool
    created_at: str
    updated_at: str


class TenantProfiles(Struct, frozen=True):
    """All profiles of a tenant, oldest first. Stored as one value, so names and defaults stay consistent."""

    profiles: tuple[StoredProfile, ...] = ()
    format: int = 1

    def find(self, profile_id: str) -> StoredProfile | None:
        return next((each for each in self.profiles if each.profile_id == profile_id), None)

    def names(self, mcp_qualified_name: str, but: str = "") -> set[str]:
        """Returns the names in use, without that of profile `but`."""
        return {
            each.profile_name
            for each in self.profiles
            if each.mcp_qualified_name == mcp_qualified_name and each.profile_id != but
        }

    def having(self, profile: StoredProfile) -> "TenantProfiles":
        """Adds a profile, or replaces the one with the same id."""
        known = self.find(profile.profile_id) is not None
        others = [profile if each.profile_id == profile.profile_id else each for each in self.profiles]
        return TenantProfiles(tuple(others if known else [*others, profile]))

    def without(self, profile: StoredProfile) -> "TenantProfiles":
        return TenantProfiles(tuple(each for each in self.profiles if each.profile_id != profile.profile_id))

    def settled(self, mcp_qualified_name: str, preferred: str = "") -> "TenantProfiles":
        """Chooses one default for a service: `preferred`, the current default, or the oldest active one."""
        ours = {each for each in self.profiles if each.mcp_qualified_name == mcp_qualified_name}
        able = [each for each in self.profiles if each in ours and each.is_active]
        order = sorted(able, key=lambda each: (each.profile_id != preferred, not each.is_default))
        chosen = order[0] if order else None
        return TenantProfiles(
            tuple(
                msgspec.structs.replace(each, is_default=each == chosen) if each in ours else each
                for each in self.profiles
            )
        )


def free_name(name: str, taken: set[str]) -> str:
    """Returns `name`, or the first free one of `name (2)`, `name (3)` and so on."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


class ProfileError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class UnknownProfileError(ProfileError):
    pass


class InvalidProfileError(ProfileError):
    pass


class TooManyProfilesError(ProfileError):
    pass


class ProfileLockedError(ProfileError):
    pass


class MissingProfileKeyError(ProfileLockedError):
    pass


class WrongProfileKeyError(ProfileLockedError):
    pass


KEY_FILE = "profiles.key"
_MAKE_ONE = "set key in [state], or the variable ENCRYPTION_KEY, to the same text for every gateway"


class Cipher:
    """Encrypts and decrypts. Looks for the key on first use, so none is needed without profiles."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._find = key
        self._found: tuple[bytes, Fernet] | None = None

    async def ready(self) -> None:
        """Loads the key in a thread: deriving one from a text takes about 50 ms."""
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
            raise WrongProfileKeyError(
                "the credential profiles were encrypted with another key",
                "restore that key as key in [state]; the profiles are unchanged",
            ) from None

    def fingerprint(self, text: bytes) -> str:
        """Returns a keyed hash: equal for equal texts, and no help in guessing one without the key."""
        return hmac.new(self._opened()[0], text, hashlib.sha256).hexdigest()

    def _opened(self) -> "tuple[bytes, Fernet]":
        if self._found is None:
            try:
                from cryptography.fernet import Fernet  # 10 to 20 ms, once, only if profiles are used
            except ImportError:
                raise StateExtraError("credential profiles", "profiles") from None
            key = self._find()
            self._found = key, Fernet(base64.urlsafe_b64encode(key))
        return self._found


def cipher_for(key: str, url: str, folder: Path | None) -> Cipher:
    """Uses the given key; without one, a key file of this machine, unless the state is shared."""
    if key:
        return Cipher(lambda: _from_text(key))
    if is_shared(url):
        return Cipher(_refuse)
    if folder is None:
        if kind_of(url) != "memory":
            return Cipher(_refuse)
        # The profiles are in memory only, and so is their key.
        made = secrets.token_bytes(32)
        return Cipher(lambda: made)
    return Cipher(lambda: _from_file(folder / KEY_FILE))


def _refuse() -> bytes:
    raise MissingProfileKeyError("credential profiles in a shared store need a key", _MAKE_ONE)


def _from_text(text: str) -> bytes:
    """Returns a Fernet key unchanged; derives one from any other text with scrypt, to slow down guessing."""
    try:
        key = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) == 32:
        return key
    # The salt is fixed because every gateway must derive the same key.
    return hashlib.scrypt(text.encode(), salt=b"toolyard profiles", n=1 << 14, r=8, p=1, dklen=32)


def _from_file(path: Path) -> bytes:
    try:
        if not path.exists():
            _create(path)
        return _from_text(path.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise MissingProfileKeyError(
            f"no key for credential profiles in {str(path)!r}: {reason}", _MAKE_ONE
        ) from None


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written to a private file first and then linked, so two processes that start together use one key.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.urlsafe_b64encode(secrets.token_bytes(32)))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


MAX_PROFILES = 200
MAX_CONFIG = 16 << 10
"""Bytes of JSON."""
MAX_NAME = 200
TRIES = 40
"""Attempts to change profiles that others change at the same time."""

__all__ = ["CredentialProfile", "ProfileStore"]

_decode = msgspec.json.Decoder(TenantProfiles).decode
_encode = msgspec.json.Encoder().encode
_decode_secret = msgspec.json.Decoder(tuple[str, str, dict[str, Any]]).decode


class ProfileStore:
    """Every method may raise ProfileError or StateError and then changes nothing."""

    def __init__(self, state: State, cipher: Cipher) -> None:
        self._state = state
        self._cipher = cipher

    async def create(
        self,
        tenant: str,
        mcp_qualified_name: str,
        profile_name: str,
        config: dict[str, Any],
        *,
        display_name: str = "",
        is_default: bool = False,
        is_active: bool = True,
    ) -> CredentialProfile:
        """Uses the next free name, such as "work (2)". The first profile for a service is its default."""
        _check_name("qualified name", mcp_qualified_name)
        _check_name("profile name", profile_name)
        await self._cipher.ready()
        id = str(uuid4())
        token, mark = self._closed(tenant, id, config)

        def add(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
            if folder.profiles:
                # All profiles share one key: raise an error now if this gateway has another one.
                self._opened(tenant, folder.profiles[0])
            if len(folder.profiles) >= MAX_PROFILES:
                raise TooManyProfilesError(
                    f"there are {MAX_PROFILES} credential profiles already", "delete one first"
                )
            name = free_name(profile_name, folder.names(mcp_qualified_name))
            now = _now()
            made = StoredProfile(
                profile_id=id,
                mcp_qualified_name=mcp_qualified_name,
                profile_name=name,
                display_name=display_name or name,
                encrypted_config=token,
                config_hash=mark,
                is_active=is_active,
                is_default=False,
                created_at=now,
                updated_at=now,
            )
            folder = folder.having(made).settled(mcp_qualified_name, id if is_default else "")
            return folder, folder.find(id) or made

        return _profile(tenant, await self._change(tenant, add), config)

    async def list(self, tenant: str, mcp_qualified_name: str = "") -> list[CredentialProfile]:
        """Returns the profiles, oldest first; only those for one service if it is named."""
        _, folder = await self._read(tenant)
        wanted = [each for each in folder.profiles if mcp_qualified_name in ("", each.mcp_qualified_name)]
        return [_profile(tenant, each, self._opened(tenant, each)) for each in wanted]

    async def get(self, tenant: str, profile_id: str) -> CredentialProfile:
        _, folder = await self._read(tenant)
        found = _known(folder, profile_id)
        return _profile(tenant, found, self._opened(tenant, found))

    async def update(
        self,
        tenant: str,
        profile_id: str,
        *,
        profile_name: str | None = None,
        display_name: str | None = None,
        config: dict[str, Any] | None = None,
        is_active: bool | None = None,
        is_default: bool | None = None,
    ) -> CredentialProfile:
        """Changes what is not None. With `is_default` False, another profile may become the default."""
        if profile_name is not None:
            _check_name("profile name", profile_name)
        await self._cipher.ready()
        closed = None if config is None else self._closed(tenant, profile_id, config)

        def change(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
            before = _known(folder, profile_id)
            self._opened(tenant, before)
            taken = folder.names(before.mcp_qualified_name, but=profile_id)
            changed = msgspec.structs.replace(
                before,
                profile_name=free_name(profile_name, taken) if profile_name else before.profile_name,
                display_name=before.display_name if display_name is None else display_name,
                encrypted_config=before.encrypted_config if closed is None else closed[0],
                config_hash=before.config_hash if closed is None else closed[1],
                is_active=before.is_active if is_active is None else is_active,
                is_default=before.is_default and is_default is not False,
                updated_at=_now(),
            )
            preferred = profile_id if is_default else ""
            folder = folder.having(changed).settled(before.mcp_qualified_name, preferred)
            return folder, folder.find(profile_id) or changed

        changed = await self._change(tenant, change)
        return _profile(tenant, changed, self._opened(tenant, changed))

    async def delete(self, tenant: str, profile_id: str) -> CredentialProfile:
        """Returns the deleted profile, without its configuration if that cannot be decrypted. If it was the
        default, another profile becomes the default."""

        def remove(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
            known = _known(folder, profile_id)
            return folder.without(known).settled(known.mcp_qualified_name), known

        deleted = await self._change(tenant, remove)
        try:
            return _profile(tenant, deleted, self._opened(tenant, deleted))
        except ProfileLockedError:
            return _profile(tenant, deleted, {})

    async def free_name(self, tenant: str, mcp_qualified_name: str, profile_name: str) -> str:
        """Returns the name that a new profile would get."""
        _, folder = await self._read(tenant)
        return free_name(profile_name, folder.names(mcp_qualified_name))

    async def _read(self, tenant: str) -> tuple[bytes | None, TenantProfiles]:
        await self._cipher.ready()
        raw = await self._state.get(state_key("profiles", tenant))
        if raw is None:
            return None, TenantProfiles()
        try:
            folder = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            folder = TenantProfiles(format=0)
        if folder.format != TenantProfiles().format:
            # Never overwrite unknown data.
            raise StateUnusableError(
                "the credential profiles in the store were not written by this version of Toolyard",
                "use the version that wrote them",
            )
        return raw, folder

    async def _change(
        self, tenant: str, change: Callable[[TenantProfiles], tuple[TenantProfiles, StoredProfile]]
    ) -> StoredProfile:
        key = state_key("profiles", tenant)
        for _ in range(TRIES):
            before, folder = await self._read(tenant)
            changed, kept = change(folder)
            after = _encode(changed) if changed.profiles else None
            if after is not None and len(after) > MAX_VALUE:
                raise TooManyProfilesError(
                    "the credential profiles are too large to store together", "delete one first"
                )
            if await self._state.swap(key, before, after):
                return kept
            await asyncio.sleep(random.uniform(0, 0.05))
        raise ProfileError("other requests keep changing the credential profiles", "try again")

    def _closed(self, tenant: str, id: str, config: dict[str, Any]) -> tuple[str, str]:
        try:
            text = msgspec.json.encode(config, order="sorted")
        except (TypeError, ValueError, RecursionError):
            # The message must not quote the configuration: it is secret.
            raise InvalidProfileError("a credential profile's configuration has to be JSON") from None
        if len(text) > MAX_CONFIG:
            raise InvalidProfileError(
                f"the configuration has {len(text)} bytes of JSON", f"at most {MAX_CONFIG}"
            )
        # The tenant is encrypted too, so nobody with access to the store can give it to another tenant.
        token = self._cipher.close(msgspec.json.encode([tenant, id, msgspec.Raw(text)]))
        return token, self._cipher.fingerprint(text)

    def _opened(self, tenant: str, kept: StoredProfile) -> dict[str, Any]:
        owner, id, config = _decode_secret(self._cipher.open(kept.encrypted_config))
        if (owner, id) != (tenant, kept.profile_id):
            raise ProfileLockedError(
                f"the data stored for credential profile {kept.profile_id!r} belongs to another one"
            )
        return config


def _profile(tenant: str, kept: StoredProfile, config: dict[str, Any]) -> CredentialProfile:
    fields = msgspec.structs.asdict(kept)
    del fields["encrypted_config"]
    return CredentialProfile(account_id=tenant, config=config, **fields)


def _known(folder: TenantProfiles, profile_id: str) -> StoredProfile:
    found = folder.find(profile_id)
    if found is None:
        raise UnknownProfileError(
            f"there is no credential profile {profile_id[:80]!r}", "list them to see the ids"
        )
    return found


def _check_name(what: str, name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidProfileError(
            f"{name[:80]!r} cannot be a {what}", f"1 to {MAX_NAME} printable characters"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
