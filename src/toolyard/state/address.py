"""Where a store is: its kind, and its place in words that have no password in them."""

from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote

from .errors import Unusable

Kind = Literal["memory", "sqlite", "redis", "postgres"]

_SCHEMES: dict[str, Kind] = {
    "": "memory",
    "memory": "memory",
    "sqlite": "sqlite",
    "redis": "redis",
    "rediss": "redis",
    "postgres": "postgres",
    "postgresql": "postgres",
}
_EXAMPLES = "memory:, sqlite:, sqlite:///path/to/file, redis://HOST, rediss://HOST or postgresql://HOST/NAME"


def kind_of(url: str) -> Kind:
    scheme = url.partition(":")[0].lower() if ":" in url else url
    kind = _SCHEMES.get(scheme)
    if kind is None or (scheme and ":" not in url):
        # Only the scheme is quoted: somebody may have put a password where the address belongs.
        named = f"of the kind {scheme!r}" if ":" in url and scheme.isalnum() else "without a known scheme"
        raise Unusable(f"there is no store {named}", f"state is kept in {_EXAMPLES}")
    return kind


def is_shared(url: str) -> bool:
    """Whether other machines may use the same store."""
    return kind_of(url) in ("redis", "postgres")


def place_of(url: str) -> str:
    """The address for messages: scheme, host, port and name, and nothing before an `@` or in the query."""
    scheme, _, rest = url.partition("://")
    # The last one, in the whole of it: a password may hold an unencoded `/`, `?` or `@`.
    shown = rest.rpartition("@")[2]
    shown = shown.partition("?")[0].partition("#")[0]
    return f"{scheme}://{shown if shown.strip('/') else shown + _option(url, 'host')}"


def without_secrets(text: str, url: str) -> str:
    """Somebody else's words about an address, less its passwords, as written there and as meant."""
    written = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    for secret in sorted({written, unquote(written), _option(url, "password")}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def file_of(url: str, folder: Path | None) -> Path:
    """`sqlite:` is `state.db` in the folder, `sqlite:name` is there too, `sqlite:///path` is the path."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
        if not rest.startswith("/"):
            raise Unusable(f"{url!r} names a host, and SQLite has none", "sqlite:///path/to/file")
        return Path("/" + rest.lstrip("/"))
    name = Path(unquote(rest) or "state.db").expanduser()
    if name.is_absolute():
        return name
    if folder is None:
        raise Unusable(f"there is no state folder for {url!r}", "name the file: sqlite:///path/to/file")
    return folder / name


def _option(url: str, name: str) -> str:
    return dict(parse_qsl(url.rpartition("?")[2])).get(name, "")
