"""Credential profiles: what a tenant needs to use something in its own name, encrypted at rest.

Owns names, defaults and that one tenant never meets another's. What is in a configuration, and whether it
still works, is its users' business.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from ..state.errors import Unusable
from ..state.state import MAX_VALUE, State
from .ciphers import Cipher
from .errors import BadProfile, Locked, ProfileError, TooMany, UnknownProfile
from .lease import key_of
from .profile import Folder, Kept, Profile, free_name

MAX_PROFILES = 200
MAX_CONFIG = 16 << 10
"""Bytes of JSON."""
MAX_NAME = 200
TRIES = 40
"""For a folder that others keep changing."""

__all__ = ["Profile", "Profiles"]

_decode = msgspec.json.Decoder(Folder).decode
_encode = msgspec.json.Encoder().encode
_decode_secret = msgspec.json.Decoder(tuple[str, str, dict[str, Any]]).decode


class Profiles:
    """Every method may raise ProfileError or StateError; nothing is changed then."""

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
    ) -> Profile:
        """Under that name, or the next free one: "work (2)". The first one for a thing is its default."""
        _check_name("qualified name", mcp_qualified_name)
        _check_name("profile name", profile_name)
        await self._cipher.ready()
        id = str(uuid4())
        token, mark = self._closed(tenant, id, config)

        def add(folder: Folder) -> tuple[Folder, Kept]:
            if folder.profiles:
                # One key for all of them: who has come with another one hears of it now.
                self._opened(tenant, folder.profiles[0])
            if len(folder.profiles) >= MAX_PROFILES:
                raise TooMany(f"there are {MAX_PROFILES} credential profiles already", "delete one first")
            name = free_name(profile_name, folder.names(mcp_qualified_name))
            now = _now()
            made = Kept(
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

    async def list(self, tenant: str, mcp_qualified_name: str = "") -> list[Profile]:
        """In the order they were made; those for one thing, if it is named."""
        _, folder = await self._read(tenant)
        wanted = [each for each in folder.profiles if mcp_qualified_name in ("", each.mcp_qualified_name)]
        return [_profile(tenant, each, self._opened(tenant, each)) for each in wanted]

    async def get(self, tenant: str, profile_id: str) -> Profile:
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
    ) -> Profile:
        """What is None stays. `is_default` False leaves the choice to us."""
        if profile_name is not None:
            _check_name("profile name", profile_name)
        await self._cipher.ready()
        closed = None if config is None else self._closed(tenant, profile_id, config)

        def change(folder: Folder) -> tuple[Folder, Kept]:
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

    async def delete(self, tenant: str, profile_id: str) -> Profile:
        """What was deleted, less its configuration if it cannot be opened. Another one becomes the default
        if this one was."""

        def remove(folder: Folder) -> tuple[Folder, Kept]:
            known = _known(folder, profile_id)
            return folder.without(known).settled(known.mcp_qualified_name), known

        deleted = await self._change(tenant, remove)
        try:
            return _profile(tenant, deleted, self._opened(tenant, deleted))
        except Locked:
            return _profile(tenant, deleted, {})

    async def free_name(self, tenant: str, mcp_qualified_name: str, profile_name: str) -> str:
        """What a new profile of that name would be called now."""
        _, folder = await self._read(tenant)
        return free_name(profile_name, folder.names(mcp_qualified_name))

    async def _read(self, tenant: str) -> tuple[bytes | None, Folder]:
        await self._cipher.ready()
        raw = await self._state.get(key_of("profiles", tenant))
        if raw is None:
            return None, Folder()
        try:
            folder = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            folder = Folder(format=0)
        if folder.format != Folder().format:
            # Whatever it is, it is not overwritten.
            raise Unusable(
                "the credential profiles in the store were not written by this version of Toolyard",
                "use the version that wrote them",
            )
        return raw, folder

    async def _change(self, tenant: str, change: Callable[[Folder], tuple[Folder, Kept]]) -> Kept:
        key = key_of("profiles", tenant)
        for _ in range(TRIES):
            before, folder = await self._read(tenant)
            changed, kept = change(folder)
            after = _encode(changed) if changed.profiles else None
            if after is not None and len(after) > MAX_VALUE:
                raise TooMany("the credential profiles take more room than there is", "delete one first")
            if await self._state.swap(key, before, after):
                return kept
            await asyncio.sleep(random.uniform(0, 0.05))
        raise ProfileError("the credential profiles are being changed by others all the time", "try again")

    def _closed(self, tenant: str, id: str, config: dict[str, Any]) -> tuple[str, str]:
        try:
            text = msgspec.json.encode(config, order="sorted")
        except (TypeError, ValueError, RecursionError):
            # Not quoted: it is secret.
            raise BadProfile("a credential profile's configuration has to be JSON") from None
        if len(text) > MAX_CONFIG:
            raise BadProfile(f"the configuration has {len(text)} bytes of JSON", f"at most {MAX_CONFIG}")
        # Whose it is goes in too: who can write to the store cannot give one tenant's to another.
        token = self._cipher.close(msgspec.json.encode([tenant, id, msgspec.Raw(text)]))
        return token, self._cipher.fingerprint(text)

    def _opened(self, tenant: str, kept: Kept) -> dict[str, Any]:
        owner, id, config = _decode_secret(self._cipher.open(kept.encrypted_config))
        if (owner, id) != (tenant, kept.profile_id):
            raise Locked(f"what is kept for credential profile {kept.profile_id!r} is not its own")
        return config


def _profile(tenant: str, kept: Kept, config: dict[str, Any]) -> Profile:
    fields = msgspec.structs.asdict(kept)
    del fields["encrypted_config"]
    return Profile(account_id=tenant, config=config, **fields)


def _known(folder: Folder, profile_id: str) -> Kept:
    found = folder.find(profile_id)
    if found is None:
        raise UnknownProfile(
            f"there is no credential profile {profile_id[:80]!r}", "list them to see the ids"
        )
    return found


def _check_name(what: str, name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise BadProfile(f"{name[:80]!r} cannot be a {what}", f"1 to {MAX_NAME} printable characters")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
