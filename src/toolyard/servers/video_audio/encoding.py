"""Chooses what becomes of each stream: copied as it is, or encoded, with which encoder and options."""

from collections.abc import Sequence

from msgspec import Struct

from ...ffmpeg.filters import chain, graph_filter
from ...kit import ToolError
from .formats import LOSSLESS, CodecKind, ContainerFormat, channels_of, sample_rates_of
from .studio import MediaSource, MediaWork

MOST_AUDIO_BITS = 1_500_000
MOST_VIDEO_BITS = 400_000_000
EVEN = graph_filter("crop", "trunc(iw/2)*2", "trunc(ih/2)*2", 0, 0)
"""Most codecs want even sides. Costs nothing if they are."""
_GIF = "split[gif1][gif2];[gif1]palettegen=stats_mode=single[gif3];[gif2][gif3]paletteuse=new=1"
"""A palette for each frame: one for all would hold every frame in memory."""


class AudioWish(Struct, frozen=True, kw_only=True):
    """What a caller wants of the sound; None: as it is."""

    codec: str | None = None
    bitrate: str | int | None = None
    sample_rate: int | None = None
    channels: int | None = None
    prefix: str = ""
    """Before the names of the parameters: `audio_`."""
    is_new: bool = False
    """Whether a filter makes it, so that it cannot be copied."""

    @property
    def changes(self) -> bool:
        return self.is_new or (self.bitrate, self.sample_rate, self.channels) != (None, None, None)


class VideoWish(Struct, frozen=True, kw_only=True):
    codec: str | None = None
    bitrate: str | int | None = None
    is_new: bool = False


def audio_options(
    work: MediaWork, source: MediaSource | None, form: ContainerFormat, wish: AudioWish
) -> list[str]:
    """`-c:a` and what belongs to it. `source` is None if the sound comes from several."""
    streams = [one for one in source.info.streams if one.kind == "audio"] if source else []
    codecs = [one.codec for one in streams]
    name = "audio_codec"
    if wish.codec is not None and wish.codec.strip().lower() == "copy" and not wish.changes:
        _check_copy(work, form, "audio", codecs, name)
        return ["-c:a", "copy"]
    if wish.codec is None and not wish.changes and codecs and all(form.holds("audio", one) for one in codecs):
        return ["-c:a", "copy"]
    kept = codecs[0] if codecs and form.holds("audio", codecs[0]) else None
    encoder = _encoder(work, form, "audio", wish.codec, kept, name)
    codec = work.encoders.codec_of(encoder)
    options = ["-c:a", encoder]
    if wish.bitrate is not None:
        if codec in LOSSLESS or codec.startswith("pcm_"):
            raise ToolError(work.texts.no_bitrate.format(codec=codec))
        options += ["-b:a", work.arguments.bitrate(f"{wish.prefix}bitrate", wish.bitrate, MOST_AUDIO_BITS)]
    if wish.sample_rate is not None:
        options += ["-ar", str(_sample_rate(work, codec, f"{wish.prefix}sample_rate", wish.sample_rate))]
    if wish.channels is not None:
        options += ["-ac", str(_channels(work, codec, f"{wish.prefix}channels", wish.channels))]
    return options


def video_options(
    work: MediaWork, source: MediaSource | None, form: ContainerFormat, wish: VideoWish
) -> list[str]:
    """`-c:v` and what belongs to it, without the filters. `["-c:v", "copy"]` if the stream is copied."""
    stream = source.info.video if source else None
    codecs = [stream.codec] if stream else []
    if wish.codec is not None and wish.codec.strip().lower() == "copy":
        if wish.is_new or wish.bitrate is not None:
            choices = ", ".join(work.encoders.available(form.video, "video"))
            raise ToolError(
                work.texts.bad_argument.format(
                    name="video_codec",
                    value="'copy'",
                    expected=work.texts.expected_choice.format(choices=choices),
                )
            )
        _check_copy(work, form, "video", codecs, "video_codec")
        return ["-c:v", "copy"]
    unchanged = wish.codec is None and not wish.is_new and wish.bitrate is None
    if unchanged and codecs and form.holds("video", codecs[0]):
        return ["-c:v", "copy"]
    encoder = _encoder(work, form, "video", wish.codec, None, "video_codec")
    bitrate = None
    if wish.bitrate is not None:
        if work.encoders.codec_of(encoder) in LOSSLESS:
            raise ToolError(work.texts.no_bitrate.format(codec=work.encoders.codec_of(encoder)))
        bitrate = work.arguments.bitrate("video_bitrate", wish.bitrate, MOST_VIDEO_BITS)
    return work.encoders.video_options(encoder, work.studio.settings.preset, bitrate)


def final_filters(form: ContainerFormat, *filters: str) -> str:
    """Filters of a video, and what its container needs at their end."""
    return chain(*filters, EVEN, _GIF if form.name == "gif" else "")


def with_filters(options: Sequence[str], form: ContainerFormat, *filters: str) -> list[str]:
    """Options of a video with its filters, unless it is copied."""
    if "copy" in options:
        return list(options)
    return ["-filter:v", final_filters(form, *filters), *options]


def _encoder(
    work: MediaWork, form: ContainerFormat, kind: CodecKind, wanted: str | None, kept: str | None, name: str
) -> str:
    """The encoder that a caller names, else that of the codec that is kept, else the container's own."""
    encoders, texts = work.encoders, work.texts
    choices = ", ".join(encoders.available(form.codecs(kind), kind))
    if wanted is None:
        found = (encoders.find(kept, kind) if kept else None) or encoders.of_format(form, kind)
        if found is None:
            raise ToolError(texts.no_encoder.format(format=form.name, kind=kind, choices=choices or "-"))
        return found
    found = encoders.find(wanted, kind)
    shown = repr(wanted[:60])
    if found is None:
        raise ToolError(texts.unknown_codec.format(name=name, value=shown, format=form.name, choices=choices))
    if not form.holds(kind, encoders.codec_of(found)):
        raise ToolError(texts.unfit_codec.format(name=name, value=shown, format=form.name, choices=choices))
    return found


def _check_copy(
    work: MediaWork, form: ContainerFormat, kind: CodecKind, codecs: list[str], name: str
) -> None:
    for codec in codecs:
        if not form.holds(kind, codec):
            choices = ", ".join(work.encoders.available(form.codecs(kind), kind))
            raise ToolError(
                work.texts.unfit_copy.format(name=name, codec=codec, format=form.name, choices=choices)
            )


def _sample_rate(work: MediaWork, codec: str, name: str, value: int) -> int:
    choices = sample_rates_of(codec)
    if choices and value not in choices:
        listed = ", ".join(map(str, choices))
        raise ToolError(
            work.texts.bad_sample_rate.format(name=name, codec=codec, value=value, choices=listed)
        )
    return round(work.arguments.number(name, value, 4000, 384_000))


def _channels(work: MediaWork, codec: str, name: str, value: int) -> int:
    most = channels_of(codec)
    if value > most:
        raise ToolError(work.texts.too_many_channels.format(name=name, codec=codec, most=most))
    return round(work.arguments.number(name, value, 1, 8))
