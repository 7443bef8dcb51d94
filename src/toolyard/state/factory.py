"""Opens a store by its URL. A store connects when it is first used."""

from importlib.util import find_spec
from pathlib import Path

from .memory import MemoryState
from .store import State, StateExtraError, StateUnusableError, file_of, kind_of


def open_state(url: str, folder: Path | None) -> State:
    """A relative file name is below `folder`."""
    match kind_of(url):
        case "memory":
            return MemoryState()
        case "sqlite":
            from .sqlite import SqliteState  # 3 ms

            return SqliteState(file_of(url, folder))
        case "redis":
            _require("redis", "redis")
            from .redis import RedisState

            return RedisState(url)
        case "postgres":
            _require("psycopg", "postgres")
            from .postgres import PostgresState

            return PostgresState(url)


def lasting_state(url: str, folder: Path | None, state: State | None, what: str) -> tuple[State, bool]:
    """The store for credentials, and whether it was opened here.

    Credentials outlive processes, so with a store in memory they are in the SQLite file of the state folder,
    where `sqlite:` would put them.
    """
    if kind_of(url) == "memory":
        if folder is None:
            raise StateUnusableError(f"there is no folder for {what}", "set state_dir in [gateway]")
        return open_state("sqlite:", folder), True
    return (open_state(url, folder), True) if state is None else (state, False)


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise StateExtraError(f"a {extra} store", extra)
