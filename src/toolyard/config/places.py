"""Where files go that nobody has named a place for."""

import os
from pathlib import Path


def state_home() -> Path | None:
    """The folder for what outlives a process; None where this user has no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        # The XDG specification says to ignore a relative one.
        home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return home / "toolyard"
