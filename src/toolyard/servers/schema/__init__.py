"""The `schema` server: a database's tables, columns, relations and values, with people's notes on them.

Owns the three tools, the tables as resources, the notes and the diagrams. Connections belong to
`toolyard.databases`.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SCHEMA_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
