"""What the six tools bring: files in the workspace, facts about them, transcripts, progress."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.servers.youtube.site import Site
from tests.servers.youtube.talking import ERAS, talking
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.kit.loader import load


def streams(path: Path) -> list[str]:
    command = ["ffprobe", "-v", "error", "-show_streams", "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout)
    return [stream["codec_name"] for stream in found["streams"]]


@pytest.mark.parametrize("era", ERAS)
async def test_a_video_lands_in_the_workspace_with_its_facts_and_progress_in_bytes(
    era: str, site: Site, tmp_path: Path
):
    async with talking(tmp_path, era, allow=f"127.0.0.1:{site.port}") as talk:
        said = await talk("download_video", url=site.url("/watch"))
    found = said.structured["files"][0]
    assert found["path"] == "downloads/videos/A talk (1) [watch-1].mp4"
    assert (found["width"], found["height"], found["duration"]) == (320, 240, 2.0)
    assert found["mime_type"] == "video/mp4"
    saved = tmp_path / found["path"]
    assert saved.stat().st_size == found["size"]
    assert streams(saved) == ["h264", "aac"]
    assert found["path"] in said.text
    numbers = [progress for progress, _, _ in talk.progress]
    assert numbers == sorted(set(numbers)), "progress only grows"
    assert any(done == total == found["size"] for done, total, _ in talk.progress)
    assert any("A talk (1): 44.4 KB / 44.4 KB" in (message or "") for _, _, message in talk.progress)


async def test_a_plain_address_of_a_file_and_a_stream_in_segments_work_too(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        await talk("download_video", url=site.url("/talk.mp4"), format="mkv")
        await talk("download_video", url=site.url("/hls"))
        assert talk.files() == [
            "downloads/videos/Live once (1) [hls-1].mp4",
            "downloads/videos/talk [talk].mkv",
        ]
    for name in talk.files():
        assert streams(tmp_path / name) == ["h264", "aac"]


async def test_the_sound_is_converted_to_the_wanted_codec(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        song = (await talk("download_audio", url=site.url("/song.ogg"))).structured
        talked = (
            await talk("download_audio", url=site.url("/watch"), codec="opus", quality="64K")
        ).structured
    assert song["files"][0]["path"] == "downloads/audio/song [song].mp3"
    assert song["files"][0]["codecs"] == ["mp3"]
    assert talked["files"][0]["mime_type"] == "audio/ogg"
    assert streams(tmp_path / talked["files"][0]["path"]) == ["opus"]


async def test_a_playlist_is_taken_in_parts_and_a_failed_item_does_not_stop_the_others(
    site: Site, tmp_path: Path
):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", max_items=3) as talk:
        said = await talk("download_playlist", url=site.url("/many"), start=2)
        found = said.structured
        assert (found["title"], found["count"], found["start"], found["end"]) == ("Many talks", 1000, 2, 4)
        assert (found["downloaded"], found["failed"]) == (2, 1)
        assert [item["index"] for item in found["items"]] == [2, 3, 4]
        assert "does not exist" in found["items"][1]["error"]
        assert found["notices"] == ["one call gets 3 items at most; download_playlist(start=5) continues"]
        assert len(talk.files()) == 2
        assert site.hits.count("/talk.mp4") == 2, "nothing beyond the wanted items was asked for"
        one = (await talk("download_playlist", url=site.url("/many"), start=7, end=7)).structured
        assert [item["index"] for item in one["items"]] == [7]
        assert one["notices"] == []


async def test_a_feed_is_a_playlist_of_its_pages(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", max_items=2) as talk:
        found = (await talk("download_playlist", url=site.url("/feed"))).structured
    assert (found["title"], found["count"], found["downloaded"]) == ("All talks", 200, 2)


async def test_a_tool_for_one_video_takes_the_first_of_many_and_says_so(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        found = (await talk("download_video", url=site.url("/many"))).structured
    assert [file["path"] for file in found["files"]] == ["downloads/videos/Many talks (1) [many-1].mp4"]
    assert found["notices"] == [
        "the address has 1000 items; only the first was used. download_playlist gets the others"
    ]


async def test_subtitles_come_with_a_transcript_as_text_with_times(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        said = await talk("download_subtitles", url=site.url("/watch"), lang="en, pt")
    english, portuguese = said.structured["tracks"]
    assert english["transcript"] == "[00:00] Hello & welcome\n[00:01] Green tea is best.\n"
    assert (english["language"], english["automatic"], english["truncated"]) == ("en", False, False)
    assert portuguese["language"] == "pt-BR", "the nearest, since there is no pt"
    assert (tmp_path / english["transcript_path"]).read_text() == english["transcript"]
    assert "Green tea" in (tmp_path / english["path"]).read_text()
    assert "[00:01] Green tea is best." in said.text
    assert "/talk.mp4" not in site.hits, "the video itself is not downloaded"


async def test_subtitles_are_embedded_in_the_video_if_asked_for(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        found = (await talk("download_subtitles", url=site.url("/watch"), embed=True)).structured
    assert found["files"][0]["path"].startswith("downloads/videos/")
    assert streams(tmp_path / found["files"][0]["path"]) == ["h264", "aac", "mov_text"]


async def test_a_language_that_is_not_there_is_answered_with_those_that_are(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        assert await talk.refusal("download_subtitles", url=site.url("/watch"), lang="de") == (
            "there are no subtitles in de; written: en, pt-BR; automatic: -"
        )
        assert "no subtitles at all" in await talk.refusal("download_subtitles", url=site.url("/talk.mp4"))
        assert "'../etc'" in await talk.refusal("download_subtitles", url=site.url("/watch"), lang="../etc")


async def test_the_thumbnail_is_saved_as_jpeg_and_shown(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}") as talk:
        said = await talk("download_thumbnail", url=site.url("/watch"))
        assert "has no thumbnail" in await talk.refusal("download_thumbnail", url=site.url("/talk.mp4"))
    path = said.structured["files"][0]["path"]
    assert path == "downloads/thumbnails/A talk (1) [watch-1].jpg"
    assert (tmp_path / path).read_bytes()[:3] == b"\xff\xd8\xff"
    assert [image.mime_type for image in said.images] == ["image/jpeg"]


async def test_metadata_is_bounded_and_has_no_addresses_of_media(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", max_items=3) as talk:
        video = (await talk("get_metadata", url=site.url("/watch"))).structured
        feed = (await talk("get_metadata", url=site.url("/feed"))).structured
        assert talk.files() == []
    assert (video["title"], video["subtitles"]) == ("A talk (1)", ["en", "pt-BR"])
    assert len(video["description"]) == 5000
    assert video["description_truncated"] is True
    assert video["formats_count"] == 1
    assert "url" not in video["formats"][0]
    assert feed["is_playlist"] is True
    assert feed["playlist_count"] == 200
    assert [entry["title"] for entry in feed["entries"]] == ["Talk 1", "Talk 2", "Talk 3"]


async def test_the_portuguese_server_answers_in_portuguese_by_either_name(site: Site, tmp_path: Path):
    async with talking(tmp_path, allow=f"127.0.0.1:{site.port}", locale="pt") as talk:
        said = await talk("baixar_legendas", url=site.url("/watch"), idioma="pt")
        assert "Legendas: pt-BR (escritas)" in said.text
        assert "endereço público" in await talk.refusal("download_video", url="http://10.0.0.1/")


async def test_a_client_with_tasks_gets_the_video_as_a_task(site: Site, tmp_path: Path):
    options = {"workspace": str(tmp_path), "allow": f"127.0.0.1:{site.port}"}
    server = load("toolyard.servers.youtube", options=options)
    try:
        async with Client(server) as client:
            task = await client.start_task("download_video", {"url": site.url("/watch")})
            assert task.status == "working"
            assert not (await task.result()).is_error
            assert (tmp_path / "downloads/videos/A talk (1) [watch-1].mp4").is_file()
    finally:
        await server.close()
