"""Responses on disk, so that a page is not fetched again while it is the same. A folder for each owner.

As RFC 9111 says, for the part that a crawler meets: fresh responses are used as they are, others are
validated with their ETag or Last-Modified. Owners never share, because a fast answer tells what others read.
"""

import hashlib
import logging
import os
import re
import time
import zlib
from email.utils import parsedate_to_datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from .fetching import Response

logger = logging.getLogger("toolyard.crawler")

MAX_FRESH = 24 * 3600.0
"""A response counts as fresh for a day at most, whatever it says."""
_STORED = frozenset({200, 203})


class StoredResponse(Struct, frozen=True):
    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    """Compressed by zlib."""
    fresh_until: float

    @property
    def is_fresh(self) -> bool:
        return time.time() < self.fresh_until

    @property
    def validators(self) -> dict[str, str]:
        """The headers of a conditional request; empty if the response cannot be validated."""
        found: dict[str, str] = {}
        if etag := self.headers.get("etag"):
            found["If-None-Match"] = etag
        if modified := self.headers.get("last-modified"):
            found["If-Modified-Since"] = modified
        return found

    def response(self) -> Response:
        return Response(self.url, self.status, self.headers, zlib.decompress(self.body), from_cache=True)


class ResponseCache:
    """Of one owner, at most `max_bytes` in all; the least recently used go first."""

    def __init__(self, folder: Path | None, owner: str, max_bytes: int) -> None:
        """Without a folder nothing is kept."""
        mark = hashlib.sha256(owner.encode()).hexdigest()[:32]
        self._folder = None if folder is None or max_bytes <= 0 else folder / mark
        self._max_bytes = max_bytes

    def get(self, url: str) -> StoredResponse | None:
        if self._folder is None:
            return None
        path = self._path(url)
        try:
            found = msgspec.msgpack.decode(path.read_bytes(), type=StoredResponse)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("a cached page cannot be read and is ignored: %s", error)
            return None
        if found.url != url:
            return None
        os.utime(path)  # used now
        return found

    def put(self, response: Response) -> None:
        """Keeps the response if it says that it may be kept, and can be of use."""
        if self._folder is None or response.status not in _STORED:
            return
        control = _directives(response.headers.get("cache-control", ""))
        if "no-store" in control or response.headers.get("vary", "").strip() == "*":
            return
        stored = StoredResponse(
            response.url,
            response.status,
            response.headers,
            zlib.compress(response.body, 1),
            _fresh_until(response),
        )
        if not stored.is_fresh and not stored.validators:
            return
        data = msgspec.msgpack.encode(stored)
        if len(data) > self._max_bytes // 4:
            return
        try:
            self._write(self._path(response.url), data)
            # After it: of several that write at once, the last to look sees what all of them wrote.
            self._trim()
        except OSError as error:
            logger.warning("a page cannot be cached: %s", error.strerror)

    def renew(self, stored: StoredResponse, response: Response) -> Response:
        """The stored response, which the site said (304) is still the same."""
        headers = {**stored.headers, **response.headers}
        renewed = Response(stored.url, stored.status, headers, zlib.decompress(stored.body), from_cache=True)
        self.put(renewed)
        return renewed

    def _path(self, url: str) -> Path:
        assert self._folder is not None
        return self._folder / hashlib.sha256(url.encode()).hexdigest()[:40]

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    def _trim(self) -> None:
        assert self._folder is not None
        files: list[tuple[float, int, str]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                try:
                    known = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # another crawl removed it
                    continue
                files.append((known.st_mtime, known.st_size, entry.path))
        total = sum(one[1] for one in files)
        for _, length, path in sorted(files):
            if total <= self._max_bytes:
                return
            Path(path).unlink(missing_ok=True)
            total -= length


def _directives(control: str) -> dict[str, str]:
    parts = (part.partition("=") for part in control.lower().split(","))
    return {name.strip(): value.strip().strip('"') for name, _, value in parts if name.strip()}


def _fresh_until(response: Response) -> float:
    control = _directives(response.headers.get("cache-control", ""))
    now = time.time()
    if "no-cache" in control:
        return 0.0
    age = response.headers.get("age", "")
    spent = float(age) if re.fullmatch(r"\d{1,9}", age) else 0.0
    if re.fullmatch(r"\d{1,9}", control.get("max-age", "")):
        return now + min(MAX_FRESH, float(control["max-age"]) - spent)
    expires, sent = _moment(response.headers.get("expires", "")), _moment(response.headers.get("date", ""))
    return now + min(MAX_FRESH, expires - (sent or now)) if expires else 0.0


def _moment(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp() if text else 0.0
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
