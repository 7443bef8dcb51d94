"""Connects callers of either era with upstreams of either era."""

from .bridge import Bridge
from .input_requests import ParkedCalls

__all__ = ["Bridge", "ParkedCalls"]
