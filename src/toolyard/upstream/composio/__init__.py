"""Composio's REST API: the tool router's sessions, and the endpoints that the Suna fork calls.

Owns the requests and the reading of replies. `dispatch.composio` decides which session a call uses, when it
is renewed, and how a tool's result is shown.
"""

from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioClient,
    ComposioRefusedError,
    ComposioSession,
    Toolkit,
    ToolRecord,
    is_session_expired,
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
    "JsonApi",
    "LabsClient",
    "ToolRecord",
    "ToolRouterClient",
    "Toolkit",
    "is_session_expired",
]
