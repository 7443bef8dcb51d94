"""From an OpenAPI 3 document to a table that a person goes on with.

Owns the conversion: what of an API becomes tools, and what had to be left out, which is always said. Reading
files, and writing them, is for the command.
"""

from .conversion import Conversion, ConversionOptions, convert
from .document import OpenApiDocument, OpenApiError

__all__ = ["Conversion", "ConversionOptions", "OpenApiDocument", "OpenApiError", "convert"]
