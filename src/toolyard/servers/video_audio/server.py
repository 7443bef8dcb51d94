"""Builds the server from its settings, and adds the tools."""

import inspect
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ..._version import __version__
from ...kit import Context, Long, Server, ToolResult
from ...kit.localization import add_localized_tool
from ...kit.schema.validation import schema_of
from ...workspace import Workspaces
from .converting import ConvertingTools
from .editing import EditingTools
from .fonts import find_font
from .formats import FORMATS
from .results import MediaResult, ServerHealth
from .settings import Settings
from .studio import Studio
from .texts import localized, texts_of

_NEEDED = {
    "drawtext": "add_text_overlay",
    "ass": "add_subtitles",
    "overlay": "add_image_overlay, add_b_roll",
    "xfade": "concatenate_videos (transitions)",
    "silencedetect": "remove_silence",
    "showwavespic": "waveforms",
    "tile": "contact sheets",
}


def build(settings: Settings) -> Server:
    texts = texts_of(settings.locale)
    server = Server(
        "video_audio",
        version=__version__,
        locale=settings.locale,
        title=texts.title,
        instructions=texts.instructions,
    )
    studio = Studio(settings, Workspaces(settings.workspace, shared=settings.shared))
    server.on_close(studio.close)
    converting, editing = ConvertingTools(studio), EditingTools(studio)

    async def health_check(ctx: Context) -> ToolResult:
        return await _health(studio, ctx)

    _add(server, settings, health_check, ServerHealth, reads=True)
    for function in (
        converting.extract_audio_from_video,
        converting.trim_video,
        converting.convert_audio_properties,
        converting.convert_video_properties,
        converting.change_aspect_ratio,
        converting.convert_audio_format,
        converting.set_audio_bitrate,
        converting.set_audio_sample_rate,
        converting.set_audio_channels,
        converting.convert_video_format,
        converting.set_video_resolution,
        converting.set_video_codec,
        converting.set_video_bitrate,
        converting.set_video_frame_rate,
        converting.set_video_audio_track_codec,
        converting.set_video_audio_track_bitrate,
        converting.set_video_audio_track_sample_rate,
        converting.set_video_audio_track_channels,
        editing.add_subtitles,
        editing.add_text_overlay,
        editing.add_image_overlay,
        editing.concatenate_videos,
        editing.change_video_speed,
        editing.remove_silence,
        editing.add_b_roll,
        editing.add_basic_transitions,
    ):
        _add(server, settings, function, MediaResult, reads=False)
    return server


def _add(
    server: Server,
    settings: Settings,
    function: Callable[..., Awaitable[ToolResult]],
    kind: type[Struct],
    *,
    reads: bool,
) -> None:
    parameters = tuple(name for name in inspect.signature(function).parameters if name != "ctx")
    english, portuguese = localized(function.__name__, parameters)
    add_localized_tool(
        server,
        function,
        en=english,
        pt=portuguese,
        output_schema=schema_of(kind),
        read_only=reads,
        destructive=not reads,  # an output that exists is replaced
        idempotent=True,
        open_world=False,
        long=False if reads else Long(),
    )


async def _health(studio: Studio, ctx: Context) -> ToolResult:
    async with studio.work(ctx, "health_check") as work:
        able = work.capabilities
        formats = [one for one in FORMATS.values() if one.muxer in able.muxers]
        video = sorted({codec for one in formats for codec in work.encoders.available(one.video, "video")})
        audio = sorted({codec for one in formats for codec in work.encoders.available(one.audio, "audio")})
        missing = [f"{name} ({tools})" for name, tools in _NEEDED.items() if name not in able.filters]
        if find_font(studio.settings.font) is None:
            missing.append("a font (add_text_overlay, add_subtitles)")
        health = ServerHealth(
            status="limited" if missing else "ok",
            ffmpeg=able.version,
            path=studio.runner().program.ffmpeg,
            video_codecs=video,
            audio_codecs=audio,
            formats=[one.name for one in formats],
            missing=missing,
            boxed=await work.is_boxed(),
        )
        text = (studio.texts.limited if missing else studio.texts.healthy).format(
            version=able.version, video=len(video), audio=len(audio), missing=", ".join(missing)
        )
        return ToolResult(content=[text], structured=health)
