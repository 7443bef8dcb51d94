"""The tools that edit: texts, subtitles, images, joining, speed, silence, B-roll, fades."""

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from ...ffmpeg.filters import chain, graph_filter
from ...kit import Context, ToolError, ToolResult
from ...kit.schema.annotations import schema_name
from .arguments import Colour, Time
from .encoding import AudioWish, VideoWish, audio_options, final_filters, video_options, with_filters
from .formats import ContainerFormat
from .results import KeptSegment
from .studio import FONT, MediaSource, MediaWork, Render, Studio
from .subtitles import SubtitleError, read_cues, write_ass

MAX_SUBTITLES = 5 * 2**20
MAX_TEXT = 5_000
MAX_SEGMENTS = 2_000
_MARGIN = 10
_X = {"left": str(_MARGIN), "center": "(w-text_w)/2", "right": f"w-text_w-{_MARGIN}"}
_Y = {
    "top": str(_MARGIN),
    "center": "(h-text_h)/2",
    "middle": "(h-text_h)/2",
    "bottom": f"h-text_h-{_MARGIN}",
}
_CORNERS = {
    "top_left": (f"{_MARGIN}", f"{_MARGIN}"),
    "top_right": (f"main_w-overlay_w-{_MARGIN}", f"{_MARGIN}"),
    "bottom_left": (f"{_MARGIN}", f"main_h-overlay_h-{_MARGIN}"),
    "bottom_right": (f"main_w-overlay_w-{_MARGIN}", f"main_h-overlay_h-{_MARGIN}"),
    "center": ("(main_w-overlay_w)/2", "(main_h-overlay_h)/2"),
}
_XY = re.compile(r"x=([^:]+):y=([^:]+)")
_FONT_NAME = re.compile(r"[\w][\w .-]{0,60}")
_SILENCE = re.compile(r"silence_(start|end): (-?[\d.]+)")
_TAIL = 0.1
"""A codec pads the end of a sound by less."""
_FADES = {
    "fade_in": "in",
    "fade_out": "out",
    "crossfade_from_black": "in",
    "crossfade_to_black": "out",
}
_SLIDES = ("slide_left", "slide_right", "slide_up", "slide_down")
TRANSITIONS = (
    *("fade", "dissolve", "fadeblack", "fadewhite", "fadegrays", "distance", "pixelize", "radial", "hblur"),
    *("wipeleft", "wiperight", "wipeup", "wipedown", "wipetl", "wipetr", "wipebl", "wipebr"),
    *("slideleft", "slideright", "slideup", "slidedown"),
    *("smoothleft", "smoothright", "smoothup", "smoothdown"),
    *(
        "circlecrop",
        "rectcrop",
        "circleopen",
        "circleclose",
        "vertopen",
        "vertclose",
        "horzopen",
        "horzclose",
    ),
    *("diagtl", "diagtr", "diagbl", "diagbr", "hlslice", "hrslice", "vuslice", "vdslice"),
    *("squeezeh", "squeezev", "zoomin"),
)


