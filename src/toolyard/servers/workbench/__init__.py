"""A workbench: runs a caller's Python and shell commands in a box, under Composio's names for such tools.

Owns the tools and their replies. The box, sessions and limits are in `toolyard.workbench`.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_WORKBENCH_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
