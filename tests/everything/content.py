"""Tools about what goes in and out of a call: content blocks, errors, schemas, mirrored headers."""

from typing import Annotated, Any

import msgspec

from tests.everything.media import RED_PIXEL_PNG, SILENCE_WAV
from toolyard.kit import Audio, EmbeddedResource, Image, Server, Text, TextContents, ToolError

# Word for word from the scenario `json-schema-2020-12`: the keywords must survive `tools/list`.
CONTACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def add_content_tools(server: Server) -> None:
    @server.tool
    def test_simple_text() -> str:
        """Returns one text."""
        return "This is a simple text response for testing."

    @server.tool
    def test_image_content() -> Image:
        """Returns one image."""
        return Image(RED_PIXEL_PNG, "image/png")

    @server.tool
    def test_audio_content() -> Audio:
        """Returns one sound."""
        return Audio(SILENCE_WAV, "audio/wav")

    @server.tool
    def test_embedded_resource() -> EmbeddedResource:
        """Returns one embedded resource."""
        return EmbeddedResource(
            TextContents("test://embedded-resource", "This is an embedded resource content.", "text/plain")
        )

    @server.tool
    def test_multiple_content_types() -> list[Text | Image | EmbeddedResource]:
        """Returns a text, an image and an embedded resource."""
        data = TextContents(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        )
        return [
            Text("Multiple content types test:"),
            Image(RED_PIXEL_PNG, "image/png"),
            EmbeddedResource(data),
        ]

    @server.tool
    def test_error_handling() -> str:
        """Fails on purpose."""
        raise ToolError("This tool intentionally returns an error for testing")

    @server.tool(input_schema=CONTACT_SCHEMA)
    def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
        """Tool with JSON Schema 2020-12 features"""
        return f"Called with: {msgspec.json.encode(arguments).decode()}"

    @server.tool
    def test_x_mcp_header(
        region: Annotated[
            str,
            msgspec.Meta(description="Mirrored in a header", extra_json_schema={"x-mcp-header": "Region"}),
        ],
    ) -> str:
        """Takes an argument that HTTP clients mirror in a header."""
        return f"Region: {region}"
