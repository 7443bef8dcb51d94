"""`sql`: questions to a database, in SQL or in words.

Owns the tool, the way from a question to a statement, and how an answer reads. What may run at all is decided
by `databases.guard`; how it is run, read-only and with an end, by `databases`.
"""

from .making import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_SQL_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
