"""Tools about what goes in and out of a call: content blocks, errors, schemas."""

import json
from typing import Annotated, Any

from mcp.server.fastmcp import Audio, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.tools import Tool
from mcp.types import EmbeddedResource, TextContent, TextResourceContents
from pydantic import Field

from tests.everything.media import RED_PIXEL_PNG, SILENCE_WAV
from tests.everything_sdk1.fixtures import CONTACT_SCHEMA


def embedded(uri: str, text: str, mime_type: str) -> EmbeddedResource:
    contents = TextResourceContents.model_validate({"uri": uri, "text": text, "mimeType": mime_type})
    return EmbeddedResource(type="resource", resource=contents)


def contact_tool() -> Tool:
    """A tool with a schema of its own: FastMCP only derives them from signatures."""

    def json_schema_2020_12_tool(
        name: str = "",
        address: dict[str, str] | None = None,
        contactMethod: str = "",
        phone: str = "",
        email: str = "",
    ) -> str:
        """Tool with JSON Schema 2020-12 features"""
        return (
            f"Called with: {json.dumps({'name': name, 'address': address, 'phone': phone, 'email': email})}"
        )

    return Tool.from_function(json_schema_2020_12_tool).model_copy(update={"parameters": CONTACT_SCHEMA})


def add_content_tools(server: FastMCP[Any]) -> None:
    @server.tool()
    def test_simple_text() -> str:
        """Returns one text."""
        return "This is a simple text response for testing."

    @server.tool()
    def test_image_content() -> Image:
        """Returns one image."""
        return Image(data=RED_PIXEL_PNG, format="png")

    @server.tool()
    def test_audio_content() -> Audio:
        """Returns one sound."""
        return Audio(data=SILENCE_WAV, format="wav")

    @server.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Returns one embedded resource."""
        return [embedded("test://embedded-resource", "This is an embedded resource content.", "text/plain")]

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[Any]:
        """Returns a text, an image and an embedded resource."""
        return [
            TextContent(type="text", text="Multiple content types test:"),
            Image(data=RED_PIXEL_PNG, format="png"),
            embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
        ]

    @server.tool()
    def test_error_handling() -> str:
        """Fails on purpose."""
        raise ToolError("This tool intentionally returns an error for testing")

    @server.tool()
    def test_x_mcp_header(
        region: Annotated[
            str, Field(description="Mirrored in a header", json_schema_extra={"x-mcp-header": "Region"})
        ],
    ) -> str:
        """Takes an argument that modern HTTP clients mirror in a header; to 1.x it is one like any other."""
        return f"Region: {region}"

    @server.tool()
    def greet(name: str) -> str:
        """Greets at once."""
        return f"Hello, {name}!"
