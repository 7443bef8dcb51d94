"""An upstream of either era as callers of either era see it."""

from .bridge import Bridge
from .parking import Parking

__all__ = ["Bridge", "Parking"]
