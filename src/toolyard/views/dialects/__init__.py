"""Dialects: the meta tools under the names, argument shapes and reply shapes of other systems.

A prompt written for Suna, Composio or Rube works unchanged. A dialect only translates; `meta.service` works.
"""

from collections.abc import Callable

from .composio import ComposioDialect, RubeDialect
from .definitions import Dialect
from .suna import SunaDialect

DIALECTS: dict[str, Callable[[], Dialect]] = {
    "suna": SunaDialect,
    "composio": ComposioDialect,
    "rube": RubeDialect,
}
"""Keyed by the name in the configuration."""

__all__ = ["DIALECTS", "ComposioDialect", "RubeDialect", "SunaDialect"]
