"""Reads SRT and WebVTT, and writes the ASS file that ffmpeg burns in.

ffmpeg could read both itself, but then it would decide by the content what the file is, and a playlist names
other files. The `ass` filter reads nothing but ASS.
"""

import html
import re
from collections.abc import Mapping

from msgspec import Struct

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_TIMES = re.compile(rf"^[^\S\n]*{_TIME}\s*-->\s*{_TIME}.*$", re.MULTILINE)
_TAG = re.compile(r"</?([a-zA-Z]+)([^<>]*)>")
_FONT_COLOUR = re.compile(r"""color\s*=\s*["']?#([0-9a-fA-F]{6})""")
HEIGHT = 288
"""The height in which sizes count: ffmpeg's own for SRT, so that a font size means what it means there."""
MAX_CUES = 20_000


class SubtitleCue(Struct, frozen=True):
    start: float
    end: float
    text: str


class SubtitleError(Exception):
    """`str()` says what is wrong."""


def read_cues(data: bytes) -> list[SubtitleCue]:
    text = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    marks = list(_TIMES.finditer(text))
    if not marks:
        raise SubtitleError("no line such as 00:00:01,000 --> 00:00:02,500")
    if len(marks) > MAX_CUES:
        raise SubtitleError(f"{len(marks)} subtitles, at most {MAX_CUES}")
    cues: list[SubtitleCue] = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        body = text[mark.end() : following.start() if following else len(text)].lstrip("\n")
        # A blank line ends the text; before the next times stands a number, or the name of a cue.
        words = body.split("\n\n", 1)[0].strip("\n")
        groups = mark.groups()
        start, end = _seconds(groups[:4]), _seconds(groups[4:])
        if end > start and words.strip():
            cues.append(SubtitleCue(start, end, words))
    if not cues:
        raise SubtitleError("no subtitle has a text and ends after it begins")
    return cues


def _decoded(data: bytes) -> str:
    for encoding in ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def _seconds(parts: "tuple[str | None, ...]") -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction.ljust(3, "0")) / 1000


def write_ass(
    cues: list[SubtitleCue], style: Mapping[str, str], shadow: tuple[float, float] | None, ratio: float
) -> str:
    """`style` has fields of an ASS style; `ratio` is the picture's width by its height."""
    fields = {
        "Name": "Default",
        "Fontname": "Sans",
        "Fontsize": "16",
        "PrimaryColour": "&H00FFFFFF",
        "SecondaryColour": "&H00FFFFFF",
        "OutlineColour": "&H00000000",
        "BackColour": "&H80000000",
        "Bold": "0",
        "Italic": "0",
        "Underline": "0",
        "StrikeOut": "0",
        "ScaleX": "100",
        "ScaleY": "100",
        "Spacing": "0",
        "Angle": "0",
        "BorderStyle": "1",
        "Outline": "1",
        "Shadow": "0",
        "Alignment": "2",
        "MarginL": "10",
        "MarginR": "10",
        "MarginV": "10",
        "Encoding": "1",
        **style,
    }
    lead = f"{{\\xshad{shadow[0]:g}\\yshad{shadow[1]:g}}}" if shadow else ""
    lines = [
        "[Script Info]",
        "ScriptType: v4.00+",
        f"PlayResX: {max(1, round(HEIGHT * ratio))}",
        f"PlayResY: {HEIGHT}",
        "ScaledBorderAndShadow: yes",
        "",
        "[V4+ Styles]",
        f"Format: {', '.join(fields)}",
        f"Style: {','.join(fields.values())}",
        "",
        "[Events]",
        "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text",
        *(
            f"Dialogue: 0,{_clock(cue.start)},{_clock(cue.end)},Default,,0,0,0,,{lead}{_ass(cue.text)}"
            for cue in cues
        ),
    ]
    return "\n".join(lines) + "\n"


def _clock(seconds: float) -> str:
    whole, hundredths = divmod(round(seconds * 100), 100)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}.{hundredths:02}"


def _ass(text: str) -> str:
    """Bold, italic, underlined and coloured stay so; what ASS would take for a command becomes text."""
    found: list[str] = []
    at = 0
    for tag in _TAG.finditer(text):
        found += [_plain(text[at : tag.start()]), _override(tag)]
        at = tag.end()
    return "".join([*found, _plain(text[at:])])


def _plain(text: str) -> str:
    # Also those that were written as `&#13;`: a line of the file must not end here.
    lines = html.unescape(text).replace("\r\n", "\n").replace("\r", "\n")
    # An invisible character behind a backslash, for which ASS has no escape.
    words = lines.replace("\\", "\\\u2060").replace("{", "\\{").replace("}", "\\}")
    return words.replace("\n", "\\N")


def _override(tag: re.Match[str]) -> str:
    closing = tag[0].startswith("</")
    name = tag[1].lower()
    if name in ("b", "i", "u", "s"):
        return f"{{\\{name}{0 if closing else 1}}}"
    if name == "font":
        colour = _FONT_COLOUR.search(tag[2])
        if closing:
            return "{\\c}"
        return f"{{\\c&H{colour[1][4:]}{colour[1][2:4]}{colour[1][:2]}&}}" if colour else ""
    return ""
