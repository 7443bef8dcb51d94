"""The `render` server: logs, errors and status of services, from Render's API or from local log files.

Owns the three tools and their sources. Without a key and without files it answers from a small sample, and
says so.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_RENDER_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
