"""A call from its beginning to its end: progress, tasks, cancellation, limits, and either ffmpeg."""

import asyncio
import fcntl
import inspect
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from tests.ffmpeg.test_running import processes_in
from tests.servers.video_audio.talking import FFMPEG, Studio, studio
from tests.waiting import until
from toolyard import Client
from toolyard.client.types import Progress
from toolyard.kit import Identity, Principal
from toolyard.servers.video_audio import Settings, build
from toolyard.servers.video_audio.converting import ConvertingTools
from toolyard.servers.video_audio.editing import EditingTools

PARAMETERS: dict[str, dict[str, Any]] = {
    "health_check": {},
    "extract_audio_from_video": {"video_path": ..., "output_audio_path": ..., "audio_codec": "mp3"},
    "trim_video": {"video_path": ..., "output_video_path": ..., "start_time": ..., "end_time": ...},
    "convert_audio_properties": {
        "input_audio_path": ...,
        "output_audio_path": ...,
        "target_format": ...,
        "bitrate": None,
        "sample_rate": None,
        "channels": None,
    },
    "convert_video_properties": {
        "input_video_path": ...,
        "output_video_path": ...,
        "target_format": ...,
        "resolution": None,
        "video_codec": None,
        "video_bitrate": None,
        "frame_rate": None,
        "audio_codec": None,
        "audio_bitrate": None,
        "audio_sample_rate": None,
        "audio_channels": None,
    },
    "change_aspect_ratio": {
        "video_path": ...,
        "output_video_path": ...,
        "target_aspect_ratio": ...,
        "resize_mode": "pad",
        "padding_color": "black",
    },
    "convert_audio_format": {"input_audio_path": ..., "output_audio_path": ..., "target_format": ...},
    "set_audio_bitrate": {"input_audio_path": ..., "output_audio_path": ..., "bitrate": ...},
    "set_audio_sample_rate": {"input_audio_path": ..., "output_audio_path": ..., "sample_rate": ...},
    "set_audio_channels": {"input_audio_path": ..., "output_audio_path": ..., "channels": ...},
    "convert_video_format": {"input_video_path": ..., "output_video_path": ..., "target_format": ...},
    "set_video_resolution": {"input_video_path": ..., "output_video_path": ..., "resolution": ...},
    "set_video_codec": {"input_video_path": ..., "output_video_path": ..., "video_codec": ...},
    "set_video_bitrate": {"input_video_path": ..., "output_video_path": ..., "video_bitrate": ...},
    "set_video_frame_rate": {"input_video_path": ..., "output_video_path": ..., "frame_rate": ...},
    "set_video_audio_track_codec": {"input_video_path": ..., "output_video_path": ..., "audio_codec": ...},
    "set_video_audio_track_bitrate": {
        "input_video_path": ...,
        "output_video_path": ...,
        "audio_bitrate": ...,
    },
    "set_video_audio_track_sample_rate": {
        "input_video_path": ...,
        "output_video_path": ...,
        "audio_sample_rate": ...,
    },
    "set_video_audio_track_channels": {
        "input_video_path": ...,
        "output_video_path": ...,
        "audio_channels": ...,
    },
    "add_subtitles": {"video_path": ..., "srt_file_path": ..., "output_video_path": ..., "font_style": None},
    "add_text_overlay": {"video_path": ..., "output_video_path": ..., "text_elements": ...},
    "add_image_overlay": {
        "video_path": ...,
        "output_video_path": ...,
        "image_path": ...,
        "position": "top_right",
        "opacity": None,
        "start_time": None,
        "end_time": None,
        "width": None,
        "height": None,
    },
    "concatenate_videos": {
        "video_paths": ...,
        "output_video_path": ...,
        "transition_effect": None,
        "transition_duration": None,
    },
    "change_video_speed": {"video_path": ..., "output_video_path": ..., "speed_factor": ...},
    "remove_silence": {
        "media_path": ...,
        "output_media_path": ...,
        "silence_threshold_db": -30.0,
        "min_silence_duration_ms": 500,
    },
    "add_b_roll": {"main_video_path": ..., "broll_clips": ..., "output_video_path": ...},
    "add_basic_transitions": {
        "video_path": ...,
        "output_video_path": ...,
        "transition_type": ...,
        "duration_seconds": ...,
    },
}
"""The tools of the original server, in its order: each parameter with its default, or ... without one."""


