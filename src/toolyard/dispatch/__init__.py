"""Sends a request to its upstream, and keeps the trouble of one upstream from everybody else."""

from .mount import Breaker, CallTarget, Mount

__all__ = ["Breaker", "CallTarget", "Mount"]
