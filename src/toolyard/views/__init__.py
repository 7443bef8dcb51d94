"""Views for callers: meta tools to search with, everything under full names, or one upstream unchanged."""

from .bare import BareView
from .view import AllView, SearchView

__all__ = ["AllView", "BareView", "SearchView"]
