"""What a database has: tables, columns, relations, values, and what people know of them.

Owns the three tools, the tables as resources, the notes and the diagrams. Owns no connection: how databases
are reached and looked at is in `toolyard.databases`.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SCHEMA_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
