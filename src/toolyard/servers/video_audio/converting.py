"""The tools that convert: formats, codecs, bitrates, sizes, rates, and the sound of a video alone."""

from ...ffmpeg.filters import graph_filter
from ...ffmpeg.media import MediaStream
from ...kit import Context, ToolError, ToolResult
from .arguments import Time
from .encoding import AudioWish, VideoWish, audio_options, video_options, with_filters
from .studio import Render, Studio


class ConvertingTools:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def extract_audio_from_video(
        self, ctx: Context, video_path: str, output_audio_path: str, audio_codec: str = "mp3"
    ) -> ToolResult:
        async with self._studio.work(ctx, "extract_audio_from_video") as work:
            source = await work.source(video_path, "audio")
            form = work.output_format(output_audio_path, None, "audio")
            codec, notices = audio_codec, list[str]()
            if audio_codec == "mp3" and not form.holds(
                "audio", "mp3"
            ):  # the default, and an ending that says more
                codec = form.audio[0]
                notices.append(
                    work.texts.other_codec.format(format=form.name, wanted=audio_codec, codec=codec)
                )
            options = audio_options(work, source, form, AudioWish(codec=codec))
            render = Render(
                inputs=source.arguments,
                output=["-map", "0:a:0", "-vn", "-sn", "-dn", *options],
                form=form,
                seconds=source.info.duration,
                looks="audio",
                notices=notices,
            )
            return await work.render(output_audio_path, render)

    async def convert_audio_properties(
        self,
        ctx: Context,
        input_audio_path: str,
        output_audio_path: str,
        target_format: str,
        bitrate: str | None = None,
        sample_rate: int | None = None,
        channels: int | None = None,
    ) -> ToolResult:
        wish = AudioWish(bitrate=bitrate, sample_rate=sample_rate, channels=channels)
        return await self._audio(
            ctx, "convert_audio_properties", input_audio_path, output_audio_path, target_format, wish
        )

    async def convert_audio_format(
        self, ctx: Context, input_audio_path: str, output_audio_path: str, target_format: str
    ) -> ToolResult:
        return await self._audio(
            ctx, "convert_audio_format", input_audio_path, output_audio_path, target_format, AudioWish()
        )

    async def set_audio_bitrate(
        self, ctx: Context, input_audio_path: str, output_audio_path: str, bitrate: str
    ) -> ToolResult:
        wish = AudioWish(bitrate=bitrate)
        return await self._audio(ctx, "set_audio_bitrate", input_audio_path, output_audio_path, None, wish)

    async def set_audio_sample_rate(
        self, ctx: Context, input_audio_path: str, output_audio_path: str, sample_rate: int
    ) -> ToolResult:
        wish = AudioWish(sample_rate=sample_rate)
        return await self._audio(
            ctx, "set_audio_sample_rate", input_audio_path, output_audio_path, None, wish
        )

    async def set_audio_channels(
        self, ctx: Context, input_audio_path: str, output_audio_path: str, channels: int
    ) -> ToolResult:
        wish = AudioWish(channels=channels)
        return await self._audio(ctx, "set_audio_channels", input_audio_path, output_audio_path, None, wish)

    async def convert_video_properties(
        self,
        ctx: Context,
        input_video_path: str,
        output_video_path: str,
        target_format: str,
        resolution: str | None = None,
        video_codec: str | None = None,
        video_bitrate: str | None = None,
        frame_rate: int | None = None,
        audio_codec: str | None = None,
        audio_bitrate: str | None = None,
        audio_sample_rate: int | None = None,
        audio_channels: int | None = None,
    ) -> ToolResult:
        video = VideoWish(codec=video_codec, bitrate=video_bitrate)
        audio = AudioWish(
            codec=audio_codec,
            bitrate=audio_bitrate,
            sample_rate=audio_sample_rate,
            channels=audio_channels,
            prefix="audio_",
        )
        return await self._video(
            ctx,
            "convert_video_properties",
            (input_video_path, output_video_path, target_format),
            video,
            audio,
            resolution,
            frame_rate,
        )

    async def convert_video_format(
        self, ctx: Context, input_video_path: str, output_video_path: str, target_format: str
    ) -> ToolResult:
        paths = (input_video_path, output_video_path, target_format)
        return await self._video(ctx, "convert_video_format", paths, VideoWish(), AudioWish())

    async def set_video_resolution(
        self, ctx: Context, input_video_path: str, output_video_path: str, resolution: str
    ) -> ToolResult:
        paths = (input_video_path, output_video_path, None)
        return await self._video(ctx, "set_video_resolution", paths, VideoWish(), AudioWish(), resolution)

    async def set_video_codec(
        self, ctx: Context, input_video_path: str, output_video_path: str, video_codec: str
    ) -> ToolResult:
        paths = (input_video_path, output_video_path, None)
        return await self._video(ctx, "set_video_codec", paths, VideoWish(codec=video_codec), AudioWish())

    async def set_video_bitrate(
        self, ctx: Context, input_video_path: str, output_video_path: str, video_bitrate: str
    ) -> ToolResult:
        paths = (input_video_path, output_video_path, None)
        return await self._video(
            ctx, "set_video_bitrate", paths, VideoWish(bitrate=video_bitrate), AudioWish()
        )

    async def set_video_frame_rate(
        self, ctx: Context, input_video_path: str, output_video_path: str, frame_rate: int
    ) -> ToolResult:
        paths = (input_video_path, output_video_path, None)
        return await self._video(
            ctx, "set_video_frame_rate", paths, VideoWish(), AudioWish(), frame_rate=frame_rate
        )

    async def set_video_audio_track_codec(
        self, ctx: Context, input_video_path: str, output_video_path: str, audio_codec: str
    ) -> ToolResult:
        wish = AudioWish(codec=audio_codec, prefix="audio_")
        return await self._sound(
            ctx, "set_video_audio_track_codec", input_video_path, output_video_path, wish
        )

    async def set_video_audio_track_bitrate(
        self, ctx: Context, input_video_path: str, output_video_path: str, audio_bitrate: str
    ) -> ToolResult:
        wish = AudioWish(bitrate=audio_bitrate, prefix="audio_")
        return await self._sound(
            ctx, "set_video_audio_track_bitrate", input_video_path, output_video_path, wish
        )

    async def set_video_audio_track_sample_rate(
        self, ctx: Context, input_video_path: str, output_video_path: str, audio_sample_rate: int
    ) -> ToolResult:
        wish = AudioWish(sample_rate=audio_sample_rate, prefix="audio_")
        return await self._sound(
            ctx, "set_video_audio_track_sample_rate", input_video_path, output_video_path, wish
        )

    async def set_video_audio_track_channels(
        self, ctx: Context, input_video_path: str, output_video_path: str, audio_channels: int
    ) -> ToolResult:
        wish = AudioWish(channels=audio_channels, prefix="audio_")
        return await self._sound(
            ctx, "set_video_audio_track_channels", input_video_path, output_video_path, wish
        )

    async def change_aspect_ratio(
        self,
        ctx: Context,
        video_path: str,
        output_video_path: str,
        target_aspect_ratio: str,
        resize_mode: str = "pad",
        padding_color: str = "black",
    ) -> ToolResult:
        async with self._studio.work(ctx, "change_aspect_ratio") as work:
            mode = work.arguments.choice("resize_mode", resize_mode, ("pad", "crop"))
            ratio = work.arguments.ratio("target_aspect_ratio", target_aspect_ratio)
            colour = work.arguments.colour("padding_color", padding_color, work.capabilities.colours)
            source = await work.source(video_path, "video")
            form = work.output_format(output_video_path, None, "video")
            video = work.need(source, "video")
            width, height = round(video.width * video.sample_aspect), video.height
            now = width / height
            is_right = abs(now - ratio) < 0.5 / height
            grows = (mode == "pad") == (now < ratio)  # the width changes: pad a narrow one, crop a wide one
            wide, high = (height * ratio, height) if grows else (width, width / ratio)
            wide, high = _even(wide), _even(high)
            if max(wide, high) > self._studio.settings.max_side:
                most = self._studio.settings.max_side
                expected = work.texts.expected_side.format(most=most)
                raise ToolError(
                    work.texts.bad_argument.format(
                        name="target_aspect_ratio", value=repr(target_aspect_ratio), expected=expected
                    )
                )
            change = (
                graph_filter("pad", wide, high, "(ow-iw)/2", "(oh-ih)/2", colour.ffmpeg)
                if mode == "pad"
                else graph_filter("crop", wide, high)
            )
            options = video_options(work, source, form, VideoWish(is_new=not is_right))
            output = [
                *("-map", "0:v:0", "-map", "0:a?"),
                *with_filters(options, form, graph_filter("scale", width, height), "setsar=1", change),
                *audio_options(work, source, form, AudioWish()),
            ]
            render = Render(
                inputs=source.arguments,
                output=output,
                form=form,
                seconds=source.info.duration,
                looks="video",
                size=None if is_right else (wide, high),
                notices=[work.texts.same_ratio] if is_right else [],
            )
            return await work.render(output_video_path, render)

    async def trim_video(
        self, ctx: Context, video_path: str, output_video_path: str, start_time: Time, end_time: Time
    ) -> ToolResult:
        async with self._studio.work(ctx, "trim_video") as work:
            start = work.arguments.time("start_time", start_time)
            end = work.arguments.time("end_time", end_time)
            if end <= start:
                raise ToolError(
                    work.texts.end_before_start.format(
                        end_name="end_time", end=end, start_name="start_time", start=start
                    )
                )
            source = await work.source(video_path)
            duration = work.duration(source)
            if start >= duration:
                text = work.texts.beyond_end
                raise ToolError(
                    text.format(name="start_time", value=start, path=source.path, duration=duration)
                )
            end = min(end, duration)
            kind = "video" if source.info.video is not None else "audio"
            work.need(source, kind)
            form = work.output_format(output_video_path, None, kind)
            output = ["-map", "0:a:0"] if kind == "audio" else ["-map", "0:v:0", "-map", "0:a?"]
            if kind == "video":
                # Encoded, not copied: a copy would begin at the key frame before.
                output += with_filters(video_options(work, source, form, VideoWish(is_new=True)), form)
            output += audio_options(work, source, form, AudioWish(is_new=True))
            render = Render(
                inputs=["-ss", f"{start:.6f}", "-t", f"{end - start:.6f}", *source.arguments],
                output=output,
                form=form,
                seconds=end - start,
                looks=kind,
            )
            return await work.render(output_video_path, render)

    async def _audio(
        self, ctx: Context, tool: str, path: str, output: str, target: str | None, wish: AudioWish
    ) -> ToolResult:
        async with self._studio.work(ctx, tool) as work:
            source = await work.source(path, "audio")
            form = work.output_format(output, target, "audio")
            options = audio_options(work, source, form, wish)
            render = Render(
                inputs=source.arguments,
                output=["-map", "0:a:0", "-vn", "-sn", "-dn", *options],
                form=form,
                seconds=source.info.duration,
                looks="audio",
            )
            return await work.render(output, render)

    async def _sound(self, ctx: Context, tool: str, path: str, output: str, wish: AudioWish) -> ToolResult:
        """Changes the sound of a video and copies its picture."""
        async with self._studio.work(ctx, tool) as work:
            source = await work.source(path, "video", "audio")
            form = work.output_format(output, None, "video")
            options = [
                *with_filters(video_options(work, source, form, VideoWish()), form),
                *audio_options(work, source, form, wish),
            ]
            render = Render(
                inputs=source.arguments,
                output=["-map", "0:v:0", "-map", "0:a", *options],
                form=form,
                seconds=source.info.duration,
                looks="audio",
            )
            return await work.render(output, render)

    async def _video(
        self,
        ctx: Context,
        tool: str,
        paths: tuple[str, str, str | None],
        video: VideoWish,
        audio: AudioWish,
        resolution: str | None = None,
        frame_rate: int | None = None,
    ) -> ToolResult:
        """`paths`: input, output, and the target format if it is not the output's ending."""
        path, output, target = paths
        async with self._studio.work(ctx, tool) as work:
            source = await work.source(path, "video")
            form = work.output_format(output, target, "video")
            filters: list[str] = []
            size = None
            if resolution is not None:
                size = _size(work.need(source, "video"), *work.arguments.resolution("resolution", resolution))
                filters += [graph_filter("scale", *size), "setsar=1"]
            if frame_rate is not None:
                filters.append(graph_filter("fps", work.arguments.number("frame_rate", frame_rate, 1, 240)))
            wish = VideoWish(codec=video.codec, bitrate=video.bitrate, is_new=bool(filters))
            options = with_filters(video_options(work, source, form, wish), form, *filters)
            maps = ["-map", "0:v:0"]
            if form.audio and source.info.audio is not None:
                maps += ["-map", "0:a"]
                options += audio_options(work, source, form, audio)
            render = Render(
                inputs=source.arguments,
                output=[*maps, *options],
                form=form,
                seconds=source.info.duration,
                looks="video",
                size=size,
            )
            return await work.render(output, render)


def _size(video: MediaStream, width: int, height: int) -> tuple[int, int]:
    """Fills in the side that keeps the proportion, which is -2. ffmpeg would take every pixel for square."""
    ratio = video.width * video.sample_aspect / video.height
    if width == -2:
        return _even(height * ratio), height
    return width, _even(width / ratio) if height == -2 else height


def _even(side: float) -> int:
    return max(2, round(side / 2) * 2)
