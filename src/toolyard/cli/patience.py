"""How long a server may take, however busy it looks."""

import http.client
import io
import socket
import time
from typing import Any


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
    """Reads its head and its body while there is patience."""

    def __init__(self, patience: Patience, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Watched(patience, sock, self.fp.detach()))


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
