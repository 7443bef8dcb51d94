"""Text, lines and boxes on an image, in units that do not depend on how fine it is."""

import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

TEXT, TITLE, SMALL = 13, 15, 10


class Colours(Struct, frozen=True):
    paper: str = "#ffffff"
    stripe: str = "#f3f6f9"
    ink: str = "#1f2933"
    faint: str = "#7b8794"
    frame: str = "#9aa5b1"
    line: str = "#52606d"
    noted: str = "#b07d2b"
    primary: str = "#b44d12"
    foreign: str = "#2f5d8a"
    table: str = "#2f5d8a"
    view: str = "#6b5b95"


COLOURS = Colours()


@cache
def font(size: int) -> "FreeTypeFont":
    """The one that Pillow brings along."""
    from PIL import ImageFont  # 60 ms of CPU with the rest of Pillow, when the first picture is drawn

    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return found


def width_of(text: str, size: int) -> float:
    return font(size).getlength(text)


def short(text: str, longest: int) -> str:
    """On one line, no longer than this, and in the letters that the font has: those of ASCII."""
    letters = (char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    plain = "".join(char if " " <= char <= "~" else "?" for char in letters)
    return plain if len(plain) <= longest else plain[: longest - 3] + "..."


class Pen:
    def __init__(self, width: float, height: float, border: int, scale: int) -> None:
        from PIL import Image, ImageDraw

        self._scale = scale
        self._border = border
        size = (int((width + 2 * border) * scale), int((height + 2 * border) * scale))
        self._image = Image.new("RGB", size, COLOURS.paper)
        self._draw = ImageDraw.Draw(self._image)

    def text(self, x: float, y: float, text: str, size: int, colour: str, anchor: str = "lm") -> None:
        self._draw.text(self._at(x, y), text, colour, font(size * self._scale), anchor)

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        pixels = [self._at(x, y) for x, y in points]
        self._draw.line(pixels, colour, max(1, round(1.3 * self._scale)), joint="curve")

    def dashes(self, points: Sequence[tuple[float, float]], colour: str, dash: float = 5.0) -> None:
        """A broken line of horizontal and vertical parts."""
        for (x, y), (end_x, end_y) in pairwise(points):
            length = abs(end_x - x) + abs(end_y - y)
            at = 0.0
            while at < length:
                start, stop = at / length, min(at + dash, length) / length
                ends = [(x + (end_x - x) * part, y + (end_y - y) * part) for part in (start, stop)]
                self.line(ends, colour)
                at += 2 * dash

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._draw.rectangle([self._at(x, y), self._at(x + width, y + height)], colour)

    def frame(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._draw.rectangle([self._at(x, y), self._at(x + width, y + height)], None, colour, self._scale)

    def png(self) -> bytes:
        out = io.BytesIO()
        # A few flat colours: a palette is a third of the size and looks the same.
        self._image.quantize(64).save(out, "PNG", optimize=True)
        return out.getvalue()

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return ((x + self._border) * self._scale, (y + self._border) * self._scale)
