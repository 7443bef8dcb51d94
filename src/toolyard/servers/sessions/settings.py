"""The settings of the sessions server, and what is derived from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ...config.files import state_home
from ...kit.settings import text_list
from ...languages import Locale
from .model import ConversationOwner


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of texts and messages."""
    url: str = ""
    """`sqlite:PATH`, `postgresql://…`, or `memory:`; empty: a file in the state folder of this user."""
    import_from: str | tuple[str, ...] = ()
    """Folders or files with conversations, imported at the start and whenever they change."""
    import_runs: bool = True
    """Whether the transcripts of `toolyard agent` in the state folder are imported too."""
    tenant: str = "local"
    """The tenant that owns the imported conversations."""
    user: str = ""
    """The user within the tenant who owns the imported conversations."""
    scan_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    """Seconds between two scans for changed files."""
    min_similarity: Annotated[float, Meta(ge=0, le=1)] = 0.35
    """The similarity from which a text counts as a hit of a semantic search."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """What is imported. The folder of runs belongs to it once there is one."""
        named = tuple(Path(name).expanduser() for name in text_list(self.import_from, os.pathsep))
        home = state_home()
        if not self.import_runs or home is None or not (home / "runs").is_dir():
            return named
        return (*named, home / "runs")

    @property
    def owner(self) -> ConversationOwner:
        return ConversationOwner(self.tenant, self.user)


def default_file() -> Path | None:
    home = state_home()
    return None if home is None else home / "sessions" / "sessions.db"
