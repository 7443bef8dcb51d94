"""Small values that outlive a request: one interface, in memory, SQLite, Redis or PostgreSQL."""

from .factory import open_state
from .memory import MemoryState
from .store import State, StateError

__all__ = ["MemoryState", "State", "StateError", "open_state"]
