"""Opens a store by its URL. A store connects when it is first used."""

from importlib.util import find_spec
from pathlib import Path

from .memory import MemoryState
from .store import State, StateExtraError, file_of, kind_of


def open_state(url: str, folder: Path | None) -> State:
    """A relative file name is below `folder`."""
    match kind_of(url):
        case "memory":
            return MemoryState()
        case "sqlite":
            from .sqlite import SqliteState  # 3 ms

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
        from ..databases.model import place_of

        raise StateExtraError(place_of(url), extra)
