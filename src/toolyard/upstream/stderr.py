"""What a child writes on standard error: into the log line by line, its last lines kept for the obituary."""

import logging
import re
import time
from collections import deque

MAX_LINE = 2000
KEPT = 20
LINES_PER_SECOND = 100
BYTES_PER_SECOND = 8 * 2**20

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029], " ")


class ErrorStream:
    """A flood is cut: it costs neither a full log nor much of our time."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"toolyard.upstream.{name}")
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._rest = b""
        self._second = 0
        self._lines = self._bytes = self._left_out = 0

    @property
    def lines(self) -> list[str]:
        """The last lines, readable."""
        return [text for line in self._kept if (text := readable(line))]

    @property
    def latest(self) -> str:
        """The line that was written last, which may have no end yet: a progress bar is one."""
        for line in (self._rest, *reversed(self._kept)):
            for part in reversed(line.split(b"\r")):
                if text := readable(part):
                    return text
        return ""

    def feed(self, data: bytes) -> float:
        """Take some in. How many seconds not to read on, so that a flood does not keep us busy."""
        now = time.monotonic()
        if int(now) != self._second:
            self._summarise()
            self._second = int(now)
            self._lines = self._bytes = 0
        self._bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest[: MAX_LINE + 1])
            self._rest = b""
        self._take(lines)
        return 0.0 if self._bytes < BYTES_PER_SECOND else self._second + 1 - now

    def finish(self) -> None:
        if self._rest:
            self._take([self._rest])
            self._rest = b""
        self._summarise()

    def _take(self, lines: list[bytes]) -> None:
        room = max(0, LINES_PER_SECOND - self._lines)
        self._lines += len(lines)
        self._left_out += max(0, len(lines) - room)
        self._kept.extend(line[: MAX_LINE + 1] for line in lines[-KEPT:] if line.strip())
        if self._logger.isEnabledFor(logging.INFO):
            for line in lines[:room]:
                if text := readable(line):
                    self._logger.info("%s", text)

    def _summarise(self) -> None:
        if self._left_out:
            self._logger.info("… %d lines left out", self._left_out)
            self._left_out = 0


def readable(line: bytes) -> str:
    text = line[:MAX_LINE].decode(errors="replace") + ("…" if len(line) > MAX_LINE else "")
    return _ESCAPES.sub("", text).translate(_CONTROLS).strip()
