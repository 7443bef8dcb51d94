"""Values of databases as values of JSON, and how many bytes of JSON rows are.

A number stays a number as long as no digit is lost; what JSON cannot say becomes text.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import msgspec

from .model import DatabaseError

_LARGEST = 2**63
_CHUNK = 1000
_PLAIN = frozenset({str, bool, type(None)})

Row = Sequence[Any]


def json_value(value: Any) -> Any:
    """This value as JSON can carry it."""
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    convert = _CONVERSIONS.get(kind)
    return convert(value) if convert else _by_kinship(value)


def plain_rows(rows: Iterable[Row]) -> list[list[Any]]:
    return [list(map(json_value, row)) for row in rows]


def gather(
    chunks: Iterable[Sequence[Row]],
    *,
    rows: int,
    bytes: int,
    convert: Callable[[Iterable[Row]], list[list[Any]]],
) -> tuple[list[list[Any]], bool]:
    """Rows up to both limits, and whether there were more. `chunks` is not read further than needed."""
    kept = Basket(rows, bytes)
    for chunk in chunks:
        if not kept.put(convert(chunk)):
            return kept.rows, True
    return kept.rows, False


class Basket:
    """Rows up to a number and a size; what comes after is refused."""

    def __init__(self, rows: int, bytes: int) -> None:
        self.rows: list[list[Any]] = []
        self._limit = rows
        self._bytes_left = bytes

    def put(self, chunk: list[list[Any]]) -> bool:
        """Whether all of it fitted."""
        room = self._limit - len(self.rows)
        cut = len(chunk) > room
        if cut:
            del chunk[room:]
        size = _size(chunk)
        if size > self._bytes_left:
            self._put_what_fits(chunk)
            return False
        self._bytes_left -= size
        self.rows += chunk
        return not cut

    def _put_what_fits(self, chunk: list[list[Any]]) -> None:
        for row in chunk:
            self._bytes_left -= _size(row) + 1
            if self._bytes_left < 0:
                break
            self.rows.append(row)
        if not self.rows:
            raise DatabaseError(
                "one row alone is larger than the limit of bytes; hint: ask for fewer columns", "too_big"
            )


def iso_timestamp(text: str) -> str:
    """`2025-01-31 10:00:00+00` as ISO 8601. Infinity and years before Christ are left as they are said."""
    if len(text) < 19 or text[10] != " ":
        return text
    # An offset of whole hours has no minutes, and ISO wants them.
    return f"{text[:10]}T{text[11:]}:00" if text[-3] in "+-" else f"{text[:10]}T{text[11:]}"


def in_chunks(fetch: Callable[[int], Sequence[Row]]) -> Iterable[Sequence[Row]]:
    """Of a driver's `fetchmany`."""
    while chunk := fetch(_CHUNK):
        yield chunk


def _size(part: Any) -> int:
    return len(_ENCODER.encode(part))


_ENCODER = msgspec.json.Encoder()


def _decimal(value: Decimal) -> float | int | str:
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value() and abs(value) < _LARGEST and value.as_tuple().exponent == 0:
        return int(value)
    close = float(value)
    # `repr` is the shortest text of a float: when it says the same number, no digit was lost.
    return close if math.isfinite(close) and Decimal(repr(close)) == value else str(value)


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
    said = [(f"{amount:g}", unit) for amount, unit in amounts if amount]
    date_part = "".join(number + unit for number, unit in said if unit == "D")
    time_part = "".join(number + unit for number, unit in said if unit != "D")
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


def _by_kinship(value: Any) -> Any:
    for kind, convert in _CONVERSIONS.items():
        if isinstance(value, kind):
            return convert(value)
    return str(value)
