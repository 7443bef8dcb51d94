"""From an address to a store. Nothing is connected here: a store connects when it is first used."""

from importlib.util import find_spec
from pathlib import Path

from .address import file_of, kind_of, place_of
from .errors import MissingExtra
from .memory import MemoryState
from .state import State


def open_state(url: str, folder: Path | None) -> State:
    """`folder` is where a file without a path of its own lies."""
    match kind_of(url):
        case "memory":
            return MemoryState()
        case "sqlite":
            from .sqlite import SqliteState  # 3 ms, and only for who uses it

            return SqliteState(file_of(url, folder))
        case "redis":
            _require("redis", url, "redis")
            from .redis import RedisState

            return RedisState(url)
        case "postgres":
            _require("psycopg", url, "postgres")
            from .postgres import PostgresState

            return PostgresState(url)


def _require(package: str, url: str, extra: str) -> None:
    if find_spec(package) is None:
        raise MissingExtra(place_of(url), extra)
