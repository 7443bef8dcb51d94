"""PostgreSQL's texts of values, straight to values of JSON: no date is made to be written out again."""

from decimal import Decimal
from typing import Any

from psycopg import AsyncConnection
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from .values import iso_timestamp, json_value

_TEXTS = ("date", "time", "timetz", "interval", "uuid", "inet", "cidr", "xml")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
_EXACT_DIGITS = 15
"""So many digits survive in a float, whichever they are."""


class _Text(Loader):
    def load(self, data: Buffer) -> str:
        return str(data, "utf-8")


class _Timestamp(Loader):
    def load(self, data: Buffer) -> str:
        return iso_timestamp(str(data, "utf-8"))


class _Numeric(Loader):
    def load(self, data: Buffer) -> float | int | str:
        text = str(data, "utf-8")
        if len(text) > _EXACT_DIGITS:
            return json_value(Decimal(text))
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            return text  # NaN and the infinities


class _Float(Loader):
    def load(self, data: Buffer) -> float | str:
        return json_value(float(bytes(data)))


class _Bytes(Loader):
    def load(self, data: Buffer) -> str:
        return str(data, "ascii").removeprefix("\\x")


def register(connection: AsyncConnection[Any]) -> None:
    """For all statements on this connection."""
    ranges = [f"{name}{kind}" for name in _RANGES for kind in ("range", "multirange")]
    for name in (*_TEXTS, *ranges):
        connection.adapters.register_loader(name, _Text)
    for name in ("timestamp", "timestamptz"):
        connection.adapters.register_loader(name, _Timestamp)
    for name in ("float4", "float8"):
        connection.adapters.register_loader(name, _Float)
    connection.adapters.register_loader("numeric", _Numeric)
    connection.adapters.register_loader("bytea", _Bytes)
