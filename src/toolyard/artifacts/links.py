"""Links to results in a local store: the gateway serves them to whoever holds one, until they expire."""

import msgspec

from ..wire.seal import BrokenSeal, Sealer
from .names import now

PATH = "/results/"
_PURPOSE = "result"


class Links:
    """Nothing is kept: the link itself says what it opens and until when, and is signed."""

    def __init__(self, sealer: Sealer, base: str) -> None:
        self._sealer = sealer
        self.base = base.rstrip("/")
        """Where clients reach the gateway; empty when nobody knows, and then there are no links."""

    def make(self, tenant: str, id: str, expires: float) -> str | None:
        if not self.base:
            return None
        token = self._sealer.seal(msgspec.json.encode([tenant, id, int(expires)]), _PURPOSE)
        return f"{self.base}{PATH}{token}"

    def open(self, token: str) -> tuple[str, str] | None:
        """The tenant and id that a link is for; None when it is forged or too old."""
        try:
            found = self._sealer.open(token, _PURPOSE)
            tenant, id, expires = msgspec.json.decode(found, type=tuple[str, str, int])
        except (BrokenSeal, msgspec.DecodeError):
            return None
        return (tenant, id) if now() < expires else None
