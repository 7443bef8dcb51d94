"""Files between the workspace and a workbench, and into Composio's store: three tools of the local toolkit.

Owns the choice of the workbench: Composio's if there is a key, else the local one.
"""

from .tools import add_workbench_tools

__all__ = ["add_workbench_tools"]
