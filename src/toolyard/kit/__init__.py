"""The kit for writing MCP servers: tools, resources, prompts and their context."""

from ..edge.request import CallerKeys, Pace, Refused
from ..wire.call import Caller, Identity, Principal, Secret
from ..wire.errors import InvalidParams, McpError, MissingCapability
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
from .calls.content import ToolError, ToolResult
from .calls.context import Cancelled, Context
from .calls.input_requests import Answer, Elicit, ElicitUrl, Root, Roots, Sample, Sampled
from .calls.tasks import Long
from .features.prompts import assistant, user
from .server import Server

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
    "Principal",
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
