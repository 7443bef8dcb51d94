"""`sessions`: earlier conversations, found again by their words or by what they mean, and read.

They come from files (Claude Code's transcripts, or the form `toolyard.sessions`) and from programs, which
call `recording.record`; they are kept in SQLite or PostgreSQL. Nobody is shown what is not their own, and no
tool writes.
"""

from __future__ import annotations

from ...kit import Server
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SESSIONS_"

__all__ = ["ENVIRONMENT", "Settings", "build"]


def build(settings: Settings) -> Server:
    from .server import build as built  # numpy: 70 ms of CPU, for who runs it

    return built(settings)
