"""The vision server over HTTP on loopback, the `mcp` client in front of it, and pictures to ask about."""

import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from PIL import Image

from tests.emulators.vision_chat import VisionChat
from tests.serving import serving
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]
VARIABLES = (
    "Z_AI_API_KEY",
    "ZAI_API_KEY",
    "Z_AI_MODE",
    "PLATFORM_MODE",
    "Z_AI_BASE_URL",
    "Z_AI_VISION_MODEL",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
)


class Talk:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def try_to(self, tool: str, **arguments: Any) -> types.CallToolResult:
        found = await self.client.call_tool(tool, arguments, progress_callback=self._hear)
        assert isinstance(found, types.CallToolResult)
        return found

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """The structured content; the client has held it against the listed schema."""
        found = await self.try_to(tool, **arguments)
        assert not found.is_error, found.content
        return found.structured_content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        found = await self.try_to(tool, **arguments)
        assert found.is_error, found.structured_content
        assert found.structured_content is None
        return "".join(block.text for block in found.content if isinstance(block, types.TextContent))

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


@asynccontextmanager
async def talking(
    workspace: Path,
    api: VisionChat | None = None,
    era: str = "2026-07-28",
    on_sample: Any = None,
    **settings: Any,
) -> AsyncIterator[Talk]:
    options: dict[str, Any] = {"workspace": str(workspace), "retries": 0, **settings}
    if api is not None:
        options = {"url": api.url, "api_key": api.key, "model": "glm-5.3-flash", **options}
    server = load("toolyard.servers.zai_vision", options=options)
    mode = "legacy" if era == "legacy" else "auto"
    async with (
        serving(server.asgi()) as edge,
        Client(edge.url, mode=mode, sampling_callback=on_sample) as client,
    ):
        await client.list_tools()
        yield Talk(client)


def picture(width: int = 60, height: int = 40, colour: str = "red", kind: str = "PNG") -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(into, kind)
    return into.getvalue()


def data_url(data: bytes, mime_type: str = "image/png") -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
