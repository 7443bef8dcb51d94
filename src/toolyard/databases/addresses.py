"""Where a database is: its dialect, its file, and its place in words that have no password in them."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from .model import DatabaseError

DIALECTS = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgres",
    "postgres": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_HINT = "hint: sqlite:PATH, duckdb:PATH, postgresql://USER@HOST/NAME or mysql://USER@HOST/NAME"


def dialect_of(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    dialect = DIALECTS.get(scheme.lower())
    if not colon or dialect is None:
        # Only a plain scheme is quoted: somebody may have put a password where the address belongs.
        named = f"of the kind {scheme!r}" if colon and scheme.isalnum() else "without a known scheme"
        raise DatabaseError(f"there is no database {named}; {_HINT}", "unreachable")
    return dialect


def file_of(url: str) -> Path:
    """`sqlite:name`, `sqlite:/path`, `sqlite:///path`; `~` is the home of the user."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
    path = Path(rest).expanduser()
    if not rest or rest.startswith(":"):
        raise DatabaseError(f"{url!r} names no file; {_HINT}", "unreachable")
    return path


def place_of(url: str) -> str:
    """The address for people: scheme, host, port and name, and nothing before an `@` or in the query."""
    scheme, _, rest = url.partition("://")
    # The last one, in the whole of it: a password may hold an unencoded `/`, `?` or `@`.
    shown = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{scheme}://{shown}"


def without_secrets(text: str, url: str) -> str:
    """A driver's words about an address, less its passwords, as written there and as meant."""
    written = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    option = dict(parse_qsl(url.partition("?")[2])).get("password", "")
    for secret in sorted({written, unquote(written), option}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    # A driver ends a password at the first of these signs, and takes the rest for a host or a port.
    pieces = re.split(r"[@/?#\[\]]", written)
    if len(pieces) > 1 and any(piece in text for piece in pieces if piece):
        return "the address is not well formed; hint: in a password @ is %40, / is %2F, ? is %3F, # is %23"
    return text
