"""Runs a caller's code: the interface of a workbench, the local one in a box, and the box itself."""

from .protocol import (
    BashResult,
    CallTool,
    CellImage,
    CellResult,
    CellTable,
    ErrorCode,
    Fault,
    OnOutput,
    ToolRefusedError,
    Workbench,
    WorkbenchError,
    Workbenches,
    WorkbenchFile,
)

__all__ = [
    "BashResult",
    "CallTool",
    "CellImage",
    "CellResult",
    "CellTable",
    "ErrorCode",
    "Fault",
    "OnOutput",
    "ToolRefusedError",
    "Workbench",
    "WorkbenchError",
    "WorkbenchFile",
    "Workbenches",
]
