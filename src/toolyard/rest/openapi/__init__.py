"""From an OpenAPI 3 document to a table that a person goes on with.

Owns the conversion: what of an API becomes tools, and what had to be left out, which is always said. Reading
files, and writing them, is for the command.
"""

from .convert import Made, Wishes, convert
from .document import Document, DocumentError

__all__ = ["Document", "DocumentError", "Made", "Wishes", "convert"]
