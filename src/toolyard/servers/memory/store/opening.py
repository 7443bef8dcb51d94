"""From an address to a store."""

from pathlib import Path
from urllib.parse import unquote

from ....config.places import state_home
from ....kit.extras import need
from ....kit.making import WrongSettings
from ..settings import Settings
from .database import Database
from .records import Rules
from .sqlite import SqliteDatabase
from .store import Store


def open_store(settings: Settings) -> Store:
    """Lazy: what cannot be reached is noticed by the first call."""
    rules = Rules(
        max_memories=settings.max_memories,
        max_versions=settings.max_versions,
        max_deleted=settings.max_deleted,
    )
    return Store(_database(settings.url), rules)


def _database(url: str) -> Database:
    scheme = url.partition(":")[0].lower()
    if scheme in ("postgresql", "postgres"):
        need("memory", "postgres", "psycopg")
        from .postgres import PostgresDatabase

        return PostgresDatabase(url)
    if url in ("", "sqlite:"):
        home = state_home()
        return SqliteDatabase(home / "memory" / "memory.db" if home else None)
    if url == "memory:":
        return SqliteDatabase(None)
    if scheme == "sqlite":
        return SqliteDatabase(_file(url))
    # Only the scheme is quoted: somebody may have put a password where the address belongs.
    shown = f"of the kind {scheme[:20]!r}" if ":" in url else "without a scheme"
    raise WrongSettings(f"field 'url': no place {shown}; use sqlite:PATH or postgresql://HOST/NAME")


def _file(url: str) -> Path:
    rest = unquote(url.partition(":")[2])
    # sqlite:///path is the path /path, as everywhere else where addresses of databases are written.
    path = "/" + rest.lstrip("/") if rest.startswith("//") else rest
    return Path(path).expanduser()
