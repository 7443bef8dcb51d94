"""PostgreSQL's texts of values, straight to values of JSON: no date is made to be written out again.

The driver hands over these kinds as text, which it does in C, and they are converted here column by column:
that takes half the time of a converter of ours that the driver calls for each value.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, cast

from psycopg import AsyncConnection, Column
from psycopg.types.string import TextLoader

from .values import iso_timestamp, json_value

_TEXTS = ("date", "time", "timetz", "interval", "uuid", "inet", "cidr", "xml")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
_EXACT_DIGITS = 15
"""So many digits survive in a float, whichever they are."""

Convert = Callable[[str], Any]


def register(connection: AsyncConnection[Any]) -> None:
    """For all statements on this connection: which kinds come as text."""
    ranges = [f"{name}{kind}" for name in _RANGES for kind in ("range", "multirange")]
    for name in (*_TEXTS, *ranges, *_CONVERSIONS):
        connection.adapters.register_loader(name, TextLoader)


def converters(connection: AsyncConnection[Any], columns: Sequence[Column]) -> list[tuple[int, Convert]]:
    """Of the columns that have one, by their place."""
    by_number: dict[int, Convert] = {}
    for name, convert in _CONVERSIONS.items():
        kind = connection.adapters.types[name]
        by_number[kind.oid] = convert
        by_number[kind.array_oid] = _each(convert)
    return [
        (place, by_number[column.type_code])
        for place, column in enumerate(columns)
        if column.type_code in by_number
    ]


def convert(rows: list[list[Any]], wanted: Sequence[tuple[int, Convert]]) -> None:
    for place, convert_one in wanted:
        for row in rows:
            value = row[place]
            if value is not None:
                row[place] = convert_one(value)


def _numeric(text: str) -> float | int | str:
    if len(text) > _EXACT_DIGITS:
        return json_value(Decimal(text))
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text  # NaN and the infinities


def _float(text: str) -> float | str:
    return json_value(float(text))


def _hex(text: str) -> str:
    return text.removeprefix("\\x")


def _each(convert_one: Convert) -> Callable[[Any], Any]:
    def all_of(value: Any) -> Any:
        if isinstance(value, list):
            return [all_of(part) for part in cast("list[Any]", value)]
        return None if value is None else convert_one(value)

    return all_of


_CONVERSIONS: dict[str, Convert] = {
    "numeric": _numeric,
    "timestamp": iso_timestamp,
    "timestamptz": iso_timestamp,
    "float4": _float,
    "float8": _float,
    "bytea": _hex,
}
