"""Checks what callers pass: times, sizes, rates, colours, positions. An error names the argument."""

import math
import re
from typing import NoReturn

from msgspec import Struct

from ...ffmpeg.filters import is_expression
from ...kit import ToolError
from .settings import Settings
from .texts import MediaTexts

Time = str | float
_CLOCK = re.compile(r"(?:(?:(\d{1,4}):)?(\d{1,4}):)?(\d{1,9}(?:\.\d{1,9})?)\s*s?")
_PAIR = re.compile(r"(-?\d{1,5})\s*[xX:*]\s*(-?\d{1,5})")
_LINES = re.compile(r"(\d{3,5})[pP]")
_RATIO = re.compile(r"(\d{1,5}(?:\.\d{1,4})?)\s*[:/]\s*(\d{1,5}(?:\.\d{1,4})?)")
_BITRATE = re.compile(r"(\d{1,10}(?:\.\d{1,3})?)\s*([kKmM]?)(?:b|bit|bps|bit/s|b/s)?")
_COLOUR = re.compile(r"(?:#|0[xX])([0-9a-fA-F]{6})([0-9a-fA-F]{2})?")
_ASS_COLOUR = re.compile(r"&[hH]([0-9a-fA-F]{2})?([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})&?")
_TEXT_NAMES = frozenset("w h W H main_w main_h text_w text_h tw th line_h lh t n max_glyph_a".split())  # noqa: SIM905
_OVERLAY_NAMES = frozenset("main_w main_h overlay_w overlay_h W H w h t n".split())  # noqa: SIM905
_SCALE_NAMES = frozenset("iw ih in_w in_h a sar dar".split())  # noqa: SIM905
MAX_SECONDS = 1_000_000.0


class Colour(Struct, frozen=True):
    rgb: str
    """Six hexadecimal digits."""
    opacity: float = 1.0

    @property
    def ffmpeg(self) -> str:
        return f"0x{self.rgb}@{self.opacity:.3g}"

    @property
    def ass(self) -> str:
        """&HAABBGGRR, with 00 for opaque."""
        red, green, blue = self.rgb[:2], self.rgb[2:4], self.rgb[4:]
        return f"&H{round((1 - self.opacity) * 255):02X}{blue}{green}{red}".upper()


class ArgumentReader:
    """Reads arguments; `name` is the parameter that an error names."""

    def __init__(self, texts: MediaTexts, settings: Settings) -> None:
        self._texts = texts
        self._settings = settings

    def _fail(self, name: str, value: object, expected: str) -> NoReturn:
        shown = str(value)[:100]
        raise ToolError(self._texts.bad_argument.format(name=name, value=repr(shown), expected=expected))

    def time(self, name: str, value: Time) -> float:
        """Seconds, `MM:SS` or `HH:MM:SS`, with decimals."""
        if isinstance(value, str):
            found = _CLOCK.fullmatch(value.strip())
            if found is None:
                self._fail(name, value, self._texts.expected_time)
            value = int(found[1] or 0) * 3600 + int(found[2] or 0) * 60 + float(found[3])
        if not math.isfinite(value) or not 0 <= value <= MAX_SECONDS:
            self._fail(name, value, self._texts.expected_time)
        return float(value)

    def number(self, name: str, value: float, least: float, most: float) -> float:
        if not math.isfinite(value) or not least <= value <= most:
            self._fail(name, value, self._texts.expected_range.format(least=f"{least:g}", most=f"{most:g}"))
        return value

    def choice(self, name: str, value: str, choices: tuple[str, ...]) -> str:
        wanted = value.strip().lower()
        if wanted not in choices:
            self._fail(name, value, self._texts.expected_choice.format(choices=", ".join(choices)))
        return wanted

    def resolution(self, name: str, value: str) -> tuple[int, int]:
        """Width and height; one of them is -2 if it follows from the other. Both are even otherwise."""
        lines, pair = _LINES.fullmatch(value.strip()), _PAIR.fullmatch(value.strip())
        if lines is not None:
            width, height = -2, int(lines[1])
        elif pair is not None:
            width, height = (-2 if int(side) in (-1, -2) else int(side) for side in pair.groups())
        else:
            self._fail(name, value, self._texts.expected_resolution)
        most = self._settings.max_side
        sides = [side for side in (width, height) if side != -2]
        if not sides or not all(16 <= side <= most for side in sides):
            self._fail(name, value, self._texts.expected_side.format(most=most))
        return tuple(side if side == -2 else side // 2 * 2 for side in (width, height))  # pyright: ignore

    def ratio(self, name: str, value: str) -> float:
        found = _RATIO.fullmatch(value.strip())
        if found is None or not float(found[2]) or not 0.1 <= float(found[1]) / float(found[2]) <= 10:
            self._fail(name, value, self._texts.expected_ratio)
        return float(found[1]) / float(found[2])

    def bitrate(self, name: str, value: str | int, most: int) -> str:
        """`192k`, `2M` or bits a second."""
        found = _BITRATE.fullmatch(str(value).strip())
        bits = float(found[1]) * {"": 1, "k": 1000, "m": 1_000_000}[found[2].lower()] if found else 0.0
        if not 1000 <= bits <= most:
            self._fail(name, value, self._texts.expected_bitrate.format(most=f"{most // 1000}k"))
        return str(round(bits))

    def colour(self, name: str, value: str, known: dict[str, str]) -> Colour:
        """A name or #RRGGBB, with `@0.5` for its opacity; `&HAABBGGRR` as in ASS subtitles."""
        ass = _ASS_COLOUR.fullmatch(value.strip())
        if ass is not None:
            opacity = 1 - int(ass[1] or "00", 16) / 255
            return Colour((ass[4] + ass[3] + ass[2]).lower(), opacity)
        base, at, alpha = value.strip().partition("@")
        digits = _COLOUR.fullmatch(base)
        rgb = digits[1].lower() if digits else known.get(base.lower())
        opacity = _opacity(alpha) if at else int(digits[2], 16) / 255 if digits and digits[2] else 1.0
        if rgb is None or opacity is None:
            self._fail(name, value, self._texts.expected_colour)
        return Colour(rgb, opacity)

    def text_place(self, name: str, value: str | float, words: dict[str, str]) -> str:
        return self._place(name, value, words, _TEXT_NAMES)

    def overlay_place(self, name: str, value: str) -> str:
        return self._place(name, value, {}, _OVERLAY_NAMES)

    def scale(self, name: str, value: str | float) -> str:
        """The width or height of a picture: pixels, or `iw*0.1`."""
        text = str(value).strip()
        if re.fullmatch(r"\d{1,5}(\.\d+)?%", text):
            return f"{'iw' if name == 'width' else 'ih'}*{float(text[:-1]) / 100:g}"
        if text.replace(".", "", 1).isdigit() and not 1 <= float(text) <= self._settings.max_side:
            self._fail(name, value, self._texts.expected_side.format(most=self._settings.max_side))
        if not is_expression(text, _SCALE_NAMES):
            self._fail(name, value, self._texts.expected_scale)
        return text

    def _place(self, name: str, value: str | float, words: dict[str, str], names: frozenset[str]) -> str:
        text = words.get(str(value).strip().lower(), str(value).strip())
        if not is_expression(text, names):
            examples = ", ".join([*words, "10", "(w-text_w)/2"]) if words else "x=10:y=10"
            self._fail(name, value, self._texts.expected_place.format(examples=examples))
        return text


def _opacity(text: str) -> float | None:
    try:
        value = int(text, 16) / 255 if text.lower().startswith("0x") else float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
