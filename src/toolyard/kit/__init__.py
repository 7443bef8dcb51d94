"""How a server is written: tools, resources, prompts, and what they can do while they run."""

from ..edge.identity import Refused
from ..edge.pace import Pace
from ..edge.tenants import CallerKeys
from ..wire.call import Caller, Identity
from ..wire.errors import InvalidParams, McpError, MissingCapability
from ..wire.secret import Secret
from ..wire.types import (
    Annotations,
    Audio,
    BlobContents,
    EmbeddedResource,
    Icon,
    Image,
    Message,
    ResourceLink,
    Text,
    TextContents,
)
from .asks import Answer, Elicit, ElicitUrl, Root, Roots, Sample, Sampled
from .content import ToolError, ToolResult
from .context import Cancelled, Context
from .prompt import assistant, user
from .server import Server
from .tool import Long

__all__ = [
    "Annotations",
    "Answer",
    "Audio",
    "BlobContents",
    "Caller",
    "CallerKeys",
    "Cancelled",
    "Context",
    "Elicit",
    "ElicitUrl",
    "EmbeddedResource",
    "Icon",
    "Identity",
    "Image",
    "InvalidParams",
    "Long",
    "McpError",
    "Message",
    "MissingCapability",
    "Pace",
    "Refused",
    "ResourceLink",
    "Root",
    "Roots",
    "Sample",
    "Sampled",
    "Secret",
    "Server",
    "Text",
    "TextContents",
    "ToolError",
    "ToolResult",
    "assistant",
    "user",
]
