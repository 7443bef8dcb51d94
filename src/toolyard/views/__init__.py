"""Views for callers: meta tools to search with, everything under full names, or one upstream unchanged."""

from .view import AllView, BareView, SearchView

__all__ = ["AllView", "BareView", "SearchView"]
