"""From an address to the sessions that are kept there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from ....kit.extras import need
from ..meanings import Encoder
from ..settings import default_file
from .engine import Engine
from .errors import StoreError
from .keeper import Keeper
from .sqlite import SqliteEngine

_FORMS = "sqlite:PATH, postgresql://USER:PASSWORD@HOST/NAME, or memory:"


def open_keeper(url: str, encoder: Encoder) -> Keeper:
    """Nothing is connected or created before the first use. MissingExtra when a package is not there."""
    return Keeper(_engine(url), encoder)


def _engine(url: str) -> Engine:
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if not url:
        return SqliteEngine(default_file())
    if scheme == "memory" and colon:
        return SqliteEngine(None)
    if scheme == "sqlite" and rest:
        path = "/" + rest.lstrip("/") if rest.startswith("//") else rest
        return SqliteEngine(Path(unquote(path)).expanduser())
    if scheme in ("postgres", "postgresql") and rest.startswith("//"):
        need("sessions", "postgres", "psycopg")
        from .postgres import PostgresEngine

        return PostgresEngine(url)
    # Only the scheme is quoted: somebody may have put a password where the address belongs.
    named = f"of the kind {scheme!r}" if colon and scheme.isalnum() else "without a known scheme"
    raise StoreError(f"there is no database {named}", f"sessions are kept in {_FORMS}")
