"""Bad pictures, forbidden addresses, an API in trouble, calls given up: a clear error, and never the key."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.vision_chat import KEY, Failing, Finished, Hanging, Raw, Turn, vision_chat
from tests.servers.youtube.site import Site
from tests.servers.zai_vision.talking import data_url, picture, talking
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.kit.loader import LoadError, load

ASK = {"image_source": data_url(picture()), "prompt": "?"}


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (Failing(401, "bad key"), "does not accept the key (status 401)"),
        (Failing(403), "does not accept the key (status 403)"),
        (Failing(402, "no money"), "no credit left"),
        (Failing(429, "Insufficient balance", "1113"), "no credit left"),
        (Failing(429, headers={"Retry-After": "77"}), "too many requests; try again in 77 s"),
        (Failing(404), "does not know the model 'glm-5.3-flash'"),
        (Failing(400, "image cannot be parsed"), "did not accept the request (status 400)"),
        (Failing(400, "unsafe", "1301"), "refused to answer"),
        (Failing(413), "too large"),
        (Failing(500), "has a problem (status 500)"),
        (Failing(302, headers={"Location": "http://127.0.0.1:9/"}), "redirects (status 302)"),
        (Finished(None, "sensitive"), "refused to answer"),
        (Finished("", "stop"), "empty answer"),
        (Raw(b"<html>hello</html>"), "not a chat completion"),
        (Raw(b'{"choices": []}'), "not a chat completion"),
        (Raw(b"[" * 100_000), "not a chat completion"),
        (Raw(b" " * (5 * 1024 * 1024)), "not a chat completion"),
    ],
)
async def test_what_the_api_says_becomes_what_to_do(turn: Turn, words: str, tmp_path: Path):
    async with vision_chat([turn]) as api, talking(tmp_path, api) as talk:
        assert words in await talk.refusal("analyze_image", **ASK)


async def test_the_key_is_in_no_error_and_no_log_even_if_the_api_quotes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    async with vision_chat(key="another") as api, talking(tmp_path, api, api_key=KEY) as talk:
        refusal = await talk.refusal("analyze_image", **ASK)
    assert "it says: Authentication failed for Bearer ***" in refusal
    assert KEY not in refusal
    assert KEY not in caplog.text


async def test_a_problem_that_may_pass_is_tried_again(tmp_path: Path):
    script: list[Turn] = [Failing(503, headers={"Retry-After": "0"}), "Now I see."]
    async with vision_chat(script) as api, talking(tmp_path, api, retries=1) as talk:
        assert (await talk("analyze_image", **ASK))["text"] == "Now I see."
        assert "the API has a problem; asking again" in [message for _, _, message in talk.progress]
    script = [Failing(429, headers={"Retry-After": "3600"}), "too soon"]
    async with vision_chat(script) as api, talking(tmp_path, api, retries=1) as talk:
        assert "in 3600 s" in await talk.refusal("analyze_image", **ASK)
        assert len(api.bodies) == 1, "an hour is for the caller to wait"


async def test_an_api_that_is_silent_or_gone_is_given_up(tmp_path: Path):
    async with vision_chat([Hanging()]) as api:
        async with talking(tmp_path, api, timeout=1.0) as talk:
            assert "did not answer within 1 s" in await talk.refusal("analyze_image", **ASK)
        await asyncio.wait_for(api.left.wait(), PATIENCE)
    async with talking(tmp_path, api) as talk:
        assert "could not be reached" in await talk.refusal("analyze_image", **ASK)


async def test_cancelling_a_call_ends_its_request(tmp_path: Path):
    async with vision_chat([Hanging()]) as api:
        options = {"url": api.url, "api_key": api.key, "model": "m", "workspace": str(tmp_path)}
        server = load("toolyard.servers.zai_vision", options=options)
        async with Client(server) as client:
            calling = asyncio.create_task(client.call_tool("analyze_image", ASK))
            await asyncio.wait_for(api.waiting.wait(), PATIENCE)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await asyncio.wait_for(api.left.wait(), PATIENCE)
        await server.close()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.png", "There is no 'missing.png' in the workspace"),
        ("../outside.png", "outside the workspace"),
        ("/etc/passwd", "outside the workspace"),
        ("link.png", "symbolic link"),
        ("fifo.png", "is not a file"),
        ("folder", "is not a file"),
        ("text.png", "is not an image"),
        ("empty.png", "is empty"),
        ("drawing.svg", "SVG"),
        ("half.png", "damaged or incomplete"),
        ("huge.bin", "the limit for reading"),
        ("", "is empty"),
        ("file:///etc/passwd", "'file' addresses are refused"),
        ("ftp://example.com/a.png", "'ftp' addresses are refused"),
        ("https://ana:secret@example.com/a.png", "user name or password"),
        ("data:image/png;base64,!!!", "data URL cannot be read"),
        ("data:nonsense", "data URL cannot be read"),
        (data_url(b"just text"), "is not an image"),
        ("http://127.0.0.1:1/a.png", "is not a public address"),
        ("http://169.254.169.254/latest/meta-data", "is not a public address"),
        ("http://[::1]/a.png", "is not a public address"),
        ("http://localhost/a.png", "is not a public address"),
        ("http://2130706433/a.png", "is not a public address"),
        ("http://no-such-host.invalid/a.png", "could not be found"),
        ("https://", "is not an address"),
    ],
)
async def test_a_source_that_cannot_be_used_is_refused_with_a_reason(source: str, words: str, tmp_path: Path):
    (tmp_path / "text.png").write_text("just text")
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "half.png").write_bytes(picture(400, 400)[:200])
    (tmp_path / "link.png").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo.png")
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(10 * 1024**3)  # sparse: it takes no room
    async with vision_chat() as api, talking(tmp_path, api, source_bytes=1024**2) as talk:
        refusal = await talk.refusal("analyze_image", image_source=source, prompt="?")
        assert words in refusal
        assert "secret" not in refusal
    assert api.bodies == []


async def test_a_redirect_to_a_private_address_is_not_followed(tmp_path: Path):
    (tmp_path / "red.png").write_bytes(picture())
    async with (
        vision_chat() as api,
        Site(tmp_path).open() as site,
        Site(tmp_path).open() as forbidden,
        talking(
            tmp_path, api, allow=f"127.0.0.1:{site.port}", source_bytes=5 * 1024**2, fetch_timeout=5
        ) as talk,
    ):
        there = forbidden.url("/red.png")
        refusal = await talk.refusal("analyze_image", image_source=site.url(f"/to?there={there}"), prompt="?")
        assert f"127.0.0.1:{forbidden.port} is not a public address" in refusal
        assert forbidden.hits == []
        refusals = {
            path: await talk.refusal("analyze_image", image_source=site.url(path), prompt="?")
            for path in ("/nothing.png", "/plain", "/endless", "/silent", "/to?there=file:///etc/passwd")
        }
    assert "status 404" in refusals["/nothing.png"]
    assert "is not an image" in refusals["/plain"]
    assert "the limit for reading" in refusals["/endless"]
    assert "not fetched within 5 s" in refusals["/silent"]
    assert "was not fetched" in refusals["/to?there=file:///etc/passwd"]


async def test_fifty_megabytes_are_read_scaled_and_sent(tmp_path: Path):
    (tmp_path / "big.bmp").write_bytes(picture(4200, 4200, kind="BMP"))
    assert (tmp_path / "big.bmp").stat().st_size > 50_000_000
    async with vision_chat() as api, talking(tmp_path, api) as talk:
        await talk("analyze_image", image_source="big.bmp", prompt="?")
    assert api.pictures[0][0].bytes < 5 * 1024 * 1024


@pytest.mark.parametrize(
    ("content", "settings", "words"),
    [
        (b"not a video", {}, "is not a video"),
        (b"\0\0\0\x18ftypmp42" + b"\0" * 100, {"video": "frames"}, "is not a video"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", {"video": "frames"}, "is not a video"),
        (b"ffconcat version 1.0\nfile /etc/hostname\n", {"video": "frames"}, "is not a video"),
        (b"\0\0\0\x18ftypmp42" + b"\0" * 9_000_000, {"video": "whole"}, "is larger than 8 MB"),
    ],
)
async def test_a_file_that_is_no_video_is_refused(
    content: bytes, settings: dict[str, Any], words: str, tmp_path: Path
):
    (tmp_path / "clip.mp4").write_bytes(content)
    async with vision_chat() as api, talking(tmp_path, api, **settings) as talk:
        assert words in await talk.refusal("analyze_video", video_source="clip.mp4", prompt="?")
    assert api.bodies == []


async def test_an_empty_question_is_not_sent(tmp_path: Path):
    async with vision_chat() as api, talking(tmp_path, api) as talk:
        assert "`prompt` is empty" in await talk.refusal("analyze_image", image_source="a.png", prompt=" ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "ftp://example.com"}, "url: "),
        ({"url": "https://ana:secret@example.com/v1"}, "url: has a user name or password"),
        ({"url": "https://example.com/v1"}, "model: name the model"),
        ({"api_key": "k", "mode": "OTHER"}, "neither ZAI nor ZHIPU"),
        ({"allow": "10.0.0.0/99"}, "allow: "),
        ({"ffmpeg": "/nowhere/ffmpeg"}, "ffmpeg: there is no program"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings: dict[str, str], words: str):
    with pytest.raises(LoadError, match=words) as raised:
        load("toolyard.servers.zai_vision", options=settings)
    assert "secret" not in str(raised.value)


def test_a_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("Z_AI_API_KEY", "k")
    monkeypatch.setenv("Z_AI_TIMEOUT", "soon")
    with pytest.raises(LoadError, match="Z_AI_TIMEOUT: 'soon'"):
        load("toolyard.servers.zai_vision")
