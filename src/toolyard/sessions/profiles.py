"""Credential profiles: the credentials of a tenant for a service, their secrets in the vault.

Owns names, defaults, and the separation of tenants. Names and times are one value of the state store; each
configuration is a secret of the vault, under its tenant and id. The caller knows what a configuration means
and whether it still works. No error message contains a credential or a key.
"""

import asyncio
import contextlib
import hashlib
import hmac
import random
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec import Struct

from ..state.store import MAX_VALUE, State, StateError, StateUnavailableError, StateUnusableError
from ..vault.base import (
    SecretAddress,
    SecretStore,
    StoredSecret,
    VaultError,
    VaultKeyError,
    VaultUnavailableError,
)
from .leases import state_key
from .old_profiles import OldProfiles
from .profile_errors import (
    InvalidProfileError,
    MissingProfileKeyError,
    ProfileError,
    ProfileLockedError,
    TooManyProfilesError,
    UnknownProfileError,
)

T = TypeVar("T")


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
    encrypted_config: str = ""
    """As an earlier version encrypted it; empty if the vault has it."""
    config_hash: str
    is_active: bool
    is_default: bool
    created_at: str
    updated_at: str


class TenantProfiles(Struct, frozen=True):
    """All profiles of a tenant, oldest first. Stored as one value, so names and defaults stay consistent."""

    profiles: tuple[StoredProfile, ...] = ()
    format: int = 2

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


MAX_PROFILES = 200
OLD_FORMAT = 1
"""Configurations are beside the names, encrypted."""
FINGERPRINTS = "fingerprints"
"""The name of the secret that keys `config_hash`; no profile has such an id."""
MAX_CONFIG = 16 << 10
"""Bytes of JSON."""
MAX_NAME = 200
TRIES = 40
"""Attempts to change profiles that others change at the same time."""

_decode = msgspec.json.Decoder(TenantProfiles).decode
_encode = msgspec.json.Encoder().encode
_decode_config = msgspec.json.Decoder(dict[str, Any]).decode


