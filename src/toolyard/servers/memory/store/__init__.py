"""The memory store: one set of statements over SQLite or PostgreSQL."""

from .memories import MemoryStore, open_store
from .records import (
    Memory,
    MemoryChanges,
    MemoryDraft,
    MemoryLimits,
    MemoryListing,
    MemoryOwner,
    MemorySummary,
    MemoryVersion,
    PutOutcome,
    Removed,
    owner_of,
)

__all__ = [
    "Memory",
    "MemoryChanges",
    "MemoryDraft",
    "MemoryLimits",
    "MemoryListing",
    "MemoryOwner",
    "MemoryStore",
    "MemorySummary",
    "MemoryVersion",
    "PutOutcome",
    "Removed",
    "open_store",
    "owner_of",
]
