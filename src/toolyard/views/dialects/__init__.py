"""Dialects: the desk's work under the names, argument shapes and reply shapes of other systems.

A prompt written for Suna, Composio or Rube works unchanged. The native dialect lives with the desk.
"""

from collections.abc import Callable

from ..meta.tools import Dialect
from .composio import Composio
from .rube import Rube
from .suna import Suna

DIALECTS: dict[str, Callable[[], Dialect]] = {"suna": Suna, "composio": Composio, "rube": Rube}
"""By the name they have in the configuration."""

__all__ = ["DIALECTS", "Composio", "Rube", "Suna"]
