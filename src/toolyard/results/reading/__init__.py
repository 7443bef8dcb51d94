"""Reading back what was stored: by pages, by a JMESPath expression, or by SQL."""

from .reader import Reader

__all__ = ["Reader"]
