"""What an ffmpeg program can do: its version, encoders, filters and container formats."""

import asyncio
import os
import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from .process import FfmpegRunner

StreamKind = Literal["video", "audio", "subtitle"]
_KINDS: dict[str, StreamKind] = {"V": "video", "A": "audio", "S": "subtitle"}
_ENCODER = re.compile(r"^ ([VAS])[A-Z.]{5} (\S+) +(.*)$", re.MULTILINE)
_CODEC = re.compile(r"\(codec (\S+)\)\s*$")
_FILTER = re.compile(r"^ [A-Z.]{2,3} (\w+) +\S+->\S+", re.MULTILINE)
_MUXER = re.compile(r"^ *D?E[d. ]* (\S+) ", re.MULTILINE)
_COLOUR = re.compile(r"^(\w+) +#([0-9a-fA-F]{6})$", re.MULTILINE)
_VERSION = re.compile(r"^ffmpeg version (\S+)", re.MULTILINE)


class MediaEncoder(Struct, frozen=True):
    name: str
    kind: StreamKind
    codec: str
    """What it writes: libx264 writes h264."""


class FfmpegCapabilities(Struct, frozen=True):
    version: str
    encoders: dict[str, MediaEncoder]
    filters: frozenset[str]
    muxers: frozenset[str]
    colours: dict[str, str]
    """Six hexadecimal digits by lower-case name."""

    def encoders_of(self, codec: str) -> list[str]:
        return [encoder.name for encoder in self.encoders.values() if encoder.codec == codec]


_known: dict[tuple[str, int, int], FfmpegCapabilities] = {}
"""By program, its time and its size: asking takes five processes."""


async def read_capabilities(runner: FfmpegRunner, folder: Path) -> FfmpegCapabilities:
    path = runner.program.ffmpeg
    about = os.stat(path)
    key = (path, about.st_mtime_ns, about.st_size)
    found = _known.get(key)
    if found is None:
        questions = ("-version", "-encoders", "-filters", "-muxers", "-colors")
        found = _read(*await asyncio.gather(*(runner.ask(question, folder) for question in questions)))
        _known[key] = found
    return found


def _read(version: str, encoders: str, filters: str, muxers: str, colours: str) -> FfmpegCapabilities:
    listed: dict[str, MediaEncoder] = {}
    for kind, name, description in _ENCODER.findall(encoders):
        codec = _CODEC.search(description)
        listed[name] = MediaEncoder(name, _KINDS[kind], codec[1] if codec else name)
    listed.pop("=", None)  # the legend
    number = _VERSION.search(version)
    return FfmpegCapabilities(
        version=number[1] if number else "",
        encoders=listed,
        filters=frozenset(_FILTER.findall(filters)),
        muxers=frozenset(name for names in _MUXER.findall(muxers) for name in names.split(",")),
        colours={name.lower(): digits.lower() for name, digits in _COLOUR.findall(colours)},
    )
