"""The local trace store: spans in a small SQLite file that several processes write, `traces.db`.

A thread writes what has ended twice a second, as one row for all of it: a segment. A row for each span would
cost more than the call it tells of (14 µs against 2). Within a segment, what many spans have in common is
kept once. Owns the file, its bounds and its form; `trace_tree` makes trees of what is read here.
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from ..file_access import is_missing
from ..sqlite_file import connect, explain_fault, transaction
from .conventions import Attributes, AttributeValue, OwnValues, SpanFailure, SpanKind
from .trace_context import format_span

logger = logging.getLogger("toolyard.telemetry")

T = TypeVar("T")

NAME = "traces.db"
WRITE_SECONDS = 0.5
SEGMENT_SPANS = 1000
MAX_WAITING = 20_000
"""Spans that wait to be written; of more, the oldest are dropped."""
OPERATION = "gen_ai.operation.name"
_VERSION = 1
_FREE = 0.9
"""The share of the bound that is left in use after the oldest segments were deleted."""
_SWEEP_SECONDS = 600.0

_TABLES = """
CREATE TABLE IF NOT EXISTS segments (
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, runs INTEGER NOT NULL,
  traces BLOB NOT NULL, spans BLOB NOT NULL
)
"""
"""`at`: when it was written, in nanoseconds since 1970. `runs`: whether it has spans of agents' runs.
`traces`: the ids of its traces, 16 bytes each."""


class TraceStoreError(Exception):
    """The file cannot be read; the message says why."""


class TraceLimits(Struct, frozen=True):
    bytes: int = 64 * 2**20
    seconds: float = 14 * 86_400.0


class SharedPart(Struct, frozen=True, array_like=True):
    """What many spans of a segment have in common."""

    name: str
    kind: SpanKind
    attributes: Attributes
    keys: tuple[str, ...] = ()
    """The names of the values that each of them has of its own."""


class SpanRecord(Protocol):
    """A span as it is handed to the store. Its parts are asked for in the thread that writes."""

    @property
    def trace(self) -> int: ...

    @property
    def id(self) -> int: ...

    @property
    def parent(self) -> int:
        """0 if it has none."""
        ...

    @property
    def start(self) -> int:
        """Of `time.perf_counter_ns`."""
        ...

    @property
    def duration(self) -> int:
        """In nanoseconds; negative while it is open."""
        ...

    @property
    def failure(self) -> SpanFailure | None: ...

    def shared_key(self) -> Hashable:
        """Spans with equal keys have equal shared parts."""
        ...

    def shared(self) -> SharedPart: ...

    def values(self) -> OwnValues:
        """In the order of the shared part's keys; None if it has no such value."""
        ...

    def more(self) -> Attributes | None:
        """Attributes that few spans have."""
        ...


class PlainSpan(Struct, gc=False):
    """A span whose attributes are all its own. Implements `SpanRecord`."""

    trace: int
    id: int
    parent: int
    name: str
    kind: SpanKind
    start: int
    attributes: Attributes
    duration: int = -1
    failure: SpanFailure | None = None

    def shared_key(self) -> Hashable:
        return self.name, self.kind

    def shared(self) -> SharedPart:
        return SharedPart(self.name, self.kind, {})

    def values(self) -> OwnValues:
        return ()

    def more(self) -> Attributes | None:
        return self.attributes


class _SegmentSpan(Struct, array_like=True, gc=False):
    """As it is read; it is written as a tuple, which costs less to make."""

    trace: int
    """Position among the segment's traces."""
    id: int
    parent: int
    shared: int
    start: int
    """Nanoseconds since 1970."""
    duration: int
    values: list[AttributeValue | None]
    more: Attributes | None = None
    error: str = ""
    text: str = ""


class _Segment(Struct, array_like=True):
    shared: list[SharedPart]
    spans: list[_SegmentSpan]


class StoredSpan(Struct, frozen=True):
    """A span as it was read. `duration` is None if it had not ended when it was written last."""

    trace: str
    id: str
    parent: str
    name: str
    kind: SpanKind
    start: int
    duration: int | None
    attributes: Attributes
    error: str = ""
    """`error.type`; empty if it did not fail."""
    text: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Segment).decode


class _Row(Struct, frozen=True):
    runs: bool
    traces: bytes
    spans: bytes


def _segment(records: Iterable[SpanRecord]) -> _Row:
    traces: dict[int, int] = {}
    known: dict[Hashable, int] = {}
    shared: list[SharedPart] = []
    spans: list[tuple[Any, ...]] = []
    epoch = time.time_ns() - time.perf_counter_ns()
    runs = False
    for record in records:
        key = record.shared_key()
        position = known.get(key)
        if position is None:
            position = known[key] = len(shared)
            shared.append(record.shared())
        trace = traces.setdefault(record.trace, len(traces))
        start, duration, failure, more = record.start + epoch, record.duration, record.failure, record.more()
        span = (trace, record.id, record.parent, position, start, duration, record.values())
        if failure is not None:
            span = (*span, more, failure.kind, failure.text)
        elif more is not None:
            span = (*span, more)
        if more is not None:
            runs = runs or more.get(OPERATION) == "invoke_agent"
        spans.append(span)
    ids = b"".join([trace.to_bytes(16, "big") for trace in traces])
    return _Row(runs, ids, _encode((shared, spans)))