class ProfileStore:
    """Every method may raise ProfileError or StateError and then changes nothing.

    `old` opens what earlier versions encrypted. Such profiles move to the vault when they are next used.
    """

    def __init__(self, state: State, secrets: SecretStore, old: OldProfiles) -> None:
        self._state = state
        self._secrets = secrets
        self._old = old

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
        text = _encoded(config)
        id = str(uuid4())
        mark = await self._fingerprint(tenant, text)

        def add(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
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
                config_hash=mark,
                is_active=is_active,
                is_default=False,
                created_at=now,
                updated_at=now,
            )
            folder = folder.having(made).settled(mcp_qualified_name, id if is_default else "")
            return folder, folder.find(id) or made

        await self._read(tenant)  # first, so that nothing is written beside what cannot be used
        # The secret first: a name without one would be a profile that does not open.
        await self._asked(self._secrets.replace(_address(tenant, id), text, None))
        try:
            return _profile(tenant, await self._change(tenant, add), config)
        except BaseException:
            await self._forget(tenant, id)
            raise

    async def list(self, tenant: str, mcp_qualified_name: str = "") -> list[CredentialProfile]:
        """Returns the profiles, oldest first; only those for one service if it is named."""
        _, folder = await self._read(tenant)
        wanted = [each for each in folder.profiles if mcp_qualified_name in ("", each.mcp_qualified_name)]
        return [_profile(tenant, each, await self._config(tenant, each)) for each in wanted]

    async def get(self, tenant: str, profile_id: str) -> CredentialProfile:
        _, folder = await self._read(tenant)
        found = _known(folder, profile_id)
        return _profile(tenant, found, await self._config(tenant, found))

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
        _, folder = await self._read(tenant)
        known = _known(folder, profile_id)
        before = await self._secret(tenant, known)
        text = before.value if config is None else _encoded(config)
        mark = known.config_hash if config is None else await self._fingerprint(tenant, text)

        def change(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
            known = _known(folder, profile_id)
            taken = folder.names(known.mcp_qualified_name, but=profile_id)
            changed = msgspec.structs.replace(
                known,
                profile_name=free_name(profile_name, taken) if profile_name else known.profile_name,
                display_name=known.display_name if display_name is None else display_name,
                config_hash=known.config_hash if config is None else mark,
                is_active=known.is_active if is_active is None else is_active,
                is_default=known.is_default and is_default is not False,
                updated_at=_now(),
            )
            preferred = profile_id if is_default else ""
            folder = folder.having(changed).settled(known.mcp_qualified_name, preferred)
            return folder, folder.find(profile_id) or changed

        if config is not None:
            address = _address(tenant, profile_id)
            if await self._asked(self._secrets.replace(address, text, before.version)) is None:
                raise ProfileError("another request has just changed this credential profile", "try again")
        return _profile(tenant, await self._change(tenant, change), _decode_config(text))

    async def delete(self, tenant: str, profile_id: str) -> CredentialProfile:
        """Returns the deleted profile, without its configuration if that cannot be decrypted. If it was the
        default, another profile becomes the default."""

        def remove(folder: TenantProfiles) -> tuple[TenantProfiles, StoredProfile]:
            known = _known(folder, profile_id)
            return folder.without(known).settled(known.mcp_qualified_name), known

        deleted = await self._change(tenant, remove, move=False)
        try:
            config = await self._config(tenant, deleted)
        except (ProfileLockedError, StateError):
            config = {}
        await self._forget(tenant, profile_id)
        return _profile(tenant, deleted, config)

    async def free_name(self, tenant: str, mcp_qualified_name: str, profile_name: str) -> str:
        """Returns the name that a new profile would get."""
        _, folder = await self._read(tenant)
        return free_name(profile_name, folder.names(mcp_qualified_name))

    async def _read(self, tenant: str, *, move: bool = True) -> tuple[bytes | None, TenantProfiles]:
        """`move` takes what an earlier version encrypted over into the vault."""
        raw = await self._state.get(state_key("profiles", tenant))
        if raw is None:
            return None, TenantProfiles()
        try:
            folder = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            folder = TenantProfiles(format=0)
        if folder.format not in (TenantProfiles().format, OLD_FORMAT):
            # Never overwrite unknown data.
            raise StateUnusableError(
                "the credential profiles in the store were not written by this version of Toolyard",
                "use the version that wrote them",
            )
        if move and any(each.encrypted_config for each in folder.profiles):
            return await self._moved(tenant, raw, folder)
        return raw, TenantProfiles(folder.profiles)

    async def _moved(
        self, tenant: str, raw: bytes, folder: TenantProfiles
    ) -> tuple[bytes | None, TenantProfiles]:
        """The names are replaced when all secrets are in the vault: stopped half-way, it begins anew."""
        moved: list[StoredProfile] = []
        for each in folder.profiles:
            if each.encrypted_config:
                config = await asyncio.to_thread(
                    self._old.open, tenant, each.profile_id, each.encrypted_config
                )
                text = _encoded(config)
                address = _address(tenant, each.profile_id)
                if await self._asked(self._secrets.read(address)) is None:
                    await self._asked(self._secrets.replace(address, text, None))
                mark = await self._fingerprint(tenant, text)
                each = msgspec.structs.replace(each, encrypted_config="", config_hash=mark)
            moved.append(each)
        after = TenantProfiles(tuple(moved))
        value = _encode(after)
        if await self._state.swap(state_key("profiles", tenant), raw, value):
            return value, after
        return await self._read(tenant)  # somebody else was faster

    async def _change(
        self,
        tenant: str,
        change: Callable[[TenantProfiles], tuple[TenantProfiles, StoredProfile]],
        *,
        move: bool = True,
    ) -> StoredProfile:
        key = state_key("profiles", tenant)
        for _ in range(TRIES):
            before, folder = await self._read(tenant, move=move)
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

    async def _config(self, tenant: str, kept: StoredProfile) -> dict[str, Any]:
        if kept.encrypted_config:
            return await asyncio.to_thread(self._old.open, tenant, kept.profile_id, kept.encrypted_config)
        return _decode_config((await self._secret(tenant, kept)).value)

    async def _secret(self, tenant: str, kept: StoredProfile) -> StoredSecret:
        found = await self._asked(self._secrets.read(_address(tenant, kept.profile_id)))
        if found is None:
            raise ProfileLockedError(
                f"the vault does not have the configuration of credential profile {kept.profile_id!r}",
                "`toolyard vault import` a backup, or delete the profile and make it again",
            )
        return found

    async def _fingerprint(self, tenant: str, text: bytes) -> str:
        """A keyed hash: equal for equal texts of a tenant, and no help in guessing one without the key."""
        address = _address(tenant, FINGERPRINTS)
        while (found := await self._asked(self._secrets.read(address, 60.0))) is None:
            await self._asked(self._secrets.replace(address, secrets.token_bytes(32), None))
        return hmac.new(found.value, text, hashlib.sha256).hexdigest()

    async def _forget(self, tenant: str, id: str) -> None:
        """What nobody refers to any more does no harm if it stays."""
        with contextlib.suppress(VaultError):
            await self._secrets.delete(_address(tenant, id))

    async def _asked(self, asking: Awaitable[T]) -> T:
        """What goes wrong with the vault, in the words of profiles."""
        try:
            return await asking
        except VaultUnavailableError as error:
            raise StateUnavailableError(error.message, error.hint) from None
        except VaultKeyError as error:
            raise MissingProfileKeyError(error.message, error.hint) from None
        except VaultError as error:
            raise ProfileLockedError(error.message, error.hint) from None


def _address(tenant: str, name: str) -> SecretAddress:
    return SecretAddress(tenant=tenant, kind="profile", name=name)


def _encoded(config: dict[str, Any]) -> bytes:
    try:
        text = msgspec.json.encode(config, order="sorted")
    except (TypeError, ValueError, RecursionError):
        # The message must not quote the configuration: it is secret.
        raise InvalidProfileError("a credential profile's configuration has to be JSON") from None
    if len(text) > MAX_CONFIG:
        raise InvalidProfileError(f"the configuration has {len(text)} bytes of JSON", f"at most {MAX_CONFIG}")
    return text


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
