"""The MCP client: one class for a server in memory, at an address, in a process, or a whole configuration.

`client` has the class, `targets` finds the way to what it was given, `conversation` speaks over an open
connection, `listening` and `tasks` follow what outlives a request, `types` are its data and `errors` its
exceptions. The transports are those of `toolyard.upstream`, which the gateway speaks to its servers by;
`memory` is their sibling for a server in this process.
"""

from ..wire.call import ClientInfo
from ..wire.errors import McpError
from ..wire.types import PromptInfo, ResourceInfo, ResourceTemplateInfo, ToolInfo
from .auth import OAuth
from .client import Client
from .errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    ProtocolError,
    RefusedError,
    ServerLostError,
    TargetError,
    TaskError,
    ToolCallError,
    UnknownVersionError,
    UnsupportedError,
)
from .subscriptions import Changes
from .tasks import RemoteTask
from .types import (
    CallResult,
    Change,
    Completions,
    Elicitation,
    ElicitResult,
    ListPage,
    LogMessage,
    Other,
    Progress,
    PromptMessage,
    PromptResult,
    ResourceResult,
    SampleRequest,
    SampleResult,
    ServerInfo,
)

__all__ = [
    "CallResult",
    "Change",
    "Changes",
    "Client",
    "ClientError",
    "ClientInfo",
    "ClientTimeoutError",
    "Completions",
    "ConnectError",
    "ElicitResult",
    "Elicitation",
    "ListPage",
    "LogMessage",
    "McpError",
    "OAuth",
    "Other",
    "Progress",
    "PromptInfo",
    "PromptMessage",
    "PromptResult",
    "ProtocolError",
    "RefusedError",
    "RemoteTask",
    "ResourceInfo",
    "ResourceResult",
    "ResourceTemplateInfo",
    "SampleRequest",
    "SampleResult",
    "ServerInfo",
    "ServerLostError",
    "TargetError",
    "TaskError",
    "ToolCallError",
    "ToolInfo",
    "UnknownVersionError",
    "UnsupportedError",
]