@pytest.fixture
def long(media: Path, workspace: Path) -> str:
    """A minute of video that takes long to encode again."""
    if not (made := media.parent / "long.mp4").exists():
        source = ["-f", "lavfi", "-i", "testsrc2=s=320x240:r=10:d=60"]
        quick = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "600"]
        subprocess.run([FFMPEG, "-v", "error", *source, *quick, str(made)], check=True)
    shutil.copy(made, workspace)
    return made.name


async def test_there_are_exactly_the_tools_of_the_original_with_its_parameters(tools: Studio):
    listed = await tools.client.list_all("tools/list")
    assert [tool["name"] for tool in listed] == list(PARAMETERS)
    for tool in listed:
        schema, expected = tool["inputSchema"], PARAMETERS[tool["name"]]
        assert list(schema.get("properties", {})) == list(expected), tool["name"]
        required = [name for name, default in expected.items() if default is ...]
        assert schema.get("required", []) == required, tool["name"]
        function: Any = getattr(ConvertingTools, tool["name"], None) or getattr(
            EditingTools, tool["name"], None
        )
        for name, default in expected.items() if function else ():
            own = inspect.signature(function).parameters[name].default
            assert own == (inspect.Parameter.empty if default is ... else default), (tool["name"], name)


async def test_progress_is_ffmpegs_own_and_goes_up_to_the_duration(tools: Studio):
    seen: list[Progress] = []
    result = await tools.client.call_tool(
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "video_codec": "h264"},
        on_progress=seen.append,
    )
    assert not result.is_error
    counted = [one for one in seen if one.total is not None]
    assert counted[-1].progress == counted[-1].total == 1.6
    assert seen[0].message == "Reading gray.mp4"
    assert any(one.message == "1.6 s of 1.6 s" for one in seen)
    assert seen[-1].message == "Looking at the result"


async def test_a_cancelled_call_leaves_no_process_no_file_and_no_scratch(tools: Studio, long: str):
    begun = asyncio.Event()

    def note(progress: Progress) -> None:
        if progress.total is not None:
            begun.set()

    arguments = {"input_video_path": long, "output_video_path": "o.webm", "video_codec": "vp9"}
    call = asyncio.create_task(tools.client.call_tool("set_video_codec", arguments, on_progress=note))
    await begun.wait()
    scratch = tools.folder.parent / "scratch"
    (folder,) = scratch.iterdir()
    assert processes_in(folder)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    # The server learns of a cancellation a moment later than the client.
    await until(partial(is_empty, scratch))
    assert not processes_in(folder)
    assert not (tools.folder / "o.webm").exists()


async def is_empty(folder: Path) -> bool:
    return not os.listdir(folder)


async def test_a_call_runs_as_a_task_for_clients_that_have_tasks(tools: Studio):
    arguments = {"video_path": "gray.mp4", "output_audio_path": "o.mp3"}
    task = await tools.client.start_task("extract_audio_from_video", arguments)
    result = await task.result()
    assert result.text.startswith("Audio extracted successfully to o.mp3")
    assert (tools.folder / "o.mp3").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seconds": 0.3}, "ffmpeg was stopped after 0.3 s (the setting seconds)"),
        ({"max_output_mb": 1}, "larger than the setting max_output_mb allows (1 MiB)"),
    ],
)
async def test_a_limit_that_is_reached_is_named(
    workspace: Path, long: str, settings: dict[str, Any], said: str
):
    async with studio(workspace, **settings) as tools:
        text = await tools.refused(
            "set_video_bitrate", input_video_path=long, output_video_path="o.mp4", video_bitrate="50M"
        )
    assert said in text
    assert not (workspace / "o.mp4").exists()


