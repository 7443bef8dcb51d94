"""Formats, codecs, sizes and rates: each result is what was asked for, as ffprobe sees it."""

from typing import Any

import pytest

from tests.servers.video_audio.talking import Studio, picture_of, run
from toolyard.kit import Image

VIDEO = {"input_video_path": "gray.mp4"}


async def test_the_server_says_that_it_is_healthy_and_what_it_can_write(tools: Studio):
    result = await tools.call("health_check")
    assert "Server is healthy" in result.text
    assert result.structured is not None
    assert result.structured["status"] == "ok"
    assert {"h264", "vp9", "mpeg4"} <= set(result.structured["video_codecs"])
    assert {"mp3", "aac", "opus", "flac"} <= set(result.structured["audio_codecs"])
    assert {"mp4", "webm", "mkv", "mp3", "wav"} <= set(result.structured["formats"])


async def test_the_sound_of_a_video_becomes_an_mp3_with_a_waveform(tools: Studio):
    result = await tools.call(
        "extract_audio_from_video", video_path="gray.mp4", output_audio_path="new/sound.mp3"
    )
    assert result.text.startswith("Audio extracted successfully to new/sound.mp3 (mp3, mp3 44100 Hz")
    streams = tools.streams("new/sound.mp3")
    assert set(streams) == {"audio"}
    assert streams["audio"]["codec_name"] == "mp3"
    assert tools.duration("new/sound.mp3") == pytest.approx(1.6, abs=0.1)
    assert picture_of(result)[:3] == b"\xff\xd8\xff"
    assert result.structured is not None
    assert result.structured["output_path"] == "new/sound.mp3"
    assert result.structured["size"] == (tools.folder / "new/sound.mp3").stat().st_size


async def test_an_ending_that_cannot_hold_the_default_codec_gets_its_own(tools: Studio):
    done = await tools.done("extract_audio_from_video", video_path="gray.mp4", output_audio_path="sound.flac")
    assert tools.streams("sound.flac")["audio"]["codec_name"] == "flac"
    assert done["notices"] == ["flac files have no mp3; flac was used"]


async def test_sound_is_copied_without_being_encoded_again(tools: Studio):
    await tools.done(
        "extract_audio_from_video", video_path="gray.mp4", output_audio_path="s.m4a", audio_codec="copy"
    )
    assert tools.streams("s.m4a")["audio"]["codec_name"] == "aac"


@pytest.mark.parametrize(("start", "end"), [("0.4", "1.2"), ("00:00:00.4", "00:01.2"), (0.4, 1.2)])
async def test_a_video_is_trimmed_to_the_frame_whatever_the_form_of_the_times(
    tools: Studio, start: Any, end: Any
):
    await tools.done(
        "trim_video", video_path="pause.mp4", output_video_path="part.mp4", start_time=start, end_time=end
    )
    assert float(tools.streams("part.mp4")["video"]["duration"]) == pytest.approx(0.8, abs=0.001)


async def test_a_trim_of_a_sound_file_stays_sound(tools: Studio):
    done = await tools.done(
        "trim_video", video_path="tone.mp3", output_video_path="t.mp3", start_time=1, end_time=99
    )
    assert done["duration"] == pytest.approx(0.6, abs=0.1)


async def test_sound_is_converted_with_all_its_properties(tools: Studio):
    done = await tools.done(
        "convert_audio_properties",
        input_audio_path="pause.wav",
        output_audio_path="p.mp3",
        target_format="mp3",
        bitrate="64k",
        sample_rate=22050,
        channels=2,
    )
    audio = tools.streams("p.mp3")["audio"]
    assert (audio["codec_name"], audio["sample_rate"], audio["channels"]) == ("mp3", "22050", 2)
    assert audio["bit_rate"] == "64000"
    (stream,) = done["streams"]
    assert (stream["codec"], stream["sample_rate"], stream["channels"]) == ("mp3", 22050, 2)


