"""Texts, pictures, joins, speed, silence and fades: seen in pixels, heard in decibels."""

from typing import Any

import pytest

from tests.servers.video_audio.talking import Studio, picture_of
from toolyard.servers.video_audio.subtitles import read_cues, write_ass

GRAY = 40
"""How far a gray pixel of the main video may be from another after encoding."""


def is_gray(pixel: tuple[int, int, int]) -> bool:
    return max(pixel) - min(pixel) < GRAY and 80 < pixel[0] < 180


def is_red(pixel: tuple[int, int, int]) -> bool:
    return pixel[0] > 180 and max(pixel[1:]) < 90


def is_blue(pixel: tuple[int, int, int]) -> bool:
    return pixel[2] > 180 and max(pixel[:2]) < 90


def brightest(tools: Studio, name: str, seconds: float, rows: range) -> int:
    pixel = tools.frame(name, seconds)
    return max(min(pixel(x, y)) for y in rows for x in range(160))


async def test_subtitles_are_seen_while_they_are_spoken_and_no_longer(tools: Studio):
    result = await tools.call(
        "add_subtitles", video_path="gray.mp4", srt_file_path="words.srt", output_video_path="s.mp4"
    )
    assert not result.is_error, result.text
    assert picture_of(result)[:3] == b"\xff\xd8\xff"
    assert brightest(tools, "s.mp4", 0.6, range(95, 120)) > 220
    assert brightest(tools, "s.mp4", 1.1, range(95, 120)) < 180
    assert tools.streams("s.mp4")["audio"]["codec_name"] == "aac"


async def test_the_style_of_subtitles_is_that_of_the_call(tools: Studio):
    style = {
        "font_name": "DejaVu Sans",
        "font_size": 60,
        "font_color": "red",
        "outline_color": "#000080",
        "outline_width": 1,
        "shadow_color": "black@0.5",
        "shadow_offset_x": 2,
        "shadow_offset_y": 1,
        "alignment": 8,
        "margin_v": 10,
    }
    await tools.done(
        "add_subtitles",
        video_path="gray.mp4",
        srt_file_path="words.srt",
        output_video_path="s.mp4",
        font_style=style,
    )
    pixel = tools.frame("s.mp4", 0.6)
    assert any(is_red(pixel(x, y)) for x in range(160) for y in range(40))
    assert all(is_gray(pixel(x, 100)) for x in range(0, 160, 4))


def test_subtitles_of_all_encodings_and_forms_are_read():
    text = "WEBVTT\n\n00:01.000 --> 00:02.000 align:start\nDia é <b>bom</b> {\\pos(1,1)}\nmais\n"
    for data in (
        text.encode(),
        text.encode("utf-16"),
        text.encode("cp1252"),
        text.replace("\n", "\r\n").encode(),
    ):
        (cue,) = read_cues(data)
        assert (cue.start, cue.end) == (1.0, 2.0)
        assert cue.text.startswith("Dia é")
        line = write_ass([cue], {}, None, 1.5).splitlines()[-1]
        assert line.startswith(
            "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Dia é {\\b1}bom{\\b0} \\{\\"
        )
        assert line.endswith("\\}\\Nmais")


async def test_texts_are_drawn_where_and_when_they_should_be_whatever_is_in_them(tools: Studio):
    hostile = r"';[x]drawbox,%{localtime}\n:textfile=/etc/passwd"
    elements = [
        {"text": hostile, "start_time": 0, "end_time": "0.8", "font_size": 20, "x_pos": 2, "y_pos": "top"},
        {
            "text": "M" * 8,
            "start_time": "00:00:01",
            "end_time": 1.6,
            "font_color": "yellow",
            "y_pos": "h-th-10",
            "box": True,
            "box_color": "blue",
            "box_border_width": 4,
        },
    ]
    await tools.done(
        "add_text_overlay", video_path="gray.mp4", output_video_path="t.mp4", text_elements=elements
    )
    assert brightest(tools, "t.mp4", 0.3, range(40)) > 220
    assert brightest(tools, "t.mp4", 1.3, range(40)) < 180
    pixel = tools.frame("t.mp4", 1.3)
    assert any(is_blue(pixel(x, y)) for x in range(160) for y in range(80, 120))


