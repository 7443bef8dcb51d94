"""Dialects: the desk's work under the names, argument shapes and reply shapes of other systems.

A prompt written for Suna, Composio or Rube works unchanged. The native dialect lives with the desk.
"""

from collections.abc import Callable

from ..meta.tools import Dialect
from .composio import ComposioDialect
from .rube import RubeDialect
from .suna import SunaDialect

DIALECTS: dict[str, Callable[[], Dialect]] = {
    "suna": SunaDialect,
    "composio": ComposioDialect,
    "rube": RubeDialect,
}
"""By the name they have in the configuration."""

__all__ = ["DIALECTS", "ComposioDialect", "RubeDialect", "SunaDialect"]