@pytest.mark.parametrize(
    ("ending", "codec"), [("flac", "flac"), ("ogg", "vorbis"), ("opus", "opus"), ("m4a", "aac")]
)
async def test_sound_is_converted_to_each_common_format(tools: Studio, ending: str, codec: str):
    await tools.done(
        "convert_audio_format",
        input_audio_path="pause.wav",
        output_audio_path=f"a.{ending}",
        target_format=ending,
    )
    assert tools.streams(f"a.{ending}")["audio"]["codec_name"] == codec


@pytest.mark.parametrize(
    ("tool", "change", "field", "expected"),
    [
        ("set_audio_bitrate", {"bitrate": "48k"}, "bit_rate", "48000"),
        ("set_audio_sample_rate", {"sample_rate": 32000}, "sample_rate", "32000"),
        ("set_audio_channels", {"channels": 2}, "channels", 2),
    ],
)
async def test_one_property_of_sound_is_set(
    tools: Studio, tool: str, change: dict[str, Any], field: str, expected: Any
):
    await tools.done(tool, input_audio_path="tone.mp3", output_audio_path="o.mp3", **change)
    audio = tools.streams("o.mp3")["audio"]
    assert audio[field] == expected
    assert audio["codec_name"] == "mp3"


async def test_a_video_is_converted_with_all_its_properties(tools: Studio):
    await tools.done(
        "convert_video_properties",
        **VIDEO,
        output_video_path="all.webm",
        target_format="webm",
        resolution="80x60",
        video_codec="vp8",
        video_bitrate="150k",
        frame_rate=10,
        audio_codec="opus",
        audio_bitrate="48k",
        audio_sample_rate=24000,
        audio_channels=2,
    )
    streams = tools.streams("all.webm")
    video, audio = streams["video"], streams["audio"]
    assert (video["codec_name"], video["width"], video["height"]) == ("vp8", 80, 60)
    assert video["r_frame_rate"] == "10/1"
    assert (audio["codec_name"], audio["channels"]) == ("opus", 2)


async def test_streams_that_fit_a_container_are_copied_into_it_and_others_are_encoded(tools: Studio):
    for target, codecs in (("mkv", ("h264", "aac")), ("avi", ("h264", "mp3")), ("webm", ("vp9", "opus"))):
        await tools.done(
            "convert_video_format", **VIDEO, output_video_path=f"c.{target}", target_format=target
        )
        streams = tools.streams(f"c.{target}")
        assert (streams["video"]["codec_name"], streams["audio"]["codec_name"]) == codecs


async def test_a_video_becomes_a_gif_and_a_name_that_says_otherwise_is_noted(tools: Studio):
    done = await tools.done(
        "convert_video_format", **VIDEO, output_video_path="moving.mp4", target_format="gif"
    )
    assert tools.streams("moving.mp4")["video"]["codec_name"] == "gif"
    assert done["notices"] == ["moving.mp4 is a gif file, though its name ends in .mp4"]


@pytest.mark.parametrize(
    ("resolution", "size"),
    [("64x48", (64, 48)), ("80:-1", (80, 60)), ("240p", (320, 240)), ("81x61", (80, 60))],
)
async def test_a_resolution_is_set_and_the_sound_stays(tools: Studio, resolution: str, size: tuple[int, int]):
    await tools.done("set_video_resolution", **VIDEO, output_video_path="r.mp4", resolution=resolution)
    streams = tools.streams("r.mp4")
    assert (streams["video"]["width"], streams["video"]["height"]) == size
    assert streams["audio"]["codec_name"] == "aac"


async def test_the_codec_the_bitrate_and_the_frame_rate_of_a_video_are_set(tools: Studio):
    await tools.done("set_video_codec", **VIDEO, output_video_path="c.mp4", video_codec="mpeg4")
    assert tools.streams("c.mp4")["video"]["codec_name"] == "mpeg4"
    done = await tools.done(
        "set_video_bitrate", input_video_path="pause.mp4", output_video_path="b.mp4", video_bitrate="300k"
    )
    assert 100_000 < int(tools.streams("b.mp4")["video"]["bit_rate"]) < 600_000, done
    await tools.done("set_video_frame_rate", **VIDEO, output_video_path="f.mp4", frame_rate=50)
    video = tools.streams("f.mp4")["video"]
    assert video["r_frame_rate"] == "50/1"
    assert float(video["duration"]) == pytest.approx(1.6, abs=0.05)


