"""What callers are shown: what they search for, everything under full names, or one upstream as it is."""

from .all import AllView
from .bare import BareView
from .search import SearchView

__all__ = ["AllView", "BareView", "SearchView"]