@schema_name("FontStyle")
class FontStyle(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    font_name: Annotated[str, Meta(description="Such as DejaVu Sans")] | None = None
    font_size: Annotated[float, Meta(description="Default 16")] | None = None
    font_color: Annotated[str, Meta(description="Name, #RRGGBB or &HAABBGGRR")] | None = None
    outline_color: str | None = None
    outline_width: float | None = None
    shadow_color: str | None = None
    shadow_offset_x: float | None = None
    shadow_offset_y: float | None = None
    alignment: (
        Annotated[int, Meta(description="As on a number pad: 2 is bottom centre, 8 top centre")] | None
    ) = None
    margin_v: float | None = None
    margin_l: float | None = None
    margin_r: float | None = None


@schema_name("TextElement")
class TextElement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    start_time: Annotated[Time, Meta(description="Seconds or HH:MM:SS; default 0")] = 0.0
    end_time: Annotated[Time, Meta(description="Default: the end")] | None = None
    font_size: Annotated[float, Meta(description="Pixels")] = 24
    font_color: str = "white"
    x_pos: Annotated[
        str | float, Meta(description="left, center, right, pixels, or such as (w-text_w)/2")
    ] = "center"
    y_pos: Annotated[str | float, Meta(description="top, center, bottom, pixels, or such as h-th-10")] = (
        "h-th-10"
    )
    box: Annotated[bool, Meta(description="Whether there is a box behind it")] = False
    box_color: str = "black@0.5"
    box_border_width: float = 0


@schema_name("BrollClip")
class BrollClip(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    clip_path: Annotated[str, Meta(description="The clip, in the workspace")]
    insert_at_timestamp: Annotated[Time, Meta(description="Seconds or HH:MM:SS of the main video")]
    duration: Annotated[Time, Meta(description="Default: the whole clip")] | None = None
    position: Annotated[
        str, Meta(description="fullscreen, top-left, top-right, bottom-left, bottom-right or center")
    ] = "fullscreen"
    scale: (
        Annotated[
            float, Meta(description="Part of the main video's width; default 1 for fullscreen, else 0.5")
        ]
        | None
    ) = None
    transition_in: (
        Annotated[str, Meta(description="fade, slide_left, slide_right, slide_up or slide_down")] | None
    ) = None
    transition_out: str | None = None
    transition_duration: Annotated[float, Meta(description="Seconds")] = 0.5
    audio_mix: Annotated[float, Meta(description="How loud the clip is beside the main sound, 0 to 1")] = 0.0


class EditingTools:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def add_subtitles(
        self,
        ctx: Context,
        video_path: str,
        srt_file_path: str,
        output_video_path: str,
        font_style: FontStyle | None = None,
    ) -> ToolResult:
        async with self._studio.work(ctx, "add_subtitles") as work:
            work.require_filter("ass")
            source = await work.source(video_path, "video")
            video = work.need(source, "video")
            form = work.output_format(output_video_path, None, "video")
            try:
                cues = read_cues(work.read(srt_file_path, MAX_SUBTITLES))
            except SubtitleError as error:
                path = work.workspace.relative(srt_file_path)
                raise ToolError(work.texts.bad_subtitles.format(path=path, reason=error)) from None
            font = await work.font()
            style, shadow = _ass_style(work, font_style or FontStyle(), font.family)
            ratio = video.width * video.sample_aspect / video.height
            (work.folder / "subtitles.ass").write_text(write_ass(cues, style, shadow, ratio), "utf-8")
            burn = graph_filter("ass", filename="subtitles.ass", fontsdir=".")
            return await _edited(work, source, form, output_video_path, burn)

    async def add_text_overlay(
        self, ctx: Context, video_path: str, output_video_path: str, text_elements: list[TextElement]
    ) -> ToolResult:
        async with self._studio.work(ctx, "add_text_overlay") as work:
            _check_count(work, "text_elements", len(text_elements), 1)
            work.require_filter("drawtext")
            source = await work.source(video_path, "video")
            form = work.output_format(output_video_path, None, "video")
            await work.font()
            filters = [_drawn(work, source, number, element) for number, element in enumerate(text_elements)]
            return await _edited(work, source, form, output_video_path, *filters)

    async def add_image_overlay(
        self,
        ctx: Context,
        video_path: str,
        output_video_path: str,
        image_path: str,
        position: str = "top_right",
        opacity: float | None = None,
        start_time: Time | None = None,
        end_time: Time | None = None,
        width: str | float | None = None,
        height: str | float | None = None,
    ) -> ToolResult:
        async with self._studio.work(ctx, "add_image_overlay") as work:
            x, y = _corner(work, position)
            shape = _shaped(work, width, height, opacity)
            source = await work.source(video_path, "video")
            image = await work.source(image_path)
            if image.info.video is None or not (image.info.is_picture or "gif" in image.info.formats):
                raise ToolError(work.texts.not_an_image.format(path=image.path))
            form = work.output_format(output_video_path, None, "video")
            shown: dict[str, Any] = {}
            if start_time is not None or end_time is not None:
                start, end = _span(work, source, start_time or 0.0, end_time, "")
                shown["enable"] = f"between(t,{start:.3f},{end:.3f})"
            graph = (
                f"[1:v:0]{shape}[image];"
                f"[0:v:0][image]{graph_filter('overlay', x=x, y=y, **shown)},{final_filters(form)}[video]"
            )
            maps = ["-filter_complex", graph, "-map", "[video]", "-map", "0:a?"]
            render = Render(
                inputs=[*source.arguments, *image.arguments],
                output=[
                    *maps,
                    *video_options(work, source, form, VideoWish(is_new=True)),
                    *audio_options(work, source, form, AudioWish()),
                ],
                form=form,
                seconds=source.info.duration,
                looks="video",
            )
            return await work.render(output_video_path, render)

    async def concatenate_videos(
        self,
        ctx: Context,
        video_paths: list[str],
        output_video_path: str,
        transition_effect: str | None = None,
        transition_duration: float | None = None,
    ) -> ToolResult:
        async with self._studio.work(ctx, "concatenate_videos") as work:
            _check_count(work, "video_paths", len(video_paths), 1)
            fade = 0.0
            effect = None
            if transition_effect is not None:
                work.require_filter("xfade", "acrossfade")
                effect = work.arguments.choice("transition_effect", transition_effect, TRANSITIONS)
                if transition_duration is None:
                    raise ToolError(work.texts.no_transition_duration)
                fade = work.arguments.number("transition_duration", transition_duration, 0.04, 60)
            sources = [await work.source(path, "video") for path in video_paths]
            form = work.output_format(output_video_path, None, "video")
            for number, source in enumerate(sources):
                inner = 0 < number < len(sources) - 1
                if effect and len(sources) > 1 and work.duration(source) <= fade * (2 if inner else 1):
                    text = work.texts.too_long_transition
                    raise ToolError(
                        text.format(seconds=fade, path=source.path, duration=work.duration(source))
                    )
            return await _joined(work, sources, form, output_video_path, effect, fade)

    async def change_video_speed(
        self, ctx: Context, video_path: str, output_video_path: str, speed_factor: float
    ) -> ToolResult:
        async with self._studio.work(ctx, "change_video_speed") as work:
            factor = work.arguments.number("speed_factor", speed_factor, 0.05, 100)
            source = await work.source(video_path)
            video = source.info.video
            kind = "video" if video is not None else "audio"
            work.need(source, kind)
            form = work.output_format(output_video_path, None, kind)
            output: list[str] = []
            if video is not None:
                rate = graph_filter("fps", video.frame_rate or 25.0)
                options = video_options(work, source, form, VideoWish(is_new=True))
                faster = graph_filter("setpts", f"(PTS-STARTPTS)/{factor:.6f}")
                output += ["-map", "0:v:0", *with_filters(options, form, faster, rate)]
            if source.info.audio is not None and form.audio:
                output += ["-map", "0:a:0", "-filter:a", _tempo(factor)]
                output += audio_options(work, source, form, AudioWish(is_new=True))
            seconds = None if source.info.duration is None else source.info.duration / factor
            render = Render(inputs=source.arguments, output=output, form=form, seconds=seconds, looks=kind)
            return await work.render(output_video_path, render)

    async def remove_silence(
        self,
        ctx: Context,
        media_path: str,
        output_media_path: str,
        silence_threshold_db: float = -30.0,
        min_silence_duration_ms: int = 500,
    ) -> ToolResult:
        async with self._studio.work(ctx, "remove_silence") as work:
            level = work.arguments.number("silence_threshold_db", silence_threshold_db, -120, 0)
            least = (
                work.arguments.number("min_silence_duration_ms", min_silence_duration_ms, 1, 3_600_000) / 1000
            )
            source = await work.source(media_path, "audio")
            duration = work.duration(source)
            video = source.info.video
            kind = "audio" if video is None else "video"
            form = work.output_format(output_media_path, None, kind)
            find = graph_filter("silencedetect", n=f"{level:.2f}dB", d=least)
            heard = ["-map", "0:a:0", "-filter:a", find, "-f", "null", "-"]
            log = await work.listen(source, heard, work.texts.searching)
            rate = (video.frame_rate or 25.0) if video else None
            kept = _kept(log, duration, rate)
            if not kept:
                lower = max(-120.0, level - 20)
                raise ToolError(work.texts.all_silent.format(path=source.path, db=level, lower=lower))
            if len(kept) > MAX_SEGMENTS:
                raise ToolError(
                    work.texts.too_many.format(
                        name="min_silence_duration_ms", count=len(kept), most=MAX_SEGMENTS
                    )
                )
            left = sum(one.end - one.start for one in kept)
            notices = [work.texts.no_silence] if duration - left < 0.01 else []
            output: list[str] = []
            if rate is not None:
                options = video_options(work, source, form, VideoWish(is_new=True))
                output += ["-map", "0:v:0", *with_filters(options, form, *_picked_frames(kept, rate))]
            output += ["-map", "0:a:0", "-filter:a", chain(*_picked_samples(kept))]
            output += audio_options(work, source, form, AudioWish(is_new=True))
            render = Render(
                inputs=source.arguments, output=output, form=form, seconds=left, looks=kind, notices=notices
            )
            return await work.render(
                output_media_path, render, removed_seconds=round(max(0.0, duration - left), 3), kept=kept
            )

    async def add_b_roll(
        self, ctx: Context, main_video_path: str, broll_clips: list[BrollClip], output_video_path: str
    ) -> ToolResult:
        async with self._studio.work(ctx, "add_b_roll") as work:
            _check_count(work, "broll_clips", len(broll_clips), 0)
            main = await work.source(main_video_path, "video")
            form = work.output_format(output_video_path, None, "video")
            if not broll_clips:
                options = video_options(work, main, form, VideoWish())
                output = ["-map", "0:v:0", "-map", "0:a?", *with_filters(options, form)]
                render = Render(
                    inputs=main.arguments,
                    output=[*output, *audio_options(work, main, form, AudioWish())],
                    form=form,
                    seconds=main.info.duration,
                    looks="video",
                    notices=[work.texts.no_clips],
                )
                return await work.render(output_video_path, render)
            inserts = [
                await _insert(work, main, clip, f"broll_clips[{number}].")
                for number, clip in enumerate(broll_clips)
            ]
            inserts.sort(key=lambda one: one.start)
            return await work.render(output_video_path, _with_inserts(work, main, inserts, form))

    async def add_basic_transitions(
        self,
        ctx: Context,
        video_path: str,
        output_video_path: str,
        transition_type: str,
        duration_seconds: float,
    ) -> ToolResult:
        async with self._studio.work(ctx, "add_basic_transitions") as work:
            kind = _FADES[work.arguments.choice("transition_type", transition_type, tuple(_FADES))]
            seconds = work.arguments.number("duration_seconds", duration_seconds, 0.01, 3600)
            source = await work.source(video_path, "video")
            duration = work.duration(source)
            if seconds > duration:
                text = work.texts.too_long_transition
                raise ToolError(text.format(seconds=seconds, path=source.path, duration=duration))
            form = work.output_format(output_video_path, None, "video")
            start = 0.0 if kind == "in" else duration - seconds
            options = video_options(work, source, form, VideoWish(is_new=True))
            output = [
                "-map",
                "0:v:0",
                *with_filters(options, form, graph_filter("fade", t=kind, st=start, d=seconds)),
            ]
            if source.info.audio is not None and form.audio:
                output += ["-map", "0:a", "-filter:a", graph_filter("afade", t=kind, st=start, d=seconds)]
                output += audio_options(work, source, form, AudioWish(is_new=True))
            render = Render(
                inputs=source.arguments, output=output, form=form, seconds=duration, looks="video"
            )
            return await work.render(output_video_path, render)


async def _edited(
    work: MediaWork, source: MediaSource, form: ContainerFormat, path: str, *filters: str
) -> ToolResult:
    """A video through filters; its sound is copied."""
    options = video_options(work, source, form, VideoWish(is_new=True))
    output = ["-map", "0:v:0", "-map", "0:a?", *with_filters(options, form, *filters)]
    if form.audio:
        output += audio_options(work, source, form, AudioWish())
    render = Render(
        inputs=source.arguments, output=output, form=form, seconds=source.info.duration, looks="video"
    )
    return await work.render(path, render)


def _check_count(work: MediaWork, name: str, count: int, least: int) -> None:
    most = work.studio.settings.max_clips
    if count > most:
        raise ToolError(work.texts.too_many.format(name=name, count=count, most=most))
    if count < least:
        raise ToolError(work.texts.at_least.format(name=name, least=least))


def _span(
    work: MediaWork, source: MediaSource, start: Time, end: Time | None, where: str
) -> tuple[float, float]:
    """From when to when something is seen."""
    first = work.arguments.time(f"{where}start_time", start)
    duration = source.info.duration
    last = work.arguments.time(f"{where}end_time", end) if end is not None else (duration or first + 1e6)
    if last <= first:
        text = work.texts.end_before_start
        raise ToolError(
            text.format(end_name=f"{where}end_time", end=last, start_name=f"{where}start_time", start=first)
        )
    if duration is not None and first >= duration:
        text = work.texts.beyond_end
        raise ToolError(
            text.format(name=f"{where}start_time", value=first, path=source.path, duration=duration)
        )
    return first, last


# Texts and subtitles.


def _drawn(work: MediaWork, source: MediaSource, number: int, element: TextElement) -> str:
    where, arguments = f"text_elements[{number}].", work.arguments
    if not element.text.strip() or len(element.text) > MAX_TEXT:
        raise ToolError(
            work.texts.bad_argument.format(
                name=f"{where}text",
                value=repr(element.text[:40]),
                expected=work.texts.expected_range.format(least=1, most=MAX_TEXT),
            )
        )
    start, end = _span(work, source, element.start_time, element.end_time, where)
    colours = work.capabilities.colours
    name = f"text{number}.txt"
    shown = "".join(one for one in element.text if one == "\n" or one.isprintable())
    (work.folder / name).write_text(shown, "utf-8")
    options: dict[str, Any] = {
        "textfile": name,
        "expansion": "none",
        "fontfile": FONT,
        "fontsize": round(arguments.number(f"{where}font_size", element.font_size, 4, 1000)),
        "fontcolor": arguments.colour(f"{where}font_color", element.font_color, colours).ffmpeg,
        "x": arguments.text_place(f"{where}x_pos", element.x_pos, _X),
        "y": arguments.text_place(f"{where}y_pos", element.y_pos, _Y),
        "enable": f"between(t,{start:.3f},{end:.3f})",
    }
    if element.box:
        border = arguments.number(f"{where}box_border_width", element.box_border_width, 0, 500)
        colour = arguments.colour(f"{where}box_color", element.box_color, colours).ffmpeg
        options |= {"box": 1, "boxcolor": colour, "boxborderw": round(border)}
    return graph_filter("drawtext", **options)


def _ass_style(
    work: MediaWork, style: FontStyle, family: str
) -> tuple[dict[str, str], tuple[float, float] | None]:
    """The fields of an ASS style, and the offsets of the shadow, which a style does not have."""
    arguments = work.arguments
    name = style.font_name or family
    if _FONT_NAME.fullmatch(name) is None:
        raise ToolError(
            work.texts.bad_argument.format(
                name="font_style.font_name", value=repr(name[:60]), expected=work.texts.expected_font
            )
        )
    found = {"Fontname": name}
    for key, field, least, most in (
        ("font_size", "Fontsize", 1, 200),
        ("outline_width", "Outline", 0, 50),
        ("alignment", "Alignment", 1, 9),
        ("margin_v", "MarginV", 0, 288),
        ("margin_l", "MarginL", 0, 1000),
        ("margin_r", "MarginR", 0, 1000),
    ):
        value = getattr(style, key)
        if value is not None:
            number = arguments.number(f"font_style.{key}", value, least, most)
            found[field] = f"{number:g}" if key == "outline_width" else str(round(number))
    for key, field in (
        ("font_color", "PrimaryColour"),
        ("outline_color", "OutlineColour"),
        ("shadow_color", "BackColour"),
    ):
        value = getattr(style, key)
        if value is not None:
            colour: Colour = arguments.colour(f"font_style.{key}", value, work.capabilities.colours)
            found[field] = colour.ass
    offsets = (style.shadow_offset_x, style.shadow_offset_y)
    if offsets == (None, None):
        if style.shadow_color is not None:
            found["Shadow"] = "1"
        return found, None
    x, y = (
        arguments.number(f"font_style.shadow_offset_{axis}", offset or 0.0, -50, 50)
        for axis, offset in zip("xy", offsets, strict=True)
    )
    return found, (x, y)


# Images.


def _corner(work: MediaWork, position: str) -> tuple[str, str]:
    key = position.strip().lower().replace("-", "_")
    if key in _CORNERS:
        return _CORNERS[key]
    given = _XY.fullmatch(position.strip())
    if given is None:
        choices = ", ".join([*_CORNERS, "x=10:y=10"])
        expected = work.texts.expected_choice.format(choices=choices)
        raise ToolError(
            work.texts.bad_argument.format(name="position", value=repr(position[:100]), expected=expected)
        )
    return work.arguments.overlay_place("position", given[1]), work.arguments.overlay_place(
        "position", given[2]
    )


def _shaped(
    work: MediaWork, width: str | float | None, height: str | float | None, opacity: float | None
) -> str:
    """Scales a picture, and makes it transparent."""
    filters: list[str] = ["format=rgba"]
    if width is not None or height is not None:
        sides = [
            "-1" if side is None else work.arguments.scale(name, side)
            for name, side in (("width", width), ("height", height))
        ]
        filters.append(graph_filter("scale", *sides))
    if opacity is not None:
        seen = work.arguments.number("opacity", opacity, 0, 1)
        filters.append(graph_filter("colorchannelmixer", aa=float(seen)))
    return chain(*filters)


# Joining.


async def _joined(
    work: MediaWork,
    sources: list[MediaSource],
    form: ContainerFormat,
    path: str,
    effect: str | None,
    fade: float,
) -> ToolResult:
    first = work.need(sources[0], "video")
    width, height = round(first.width * first.sample_aspect / 2) * 2, first.height // 2 * 2
    rate = first.frame_rate or 25.0
    has_sound = bool(form.audio) and any(source.info.audio is not None for source in sources)
    sample_rate = next((one.info.audio.sample_rate or 48000 for one in sources if one.info.audio), 48000)
    lengths = [work.duration(source) for source in sources]
    parts: list[str] = []
    for number, (source, length) in enumerate(zip(sources, lengths, strict=True)):
        parts.append(f"[{number}:v:0]{_fitted(width, height, rate, length)}[v{number}]")
        if has_sound:
            parts.append(_sound(number, source, sample_rate, length))
    video, audio, joins = (
        _concat(len(sources), has_sound) if not effect else _crossfaded(lengths, has_sound, effect, fade)
    )
    graph = ";".join([*parts, *joins, f"[{video}]{final_filters(form)}[video]"])
    output = ["-filter_complex", graph, "-map", "[video]"]
    if has_sound:
        output += ["-map", f"[{audio}]", *audio_options(work, None, form, AudioWish(is_new=True))]
    silent = [source.path for source in sources if source.info.audio is None]
    overlap = fade * (len(sources) - 1) if effect else 0.0
    render = Render(
        inputs=[word for source in sources for word in source.arguments],
        output=[*output, *video_options(work, None, form, VideoWish(is_new=True))],
        form=form,
        seconds=sum(lengths) - overlap,
        looks="video",
        size=(width, height),
        notices=[work.texts.silent_clips.format(paths=", ".join(silent))] if silent and has_sound else [],
    )
    return await work.render(path, render)


def _fitted(width: int, height: int, rate: float, length: float) -> str:
    """A video in the size and rate of another, exactly as long as it says."""
    return chain(
        graph_filter("scale", "trunc(iw*sar/2)*2", "ih"),
        "setsar=1",
        graph_filter("scale", width, height, force_original_aspect_ratio="decrease"),
        graph_filter("pad", width, height, "(ow-iw)/2", "(oh-ih)/2"),
        "setsar=1",
        "setpts=PTS-STARTPTS",
        graph_filter("fps", rate),
        graph_filter("tpad", stop_mode="clone", stop_duration=2),
        graph_filter("trim", duration=length),
        "format=yuv420p",
        "settb=AVTB",
    )


def _sound(number: int, source: MediaSource, sample_rate: int, length: float) -> str:
    """The sound of an input, or silence, exactly as long as its video."""
    form = graph_filter("aformat", sample_fmts="fltp", sample_rates=sample_rate, channel_layouts="stereo")
    cut = graph_filter("atrim", duration=length)
    if source.info.audio is None:
        silence = graph_filter("anullsrc", channel_layout="stereo", sample_rate=sample_rate)
        return f"{chain(silence, cut, form)}[a{number}]"
    return f"[{number}:a:0]{chain('asetpts=PTS-STARTPTS', form, 'apad', cut)}[a{number}]"


def _concat(count: int, has_sound: bool) -> tuple[str, str, list[str]]:
    pads = "".join(f"[v{number}][a{number}]" if has_sound else f"[v{number}]" for number in range(count))
    ends = "[joined][sound]" if has_sound else "[joined]"
    return "joined", "sound", [f"{pads}concat=n={count}:v=1:a={int(has_sound)}{ends}"]


def _crossfaded(
    lengths: list[float], has_sound: bool, effect: str, fade: float
) -> tuple[str, str, list[str]]:
    video, audio, at = "v0", "a0", lengths[0]
    joins: list[str] = []
    for number, length in enumerate(lengths[1:], 1):
        blend = graph_filter("xfade", transition=effect, duration=fade, offset=at - fade)
        joins.append(f"[{video}][v{number}]{blend}[x{number}]")
        video = f"x{number}"
        if has_sound:
            joins.append(f"[{audio}][a{number}]{graph_filter('acrossfade', d=fade)}[y{number}]")
            audio = f"y{number}"
        at += length - fade
    return video, audio, joins


# Speed and silence.


def _tempo(factor: float) -> str:
    """`atempo` in steps of at most two: a larger one leaves out samples."""
    steps: list[float] = []
    while factor > 2:
        steps.append(2.0)
        factor /= 2
    while factor < 0.5:
        steps.append(0.5)
        factor *= 2
    return chain(*(graph_filter("atempo", step) for step in [*steps, factor]))


def _kept(log: str, duration: float, rate: float | None) -> list[KeptSegment]:
    """The parts between silences; in a video they begin and end with a frame, so that both streams agree."""
    at, kept = 0.0, list[KeptSegment]()
    start: float | None = None
    silences: list[tuple[float, float]] = []
    for what, text in _SILENCE.findall(log):
        if what == "start":
            start = max(0.0, float(text))
        elif start is not None:
            end = float(text)
            silences.append((start, duration if duration - end < _TAIL else end))
            start = None
    if start is not None:
        silences.append((start, duration))
    for begin, end in [*silences, (duration, duration)]:
        first, last = (at, begin) if rate is None else (round(at * rate) / rate, round(begin * rate) / rate)
        if last - first > 0.001:
            kept.append(KeptSegment(round(first, 6), round(min(last, duration), 6)))
        at = end
    return kept


def _picked_frames(kept: list[KeptSegment], rate: float) -> list[str]:
    half = 0.5 / rate
    times = "+".join(f"between(t,{one.start - half:.6f},{one.end - half:.6f})" for one in kept)
    again = graph_filter("setpts", f"N/({rate:.6f}*TB)")
    return ["setpts=PTS-STARTPTS", graph_filter("fps", rate), graph_filter("select", times), again]


def _picked_samples(kept: list[KeptSegment]) -> list[str]:
    """64 samples at a time: 1.5 ms."""
    times = "+".join(f"gte(t,{one.start:.6f})*lt(t,{one.end:.6f})" for one in kept)
    select = graph_filter("aselect", times)
    return ["asetpts=PTS-STARTPTS", graph_filter("asetnsamples", n=64, p=0), select, "asetpts=N/SR/TB"]


# B-roll.


class BrollInsert(Struct, frozen=True, kw_only=True):
    """A clip, checked, with the times at which it is seen."""

    source: MediaSource
    start: float
    length: float
    position: str
    scale: float
    enters: str | None
    leaves: str | None
    seconds: float
    """Of each transition."""
    volume: float

    @property
    def end(self) -> float:
        return self.start + self.length


async def _insert(work: MediaWork, main: MediaSource, clip: BrollClip, where: str) -> BrollInsert:
    arguments = work.arguments
    start = arguments.time(f"{where}insert_at_timestamp", clip.insert_at_timestamp)
    whole = work.duration(main)
    if start >= whole:
        text = work.texts.beyond_end
        raise ToolError(
            text.format(name=f"{where}insert_at_timestamp", value=start, path=main.path, duration=whole)
        )
    positions = ("fullscreen", "top-left", "top-right", "bottom-left", "bottom-right", "center")
    position = arguments.choice(f"{where}position", clip.position.replace("_", "-"), positions)
    scale = clip.scale if clip.scale is not None else (1.0 if position == "fullscreen" else 0.5)
    enters, leaves = (
        None if one is None else arguments.choice(f"{where}{name}", one, ("fade", *_SLIDES))
        for name, one in (("transition_in", clip.transition_in), ("transition_out", clip.transition_out))
    )
    source = await work.source(clip.clip_path, "video")
    own = work.duration(source) if not source.info.is_picture else whole
    wanted = own if clip.duration is None else arguments.time(f"{where}duration", clip.duration)
    length = min(wanted, own, whole - start)
    if length <= 0:
        arguments.number(f"{where}duration", wanted, 0.04, whole)
    seconds = arguments.number(f"{where}transition_duration", clip.transition_duration, 0, 60)
    moves = (enters is not None) + (leaves is not None)
    if moves and seconds * moves > length:
        text = work.texts.too_long_transition
        raise ToolError(text.format(seconds=seconds * moves, path=source.path, duration=length))
    return BrollInsert(
        source=source,
        start=start,
        length=length,
        position=position,
        scale=arguments.number(f"{where}scale", scale, 0.01, 10),
        enters=enters if seconds else None,
        leaves=leaves if seconds else None,
        seconds=seconds,
        volume=arguments.number(f"{where}audio_mix", clip.audio_mix, 0, 10),
    )


def _with_inserts(
    work: MediaWork, main: MediaSource, inserts: list[BrollInsert], form: ContainerFormat
) -> Render:
    video = work.need(main, "video")
    width, height = round(video.width * video.sample_aspect), video.height
    base = chain(graph_filter("scale", width, height), "setsar=1", "setpts=PTS-STARTPTS")
    parts, under = [f"[0:v:0]{base}[base0]"], "base0"
    for number, insert in enumerate(inserts, 1):
        parts.append(f"[{number}:v:0]{_clip_picture(insert, width, height)}[clip{number}]")
        parts.append(f"[{under}][clip{number}]{_clip_overlay(insert)}[base{number}]")
        under = f"base{number}"
    output = ["-map", "[video]"]
    mixed = [
        one for one in enumerate(inserts, 1) if one[1].volume > 0 and one[1].source.info.audio is not None
    ]
    if form.audio and mixed:
        parts += _mixed(main, work.duration(main), mixed)
        output += ["-map", "[sound]", *audio_options(work, None, form, AudioWish(is_new=True))]
    elif form.audio:
        output += ["-map", "0:a?", *audio_options(work, main, form, AudioWish())]
    graph = ";".join([*parts, f"[{under}]{final_filters(form)}[video]"])
    inputs = [word for insert in inserts for word in ("-t", f"{insert.length:.6f}", *insert.source.arguments)]
    return Render(
        inputs=[*main.arguments, *inputs],
        output=["-filter_complex", graph, *output, *video_options(work, main, form, VideoWish(is_new=True))],
        form=form,
        seconds=main.info.duration,
        looks="video",
        size=(width, height),
    )


def _clip_picture(insert: BrollInsert, width: int, height: int) -> str:
    """The clip in its size, faded in and out, at its place in time."""
    wide = max(2, round(width * insert.scale / 2) * 2)
    if insert.position == "fullscreen":
        high = max(2, round(height * insert.scale / 2) * 2)
        fit = [
            graph_filter("scale", wide, high, force_original_aspect_ratio="increase"),
            graph_filter("crop", wide, high),
        ]
    else:
        fit = [graph_filter("scale", wide, -2)]
    fades = [
        graph_filter("fade", t=kind, st=start, d=insert.seconds, alpha=1)
        for kind, name, start in (
            ("in", insert.enters, 0.0),
            ("out", insert.leaves, insert.length - insert.seconds),
        )
        if name == "fade"
    ]
    later = graph_filter("setpts", f"PTS-STARTPTS+{insert.start:.6f}/TB")
    square = [graph_filter("scale", "trunc(iw*sar/2)*2", "ih"), "setsar=1"]
    return chain("setpts=PTS-STARTPTS", *square, *fit, "setsar=1", "format=yuva420p", *fades, later)


def _clip_overlay(insert: BrollInsert) -> str:
    key = "center" if insert.position == "fullscreen" else insert.position.replace("-", "_")
    x, y = _CORNERS[key]
    # 1 at the beginning of the way in and at the end of the way out, 0 while it stands.
    coming = f"(1-min(1,max(0,(t-{insert.start:.3f})/{insert.seconds or 1:.3f})))"
    going = f"min(1,max(0,(t-{insert.end - insert.seconds:.3f})/{insert.seconds or 1:.3f}))"
    for slide, share, sign in ((insert.enters, coming, 1), (insert.leaves, going, -1)):
        if slide in ("slide_left", "slide_right"):
            # A slide to the left comes from beyond the right edge, and leaves beyond the left one.
            from_right = (slide == "slide_left") == (sign == 1)
            x = f"{x}+({'main_w-(' + x + ')' if from_right else '-(' + x + ')-overlay_w'})*{share}"
        elif slide in ("slide_up", "slide_down"):
            from_below = (slide == "slide_up") == (sign == 1)
            y = f"{y}+({'main_h-(' + y + ')' if from_below else '-(' + y + ')-overlay_h'})*{share}"
    seen = f"between(t,{insert.start:.3f},{insert.end:.3f})"
    return graph_filter("overlay", x=x, y=y, enable=seen, eof_action="pass")


def _mixed(main: MediaSource, length: float, inserts: list[tuple[int, BrollInsert]]) -> list[str]:
    """The sound of the main video with that of clips, each as loud as wished."""
    form = graph_filter("aformat", sample_fmts="fltp", sample_rates=48000, channel_layouts="stereo")
    if main.info.audio is None:
        silence = graph_filter("anullsrc", channel_layout="stereo", sample_rate=48000)
        parts = [f"{chain(silence, graph_filter('atrim', duration=length), form)}[sound0]"]
    else:
        parts = [f"[0:a:0]{chain('asetpts=PTS-STARTPTS', form)}[sound0]"]
    for number, insert in inserts:
        delay = graph_filter("adelay", f"{round(insert.start * 1000)}", all=1)
        loud = graph_filter("volume", float(insert.volume))
        parts.append(f"[{number}:a:0]{chain('asetpts=PTS-STARTPTS', form, loud, delay)}[sound{number}]")
    pads = "[sound0]" + "".join(f"[sound{number}]" for number, _ in inserts)
    mix = graph_filter("amix", inputs=len(inserts) + 1, duration="first", normalize=0)
    return [*parts, f"{pads}{mix}[sound]"]
