"""Stops calls to an upstream that keeps failing, until a probe finds it well.

One that was well a moment ago has a few seconds of grace: it may just be restarting, and calls that
never left wait for it meanwhile.
"""

import time
from collections.abc import Callable

from ..upstream.errors import Down

THRESHOLD = 5
GRACE_SECONDS = 5.0


class Breaker:
    """`on_trouble` is told of every failure, and whether calls are refused from now on.

    Whoever finds the upstream well calls `well`.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.reason: str | None = None
        """Why calls are refused; None when they are not."""
        self.on_trouble: Callable[[str, bool], None] = lambda reason, opened: None
        self._failures = 0
        self._since: float | None = None
        self._was_well = False

    @property
    def is_open(self) -> bool:
        return self.reason is not None

    def check(self) -> None:
        if self.reason is not None:
            raise Down(self.server, f"it is down: {self.reason}; it is tried again by itself")

    def failed(self, reason: str) -> None:
        """A call was not answered."""
        self._failures += 1
        opened = self._failures >= THRESHOLD and not self._in_grace()
        self._note(reason, opened)

    def unwell(self, reason: str) -> None:
        """A probe was not answered; no need to wait for callers to find out too."""
        self._note(reason, not self._in_grace())

    def _note(self, reason: str, opened: bool) -> None:
        if opened and self.reason is None:
            self.reason = reason
        self.on_trouble(reason, opened)

    def _in_grace(self) -> bool:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return self._was_well and now - self._since < GRACE_SECONDS

    def answered(self) -> None:
        """A call was answered. That does not close it: the answer may have been on its way for long."""
        self._failures = 0
        if self.reason is None:
            self._since = None
            self._was_well = True

    def well(self) -> None:
        self._failures = 0
        self._since = None
        self._was_well = True
        self.reason = None
