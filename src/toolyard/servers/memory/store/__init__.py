"""Where memories are kept: one set of rules and statements (`store.py`) over SQLite or PostgreSQL."""

from .opening import open_store
from .records import Changes, Draft, Head, Listing, Memory, Owner, Put, Removed, Rules, Version, owner_of
from .store import Store

__all__ = [
    "Changes",
    "Draft",
    "Head",
    "Listing",
    "Memory",
    "Owner",
    "Put",
    "Removed",
    "Rules",
    "Store",
    "Version",
    "open_store",
    "owner_of",
]
