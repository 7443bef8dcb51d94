"""The `local_toolkit` server: files, archives and research in a caller's workspace.

Owns the tools of "local brain, remote hands": what an agent keeps on this machine. Paths and limits are the
workspace's.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_LOCAL_TOOLKIT_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
