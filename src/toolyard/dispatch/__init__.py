"""Sends a request to its upstream, and keeps the trouble of one upstream from everybody else."""

from .mount import Breaker, Mount, Target

__all__ = ["Breaker", "Mount", "Target"]
