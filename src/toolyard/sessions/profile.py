"""A credential profile: in the open, and as it is kept."""

from typing import Any

import msgspec
from msgspec import Struct


class Profile(Struct, frozen=True, kw_only=True):
    """Belongs to one tenant (`account_id`). `config` is what is secret of it."""

    profile_id: str
    account_id: str
    mcp_qualified_name: str
    """What it is for, such as `composio.gmail`."""
    profile_name: str
    """Unique among the tenant's profiles for the same thing."""
    display_name: str
    config: dict[str, Any]
    config_hash: str
    """Tells whether two are the same; of no use to who wants to guess them."""
    is_active: bool
    is_default: bool
    created_at: str
    updated_at: str
    """ISO 8601, UTC."""

    def shown(self) -> dict[str, Any]:
        """Everything but the configuration."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "config"}

    def __repr__(self) -> str:
        return (
            f"Profile({self.profile_id!r}, {self.mcp_qualified_name!r}, {self.profile_name!r}, "
            f"config={sorted(self.config)})"
        )


class Kept(Struct, frozen=True, kw_only=True):
    """A profile as it lies in the store; its tenant is in the key."""

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


class Folder(Struct, frozen=True):
    """All profiles of a tenant, in the order they were made: one value, so that names and defaults agree."""

    profiles: tuple[Kept, ...] = ()
    format: int = 1

    def find(self, profile_id: str) -> Kept | None:
        return next((each for each in self.profiles if each.profile_id == profile_id), None)

    def names(self, mcp_qualified_name: str, but: str = "") -> set[str]:
        """Those taken, less the one of profile `but`."""
        return {
            each.profile_name
            for each in self.profiles
            if each.mcp_qualified_name == mcp_qualified_name and each.profile_id != but
        }

    def having(self, profile: Kept) -> "Folder":
        """With this one, in the place of the one with its id if there is one."""
        known = self.find(profile.profile_id) is not None
        others = [profile if each.profile_id == profile.profile_id else each for each in self.profiles]
        return Folder(tuple(others if known else [*others, profile]))

    def without(self, profile: Kept) -> "Folder":
        return Folder(tuple(each for each in self.profiles if each.profile_id != profile.profile_id))

    def settled(self, mcp_qualified_name: str, preferred: str = "") -> "Folder":
        """With one default for that thing: `preferred`, or the one there was, or the oldest active one."""
        ours = {each for each in self.profiles if each.mcp_qualified_name == mcp_qualified_name}
        able = [each for each in self.profiles if each in ours and each.is_active]
        order = sorted(able, key=lambda each: (each.profile_id != preferred, not each.is_default))
        chosen = order[0] if order else None
        return Folder(
            tuple(
                msgspec.structs.replace(each, is_default=each == chosen) if each in ours else each
                for each in self.profiles
            )
        )


def free_name(name: str, taken: set[str]) -> str:
    """`name`, or `name (2)`, `name (3)` and so on."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
