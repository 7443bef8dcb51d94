"""Files and arguments that are wrong, broken or meant to do harm: an error says which."""

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.servers.video_audio.talking import Studio, studio
from toolyard.servers.video_audio.subtitles import read_cues, write_ass


def png(width: int, height: int) -> bytes:
    """A picture that says it is so large, with one byte of data."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty (0 bytes)"),
        (b"hello, this is a letter\n" * 50, "is a text file, not media"),
        (bytes(range(256)) * 40, "is not a media file that ffmpeg knows"),
        (b"\0\0\0\x1cftypisom\0\0\2\0isomiso2mp41\0\0\0\x08free\0\0\xff\xffmdat", "is cut off"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", "is a playlist"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "is a playlist"),
        (b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>', "is a playlist"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="/etc/passwd"/></svg>', "is an SVG drawing"),
    ],
)
async def test_a_file_that_is_no_media_is_named_with_what_it_is(tools: Studio, content: bytes, said: str):
    (tools.folder / "bad.mp4").write_bytes(content)
    text = await tools.refused(
        "convert_video_format", input_video_path="bad.mp4", output_video_path="o.mp4", target_format="mp4"
    )
    assert text.startswith("bad.mp4")
    assert said in text
    assert not (tools.folder / "o.mp4").exists()


async def test_a_playlist_of_segments_reads_no_other_file(tools: Studio):
    """Also not one with a header that ffmpeg would take for HLS, whatever its name."""
    outside = tools.folder.parent / "outside.ts"
    outside.write_bytes((tools.folder / "gray.mp4").read_bytes())
    lines = [
        "#EXTM3U",
        "#EXT-X-TARGETDURATION:2",
        "#EXT-X-VERSION:3",
        "#EXTINF:1.6,",
        f"file:{outside}",
        "#EXT-X-ENDLIST",
    ]
    for name in ("list.m3u8", "list.mp4"):
        (tools.folder / name).write_text("\n".join(lines))
        text = await tools.refused("extract_audio_from_video", video_path=name, output_audio_path="o.mp3")
        assert text.startswith(f"{name} is a playlist")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside.mp4",
        "concat:gray.mp4|/etc/passwd",
        "file:///etc/passwd",
        "http://127.0.0.1:1/a.mp4",
        "lavfi:testsrc",
        "pipe:0",
        "subfile,,start,0,end,9,,:/etc/passwd",
        "-i",
        "link.mp4",
        "a%03d.png",
        "fifo",
        "",
    ],
)
async def test_a_path_is_a_file_in_the_workspace_and_nothing_else(tools: Studio, path: str):
    (tools.folder.parent / "outside.mp4").write_bytes((tools.folder / "gray.mp4").read_bytes())
    (tools.folder / "link.mp4").symlink_to(tools.folder.parent / "outside.mp4")
    os.mkfifo(tools.folder / "fifo")
    text = await tools.refused(
        "trim_video", video_path=path, output_video_path="o.mp4", start_time=0, end_time=1
    )
    assert "ffmpeg" not in text
    assert not (tools.folder / "o.mp4").exists()


async def test_names_that_are_options_or_full_of_signs_are_only_names(tools: Studio):
    names = ["-i", "-vf drawtext=textfile=x.mp4", "a':[b];c,d=e%03d.mp4", "éç 日本 🎬.mp4"]
    for name in names:
        (tools.folder / name).write_bytes((tools.folder / "gray.mp4").read_bytes())
        await tools.done(
            "set_video_resolution",
            input_video_path=name,
            output_video_path=f"{name}.out.mp4",
            resolution="32x24",
        )
        assert tools.streams(f"{name}.out.mp4")["video"]["width"] == 32


@pytest.mark.parametrize("output", ["../o.mp4", "/tmp/o.mp4", "folder/../../o.mp4", "o.mp4\n-y"])
async def test_an_output_never_leaves_the_workspace(tools: Studio, output: str):
    await tools.refused(
        "set_video_codec", input_video_path="gray.mp4", output_video_path=output, video_codec="h264"
    )
    assert sorted(path.name for path in tools.folder.parent.iterdir()) == ["scratch", "work"]


async def test_a_file_that_is_cut_in_the_middle_gives_what_there_is_and_says_so(tools: Studio):
    await tools.done(
        "convert_video_format", input_video_path="pause.mp4", output_video_path="p.mp4", target_format="mp4"
    )
    whole = (tools.folder / "p.mp4").read_bytes()  # its index is at the front
    (tools.folder / "cut.mp4").write_bytes(whole[: len(whole) * 2 // 3])
    done = await tools.done(
        "set_video_resolution", input_video_path="cut.mp4", output_video_path="o.mp4", resolution="80x60"
    )
    assert any("cut.mp4 is damaged" in notice for notice in done["notices"])


async def test_a_picture_that_says_it_is_huge_is_not_decoded(tools: Studio):
    (tools.folder / "huge.png").write_bytes(png(200_000, 200_000))
    text = await tools.refused(
        "add_image_overlay", video_path="gray.mp4", output_video_path="o.mp4", image_path="huge.png"
    )
    assert text == "huge.png has a picture that is too large to decode"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "extract_audio_from_video",
        {"video_path": "red.mp4", "output_audio_path": "o.mp3"},
        "red.mp4 has no audio stream; it has video (h264)",
    ),
    (
        "set_video_codec",
        {"input_video_path": "tone.mp3", "output_video_path": "o.mp4", "video_codec": "h264"},
        "tone.mp3 has no video stream; it has audio (mp3)",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "video_codec": "h266"},
        "this ffmpeg cannot write 'h266'; for mp4 choose one of h264",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.webm", "video_codec": "libx264"},
        "'libx264' does not fit into webm; choose one of vp9, vp8",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "video_codec": "aac"},
        "this ffmpeg cannot write 'aac'",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.webm", "video_codec": "copy"},
        "the h264 stream of the input does not fit into webm",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o", "video_codec": "h264"},
        "an output needs an ending that says its format: mp4",
    ),
    (
        "set_video_codec",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp3", "video_codec": "h264"},
        "mp3 has no video; use one of mp4",
    ),
    (
        "convert_audio_format",
        {"input_audio_path": "tone.mp3", "output_audio_path": "o.mp3", "target_format": "tee"},
        "target_format: 'tee' is not valid; there are mp4",
    ),
    (
        "convert_video_format",
        {"input_video_path": "gray.mp4", "output_video_path": "o.m3u8", "target_format": "hls"},
        "target_format: 'hls' is not valid",
    ),
    (
        "set_audio_bitrate",
        {"input_audio_path": "tone.mp3", "output_audio_path": "o.mp3", "bitrate": "loud"},
        "bitrate: 'loud' is not valid; use a number of bits a second such as 192k",
    ),
    (
        "set_audio_bitrate",
        {"input_audio_path": "pause.wav", "output_audio_path": "o.wav", "bitrate": "64k"},
        "is lossless and has no bitrate",
    ),
    (
        "set_audio_sample_rate",
        {"input_audio_path": "tone.mp3", "output_audio_path": "o.mp3", "sample_rate": 12345},
        "mp3 cannot have 12345 Hz; choose one of 8000",
    ),
    (
        "set_audio_channels",
        {"input_audio_path": "tone.mp3", "output_audio_path": "o.mp3", "channels": 6},
        "mp3 has at most 2 channels",
    ),
    (
        "set_audio_channels",
        {"input_audio_path": "pause.wav", "output_audio_path": "o.wav", "channels": 0},
        "channels: '0' is not valid; use a number from 1 to 8",
    ),
    (
        "set_video_resolution",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "resolution": "99999x2"},
        "each side must have 16 to 8192 pixels",
    ),
    (
        "set_video_resolution",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "resolution": "1x1,movie=/etc/passwd"},
        "use WIDTHxHEIGHT such as 1280x720",
    ),
    (
        "set_video_bitrate",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "video_bitrate": "9999M"},
        "from 1k to 400000k",
    ),
    (
        "set_video_frame_rate",
        {"input_video_path": "gray.mp4", "output_video_path": "o.mp4", "frame_rate": 0},
        "frame_rate: '0' is not valid; use a number from 1 to 240",
    ),
    (
        "trim_video",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "start_time": "soon", "end_time": 1},
        "start_time: 'soon' is not valid; use seconds such as 12.5, or HH:MM:SS",
    ),
    (
        "trim_video",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "start_time": 1, "end_time": "0.5"},
        "end_time (0.5 s) must be after start_time (1 s)",
    ),
    (
        "trim_video",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "start_time": 9, "end_time": 10},
        "start_time (9 s) is beyond the end of gray.mp4, which has 1.6 s",
    ),
    (
        "change_aspect_ratio",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "target_aspect_ratio": "16:0"},
        "use WIDTH:HEIGHT such as 16:9",
    ),
    (
        "change_aspect_ratio",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "target_aspect_ratio": "1:1",
            "resize_mode": "squash",
        },
        "resize_mode: 'squash' is not valid; use one of pad, crop",
    ),
    (
        "change_aspect_ratio",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "target_aspect_ratio": "1:1",
            "padding_color": "red,movie=x",
        },
        "use a name such as white, or #RRGGBB",
    ),
    (
        "change_video_speed",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "speed_factor": -1},
        "speed_factor: '-1",
    ),
    (
        "add_basic_transitions",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "transition_type": "spin",
            "duration_seconds": 1,
        },
        "use one of fade_in, fade_out",
    ),
    (
        "add_basic_transitions",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "transition_type": "fade_in",
            "duration_seconds": 60,
        },
        "the transition of 60 s is too long: gray.mp4 has only 1.6 s",
    ),
    (
        "concatenate_videos",
        {"video_paths": [], "output_video_path": "o.mp4"},
        "video_paths: at least 1 needed",
    ),
    (
        "concatenate_videos",
        {"video_paths": ["gray.mp4"] * 51, "output_video_path": "o.mp4"},
        "51 are too many; at most 50",
    ),
    (
        "concatenate_videos",
        {"video_paths": ["gray.mp4", "red.mp4"], "output_video_path": "o.mp4", "transition_effect": "fade"},
        "transition_duration is needed",
    ),
    (
        "concatenate_videos",
        {
            "video_paths": ["gray.mp4", "red.mp4"],
            "output_video_path": "o.mp4",
            "transition_effect": "fade",
            "transition_duration": 2,
        },
        "is too long: gray.mp4",
    ),
    (
        "concatenate_videos",
        {"video_paths": ["gray.mp4", "tone.mp3"], "output_video_path": "o.mp4"},
        "tone.mp3 has no video stream",
    ),
    (
        "add_text_overlay",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "text_elements": [{"text": "a", "x_pos": "w:textfile=/etc/passwd"}],
        },
        "text_elements[0].x_pos: 'w:textfile=/etc/passwd' is not valid",
    ),
    (
        "add_text_overlay",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "text_elements": [{"text": "a", "font_file": "/etc/passwd"}],
        },
        "font_file",
    ),
    (
        "add_text_overlay",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "text_elements": [{"text": " "}]},
        "text_elements[0].text",
    ),
    (
        "add_image_overlay",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "image_path": "red.mp4"},
        "red.mp4 is not a picture",
    ),
    (
        "add_image_overlay",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "image_path": "logo.png",
            "width": "exec(1)",
        },
        "width: 'exec(1)' is not valid",
    ),
    (
        "add_image_overlay",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "image_path": "logo.png", "opacity": 2},
        "opacity: '2",
    ),
    (
        "add_subtitles",
        {"video_path": "gray.mp4", "output_video_path": "o.mp4", "srt_file_path": "logo.png"},
        "logo.png has no subtitles in the form of SRT or WebVTT",
    ),
    (
        "add_subtitles",
        {
            "video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "srt_file_path": "words.srt",
            "font_style": {"font_name": "a,b=c"},
        },
        "font_style.font_name: 'a,b=c' is not valid",
    ),
    (
        "add_b_roll",
        {
            "main_video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "broll_clips": [{"clip_path": "red.mp4", "insert_at_timestamp": 5}],
        },
        "is beyond the end of gray.mp4",
    ),
    (
        "add_b_roll",
        {
            "main_video_path": "gray.mp4",
            "output_video_path": "o.mp4",
            "broll_clips": [{"clip_path": "red.mp4", "insert_at_timestamp": 0, "position": "left"}],
        },
        "use one of fullscreen, top-left",
    ),
    (
        "remove_silence",
        {"media_path": "gray.mp4", "output_media_path": "o.mp4", "silence_threshold_db": 5},
        "use a number from -120 to 0",
    ),
]


async def test_a_wrong_argument_is_named_with_what_would_be_right(tools: Studio):
    for tool, arguments, said in WRONG:
        text = await tools.refused(tool, **arguments)
        assert said in text, f"{tool}: {text}"
        assert not list(tools.folder.glob("o.*")), tool


async def test_subtitles_that_are_a_playlist_show_nothing_of_another_file(tools: Studio):
    (tools.folder / "list.srt").write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    text = await tools.refused(
        "add_subtitles", video_path="gray.mp4", srt_file_path="list.srt", output_video_path="o.mp4"
    )
    assert "no line such as 00:00:01,000 --> 00:00:02,500" in text


async def test_errors_are_in_portuguese_too(workspace: Path):
    async with studio(workspace, locale="pt") as tools:
        text = await tools.refused(
            "extract_audio_from_video", video_path="red.mp4", output_audio_path="o.mp3"
        )
        assert text == "red.mp4 não tem fluxo de áudio; tem video (h264)"
        done = await tools.call("extract_audio_from_video", video_path="gray.mp4", output_audio_path="o.mp3")
        assert done.text.startswith("Áudio extraído para o.mp3 (mp3, mp3 44100 Hz 1 ch")


def test_a_line_of_subtitles_cannot_end_within_its_text():
    cues = read_cues(b"00:00:01,000 --> 00:00:02,000\na&#13;[Fonts]&#13;&#10;b&#10;c\n")
    assert write_ass(cues, {}, None, 1.0).splitlines()[-1].endswith(",,a\\N[Fonts]\\Nb\\Nc")
