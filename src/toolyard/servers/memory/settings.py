"""The settings of the memory server, and its limits."""

from typing import Annotated

from msgspec import Meta, Struct

from ...languages import Locale


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of the tools and their texts."""
    url: str = ""
    """The database: `sqlite:PATH` or `postgresql://…`; empty: a file in the state folder."""
    max_bytes: Annotated[int, Meta(ge=100, le=1_000_000)] = 100_000
    """Maximum size of a memory, as UTF-8."""
    max_memories: Annotated[int, Meta(ge=1)] = 100_000
    """Maximum number of memories of a user."""
    max_versions: Annotated[int, Meta(ge=1)] = 50
    """How many of the newest versions of a memory are kept."""
    max_deleted: Annotated[int, Meta(ge=0)] = 1_000
    """How many of a user's last deleted memories can be restored."""
    near_duplicate: Annotated[float, Meta(gt=0, le=1)] = 0.90
    """The similarity from which saving a memory mentions another one."""
    list_limit: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Maximum number of memories or folder entries in one list."""
