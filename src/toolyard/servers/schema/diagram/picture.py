"""A diagram as a PNG: a box for each table with its columns, keys marked, and lines from column to column.

Pillow is imported when the first picture is drawn.
"""

import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from ....databases import Table, TableColumn
from ..catalogue import Relation
from .layout import Edge, Size, layout
from .relations import DiagramTables

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
    """The font that comes with Pillow."""
    from PIL import ImageFont  # 60 ms of CPU with the rest of Pillow, when the first picture is drawn

    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return found


def width_of(text: str, size: int) -> float:
    return font(size).getlength(text)


def short(text: str, longest: int) -> str:
    """Shortens a text and reduces it to ASCII, the characters that the font has."""
    letters = (char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    plain = "".join(char if " " <= char <= "~" else "?" for char in letters)
    return plain if len(plain) <= longest else plain[: longest - 3] + "..."


class Canvas:
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
        """A dashed line of horizontal and vertical parts."""
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
        # Few colours: with a palette the file is a third of the size and looks the same.
        self._image.quantize(64).save(out, "PNG", optimize=True)
        return out.getvalue()

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return ((x + self._border) * self._scale, (y + self._border) * self._scale)


_BORDER = 24
_HEAD, _ROW = 30.0, 21.0
_KEYS, _SIDE, _BETWEEN = 28.0, 10.0, 18.0
_LONGEST_NAME, _LONGEST_TYPE = 32, 18
_ROWS, _ROWS_OF_MANY, _MANY = 16, 8, 12
"""Columns shown of each table, and of each table when there are many."""
_WIDEST_FINE = 1200.0
"""Up to this width a picture is drawn at double resolution; a bigger one would be scaled down anyway."""


class DiagramImage(Struct, frozen=True):
    png: bytes
    cut: bool
    """Whether some columns are not shown."""


class _Card(Struct, frozen=True):
    """A table as it is drawn."""

    table: Table
    rows: list[TableColumn]
    foreign: set[str]
    size: Size

    @property
    def hidden(self) -> int:
        return len(self.table.columns) - len(self.rows)

    def height_of(self, column: str) -> float:
        """Where a line to this column ends; for a column that is not shown, the last row."""
        names = [row.name for row in self.rows]
        row = names.index(column) if column in names else len(names) - 1
        return _HEAD + _ROW * (max(row, 0) + 0.5)


def draw(diagram: DiagramTables) -> DiagramImage:
    """Takes tenths of a second for many tables: run it in a thread."""
    cards = {table.name: _card(table, diagram) for table in diagram.tables}
    places = {name: number for number, name in enumerate(cards)}
    edges = [
        Edge(
            places[one.table],
            cards[one.table].height_of(one.columns[0]),
            places[one.references],
            cards[one.references].height_of((one.referenced or one.columns)[0]),
        )
        for one in diagram.relations
    ]
    plan = layout([card.size for card in cards.values()], edges)
    scale = 2 if max(plan.size.width, plan.size.height) <= _WIDEST_FINE else 1
    pen = Canvas(plan.size.width + _BETWEEN, plan.size.height, _BORDER, scale)
    lines = sorted(zip(diagram.relations, plan.routes, strict=True), key=lambda line: not line[0].noted)
    for relation, route in lines:  # declared relations over noted ones
        _draw_relation(pen, relation, route)
    for card, (x, y) in zip(cards.values(), plan.boxes, strict=True):
        _draw_card(pen, card, x, y)
    return DiagramImage(pen.png(), any(card.hidden for card in cards.values()))


def _card(table: Table, diagram: DiagramTables) -> _Card:
    foreign = diagram.foreign(table)
    rows = _rows(table, foreign, _ROWS_OF_MANY if len(diagram.tables) > _MANY else _ROWS)
    lines = [
        _KEYS
        + width_of(short(row.name, _LONGEST_NAME), TEXT)
        + _BETWEEN
        + width_of(short(row.type, _LONGEST_TYPE), SMALL)
        for row in rows
    ]
    title = width_of(short(table.name, _LONGEST_NAME), TITLE)
    width = max([title, *lines]) + 2 * _SIDE
    count = len(rows) + (len(rows) < len(table.columns))
    return _Card(table, rows, foreign, Size(width, _HEAD + _ROW * max(count, 1)))


def _rows(table: Table, foreign: set[str], most: int) -> list[TableColumn]:
    """All columns, or the keys and as many others as fit, in their own order."""
    if len(table.columns) <= most:
        return list(table.columns)
    keys = [column for column in table.columns if column.name in table.primary_key or column.name in foreign]
    others = [column for column in table.columns if column not in keys]
    kept = [*keys[: most - 1], *others][: most - 1]
    return [column for column in table.columns if column in kept]


def _draw_card(pen: Canvas, card: _Card, x: float, y: float) -> None:
    width, height = card.size.width, card.size.height
    pen.box(x, y, width, height, COLOURS.paper)
    pen.box(x, y, width, _HEAD, COLOURS.view if card.table.kind == "view" else COLOURS.table)
    pen.text(x + _SIDE, y + _HEAD / 2, short(card.table.name, _LONGEST_NAME), TITLE, COLOURS.paper)
    for number, column in enumerate(card.rows):
        _draw_row(pen, card, column, x, y + _HEAD + _ROW * number, striped=bool(number % 2))
    if card.hidden:
        middle = y + height - _ROW / 2
        pen.text(x + _SIDE + _KEYS, middle, f"+ {card.hidden}", TEXT, COLOURS.faint)
    pen.frame(x, y, width, height, COLOURS.frame)


def _draw_row(pen: Canvas, card: _Card, column: TableColumn, x: float, y: float, striped: bool) -> None:
    width, middle = card.size.width, y + _ROW / 2
    if striped:
        pen.box(x + 1, y, width - 2, _ROW, COLOURS.stripe)
    if column.name in card.table.primary_key:
        pen.text(x + _SIDE, middle, "PK", SMALL, COLOURS.primary)
    elif column.name in card.foreign:
        pen.text(x + _SIDE, middle, "FK", SMALL, COLOURS.foreign)
    pen.text(x + _SIDE + _KEYS, middle, short(column.name, _LONGEST_NAME), TEXT, COLOURS.ink)
    pen.text(x + width - _SIDE, middle, short(column.type, _LONGEST_TYPE), SMALL, COLOURS.faint, "rm")


def _draw_relation(pen: Canvas, relation: Relation, route: Sequence[tuple[float, float]]) -> None:
    """With a crow's foot at the referring table and a bar at the referenced one."""
    colour = COLOURS.noted if relation.noted else COLOURS.line
    (pen.dashes if relation.noted else pen.line)(route, colour)
    (x, y), (next_x, _) = route[0], route[1]
    away = 10 if next_x > x else -10
    for spread in (-5, 5):
        pen.line([(x, y + spread), (x + away, y)], colour)
    (x, y), (next_x, _) = route[-1], route[-2]
    away = 7 if next_x > x else -7
    pen.line([(x + away, y - 5), (x + away, y + 5)], colour)
