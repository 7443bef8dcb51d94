"""Who may knock: Host and Origin checks against DNS rebinding, and CORS for the origins let in."""

from urllib.parse import urlsplit

from ..wire.headers import MAX_HEADERS, MAX_VALUE_BYTES, Head

LOCAL = ("localhost", "127.0.0.1", "[::1]")

Headers = list[tuple[bytes, bytes]]


class Guard:
    """`hosts` and `origins` add to the local ones; "*" admits any.

    A host may be given with or without its port. An origin on an allowed host is allowed.
    """

    def __init__(self, hosts: list[str] | None, origins: list[str] | None) -> None:
        self._hosts = frozenset(host.lower() for host in [*LOCAL, *(hosts or [])])
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins or [])
        self._any_host = "*" in self._hosts
        self._last_host = b"\0"  # no host that was ever let in
        self._any_origin = "*" in self._origins

    def refusal(self, head: Head) -> tuple[int, str] | None:
        """Why this request may not enter, as a status and a sentence, or None."""
        raw_host = head.raw.get(b"host")
        if raw_host != self._last_host and not self._any_host:
            host = head.get(b"host")
            if not self._known_host(host):
                what = f"Host {(host or '')[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-host or to allowed_hosts"
            self._last_host = raw_host or b"\0"
        if b"origin" in head.raw:
            origin = head.get(b"origin") or ""
            if not self._known_origin(origin):
                what = f"Origin {origin[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-origin or to allowed_origins"
        # `raw` keeps one of several headers of a name, so then the pairs are looked at one by one.
        values = head.raw.values() if len(head.raw) == len(head.pairs) else [value for _, value in head.pairs]
        if len(head.pairs) > MAX_HEADERS or max(map(len, values), default=0) > MAX_VALUE_BYTES:
            return 431, f"More than {MAX_HEADERS} headers, or one over {MAX_VALUE_BYTES} bytes"
        return None

    def _known_host(self, host: str | None) -> bool:
        if not host:
            return False
        host = host.lower()
        if host in self._hosts:
            return True
        name, colon, port = host.rpartition(":")
        return bool(colon) and port.isdigit() and name in self._hosts

    def _known_origin(self, origin: str) -> bool:
        origin = origin.lower()
        if self._any_origin or origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self._known_host(parts.netloc)

    def cors(self, head: Head) -> Headers:
        """For an origin that was let in: what its browser needs to see."""
        return [
            (b"access-control-allow-origin", head.raw[b"origin"]),
            (b"access-control-expose-headers", b"mcp-session-id, mcp-protocol-version"),
            (b"vary", b"origin"),
        ]

    def preflight(self, head: Head, requested: bytes) -> Headers:
        return [
            *self.cors(head),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", requested or b"content-type"),
            (b"access-control-max-age", b"600"),
        ]
