"""Small values that outlive a call: behind one protocol, in memory, SQLite, Redis or PostgreSQL."""

from .errors import StateError
from .memory import MemoryState
from .opening import open_state
from .state import State

__all__ = ["MemoryState", "State", "StateError", "open_state"]
