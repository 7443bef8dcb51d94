"""Where an API is: its base URL judged, and taken apart. Whatever passes here can be connected to."""

import re
import socket

from msgspec import Struct

_URL = re.compile(r"(https?)://(\[[0-9a-fA-F:.]+\]|[^/:\[\]]+)(?::([0-9]{1,5}))?(/[\x21-\x7e]*)?", re.I)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_PORTS = {"http": 80, "https": 443}


class WrongAddress(ValueError):
    """No base URL. Quotes it only where no password can be in it."""

    def __init__(self, what: str, hint: str) -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"the base URL {what}; {hint}")


class Origin(Struct, frozen=True):
    secure: bool
    host: str
    """As a connection wants it: an IPv6 address without brackets."""
    port: int
    base: str
    """The path before every path of the table, without a slash at its end."""
    authority: str
    """As the Host header wants it."""

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """Raises WrongAddress."""
        if "@" in re.split(r"[/?#]", url.partition("://")[2] or url)[0]:
            raise WrongAddress("has a user or a password in it", "keys belong to [auth] and 'api_key'")
        if "?" in url or "#" in url:
            raise WrongAddress("has a query or a fragment", "what is always sent belongs to a tool's 'fixed'")
        match = _URL.fullmatch(url)
        host = _host(match[2].lower()) if match is not None else None
        if match is None or host is None:
            raise WrongAddress(f"{url!r} is no URL", "write one such as 'https://api.example.com/v1'")
        scheme = match[1].lower()
        port = int(match[3] or _PORTS[scheme])
        if not 0 < port < 65536:
            raise WrongAddress(f"{url!r} has a port that does not exist", "they are from 1 to 65535")
        authority = host if port == _PORTS[scheme] else f"{host}:{port}"
        return cls(scheme == "https", host.strip("[]"), port, (match[4] or "").rstrip("/"), authority)


def _host(written: str) -> str | None:
    """As a Host header wants it; None when nothing can be called so."""
    try:
        if written.startswith("["):
            socket.inet_pton(socket.AF_INET6, written[1:-1])
            return written
        host = written if written.isascii() else written.encode("idna").decode()
    except (OSError, UnicodeError):
        return None
    labels = host.removesuffix(".").split(".")
    return host if all(_LABEL.fullmatch(label) for label in labels) else None
