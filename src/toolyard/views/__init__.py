"""What callers are shown: everything under full names, or one upstream as it is."""

from .all import AllView
from .bare import BareView

__all__ = ["AllView", "BareView"]
