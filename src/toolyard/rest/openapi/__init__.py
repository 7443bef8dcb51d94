"""Converts an OpenAPI 3 document into a definition for people to edit.

Owns the conversion: which operations become tools, and notes on everything that is left out. The command
reads and writes the files.
"""

from .conversion import Conversion, ConversionOptions, convert
from .document import OpenApiDocument, OpenApiError

__all__ = ["Conversion", "ConversionOptions", "OpenApiDocument", "OpenApiError", "convert"]
