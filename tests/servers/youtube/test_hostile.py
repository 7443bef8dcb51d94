"""Sites and arguments that mean harm, and calls that are given up: a clear error, nothing left over."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from tests.servers.youtube.site import Site
from tests.servers.youtube.talking import made, processes, talking
from tests.waiting import PATIENCE, until
from toolyard import Client
from toolyard.kit.loader import LoadError


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def until_none(scratch: Path) -> None:
    async def clean() -> bool:
        return not processes() and not os.listdir(scratch)

    await until(clean)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "'file' addresses are refused"),
        ("ytsearch:tea", "'ytsearch' addresses are refused"),
        ("https://ana:secret@example.com/watch", "user name or password"),
        ("http://", "is not an address"),
        ("not an address", "is not an address"),
        ("https://example.com/" + "x" * 5000, "is not an address"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254:80 is not a public address"),
        ("http://[::ffff:127.0.0.1]:8080/", "is not a public address"),
        ("http://localhost:1/", "is not a public address"),
    ],
)
async def test_an_address_that_must_not_be_opened_is_refused_with_a_reason(
    url: str, words: str, tmp_path: Path, scratch: Path
):
    async with talking(tmp_path) as talk:
        refusal = await talk.refusal("download_video", url=url)
        assert words in refusal
        assert "secret" not in refusal
    await until_none(scratch)


@pytest.mark.parametrize("path", ["/to?there={}", "/stolen?media={}"])
async def test_neither_a_redirect_nor_a_page_leads_to_a_private_address(
    path: str, site: Site, forbidden: Site, tmp_path: Path, scratch: Path
):
    there = forbidden.url("/talk.mp4")
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        refusal = await talk.refusal("download_video", url=site.url(path.format(there)))
        assert f"127.0.0.1:{forbidden.port} is not a public address" in refusal
        assert talk.files() == []
    assert forbidden.hits == []
    await until_none(scratch)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/stolen?media=file:///etc/passwd", "not http or https"),
        ("/stolen?media=ftp://127.0.0.1/x.mp4", "refused"),
        ("/stolen?media=rtmp://127.0.0.1/live/x", "live stream"),
        ("/plain", "no video, audio or feed was found"),
        ("/private", "status 403"),
        ("/login", "setting `cookies`"),
        ("/busy", "too many requests"),
        ("/broken", "status 503"),
        ("/gone-media", "does not exist"),
        ("/corrupt", "cannot be played"),
        ("/playlist-in-disguise", "cannot be played"),
        ("/loop", "without an end"),
        ("/endless", "larger than 5.0 MB"),
        ("/endless-media", "larger than 5.0 MB"),
        ("/silent", "silent for too long"),
    ],
)
async def test_what_a_site_does_wrong_is_explained(
    path: str, words: str, site: Site, tmp_path: Path, scratch: Path
):
    limits = {"max_bytes": 5_000_000, "socket_timeout": 3.0}
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", **limits) as talk:
        assert words in await talk.refusal("download_video", url=site.url(path))
        assert talk.files() == []
    await until_none(scratch)


@pytest.mark.parametrize("path", ["/evil", "/long"])
async def test_a_title_cannot_choose_where_a_file_goes(path: str, site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        said = await talk("download_video", url=site.url(path))
        assert [Path(name).parent.as_posix() for name in talk.files()] == ["downloads/videos"]
    name = Path(said.structured["files"][0]["path"]).name
    assert name.isprintable()
    assert len(name.encode()) <= 255
    assert "\u202e" not in said.text


async def test_a_call_that_takes_too_long_is_ended(site: Site, tmp_path: Path, scratch: Path):
    limits = {"timeout": 5.0, "max_bytes": 50 * 10**9}
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", **limits) as talk:
        assert "not finished within 5 s" in await talk.refusal("download_video", url=site.url("/silent"))
    await until_none(scratch)


@pytest.mark.parametrize("path", ["/silent", "/endless-media"])
async def test_cancelling_ends_the_process_and_the_download(
    path: str, site: Site, tmp_path: Path, scratch: Path
):
    server = made(tmp_path, allow=f"127.0.0.1:{site.port}", max_bytes=50 * 10**9)
    async with Client(server) as client:
        calling = asyncio.create_task(client.call_tool("download_video", {"url": site.url(path)}))
        await asyncio.wait_for(site.streaming.wait(), PATIENCE)
        assert processes()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await until_none(scratch)
        if path == "/endless-media":
            await asyncio.wait_for(site.left.wait(), PATIENCE)
    await server.close()
    assert os.listdir(tmp_path) == []


async def test_closing_the_server_ends_what_runs(site: Site, tmp_path: Path, scratch: Path):
    server = made(tmp_path, allow=f"127.0.0.1:{site.port}")
    async with Client(server) as client:
        calling = asyncio.create_task(client.call_tool("download_video", {"url": site.url("/silent")}))
        await asyncio.wait_for(site.streaming.wait(), PATIENCE)
        await server.close()
        await until_none_processes()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await until_none(scratch)


async def until_none_processes() -> None:
    async def gone() -> bool:
        return not processes()

    await until(gone)


async def test_a_full_workspace_is_said(site: Site, tmp_path: Path):
    (tmp_path / "downloads").write_text("a file where the folder should be")
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        assert "'downloads/videos" in await talk.refusal("download_video", url=site.url("/watch"))


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("download_video", {"resolution": "huge"}, "'huge' is not a resolution"),
        ("download_audio", {"quality": "loud"}, "'loud' is not a quality"),
        ("download_audio", {"quality": "9999K"}, "is not a quality"),
        ("download_playlist", {"start": 5, "end": 2}, "`end` (2) is before `start` (5)"),
        ("download_subtitles", {"lang": "en;rm -rf"}, "is not a language"),
        ("download_subtitles", {"lang": ",".join(["en"] * 11)}, "10 at most"),
    ],
)
async def test_an_argument_that_makes_no_sense_is_named(
    tool: str, arguments: dict[str, object], words: str, tmp_path: Path
):
    async with talking(tmp_path) as talk:
        assert words in await talk.refusal(tool, url="https://example.com/", **arguments)


async def test_a_cookies_file_is_used_and_not_changed(site: Site, tmp_path: Path):
    cookies = tmp_path / "cookies.txt"
    cookies.write_text("# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\twho\tana\n")
    before = cookies.read_bytes()
    async with talking(tmp_path / "w", allow=f"127.0.0.1:{site.port}", cookies=str(cookies)) as talk:
        await talk("get_metadata", url=site.url("/watch"))
    assert "who=ana" in site.cookies
    assert cookies.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"allow": "10.0.0.0/99"}, "allow: "),
        ({"cookies": "/nowhere/cookies.txt"}, "cookies: there is no file"),
        ({"ffmpeg": "/nowhere/ffmpeg"}, "ffmpeg: there is no program"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings: dict[str, str], words: str, tmp_path: Path):
    with pytest.raises(LoadError, match=words):
        made(tmp_path, **settings)
