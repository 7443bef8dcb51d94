"""Composio's REST API: the tool router's sessions, and the endpoints that the Suna fork calls.

Owns what is said over HTTP and how replies are read. Whose session is used, and when it is begun anew, is
decided elsewhere, and so is what becomes of a tool's result.
"""

from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioClient,
    ComposioRefusedError,
    ComposioSession,
    ExecutedTool,
    FoundToolRecord,
    ToolkitRecord,
    ToolRecord,
    UserIds,
    is_over,
)
from .labs import LabsClient
from .rest import JsonApi
from .router import ToolRouterClient

__all__ = [
    "AppAccount",
    "ComposioAnswer",
    "ComposioClient",
    "ComposioRefusedError",
    "ComposioSession",
    "ExecutedTool",
    "FoundToolRecord",
    "JsonApi",
    "LabsClient",
    "ToolRecord",
    "ToolRouterClient",
    "ToolkitRecord",
    "UserIds",
    "is_over",
]
