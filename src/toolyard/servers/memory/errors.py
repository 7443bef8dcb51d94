"""The server's errors.

MemoryRequestError    the request cannot be met; `name` is the text in `texts.py`
MemoryStoreError      the database cannot be used; says why, without secrets
"""

from typing import Any


class MemoryRequestError(Exception):
    """`name` is the sentence in `texts.py`, `values` what it quotes."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(name)
        self.name = name
        self.values = values


class MemoryStoreError(Exception):
    """`str()` is the reason."""
