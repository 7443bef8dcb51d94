"""Handing a call to the upstream it is for, and keeping one upstream's trouble from everybody else."""

from .mount import Breaker, Forward, Mount, dispatch

__all__ = ["Breaker", "Forward", "Mount", "dispatch"]
