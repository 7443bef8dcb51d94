"""What makes a result big, for a tool: its own word first, then its server's, then everybody's."""

from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..config import ResultsConfig
from ..config.models import ServerResults

T = TypeVar("T")

LEAST_BYTES = 1_500
"""What is sent in place of a big result has to fit somewhere: lower limits mean this one."""
SUMMARY_BYTES = 2_000
NO_LIMIT = 2**62


class Limits(Struct, frozen=True):
    max_bytes: int = 4_000
    max_items: int = 20
    max_lines: int = 20
    preview_items: int = 10
    preview_chars: int = 1_200
    compact: str = "off"
    bounded: int = 100_000
    """What a tool calls bounded for a model passes up to so many bytes."""
    always: bool = False
    """Whether all that is over a limit is shaped, though that may save nothing: the contract of Suna."""

    @property
    def answer_bytes(self) -> int:
        """How long the JSON may be that takes the place of a big result."""
        return max(self.max_bytes, LEAST_BYTES)

    def by_bytes_alone(self, max_bytes: int | None = None) -> "Limits":
        """However many items or lines it has."""
        size = self.max_bytes if max_bytes is None else max_bytes
        return replace(self, max_bytes=size, max_items=NO_LIMIT, max_lines=NO_LIMIT)


def limits_for(
    settings: ResultsConfig, server: ServerResults, own: str, full: str, always: bool = False
) -> Limits | None:
    """Those of a tool, by its own and its full name; None where results pass as they are."""
    mine = server.tools.get(own, server)
    shape = _first(mine.shape, server.shape, settings.shape)
    if not shape or any(fnmatchcase(full, pattern) for pattern in settings.exempt):
        return None
    return Limits(
        max_bytes=_first(mine.max_bytes, server.max_bytes, settings.max_bytes),
        max_items=_first(mine.max_items, server.max_items, settings.max_items),
        max_lines=_first(mine.max_lines, server.max_lines, settings.max_lines),
        preview_items=settings.preview_items,
        preview_chars=settings.preview_chars,
        compact=settings.compact,
        bounded=_first(mine.bounded, server.bounded, settings.bounded),
        always=always,
    )


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)
