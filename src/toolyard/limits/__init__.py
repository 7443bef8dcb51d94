"""How much callers may have: rates, calls at a time, and budgets, counted in the state store."""

from .errors import LimitExceededError, LimitsUnavailableError
from .limiter import Admission, Limiter, LimitPlan
from .meter import MemoryMeter

__all__ = ["Admission", "LimitExceededError", "LimitPlan", "Limiter", "LimitsUnavailableError", "MemoryMeter"]
