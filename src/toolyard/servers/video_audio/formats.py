"""Which codecs go into which container, and which encoder of this ffmpeg writes them."""

from typing import Literal

from msgspec import Struct

from ...ffmpeg.capabilities import FfmpegCapabilities

CodecKind = Literal["video", "audio"]


class ContainerFormat(Struct, frozen=True, kw_only=True):
    """A container. The first codec of each kind is the one it gets if nobody chooses."""

    name: str
    """Also the ending of its files."""
    muxer: str
    video: tuple[str, ...] = ()
    audio: tuple[str, ...] = ()
    any_codec: bool = False
    options: tuple[str, ...] = ()

    def codecs(self, kind: CodecKind) -> tuple[str, ...]:
        return self.video if kind == "video" else self.audio

    def holds(self, kind: CodecKind, codec: str) -> bool:
        chosen = self.codecs(kind)
        return codec in chosen or (self.any_codec and bool(chosen))


def _table(*formats: ContainerFormat) -> dict[str, ContainerFormat]:
    return {one.name: one for one in formats}


_MP4_AUDIO = ("aac", "mp3", "ac3", "eac3", "opus", "alac", "flac")
_FAST = ("-movflags", "+faststart")
_PCM = ("pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_u8", "pcm_alaw", "pcm_mulaw", "adpcm_ms")
FORMATS = _table(
    ContainerFormat(
        name="mp4",
        muxer="mp4",
        video=("h264", "hevc", "av1", "mpeg4", "vp9"),
        audio=_MP4_AUDIO,
        options=_FAST,
    ),
    ContainerFormat(
        name="m4v", muxer="mp4", video=("h264", "hevc", "mpeg4"), audio=_MP4_AUDIO, options=_FAST
    ),
    ContainerFormat(
        name="mov",
        muxer="mov",
        video=("h264", "hevc", "prores", "mpeg4", "mjpeg", "dnxhd", "qtrle", "png"),
        audio=("aac", *_PCM, "mp3", "ac3", "alac"),
        options=_FAST,
    ),
    ContainerFormat(
        name="mkv",
        muxer="matroska",
        video=("h264", "hevc", "av1", "vp9", "vp8", "mpeg4", "ffv1"),
        audio=("aac", "opus", "flac", "vorbis", "mp3", "ac3", "pcm_s16le"),
        any_codec=True,
    ),
    ContainerFormat(name="webm", muxer="webm", video=("vp9", "vp8", "av1"), audio=("opus", "vorbis")),
    ContainerFormat(
        name="avi",
        muxer="avi",
        video=("mpeg4", "h264", "mjpeg", "ffv1"),
        audio=("mp3", "pcm_s16le", "ac3", "mp2"),
    ),
    ContainerFormat(name="flv", muxer="flv", video=("h264", "flv1"), audio=("aac", "mp3")),
    ContainerFormat(
        name="ts",
        muxer="mpegts",
        video=("h264", "hevc", "mpeg2video"),
        audio=("aac", "mp3", "mp2", "ac3", "opus"),
    ),
    ContainerFormat(
        name="mpg", muxer="mpeg", video=("mpeg2video", "mpeg1video"), audio=("mp2", "mp3", "ac3")
    ),
    ContainerFormat(name="wmv", muxer="asf", video=("wmv2", "wmv1", "msmpeg4v3"), audio=("wmav2", "wmav1")),
    ContainerFormat(name="3gp", muxer="3gp", video=("h264", "mpeg4", "h263"), audio=("aac", "amr_nb")),
    ContainerFormat(name="ogv", muxer="ogg", video=("theora", "vp8"), audio=("vorbis", "opus", "flac")),
    ContainerFormat(name="gif", muxer="gif", video=("gif",)),
    ContainerFormat(name="mp3", muxer="mp3", audio=("mp3",)),
    ContainerFormat(name="m4a", muxer="ipod", audio=("aac", "alac"), options=_FAST),
    ContainerFormat(name="aac", muxer="adts", audio=("aac",)),
    ContainerFormat(name="wav", muxer="wav", audio=(*_PCM, "mp3", "ac3")),
    ContainerFormat(name="flac", muxer="flac", audio=("flac",)),
    ContainerFormat(name="ogg", muxer="ogg", audio=("vorbis", "opus", "flac", "speex")),
    ContainerFormat(name="oga", muxer="ogg", audio=("vorbis", "opus", "flac", "speex")),
    ContainerFormat(name="opus", muxer="opus", audio=("opus",)),
    ContainerFormat(name="weba", muxer="webm", audio=("opus", "vorbis")),
    ContainerFormat(
        name="mka", muxer="matroska", audio=("aac", "opus", "flac", "vorbis", "mp3"), any_codec=True
    ),
    ContainerFormat(name="wma", muxer="asf", audio=("wmav2", "wmav1")),
    ContainerFormat(name="aiff", muxer="aiff", audio=("pcm_s16be", "pcm_s24be", "pcm_s32be")),
    ContainerFormat(name="ac3", muxer="ac3", audio=("ac3",)),
    ContainerFormat(name="mp2", muxer="mp2", audio=("mp2",)),
)
_ALIASES = {
    "matroska": "mkv",
    "quicktime": "mov",
    "mpegts": "ts",
    "m2ts": "ts",
    "mpeg": "mpg",
    "asf": "wmv",
    "wave": "wav",
    "adts": "aac",
    "ipod": "m4a",
    "aif": "aiff",
    "3gpp": "3gp",
    "vorbis": "ogg",
}
_CODEC_ALIASES = {
    "h265": "hevc",
    "x265": "hevc",
    "h.265": "hevc",
    "x264": "h264",
    "h.264": "h264",
    "avc": "h264",
    "xvid": "mpeg4",
    "divx": "mpeg4",
    "vpx": "vp8",
    "wav": "pcm_s16le",
    "pcm": "pcm_s16le",
    "ogg": "vorbis",
    "m4a": "aac",
    "wma": "wmav2",
    "wmv": "wmv2",
    "mpeg2": "mpeg2video",
    "mpeg1": "mpeg1video",
}
_PREFERRED = {
    "h264": ("libx264", "libopenh264"),
    "hevc": ("libx265",),
    "av1": ("libsvtav1", "libaom-av1", "librav1e"),
    "vp9": ("libvpx-vp9",),
    "vp8": ("libvpx",),
    "theora": ("libtheora",),
    "mp3": ("libmp3lame", "libshine"),
    "opus": ("libopus",),
    "vorbis": ("libvorbis",),
    "speex": ("libspeex",),
    "amr_nb": ("libopencore_amrnb",),
    "prores": ("prores_ks", "prores"),
}
"""The native encoders of Opus and Vorbis are experimental; those of hardware need the hardware."""
_RATES = {
    "mp3": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
    "aac": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000),
    "opus": (8000, 12000, 16000, 24000, 48000),
    "ac3": (32000, 44100, 48000),
    "eac3": (32000, 44100, 48000),
    "mp2": (16000, 22050, 24000, 32000, 44100, 48000),
    "wmav2": (8000, 11025, 16000, 22050, 32000, 44100, 48000),
    "amr_nb": (8000,),
}
_CHANNELS = {
    "mp3": 2,
    "mp2": 2,
    "wmav2": 2,
    "wmav1": 2,
    "amr_nb": 1,
    "ac3": 6,
    "eac3": 6,
    "alac": 8,
    "aac": 8,
}
_YUV420 = frozenset(
    "h264 hevc av1 vp8 vp9 mpeg4 mpeg2video mpeg1video flv1 wmv1 wmv2 msmpeg4v3 theora h263".split()  # noqa: SIM905
)
LOSSLESS = frozenset({"flac", "alac", "ffv1", "gif", "png", "qtrle"})
"""Codecs without a bitrate to choose."""