class TraceStore:
    """Keeps spans. `add` costs a microsecond and never fails; a thread of its own writes."""

    def __init__(self, folder: Path, limits: TraceLimits | None = None) -> None:
        self._path = folder / NAME
        self._limits = limits or TraceLimits()
        self._waiting: deque[SpanRecord] = deque(maxlen=MAX_WAITING)
        self._is_awake = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._swept = 0.0
        self._complained = ""
        self.dropped = 0
        """Spans that could not be kept."""

    def add(self, record: SpanRecord) -> None:
        self._waiting.append(record)
        if not self._is_awake:
            self._is_awake = True
            self._begin()

    def close(self, limit: float = 5.0) -> None:
        """Write what waits. Blocks for `limit` seconds at most."""
        thread = self._thread
        if thread is not None:
            self._is_closing = True
            self._wake.set()
            self._hurry.set()
            thread.join(limit)

    def _begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._is_closing = False
            # A daemon: Python would wait for any other at exit, and a call must not.
            self._thread = threading.Thread(target=self._run, name="toolyard-trace-store", daemon=True)
            self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if not self._is_closing:
                self._hurry.wait(WRITE_SECONDS)
            self._hurry.clear()
            self._is_awake = False  # before what waits is taken: who comes later wakes us again
            is_last = self._is_closing
            while self._waiting:
                self._write([self._waiting.popleft() for _ in range(min(len(self._waiting), SEGMENT_SPANS))])
            if is_last:
                self._disconnect()
                return

    def _write(self, records: Sequence[SpanRecord]) -> None:
        """Write a segment. What cannot be written is dropped: no call may wait or fail for it."""
        try:
            row = _segment(records)
            if self._connection is None:
                self._connection = connect(self._path, _prepare, busy_seconds=5.0)
            values = (time.time_ns(), row.runs, row.traces, row.spans)
            with transaction(self._connection):
                self._connection.execute(
                    "INSERT INTO segments (at, runs, traces, spans) VALUES (?, ?, ?, ?)", values
                )
                self._trim(self._connection)
            self._complained = ""
        except (sqlite3.Error, OSError, TraceStoreError) as error:
            self._disconnect()
            self.dropped += len(records)
            self._complain(_why(error, self._path))
        except Exception:
            # A bug of ours in what describes a span. The thread must live on.
            self.dropped += len(records)
            logger.exception("a segment of the trace store could not be made")

    def _trim(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest segments beyond the bounds."""
        now = time.monotonic()
        if not self._swept or now - self._swept > _SWEEP_SECONDS:
            self._swept = now
            oldest = time.time_ns() - int(self._limits.seconds * 1e9)
            connection.execute("DELETE FROM segments WHERE at < ?", [oldest])
        (used,) = connection.execute(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        ).fetchone()
        if used <= self._limits.bytes:
            return
        excess = used - self._limits.bytes * _FREE
        sizes = connection.execute("SELECT id, length(traces) + length(spans) FROM segments ORDER BY id")
        last = 0
        for last, size in sizes:  # noqa: B007 (used after the loop)
            excess -= size
            if excess <= 0:
                break
        connection.execute("DELETE FROM segments WHERE id <= ?", [last])

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _complain(self, reason: str) -> None:
        if reason != self._complained:  # once, and not twice a second
            self._complained = reason
            logger.warning("traces are not kept: %s cannot be written: %s", self._path, reason)


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        raise TraceStoreError(f"it was written by another version of toolyard ({version})")
    connection.execute(_TABLES)
    if version != _VERSION:
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _why(error: Exception, path: Path) -> str:
    return str(explain_fault(error, path) if isinstance(error, sqlite3.Error | OSError) else error)


# Reading

_DAMAGES = (sqlite3.Error, OSError, msgspec.MsgspecError, LookupError, ValueError)
"""The last two: a segment whose positions or numbers of values do not fit each other."""


class TraceReader:
    """Reads the store of a folder; a file that is not there is an empty one. Raises TraceStoreError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def recent(self, count: int, *, runs_only: bool = False, since: int = 0) -> list[str]:
        """The ids of the traces written last, newest first. `since`: nanoseconds since 1970."""
        found: dict[str, None] = {}

        def look(file: sqlite3.Connection) -> list[str]:
            query = "SELECT traces, spans FROM segments WHERE at >= ? AND runs >= ? ORDER BY id DESC"
            for traces, spans in file.execute(query, [since, runs_only]):
                ids = _ids(traces)
                if runs_only:
                    runs = {span.trace for span in _spans(traces, spans) if is_run(span)}
                    ids = [id for id in ids if id in runs]
                found.update(dict.fromkeys(reversed(ids)))
                if len(found) >= count:
                    break
            return list(found)[:count]

        return self._read(look, [])

    def find(self, prefix: str) -> list[str]:
        """The ids that begin so."""
        prefix = prefix.lower()

        def look(file: sqlite3.Connection) -> list[str]:
            rows = file.execute("SELECT traces FROM segments ORDER BY id DESC")
            ids = dict.fromkeys(id for (traces,) in rows for id in _ids(traces))
            return [id for id in ids if id.startswith(prefix)]

        return self._read(look, [])

    def spans(self, traces: Iterable[str]) -> dict[str, list[StoredSpan]]:
        """The spans of these traces. One that was written open and then ended is there once."""
        wanted = {bytes.fromhex(id): id for id in traces}

        def look(file: sqlite3.Connection) -> dict[str, list[StoredSpan]]:
            found: dict[str, dict[str, StoredSpan]] = {id: {} for id in wanted.values()}
            rows = file.execute("SELECT id, traces FROM segments ORDER BY id").fetchall()
            for row, ids in rows:
                if not any(ids[at : at + 16] in wanted for at in range(0, len(ids), 16)):
                    continue
                kept = file.execute("SELECT spans FROM segments WHERE id = ?", [row]).fetchone()
                for span in _spans(ids, kept[0]) if kept is not None else ():
                    spans = found.get(span.trace)
                    if spans is not None and (span.duration is not None or span.id not in spans):
                        spans[span.id] = span
            return {id: list(spans.values()) for id, spans in found.items()}

        empty: dict[str, list[StoredSpan]] = {id: [] for id in wanted.values()}
        return self._read(look, empty)

    def delete(self, traces: Iterable[str] | None) -> None:
        """Delete these traces, or all of them."""
        if is_missing(self._path):
            return
        try:
            with closing(connect(self._path, _prepare, busy_seconds=10.0)) as file, transaction(file):
                if traces is None:
                    file.execute("DELETE FROM segments")
                else:
                    _delete(file, {bytes.fromhex(id) for id in traces})
        except _DAMAGES as error:
            raise TraceStoreError(f"{self._path} cannot be changed: {_why(error, self._path)}") from None

    def _read(self, look: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if is_missing(self._path):
            return nothing
        try:
            with closing(sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True)) as file:
                (version,) = file.execute("PRAGMA user_version").fetchone()
                if version == 0:  # no process has made the table yet
                    return nothing
                if version != _VERSION:
                    raise TraceStoreError(f"{self._path} was written by another version of toolyard")
                return look(file)
        except _DAMAGES as error:
            raise TraceStoreError(f"{self._path} cannot be read: {_why(error, self._path)}") from None


def _delete(file: sqlite3.Connection, unwanted: set[bytes]) -> None:
    for row, ids in file.execute("SELECT id, traces FROM segments").fetchall():
        all_ids = [ids[at : at + 16] for at in range(0, len(ids), 16)]
        if not unwanted.intersection(all_ids):
            continue
        (packed,) = file.execute("SELECT spans FROM segments WHERE id = ?", [row]).fetchone()
        segment = _decode(packed)
        left = [span for span in segment.spans if all_ids[span.trace] not in unwanted]
        if not left:
            file.execute("DELETE FROM segments WHERE id = ?", [row])
            continue
        # Positions stay as they are, so the ids that are gone are overwritten and not taken out.
        traces = b"".join(bytes(16) if id in unwanted else id for id in all_ids)
        used = {span.shared for span in left}
        unused = SharedPart("", "internal", {})
        shared = [part if at in used else unused for at, part in enumerate(segment.shared)]
        kept = _encode(_Segment(shared, left))
        file.execute("UPDATE segments SET traces = ?, spans = ? WHERE id = ?", [traces, kept, row])


def is_run(span: StoredSpan) -> bool:
    return span.attributes.get(OPERATION) == "invoke_agent"


def _ids(traces: bytes) -> list[str]:
    ids = [traces[at : at + 16] for at in range(0, len(traces), 16)]
    return [id.hex() for id in ids if any(id)]


def _spans(traces: bytes, packed: bytes) -> Iterator[StoredSpan]:
    segment = _decode(packed)
    for span in segment.spans:
        shared = segment.shared[span.shared]
        own = {key: value for key, value in zip(shared.keys, span.values, strict=True) if value is not None}
        yield StoredSpan(
            traces[span.trace * 16 : span.trace * 16 + 16].hex(),
            format_span(span.id),
            format_span(span.parent) if span.parent else "",
            shared.name,
            shared.kind,
            span.start,
            None if span.duration < 0 else span.duration,
            {**shared.attributes, **own, **(span.more or {})},
            span.error,
            span.text,
        )
