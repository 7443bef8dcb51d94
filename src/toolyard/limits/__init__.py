"""How much callers may have: rates, calls at a time, and budgets, counted in the state store."""

from .errors import LimitExceededError, LimitsUnavailableError
from .limiter import Admission, Limiter

__all__ = ["Admission", "LimitExceededError", "Limiter", "LimitsUnavailableError"]