async def test_an_image_lies_on_a_video_for_a_while(tools: Studio):
    await tools.done(
        "add_image_overlay",
        video_path="gray.mp4",
        output_video_path="i.mp4",
        image_path="logo.png",
        position="bottom_left",
        start_time="0.8",
        width="80",
    )
    before, after = tools.frame("i.mp4", 0.2), tools.frame("i.mp4", 1.2)
    assert is_gray(before(30, 90))
    assert is_blue(after(30, 90))
    assert is_blue(after(84, 55))
    assert is_gray(after(100, 55))


async def test_an_image_is_transparent_and_at_given_coordinates(tools: Studio):
    await tools.done(
        "add_image_overlay",
        video_path="gray.mp4",
        output_video_path="i.mp4",
        image_path="logo.png",
        position="x=(W-w)/2:y=0",
        opacity=0.5,
        height="100%",
    )
    mixed = tools.pixel("i.mp4", 0.4, 80, 15)
    assert 40 < mixed[0] < 100
    assert mixed[2] > 150


async def test_videos_are_joined_in_the_size_of_the_first_with_silence_where_there_was_no_sound(
    tools: Studio,
):
    done = await tools.done(
        "concatenate_videos", video_paths=["gray.mp4", "red.mp4", "blue.mp4"], output_video_path="j.mp4"
    )
    assert tools.duration("j.mp4") == pytest.approx(1.6 + 0.8 + 0.8, abs=0.1)
    assert is_gray(tools.pixel("j.mp4", 0.5, 80, 60))
    assert is_red(tools.pixel("j.mp4", 2.0, 80, 60))
    assert is_blue(tools.pixel("j.mp4", 2.8, 80, 60))
    assert max(tools.pixel("j.mp4", 2.0, 80, 4)) < 40, "red.mp4 is wider and gets borders"
    assert tools.loudness("j.mp4", 0.2, 1.0) > -30 > tools.loudness("j.mp4", 1.8, 0.4)
    assert "red.mp4" in done["notices"][0]


async def test_transitions_blend_each_two_of_several_videos(tools: Studio):
    done = await tools.done(
        "concatenate_videos",
        video_paths=["red.mp4", "blue.mp4", "red.mp4"],
        output_video_path="x.mp4",
        transition_effect="wipeleft",
        transition_duration=0.3,
    )
    assert done["duration"] == pytest.approx(3 * 0.8 - 2 * 0.3, abs=0.1)
    pixel = tools.frame("x.mp4", 0.65)
    assert is_red(pixel(4, 27))
    assert is_blue(pixel(78, 27))
    assert is_red(tools.pixel("x.mp4", 1.6, 48, 27))


@pytest.mark.parametrize(("factor", "seconds"), [(2.0, 0.8), (0.5, 3.2), (8, 0.2)])
async def test_the_speed_changes_the_duration_of_picture_and_sound(
    tools: Studio, factor: float, seconds: float
):
    await tools.done(
        "change_video_speed", video_path="gray.mp4", output_video_path="v.mp4", speed_factor=factor
    )
    streams = tools.streams("v.mp4")
    assert float(streams["video"]["duration"]) == pytest.approx(seconds, abs=0.081)
    assert float(streams["audio"]["duration"]) == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("name", ["pause.wav", "pause.mp4"])
async def test_silence_is_cut_out_of_sound_and_picture(tools: Studio, name: str):
    assert tools.loudness(name, 0.6, 0.6) < -60
    result = await tools.done("remove_silence", media_path=name, output_media_path=f"short-{name}")
    assert result["removed_seconds"] == pytest.approx(0.8, abs=0.06)
    assert result["kept"] == [
        {"start": 0.0, "end": pytest.approx(0.5, abs=0.05)},
        {"start": pytest.approx(1.3, abs=0.05), "end": pytest.approx(1.8, abs=0.05)},
    ]
    assert tools.duration(f"short-{name}") == pytest.approx(1.0, abs=0.1)
    for start in (0.1, 0.3, 0.5, 0.7):
        assert tools.loudness(f"short-{name}", start, 0.15) > -20
    if name.endswith("mp4"):
        assert float(tools.streams(f"short-{name}")["video"]["duration"]) == pytest.approx(1.0, abs=0.05)


