"""The `tiflux` server: the help desk TiFlux as 114 tools, for one account or for callers with their own keys.

Owns the table, its settings and the few steps that a table cannot express. `toolyard.rest` runs the table.
"""

from .server import Settings, build

ENVIRONMENT = "TIFLUX_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
