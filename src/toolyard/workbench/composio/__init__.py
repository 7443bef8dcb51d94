"""Composio's workbench, and its store for attachments, over its REST API.

Owns the requests that files and cells need. The gateway's client for searching and executing tools is in
`upstream.composio`.
"""

from .api import ComposioAccess, ComposioApi, ComposioError, ComposioFault
from .store import ComposioStore, StoredFile
from .workbench import ComposioWorkbench, ComposioWorkbenches

__all__ = [
    "ComposioAccess",
    "ComposioApi",
    "ComposioError",
    "ComposioFault",
    "ComposioStore",
    "ComposioWorkbench",
    "ComposioWorkbenches",
    "StoredFile",
]
