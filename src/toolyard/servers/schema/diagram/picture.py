"""A diagram as a PNG: a box for each table with its columns, keys marked, lines from column to column."""

from collections.abc import Sequence

from msgspec import Struct

from ....databases import Column, Table
from ..catalogue import Relation
from .choosing import Chosen
from .layout import Edge, Size, layout
from .pen import COLOURS, SMALL, TEXT, TITLE, Pen, short, width_of

_BORDER = 24
_HEAD, _ROW = 30.0, 21.0
_KEYS, _SIDE, _BETWEEN = 28.0, 10.0, 18.0
_LONGEST_NAME, _LONGEST_TYPE = 32, 18
_ROWS, _ROWS_OF_MANY, _MANY = 16, 8, 12
"""Columns that are shown of a table, and of each of many."""
_WIDEST_FINE = 1200.0
"""Up to here a picture is drawn twice as fine; whoever looks at a bigger one would shrink it again."""


class Drawn(Struct, frozen=True):
    png: bytes
    cut: bool
    """Whether some columns are not shown."""


class _Card(Struct, frozen=True):
    """A table as it is drawn."""

    table: Table
    rows: list[Column]
    foreign: set[str]
    size: Size

    @property
    def hidden(self) -> int:
        return len(self.table.columns) - len(self.rows)

    def height_of(self, column: str) -> float:
        """Where a line to this column ends; one that is not shown ends at the last row."""
        names = [row.name for row in self.rows]
        row = names.index(column) if column in names else len(names) - 1
        return _HEAD + _ROW * (max(row, 0) + 0.5)


def draw(diagram: Chosen) -> Drawn:
    """Takes some tenths of a second for many tables: not for the event loop."""
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
    pen = Pen(plan.size.width + _BETWEEN, plan.size.height, _BORDER, scale)
    lines = sorted(zip(diagram.relations, plan.routes, strict=True), key=lambda line: not line[0].noted)
    for relation, route in lines:  # those of the database over those of people
        _draw_relation(pen, relation, route)
    for card, (x, y) in zip(cards.values(), plan.boxes, strict=True):
        _draw_card(pen, card, x, y)
    return Drawn(pen.png(), any(card.hidden for card in cards.values()))


def _card(table: Table, diagram: Chosen) -> _Card:
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


def _rows(table: Table, foreign: set[str], most: int) -> list[Column]:
    """All, or the keys and as many others as there is room for, in their own order."""
    if len(table.columns) <= most:
        return list(table.columns)
    keys = [column for column in table.columns if column.name in table.primary_key or column.name in foreign]
    others = [column for column in table.columns if column not in keys]
    kept = [*keys[: most - 1], *others][: most - 1]
    return [column for column in table.columns if column in kept]


def _draw_card(pen: Pen, card: _Card, x: float, y: float) -> None:
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


def _draw_row(pen: Pen, card: _Card, column: Column, x: float, y: float, striped: bool) -> None:
    width, middle = card.size.width, y + _ROW / 2
    if striped:
        pen.box(x + 1, y, width - 2, _ROW, COLOURS.stripe)
    if column.name in card.table.primary_key:
        pen.text(x + _SIDE, middle, "PK", SMALL, COLOURS.primary)
    elif column.name in card.foreign:
        pen.text(x + _SIDE, middle, "FK", SMALL, COLOURS.foreign)
    pen.text(x + _SIDE + _KEYS, middle, short(column.name, _LONGEST_NAME), TEXT, COLOURS.ink)
    pen.text(x + width - _SIDE, middle, short(column.type, _LONGEST_TYPE), SMALL, COLOURS.faint, "rm")


def _draw_relation(pen: Pen, relation: Relation, route: Sequence[tuple[float, float]]) -> None:
    """With the foot of a crow where it starts, at those that refer, and a bar at the one referred to."""
    colour = COLOURS.noted if relation.noted else COLOURS.line
    (pen.dashes if relation.noted else pen.line)(route, colour)
    (x, y), (next_x, _) = route[0], route[1]
    away = 10 if next_x > x else -10
    for spread in (-5, 5):
        pen.line([(x, y + spread), (x + away, y)], colour)
    (x, y), (next_x, _) = route[-1], route[-2]
    away = 7 if next_x > x else -7
    pen.line([(x + away, y - 5), (x + away, y + 5)], colour)