@pytest.mark.parametrize(
    ("tool", "change", "field", "expected"),
    [
        ("set_video_audio_track_codec", {"audio_codec": "mp3"}, "codec_name", "mp3"),
        ("set_video_audio_track_sample_rate", {"audio_sample_rate": 48000}, "sample_rate", "48000"),
        ("set_video_audio_track_channels", {"audio_channels": 2}, "channels", 2),
    ],
)
async def test_the_sound_of_a_video_is_changed_and_its_picture_is_copied(
    tools: Studio, tool: str, change: dict[str, Any], field: str, expected: Any
):
    result = await tools.call(tool, **VIDEO, output_video_path="s.mp4", **change)
    assert not result.is_error, result.text
    assert any(isinstance(block, Image) for block in result.content)
    streams, before = tools.streams("s.mp4"), tools.streams("gray.mp4")
    assert streams["audio"][field] == expected
    assert streams["video"]["nb_frames"] == before["video"]["nb_frames"]
    assert streams["video"]["bit_rate"] == before["video"]["bit_rate"]


async def test_the_bitrate_of_a_videos_sound_is_lowered(tools: Studio):
    await tools.done("set_video_audio_track_bitrate", **VIDEO, output_video_path="s.mp4", audio_bitrate="24k")
    assert int(tools.streams("s.mp4")["audio"]["bit_rate"]) < 40_000


async def test_borders_are_added_or_sides_are_cut_for_another_aspect_ratio(tools: Studio):
    wide = {"video_path": "gray.mp4", "target_aspect_ratio": "16:9"}
    await tools.done("change_aspect_ratio", **wide, output_video_path="pad.mp4", padding_color="#00ff00")
    assert [tools.streams("pad.mp4")["video"][side] for side in ("width", "height")] == [214, 120]
    pixel = tools.frame("pad.mp4", 0.2)
    border, middle = pixel(4, 60), pixel(107, 60)
    assert border[1] > 200 > max(border[0], border[2])
    assert max(middle) - min(middle) < 16
    await tools.done("change_aspect_ratio", **wide, output_video_path="crop.mp4", resize_mode="crop")
    assert [tools.streams("crop.mp4")["video"][side] for side in ("width", "height")] == [160, 90]


async def test_an_aspect_ratio_that_is_right_copies_the_video(tools: Studio):
    done = await tools.done(
        "change_aspect_ratio", video_path="gray.mp4", output_video_path="same.mp4", target_aspect_ratio="4:3"
    )
    assert done["notices"] == ["the aspect ratio was right already; the streams were copied"]
    assert tools.streams("same.mp4")["video"]["nb_frames"] == "40"


async def test_an_output_may_be_the_input_itself(tools: Studio):
    await tools.done("set_video_frame_rate", **VIDEO, output_video_path="gray.mp4", frame_rate=5)
    assert tools.streams("gray.mp4")["video"]["r_frame_rate"] == "5/1"


async def test_the_contact_sheet_of_a_large_video_shows_it_from_beginning_to_end(tools: Studio):
    """Nine places are decoded instead of all; a copy into another container stays quick."""
    half = "color={}:s=1920x1080:r=25:d=1.2"
    inputs = [word for colour in ("red", "blue") for word in ("-f", "lavfi", "-i", half.format(colour))]
    joined = [
        "-filter_complex",
        "[0][1]concat",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "5",
        "large.mp4",
    ]
    run(tools.folder, *inputs, *joined)
    result = await tools.call(
        "convert_video_format", input_video_path="large.mp4", output_video_path="o.mkv", target_format="mkv"
    )
    assert not result.is_error, result.text
    (tools.folder / "sheet.jpg").write_bytes(picture_of(result))
    pixel = tools.frame("sheet.jpg", 0)
    first, last = pixel(160, 60), pixel(800, 460)
    assert first[0] > 180 > 90 > max(first[1:])
    assert last[2] > 180 > 90 > max(last[:2])
