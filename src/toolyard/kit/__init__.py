"""The kit for writing MCP servers: tools, resources, prompts and their context."""

from typing import TYPE_CHECKING

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
from .calls.files import AudioFile, File, ImageFile
from .calls.input_requests import Answer, Elicit, ElicitUrl, Root, Roots, Sample, Sampled
from .calls.tasks import Long
from .dependencies import Depends
from .features.prompts import assistant, user
from .server import Server

if TYPE_CHECKING:
    from .middleware import Middleware, MiddlewareContext

__all__ = [
    "Annotations",
    "Answer",
    "Audio",
    "AudioFile",
    "BlobContents",
    "Caller",
    "CallerKeys",
    "Cancelled",
    "Context",
    "Depends",
    "Elicit",
    "ElicitUrl",
    "EmbeddedResource",
    "File",
    "Icon",
    "Identity",
    "Image",
    "ImageFile",
    "InvalidParams",
    "Long",
    "McpError",
    "Message",
    "Middleware",
    "MiddlewareContext",
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


def __getattr__(name: str) -> object:
    if name in ("Middleware", "MiddlewareContext"):  # for servers with any
        from . import middleware

        return getattr(middleware, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
