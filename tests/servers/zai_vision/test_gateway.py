"""Behind the gateway: two servers share a workspace; the client's model is asked through it in both eras."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.app.yard import yard
from tests.clients.claude_peer import claude_code
from tests.emulators.vision_chat import vision_chat
from tests.servers.youtube.site import Site, make_media
from tests.servers.zai_vision.talking import ERAS, data_url, picture
from tests.servers.zai_vision.test_answers import ClientModel
from toolyard.config import InProcess, ServerConfig
from toolyard.kit.agent_sdk import create_sdk_server
from toolyard.kit.loader import load


def mounted(name: str, **options: Any) -> ServerConfig:
    where = InProcess(module=f"toolyard.servers.{name}", options=options)
    return ServerConfig(name=name, where=where, timeout=60)


@pytest.mark.parametrize("era", ERAS)
async def test_what_one_server_downloads_another_looks_at(era: str, tmp_path: Path):
    workspace = str(tmp_path / "workspace")
    async with Site(make_media(tmp_path / "media")).open() as site, vision_chat() as api:
        youtube = mounted("youtube", workspace=workspace, allow=f"127.0.0.1:{site.port}")
        vision = mounted("zai_vision", workspace=workspace, url=api.url, api_key=api.key, model="m")
        async with (
            yard(youtube, vision) as front,
            Client(front.client.url, mode="legacy" if era == "legacy" else "auto") as client,
        ):
            await client.list_tools()
            saved = await client.call_tool("mcp__youtube__download_thumbnail", {"url": site.url("/watch")})
            path = saved.structured_content["files"][0]["path"]
            asked = {"image_source": path, "prompt": "What is it?"}
            seen = await client.call_tool("mcp__zai_vision__analyze_image", asked)
    assert seen.structured_content["text"] == "I see JPEG 320x240."


@pytest.mark.parametrize("era", ERAS)
async def test_the_clients_model_is_asked_through_the_gateway(era: str, tmp_path: Path):
    model = ClientModel()
    async with (
        yard(mounted("zai_vision", workspace=str(tmp_path))) as front,
        Client(
            front.client.url, mode="legacy" if era == "legacy" else "auto", sampling_callback=model
        ) as client,
    ):
        await client.list_tools()
        asked = {"image_source": data_url(picture()), "prompt": "What is it?"}
        found = await client.call_tool("mcp__zai_vision__analyze_image", asked)
    assert found.structured_content["text"] == "The client sees red."
    assert len(model.asked) == 1


async def test_an_application_of_the_agent_sdk_asks_about_an_image(tmp_path: Path):
    (tmp_path / "red.png").write_bytes(picture())

    async def at_once() -> None:
        """Nothing has to begin first."""

    async with vision_chat() as api:
        options = {"workspace": str(tmp_path), "url": api.url, "api_key": api.key, "model": "m"}
        server = load("toolyard.servers.zai_vision", options=options)
        async with claude_code(tmp_path, create_sdk_server(server), "2025-11-25", at_once) as peer:
            found = await peer.call("analyze_image", image_source="red.png", prompt="What is it?")
            assert found.structured is not None
            assert found.structured["text"] == "I see PNG 60x40."
        await server.close()
