"""Where files go that nobody has named a place for."""

import os
from pathlib import Path

from .models import Config


def state_home() -> Path | None:
    """The folder for what outlives a process; None where this user has no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        # The XDG specification says to ignore a relative one.
        home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return home / "toolyard"


def state_folder(config: Config) -> Path | None:
    """Where a gateway of this configuration keeps what it has seen and counted."""
    given = config.gateway.state_dir
    return Path(given).expanduser() if given else state_home()


def identity_of(config: Config) -> str:
    """What tells a configuration from others that keep their state in the same folder: its file."""
    return os.path.realpath(config.files[0]) if config.files else ""
