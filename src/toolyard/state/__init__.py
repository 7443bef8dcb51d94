"""Small values that outlive a call: behind one protocol, in memory, SQLite, Redis or PostgreSQL."""

from .errors import StateError
from .memory import MemoryState
from .state import State

__all__ = ["MemoryState", "State", "StateError"]