def format_named(name: str) -> ContainerFormat | None:
    key = name.strip().lower().lstrip(".")
    return FORMATS.get(_ALIASES.get(key, key))


def sample_rates_of(codec: str) -> tuple[int, ...]:
    """Empty if the codec takes any."""
    return _RATES.get(codec, ())


def channels_of(codec: str) -> int:
    """The most that the codec has."""
    return _CHANNELS.get(codec, 8)


class Encoders:
    """The encoders of one ffmpeg."""

    def __init__(self, capabilities: FfmpegCapabilities) -> None:
        self._capabilities = capabilities

    def codec_of(self, encoder: str) -> str:
        return self._capabilities.encoders[encoder].codec

    def find(self, name: str, kind: CodecKind) -> str | None:
        """The encoder that a caller names, by its own name or by that of the codec."""
        key = name.strip().lower()
        key = _CODEC_ALIASES.get(key, key)
        known = self._capabilities.encoders.get(key)
        if known is not None and known.kind == kind and key not in _PREFERRED:
            return key
        return next((one for one in self._candidates(key) if self._is(one, kind)), None)

    def available(self, codecs: tuple[str, ...], kind: CodecKind) -> list[str]:
        """Those of the codecs that this ffmpeg can write."""
        return [codec for codec in codecs if self.find(codec, kind) is not None]

    def of_format(self, form: ContainerFormat, kind: CodecKind) -> str | None:
        """The encoder for a container if nobody chooses."""
        found = self.available(form.codecs(kind), kind)
        return self.find(found[0], kind) if found else None

    def _candidates(self, codec: str) -> list[str]:
        return [*_PREFERRED.get(codec, ()), *([codec] if codec not in _PREFERRED else [])]

    def _is(self, encoder: str, kind: CodecKind) -> bool:
        known = self._capabilities.encoders.get(encoder)
        return known is not None and known.kind == kind

    def video_options(self, encoder: str, preset: str, bitrate: str | None) -> list[str]:
        """The encoder with its quality, or its bitrate."""
        codec = self.codec_of(encoder)
        pixels = ["-pix_fmt", "yuv420p"] if codec in _YUV420 else []
        tuned = {
            "libx264": ["-preset", preset],
            "libx265": ["-preset", preset, "-x265-params", "log-level=error"],
            "libvpx-vp9": ["-deadline", "good", "-cpu-used", "4", "-row-mt", "1"],
            "libvpx": ["-deadline", "good", "-cpu-used", "4"],
            "libaom-av1": ["-cpu-used", "6"],
            "libsvtav1": ["-preset", "8"],
        }.get(encoder, [])
        return ["-c:v", encoder, *tuned, *_quality(encoder, bitrate), *pixels]


def _quality(encoder: str, bitrate: str | None) -> list[str]:
    if bitrate is not None:
        return ["-b:v", bitrate]
    factors = {"libx264": "20", "libx265": "24", "libvpx-vp9": "31", "libaom-av1": "30", "libsvtav1": "32"}
    if encoder in factors:
        return ["-crf", factors[encoder], *(["-b:v", "0"] if encoder in ("libvpx-vp9", "libaom-av1") else [])]
    return {
        "libvpx": ["-crf", "10", "-b:v", "2M"],
        "libopenh264": ["-b:v", "4M"],
        "libtheora": ["-q:v", "7"],
        "gif": [],
    }.get(encoder, ["-q:v", "4"])
