"""The `sql` server: answers questions from a database, in SQL or in plain words.

Owns the tool, the path from a question to a statement, and the form of an answer. `databases.guard` decides
what may run; `databases` runs it read-only and with limits.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SQL_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
