"""The `sessions` server: finds earlier conversations by words or by meaning, and shows them.

Conversations are imported from files (Claude Code transcripts or the format `toolyard.sessions`) or stored by
programs with `recording.record`, in SQLite or PostgreSQL. Each owner sees only their own, and no tool writes.
"""

from __future__ import annotations

from ...kit import Server
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SESSIONS_"

__all__ = ["ENVIRONMENT", "Settings", "build"]


def build(settings: Settings) -> Server:
    from .server import build as built  # numpy: 70 ms of CPU, for who runs it

    return built(settings)
