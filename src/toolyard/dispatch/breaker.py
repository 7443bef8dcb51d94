"""Stops calls to an upstream that has failed several times in a row, until a probe finds it well."""

from collections.abc import Callable

from ..upstream.errors import Down

THRESHOLD = 5


class Breaker:
    """`on_trip` is told to go and look; whoever finds the upstream well calls `well`."""

    def __init__(self, server: str, on_trip: Callable[[], None] | None = None) -> None:
        self.server = server
        self.reason: str | None = None
        """Why it is open; None when it is closed."""
        self.on_trip = on_trip
        self._failures = 0

    @property
    def is_open(self) -> bool:
        return self.reason is not None

    def check(self) -> None:
        if self.reason is not None:
            raise Down(self.server, f"it is down: {self.reason}; it is tried again by itself")

    def failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures >= THRESHOLD and self.reason is None:
            self.reason = reason
        if self.on_trip is not None:
            self.on_trip()

    def trip(self, reason: str) -> None:
        """A probe found it down; no need to wait for callers to find out too."""
        self._failures = max(self._failures, THRESHOLD)
        self.reason = reason

    def answered(self) -> None:
        """A call was answered. That does not close it: one slow answer may have been on its way for long."""
        self._failures = 0

    def well(self) -> None:
        self._failures = 0
        self.reason = None
