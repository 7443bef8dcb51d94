"""The settings of the memory server, and its limits."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.localization import Locale


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of the tools and of what they say."""
    url: str = ""
    """Where memories are kept: `sqlite:PATH` or `postgresql://…`; a file of the state folder when empty."""
    max_bytes: Annotated[int, Meta(ge=100, le=1_000_000)] = 100_000
    """The size of one memory, as UTF-8."""
    max_memories: Annotated[int, Meta(ge=1)] = 100_000
    """How many memories a user may have."""
    max_versions: Annotated[int, Meta(ge=1)] = 50
    """How many versions of a memory are kept, the newest."""
    max_deleted: Annotated[int, Meta(ge=0)] = 1_000
    """How many deleted memories of a user can still be restored, those deleted last."""
    near_duplicate: Annotated[float, Meta(gt=0, le=1)] = 0.90
    """From which similarity on another memory is mentioned when one is saved."""
    list_limit: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """How many memories or children of a folder are listed at once."""
