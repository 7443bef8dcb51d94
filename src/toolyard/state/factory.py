"""From an address to a store. Connects nothing: a store connects when it is first used."""

from importlib.util import find_spec
from pathlib import Path

from .memory import MemoryState
from .store import State, StateExtraError, file_of, kind_of, place_of


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
        raise StateExtraError(place_of(url), extra)