async def test_the_scratch_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tools: Studio):
    scratch = tools.folder.parent / "scratch"
    dead, alive = scratch / "toolyard-media-dead", scratch / "toolyard-media-alive"
    for folder in (dead, alive):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
        (folder / "output").write_bytes(b"half a video")
    lock = os.open(alive / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    await tools.done("health_check")
    assert not dead.exists()
    assert (alive / "output").exists()
    os.close(lock)
    (alive / "lock").unlink()
    (alive / "output").unlink()
    alive.rmdir()


async def test_each_conversation_has_its_own_files(media: Path, tmp_path: Path):
    server = build(Settings(workspace=str(tmp_path / "work"), scratch=str(tmp_path / "scratch")))
    arguments = {"video_path": "gray.mp4", "output_audio_path": "o.mp3"}
    async with Client(server, identity=Identity(Principal(tenant="a"), "one")) as client:
        refused = await client.call_tool("extract_audio_from_video", arguments)
        assert "There is no 'gray.mp4' in the workspace" in refused.text
        (folder,) = (tmp_path / ".toolyard-work").glob("*/*")
        (folder / "gray.mp4").write_bytes((media / "gray.mp4").read_bytes())
        assert not (await client.call_tool("extract_audio_from_video", arguments)).is_error
        assert (folder / "o.mp3").exists()
    async with Client(server, identity=Identity(Principal(tenant="b"), "one")) as client:
        assert (await client.call_tool("extract_audio_from_video", arguments)).is_error
    await server.close()


async def test_the_packaged_ffmpeg_does_the_same_without_ffprobe(workspace: Path):
    async with studio(workspace, ffmpeg=imageio_ffmpeg.get_ffmpeg_exe()) as tools:
        health = await tools.done("health_check")
        assert health["status"] == "ok"
        assert health["path"].startswith(os.path.dirname(imageio_ffmpeg.__file__))
        texts = [{"text": "Hello", "start_time": 0, "end_time": 1, "font_size": 40}]
        await tools.done(
            "add_text_overlay", video_path="gray.mp4", output_video_path="t.mp4", text_elements=texts
        )
        await tools.done(
            "add_subtitles", video_path="t.mp4", srt_file_path="words.srt", output_video_path="s.mp4"
        )
        joined = await tools.done(
            "concatenate_videos",
            video_paths=["s.mp4", "red.mp4"],
            output_video_path="j.webm",
            transition_effect="dissolve",
            transition_duration=0.4,
        )
        assert joined["duration"] == pytest.approx(2.0, abs=0.1)
        cut = await tools.done("remove_silence", media_path="pause.mp4", output_media_path="c.mp4")
        assert cut["removed_seconds"] == pytest.approx(0.8, abs=0.06)
        (workspace / "list.mp4").write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n")
        text = await tools.refused(
            "extract_audio_from_video", video_path="list.mp4", output_audio_path="o.mp3"
        )
        assert "is a playlist" in text


async def test_no_ffmpeg_is_an_error_that_says_how_to_get_it(workspace: Path):
    async with studio(workspace, ffmpeg="/none/ffmpeg") as tools:
        text = await tools.refused("health_check")
    assert "there is no program '/none/ffmpeg'; install it (apt-get install ffmpeg" in text
    assert "extras add media" in text


async def test_no_font_is_an_error_that_says_how_to_get_one(workspace: Path):
    async with studio(workspace, font="/none/font.ttf") as tools:
        text = await tools.refused(
            "add_text_overlay",
            video_path="gray.mp4",
            output_video_path="o.mp4",
            text_elements=[{"text": "a"}],
        )
        assert "apt-get install fonts-dejavu-core" in text
        assert (await tools.done("health_check"))["status"] == "limited"
