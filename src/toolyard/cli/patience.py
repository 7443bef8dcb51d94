"""How long a server may take, however busy it looks."""

import http.client
import io
import socket
import time
from typing import Any

MAX_INTERIM = 20


class Patience:
    """Time to give the next whole thing in: an answer, or an event of a stream.

    A socket's own timeout starts anew with every byte, so that a server which trickles them is waited
    for without an end.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._seconds

    def left(self) -> float:
        """Seconds; TimeoutError when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class PatientResponse(http.client.HTTPResponse):
    """Reads its head and its body while there is patience; passes over interim replies, of any kind."""

    _interim = 0

    def __init__(self, patience: Patience, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Watched(patience, sock, self.fp.detach()))

    def _read_status(self) -> tuple[str, int, str]:
        unknown: Any = super()
        found: tuple[str, int, str] = unknown._read_status()
        version, status, reason = found
        if not 100 <= status < 200 or status == 101:
            return found
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise http.client.HTTPException(f"more than {MAX_INTERIM} interim replies (status {status})")
        return version, http.client.CONTINUE, reason  # the only one that `http.client` passes over


class _Watched(io.RawIOBase):
    def __init__(self, patience: Patience, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._patience = patience
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._patience.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
