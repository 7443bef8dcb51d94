"""What callers are shown: what they search for, everything under full names, or one upstream as it is."""

from .view import AllView, BareView, SearchView

__all__ = ["AllView", "BareView", "SearchView"]
