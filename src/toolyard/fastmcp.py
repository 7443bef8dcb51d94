"""The kit and the client under the names that FastMCP has for them.

`from toolyard.fastmcp import FastMCP, Context, Client` in place of `from fastmcp import …`. Only names and
defaults are here; what they do is in `toolyard.kit` and `toolyard.client`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from . import client as _client
from .client import ToolCallError
from .kit import (
    Answer,
    Context,
    EmbeddedResource,
    Icon,
    Long,
    McpError,
    ResourceLink,
    Server,
    Text,
    ToolError,
    ToolResult,
)
from .kit import Audio as AudioContent
from .kit import Image as ImageContent
from .kit import Message as _Message
from .kit.calls.files import AudioFile, File, ImageFile
from .kit.dependencies import Depends
from .kit.features.base import ResourceOptions, ToolOptions
from .kit.features.prompts import assistant, user
from .kit.features.resources import Resource
from .kit.features.tools import Tool
from .kit.middleware import CallNext, Middleware, MiddlewareContext
from .wire.types import BlobContents, TextContents, ToolInfo

__all__ = [
    "Answer",
    "Audio",
    "AudioContent",
    "CallNext",
    "Client",
    "Context",
    "CurrentContext",
    "Depends",
    "EmbeddedResource",
    "FastMCP",
    "File",
    "Icon",
    "Image",
    "ImageContent",
    "Long",
    "McpError",
    "Message",
    "Middleware",
    "MiddlewareContext",
    "NotFoundError",
    "PromptError",
    "ResourceError",
    "ResourceLink",
    "TextContent",
    "ToolError",
    "ToolResult",
    "ValidationError",
]

TextContent = Text
Image = ImageFile
Audio = AudioFile
ResourceError = ToolError
PromptError = ToolError
ValidationError = ToolError
NotFoundError = McpError


class FastMCP(Server):
    """A `Server` with FastMCP's defaults: "5" is an integer, values are bare in texts, resources are text."""

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *,
        version: str | float | None = None,
        strict_input_validation: bool | None = None,
        list_page_size: int | None = None,
        mask_error_details: bool | None = None,
        dereference_schemas: bool = True,
        tools: "list[Callable[..., Any]] | None" = None,
        **options: Any,
    ) -> None:
        """`options` are those of `Server`. Details of exceptions are masked, and references in schemas kept,
        whatever `mask_error_details` and `dereference_schemas` say.
        """
        if version is not None:
            options["version"] = str(version)
        if list_page_size is not None:
            options["page_size"] = list_page_size
        options.setdefault("middleware", ())
        lax = not strict_input_validation
        super().__init__(
            name or "FastMCP", instructions=instructions, lax=lax, bare_values=True, **_without_none(options)
        )
        self.features |= {"tools", "resources", "prompts"}  # lists that are empty, not missing
        for function in tools or ():
            self.add_tool(function)

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        tool = super().add_tool(function, **options)
        annotations = tool.info.annotations
        if tool.info.title is None and annotations is not None:
            tool.info.title = annotations.title
        if tool.info.title is None:
            tool.title_of = _title
            tool.info.title = _title(tool.name)
        return tool

    def add_resource(
        self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> Resource:
        if options.get("mime_type") is None and not uri.startswith("ui://"):
            options["mime_type"] = "text/plain"
        return super().add_resource(function, uri, **options)

    def run(self, transport: str | None = None, show_banner: bool = False, **options: Any) -> None:
        """Serve over stdio, or over HTTP (`transport="http"`) with the options of `run_http`."""
        if transport in (None, "stdio"):
            self.run_stdio()
        elif transport in ("http", "streamable-http"):
            self.run_http(**options)
        else:
            raise ValueError(f"unknown transport {transport!r}; there are 'stdio' and 'http'")

    def http_app(self, path: str = "/mcp", **options: Any) -> Any:
        """The ASGI app of `asgi`."""
        return self.asgi(path=path, **options)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> _client.CallResult:
        """Call a tool in this process; a failure raises ToolError."""
        async with RaisingClient(self) as client:
            return await client.call_tool(name, arguments)

    async def list_tools(self) -> list[ToolInfo]:
        async with RaisingClient(self) as client:
            return await client.list_tools()


def _title(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").title()


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class RaisingClient(_client.Client):
    """The client, with failures raised and with the contents of a resource as a list."""

    def __init__(self, target: Any, **options: Any) -> None:
        super().__init__(_program(target), **options)

    async def call_tool(  # type: ignore[override]
        self,
        name: Any,
        arguments: Mapping[str, Any] | None = None,
        *,
        raise_on_error: bool = True,
        **options: Any,
    ) -> _client.CallResult:
        try:
            return await super().call_tool(name, arguments, raise_on_error=raise_on_error, **options)
        except ToolCallError as error:
            raise ToolError(error.result.text) from None

    async def read_resource(  # type: ignore[override]
        self, uri: Any, **options: Any
    ) -> list[TextContents | BlobContents]:
        return (await super().read_resource(str(uri), **options)).contents

    async def list_resource_templates(self) -> Any:
        return await self.list_templates()

    def is_connected(self) -> bool:
        return self._open is not None


Client = RaisingClient


def _program(target: Any) -> Any:
    """A Python file is a server to start, not a configuration."""
    import sys

    path = str(target) if isinstance(target, str | Path) else ""
    return [sys.executable, path] if path.endswith(".py") else target


def Message(content: Any, role: str = "user") -> _Message:
    """A message of a prompt."""
    return assistant(content) if role == "assistant" else user(content)


def CurrentContext() -> Any:
    """The default of a parameter annotated `Context`, which the annotation alone fills already."""
    return None
