"""An upstream of either era as callers of either era see it."""

from .bridge import Bridge
from .input_requests import ParkedCalls

__all__ = ["Bridge", "ParkedCalls"]
