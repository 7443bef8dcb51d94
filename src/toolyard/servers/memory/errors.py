"""The server's errors.

MemoryRequestError    the request cannot be met; names its text in `texts.py`
MemoryStoreError      the database cannot be used; gives the reason, without secrets
"""

from typing import Any


class MemoryRequestError(Exception):
    """`name` is the text in `texts.py`, `values` fill its braces."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(name)
        self.name = name
        self.values = values


class MemoryStoreError(Exception):
    """`str()` is the reason."""
