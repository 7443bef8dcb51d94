"""Workspaces: folders in which tools read and write files for callers, and that no path leads out of."""

from .errors import WorkspaceCode, WorkspaceError
from .names import RESERVED
from .usage import WorkspaceChange, WorkspaceLimits
from .watching import WorkspaceWatcher
from .workspace import EntryKind, Workspace, WorkspaceEntry
from .workspaces import Workspaces, adopt_folder

__all__ = [
    "RESERVED",
    "EntryKind",
    "Workspace",
    "WorkspaceChange",
    "WorkspaceCode",
    "WorkspaceEntry",
    "WorkspaceError",
    "WorkspaceLimits",
    "WorkspaceWatcher",
    "Workspaces",
    "adopt_folder",
]
