"""The settings of the sessions server, and what is derived from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ...config.files import state_home
from ...kit.localization import Locale
from .model import ConversationOwner


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of texts and messages."""
    url: str = ""
    """`sqlite:PATH`, `postgresql://…`, or `memory:`; empty: a file in the state folder of this user."""
    import_from: str | tuple[str, ...] = ()
    """Folders or files with conversations, read at the start and whenever they change."""
    tenant: str = "local"
    """Whose the imported conversations are."""
    user: str = ""
    """Whose the imported conversations are, within the tenant."""
    scan_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    """How often to look whether files have changed."""
    min_similarity: Annotated[float, Meta(ge=0, le=1)] = 0.35
    """From where on two texts mean about the same."""

    @property
    def roots(self) -> tuple[Path, ...]:
        given = self.import_from
        named = given.split(os.pathsep) if isinstance(given, str) else given
        return tuple(Path(name.strip()).expanduser() for name in named if name.strip())

    @property
    def owner(self) -> ConversationOwner:
        return ConversationOwner(self.tenant, self.user)


def default_file() -> Path | None:
    home = state_home()
    return None if home is None else home / "sessions" / "sessions.db"
