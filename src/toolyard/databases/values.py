"""Converts values of databases to JSON, and collects rows up to a limit of bytes.

A number stays a number if no digit is lost; a value that JSON does not have becomes text.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import msgspec
from msgspec import Raw

from .model import DatabaseError

_LARGEST = 2**63
_CHUNK = 1000
_EXACT = 16
"""Characters of a decimal with at most 15 digits, which a float holds exactly."""
_PLAIN = frozenset({str, bool, type(None)})

Row = Sequence[Any]
Encoded = bytes


def json_value(value: Any) -> Any:
    """The value as one that JSON has."""
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    convert = _CONVERSIONS.get(kind)
    return convert(value) if convert else _by_base_type(value)


def plain_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """Converts column by column: most have values of one type, and many of those need no change."""
    columns = [*zip(*rows, strict=True)]
    plain = [_plain_column(column) for column in columns]
    if all(map(operator.is_, columns, plain)):
        return rows
    return [*zip(*plain, strict=True)]


def _plain_column(values: Sequence[Any]) -> Sequence[Any]:
    kinds = {*map(type, values)}
    others = kinds - _PLAIN
    if not others:
        return values
    if len(others) > 1:
        return [*map(json_value, values)]
    (kind,) = others
    own = values if len(kinds) == 1 else [value for value in values if type(value) is kind]
    if kind is int and min(own) >= -_LARGEST and max(own) < _LARGEST:
        return values
    # The sum is finite only if all values are.
    if kind is float and math.isfinite(sum(own)):
        return values
    convert = _CONVERSIONS.get(kind, json_value)
    return [convert(value) if type(value) is kind else value for value in values]


def gather(
    chunks: Iterable[Sequence[Row]],
    *,
    rows: int,
    bytes: int,
    convert: Callable[[Sequence[Row]], Sequence[Row]],
) -> "RowBuffer":
    """Collect rows up to both limits; reads no more of `chunks` than needed."""
    kept = RowBuffer(rows, bytes)
    for chunk in chunks:
        if not kept.put(convert(chunk)):
            break
    return kept


class RowBuffer:
    """Rows as JSON, up to a number of rows and of bytes."""

    def __init__(self, rows: int, bytes: int) -> None:
        self.count = 0
        self.truncated = False
        self._parts: list[Encoded] = []
        self._limit = rows
        self._bytes_left = bytes

    @property
    def json(self) -> Raw:
        return Raw(b"[" + b",".join(self._parts) + b"]")

    def put(self, chunk: Sequence[Row]) -> bool:
        """Returns whether the whole chunk fitted."""
        room = self._limit - self.count
        self.truncated = len(chunk) > room
        if self.truncated:
            chunk = chunk[:room]
        encoded = _ENCODER.encode(chunk)
        if len(encoded) > self._bytes_left:
            self._put_what_fits(chunk)
            self.truncated = True
        elif chunk:
            self._bytes_left -= len(encoded)
            self.count += len(chunk)
            self._parts.append(encoded[1:-1])
        return not self.truncated

    def _put_what_fits(self, chunk: Sequence[Row]) -> None:
        for row in chunk:
            encoded = _ENCODER.encode(row)
            self._bytes_left -= len(encoded) + 1
            if self._bytes_left < 0:
                break
            self.count += 1
            self._parts.append(encoded)
        if not self.count:
            raise DatabaseError(
                "one row alone exceeds the limit of bytes; hint: select fewer columns", "too_big"
            )


def iso_timestamp(text: str) -> str:
    """`2025-01-31 10:00:00+00` as ISO 8601. Infinity and years BC stay as they are."""
    if len(text) < 19 or text[10] != " ":
        return text
    # ISO 8601 needs minutes in the offset.
    return f"{text[:10]}T{text[11:]}:00" if text[-3] in "+-" else f"{text[:10]}T{text[11:]}"


def in_chunks(fetch: Callable[[int], Sequence[Row]]) -> Iterable[Sequence[Row]]:
    """The chunks of a driver's `fetchmany`."""
    while chunk := fetch(_CHUNK):
        yield chunk


_ENCODER = msgspec.json.Encoder()


def _decimal(value: Decimal) -> float | int | str:
    text = str(value)
    if len(text) <= _EXACT and text.replace(".", "").lstrip("-").isdigit():
        return float(text) if "." in text else int(text)
    if not value.is_finite():
        return text
    if value == value.to_integral_value() and abs(value) < _LARGEST and value.as_tuple().exponent == 0:
        return int(value)
    close = float(value)
    # `repr` is the shortest text of a float: if it is the same number, no digit is lost.
    return close if math.isfinite(close) and Decimal(repr(close)) == value else text


def _float(value: float) -> float | str:
    return (
        value
        if math.isfinite(value)
        else "NaN"
        if math.isnan(value)
        else "Infinity"
        if value > 0
        else "-Infinity"
    )


def _int(value: int) -> int | str:
    return value if -_LARGEST <= value < _LARGEST else str(value)


def _duration(value: timedelta) -> str:
    """ISO 8601, as PostgreSQL writes it."""
    sign = "-" if value < timedelta() else ""
    seconds = abs(value).total_seconds()
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    amounts = zip((days, hours, minutes, left), "DHMS", strict=True)
    parts = [(f"{amount:g}", unit) for amount, unit in amounts if amount]
    date_part = "".join(number + unit for number, unit in parts if unit == "D")
    time_part = "".join(number + unit for number, unit in parts if unit != "D")
    text = date_part + ("T" + time_part if time_part else "")
    return f"{sign}P{text}" if text else "PT0S"


def _list(values: Iterable[Any]) -> list[Any]:
    return [json_value(value) for value in values]


def _dict(values: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): json_value(value) for key, value in values.items()}


def _hex(value: bytes | bytearray | memoryview) -> str:
    return value.hex()


_CONVERSIONS: dict[type[Any], Callable[[Any], Any]] = {
    int: _int,
    float: _float,
    Decimal: _decimal,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _duration,
    bytes: _hex,
    bytearray: _hex,
    memoryview: _hex,
    list: _list,
    tuple: _list,
    set: _list,
    dict: _dict,
}


def _by_base_type(value: Any) -> Any:
    for kind, convert in _CONVERSIONS.items():
        if isinstance(value, kind):
            return convert(value)
    return str(value)
