"""What the tools return."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ...ffmpeg.media import MediaStream, ProbedMedia
from ...kit.schema.annotations import schema_name


@schema_name("Stream")
class StreamResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Literal["video", "audio", "subtitle", "data", "attachment", "unknown"]
    codec: str
    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    frame_rate: float | UnsetType = UNSET
    pixel_format: str | UnsetType = UNSET
    sample_rate: int | UnsetType = UNSET
    channels: int | UnsetType = UNSET
    bit_rate: Annotated[int, Meta(description="Bits a second")] | UnsetType = UNSET
    language: str | UnsetType = UNSET


@schema_name("Segment")
class KeptSegment(Struct, frozen=True):
    start: Annotated[float, Meta(description="Seconds in the input")]
    end: float


@schema_name("Media")
class MediaResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that was written, as ffmpeg reads it."""

    success: bool
    output_path: Annotated[str, Meta(description="In the workspace")]
    format: str
    duration: Annotated[float | None, Meta(description="Seconds; absent for a still picture")] = None
    size: Annotated[int, Meta(description="Bytes")]
    streams: list[StreamResult]
    elapsed_ms: int
    notices: Annotated[list[str], Meta(description="What a person should know about it")] = []
    removed_seconds: Annotated[float, Meta(description="Silence that was cut")] | UnsetType = UNSET
    kept: Annotated[list[KeptSegment], Meta(description="The parts that were kept")] | UnsetType = UNSET


@schema_name("Health")
class ServerHealth(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "limited"]
    ffmpeg: Annotated[str, Meta(description="Version")]
    path: str
    video_codecs: Annotated[list[str], Meta(description="For video_codec")]
    audio_codecs: Annotated[list[str], Meta(description="For audio_codec")]
    formats: Annotated[list[str], Meta(description="For target_format, and as endings of outputs")]
    missing: Annotated[list[str], Meta(description="What this ffmpeg lacks, and which tools need it")]
    boxed: Annotated[bool, Meta(description="Whether the kernel keeps ffmpeg from other files (Landlock)")]


def stream_results(info: ProbedMedia) -> list[StreamResult]:
    return [_stream(stream) for stream in info.streams]


def _stream(stream: MediaStream) -> StreamResult:
    return StreamResult(
        kind=stream.kind,
        codec=stream.codec,
        width=stream.width or UNSET,
        height=stream.height or UNSET,
        frame_rate=stream.frame_rate or UNSET,
        pixel_format=stream.pixel_format or UNSET,
        sample_rate=stream.sample_rate or UNSET,
        channels=stream.channels or UNSET,
        bit_rate=stream.bit_rate or UNSET,
        language=stream.language or UNSET,
    )
