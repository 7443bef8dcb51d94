"""Logs, errors and services: of Render by its API, or of log files on this machine.

Owns the three tools and where their answers come from. Without a key and without files it
answers from a small sample, and says so.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_RENDER_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
