"""TiFlux, a help desk: its 114 tools as a table, for one account or for everyone who brings a key.

Owns the table, its settings and the few steps that a table cannot say. How a table is run is `rest`'s.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TIFLUX_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
