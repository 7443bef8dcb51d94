"""Composio's REST API: the tool router's sessions, and the endpoints that the Suna fork calls.

Owns what is said over HTTP and how replies are read. Whose session is used, and when it is begun anew, is
decided elsewhere, and so is what becomes of a tool's result.
"""

from .api import Api
from .errors import ApiRefused, is_over
from .labs import LabsApi
from .records import Account, Answer, Executed, FoundTool, Session, ToolkitRecord, ToolRecord
from .rest import Rest
from .router import ComposioApi
from .users import UserIds

__all__ = [
    "Account",
    "Answer",
    "Api",
    "ApiRefused",
    "ComposioApi",
    "Executed",
    "FoundTool",
    "LabsApi",
    "Rest",
    "Session",
    "ToolRecord",
    "ToolkitRecord",
    "UserIds",
    "is_over",
]
