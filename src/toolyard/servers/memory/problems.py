"""What the user of a tool is told when something cannot be done.

Problem          what was asked for cannot be: named by its sentence in `texts.py`
StoreFailed      where memories are kept cannot be used; the cause, without secrets
"""

from typing import Any


class Problem(Exception):
    """`name` is the sentence in `texts.py`, `values` what it quotes."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(name)
        self.name = name
        self.values = values


class StoreFailed(Exception):
    """`str()` is the reason."""
