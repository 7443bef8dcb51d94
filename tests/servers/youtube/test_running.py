"""The server over stdio, from the command line, and in an application of the Agent SDK."""

import sys
from pathlib import Path

from tests.clients.claude_peer import claude_code
from tests.servers.youtube.site import Site
from tests.servers.youtube.talking import made
from toolyard import Client
from toolyard.kit.agent_sdk import create_sdk_server


async def test_over_stdio_a_video_is_looked_at_and_its_subtitles_are_read(site: Site, tmp_path: Path):
    options = ["-o", f"workspace={tmp_path}", "-o", f"allow=127.0.0.1:{site.port}"]
    async with Client([sys.executable, "-m", "toolyard", "run", "youtube", *options]) as client:
        found = await client.call_tool("get_metadata", {"url": site.url("/watch")})
        assert found.structured["title"] == "A talk (1)"
        spoken = await client.call_tool("download_subtitles", {"url": site.url("/watch")})
        assert "[00:01] Green tea is best." in spoken.structured["tracks"][0]["transcript"]
    assert (tmp_path / "downloads" / "subtitles").is_dir()


async def test_an_application_of_the_agent_sdk_downloads_a_song(site: Site, tmp_path: Path):
    server = made(tmp_path / "workspace", allow=f"127.0.0.1:{site.port}")

    async def at_once() -> None:
        """Nothing has to begin first."""

    async with claude_code(tmp_path, create_sdk_server(server), "2025-11-25", at_once) as peer:
        found = await peer.call("download_audio", url=site.url("/song.ogg"), codec="best")
        assert found.structured is not None
        assert found.structured["files"][0]["path"] == "downloads/audio/song [song].ogg"
    await server.close()
