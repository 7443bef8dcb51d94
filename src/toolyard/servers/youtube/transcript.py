"""Transcripts from subtitles: WebVTT and SubRip files as lines of text with times.

Automatic captions roll: each cue repeats the lines that are still on the screen. Such repetitions are
removed, so that every word is there once.
"""

import html
import itertools
import re
from collections.abc import Sequence

from msgspec import Struct

MAX_CUES = 100_000

_TIMES = re.compile(
    r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})\s*-->\s*(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
)
_TAG = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,100}\}")


class Cue(Struct, frozen=True):
    start: float
    end: float
    text: str


def cues_of(subtitles: str) -> list[Cue]:
    """Reads either format; a block that is not a cue (a note, a style, a header) is skipped."""
    found: list[tuple[float, float, tuple[str, ...]]] = []
    times: tuple[float, float] | None = None
    lines: list[str] = []

    def close() -> None:
        if times is not None and lines:
            found.append((*times, tuple(lines)))

    for line in subtitles.removeprefix("\ufeff").splitlines():
        match = _TIMES.search(line)
        if match is not None:
            close()
            if len(found) >= MAX_CUES:
                break
            times, lines = (_seconds(match.groups()[:4]), _seconds(match.groups()[4:])), []
        elif not line.strip():
            # A rolling caption has lines of a single blank; only an empty one ends a cue.
            if not line:
                close()
                times, lines = None, []
        elif times is not None:
            text = " ".join(html.unescape(_TAG.sub("", line)).split())
            if text:
                lines.append(text)
    close()
    return _spoken(found)


def transcript(cues: Sequence[Cue]) -> str:
    return "".join(f"[{clock(cue.start)}] {cue.text}\n" for cue in cues)


def clock(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes:02}:{whole % 60:02}"


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return whole + int((fraction or "0").ljust(3, "0")) / 1000


def _spoken(found: list[tuple[float, float, tuple[str, ...]]]) -> list[Cue]:
    rolls = _rolls(found)
    cues: list[Cue] = []
    before: tuple[str, ...] = ()
    for start, end, lines in found:
        new = lines[_repeated(before, lines) :] if rolls else lines
        if new:
            cues.append(Cue(start, end, " ".join(new)))
        before = lines
    return cues


def _rolls(found: list[tuple[float, float, tuple[str, ...]]]) -> bool:
    """Whether cues repeat the lines before them as a rule; in subtitles by people that is rare."""
    pairs = list(itertools.pairwise(found))
    repeated = sum(_repeated(one[2], other[2]) > 0 for one, other in pairs)
    return len(pairs) > 1 and repeated * 3 >= len(pairs)


def _repeated(before: tuple[str, ...], lines: tuple[str, ...]) -> int:
    """How many of the first lines are the last ones of the cue before."""
    for count in range(min(len(before), len(lines)), 0, -1):
        if before[-count:] == lines[:count]:
            return count
    return 0
