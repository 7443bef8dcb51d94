"""Where an API is: the parts of its base URL, checked once."""

import re

from msgspec import Struct

_URL = re.compile(
    r"(https?)://(\[[0-9a-fA-F:.]+\]|[^/?#@:\[\]\s\x00-\x20]+)(?::([0-9]{1,5}))?(/[\x21-\x7e]*)?", re.I
)
_PORTS = {"http": 80, "https": 443}


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
        """Raises ValueError with a sentence that quotes the URL, unless that has a password in it."""
        match = _URL.fullmatch(url)
        if match is None or "?" in url or "#" in url:
            shown = "the base URL" if "@" in url else f"the base URL {url!r}"
            raise ValueError(
                f"{shown} cannot be used; it must be http:// or https:// with a host and perhaps a path, "
                "without a user, a query or a fragment"
            )
        scheme, host = match[1].lower(), match[2].lower()
        if not host.isascii():
            host = host.encode("idna").decode()
        port = int(match[3] or _PORTS[scheme])
        if not 0 < port < 65536:
            raise ValueError(f"the base URL {url!r} has a port that does not exist")
        authority = host if port == _PORTS[scheme] else f"{host}:{port}"
        return cls(scheme == "https", host.strip("[]"), port, (match[4] or "").rstrip("/"), authority)