async def test_a_file_without_silence_is_kept_and_one_of_nothing_else_is_refused(tools: Studio):
    kept = await tools.done("remove_silence", media_path="tone.mp3", output_media_path="t.mp3")
    assert kept["notices"] == ["no silence of this length and level was found; everything was kept"]
    text = await tools.refused(
        "remove_silence", media_path="tone.mp3", output_media_path="n.mp3", silence_threshold_db=0
    )
    assert "silent throughout at 0 dB; choose a lower silence_threshold_db, such as -20" in text


async def test_a_clip_is_shown_full_screen_while_the_main_sound_goes_on(tools: Studio):
    clip = {"clip_path": "red.mp4", "insert_at_timestamp": "00:00:00.4", "duration": 0.6}
    await tools.done("add_b_roll", main_video_path="gray.mp4", broll_clips=[clip], output_video_path="b.mp4")
    assert tools.duration("b.mp4") == pytest.approx(1.6, abs=0.1)
    assert is_gray(tools.pixel("b.mp4", 0.2, 80, 60))
    inside = tools.frame("b.mp4", 0.7)
    assert all(is_red(inside(x, y)) for x, y in ((4, 4), (80, 60), (155, 115)))
    assert is_gray(tools.pixel("b.mp4", 1.3, 80, 60))
    assert tools.loudness("b.mp4", 0.5, 0.4) > -30


async def test_clips_slide_fade_and_mix_their_sound(tools: Studio):
    clips: list[dict[str, Any]] = [
        {
            "clip_path": "blue.mp4",
            "insert_at_timestamp": 0.8,
            "position": "bottom-right",
            "scale": 0.25,
            "transition_in": "fade",
            "transition_out": "fade",
            "transition_duration": 0.3,
            "audio_mix": 1.0,
        },
        {
            "clip_path": "red.mp4",
            "insert_at_timestamp": 0,
            "duration": 0.8,
            "position": "top-left",
            "transition_in": "slide_right",
            "transition_out": "slide_left",
            "transition_duration": 0.3,
        },
    ]
    await tools.done("add_b_roll", main_video_path="gray.mp4", broll_clips=clips, output_video_path="b.mp4")
    # In from the left edge: at first nothing, then all of it 10 pixels from the corner.
    assert is_gray(tools.pixel("b.mp4", 0.0, 85, 30))
    assert is_red(tools.pixel("b.mp4", 0.4, 85, 30))
    assert is_gray(tools.pixel("b.mp4", 0.72, 85, 30))
    assert is_blue(tools.pixel("b.mp4", 1.2, 130, 95))
    fading = tools.pixel("b.mp4", 0.92, 130, 95)
    assert not is_blue(fading)
    assert fading[2] > fading[0] + 20
    assert tools.loudness("b.mp4", 0.9, 0.6) > tools.loudness("b.mp4", 0.1, 0.6) + 1


async def test_no_clips_copy_the_main_video(tools: Studio):
    done = await tools.done(
        "add_b_roll", main_video_path="gray.mp4", broll_clips=[], output_video_path="b.mp4"
    )
    assert done["notices"] == ["there were no clips to insert; the streams were copied"]


@pytest.mark.parametrize(
    ("kind", "dark", "light"),
    [("fade_in", 0.0, 1.4), ("fade_out", 1.55, 0.2), ("crossfade_from_black", 0.0, 1.4)],
)
async def test_a_video_fades_in_from_black_or_out_to_it(tools: Studio, kind: str, dark: float, light: float):
    await tools.done(
        "add_basic_transitions",
        video_path="gray.mp4",
        output_video_path="f.mp4",
        transition_type=kind,
        duration_seconds=0.8,
    )
    assert max(tools.pixel("f.mp4", dark, 80, 60)) < 40
    assert is_gray(tools.pixel("f.mp4", light, 80, 60))
