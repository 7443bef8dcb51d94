"""The audit as JSON lines in a folder: each process writes files of its own, one chain over all of them.

A line is written by one write(2) and is then the kernel's: killing the process does not lose it. Losing power
may lose the last seconds. A file is never changed after its lines were written, only removed as a whole.
"""

import asyncio
import errno
import logging
import os
import re
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from ..file_access import explain, try_writing
from ..file_lock import locked
from .chain import (
    Chain,
    ChainContinued,
    ChainEnd,
    ChainHead,
    ChainKey,
    RecordsPruned,
    chain_start,
    read_line,
)
from .record import now
from .store import MAX_LINE, MAX_LINKS, AuditStoreError, LineBlock, PrunedChain, StoredLine

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None

logger = logging.getLogger("toolyard.audit")

_FILE = re.compile(r"(\d{8}T\d{12}Z)_([0-9a-f]{12}-(?:[0-9a-f]{8}|unsigned))_(\d{4,})\.jsonl")
_JOURNAL = re.compile(r"(pruned-(?:[0-9a-f]{8}|unsigned))\.jsonl")
_TAIL = 16 * 1024
MAX_AGE = 24 * 3600.0
"""Seconds after which a small file is rotated too, or retention could not remove its oldest lines."""
_encode = msgspec.json.Encoder().encode


class ChainFile(Struct, frozen=True, order=True):
    """A file of a chain; they sort by the start of their chain, then by their number."""

    started: str
    chain: str
    number: int
    path: Path

    def next(self) -> "ChainFile":
        name = f"{self.started}_{self.chain}_{self.number + 1:04d}.jsonl"
        return ChainFile(self.started, self.chain, self.number + 1, self.path.parent / name)


class _Position(Struct):
    """Where reading of a chain goes on."""

    seq: int
    file: ChainFile
    offset: int


class FileAuditStore:
    def __init__(
        self, folder: Path, key: ChainKey, max_bytes: int = 64 << 20, max_age: float = MAX_AGE
    ) -> None:
        self.place = str(folder)
        self._folder = folder
        self._key = key
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._rotate_at = 0.0
        self._chain: Chain | None = None
        self._file: ChainFile | None = None
        self._descriptor = -1
        self._size = 0
        self._positions: dict[str, _Position] = {}
        self._known_heads: dict[Path, tuple[tuple[int, int], ChainHead | None]] = {}

    async def begin(self) -> None:
        with self._translated():
            if self._chain is None:
                self._begin()

    async def check(self) -> None:
        with self._translated():
            await asyncio.to_thread(self._heads, MAX_LINKS)
            await asyncio.to_thread(try_writing, self._folder)

    async def append(self, body: bytes) -> None:
        self.append_now(body)

    def append_now(self, body: bytes) -> None:
        """`append` without waiting: the kernel takes a line in less time than a thread takes to wake up."""
        try:
            chain = self._chain or self._begin()
            line, head = chain.line(body)
            size = len(line)
            if self._size + size > self._max_bytes or monotonic() > self._rotate_at:
                self._rotate(chain)
                line, head = chain.line(body)
                size = len(line)
            if os.write(self._descriptor, line) != size:  # the disk is full
                self._take_back()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._translate_error(error) from None
        self._size += size
        chain.head = head

    def _take_back(self) -> None:
        """Remove a part of a line. If that fails too, the chain ends there, and the next one begins."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            os.close(self._descriptor)
            self._chain, self._descriptor = None, -1

    def _begin(self) -> Chain:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        links = self._heads(MAX_LINKS)
        chain = Chain(self._key)
        # To the microsecond, so that chains which begin in one second sort in their order.
        started = now().strftime("%Y%m%dT%H%M%S%fZ")
        self._open(ChainFile(started, chain.id, 0, self._folder / "-").next(), chain, chain_start(links))
        self._chain = chain
        return chain

    def _rotate(self, chain: Chain) -> None:
        assert self._file is not None
        following = self._file.next()
        header = chain_start([])
        first = ChainContinued(time=header.time, host=header.host, pid=header.pid, file=following.number)
        previous = self._descriptor
        self._open(following, chain, first)
        os.close(previous)

    def _open(self, file: ChainFile, chain: Chain, first: Struct) -> None:
        """Open a file and write its first line. Without success nothing has changed."""
        line, head = chain.line(_encode(first))
        descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            if fcntl is not None:  # so that retention in another process leaves it alone
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:
            os.close(descriptor)
            file.path.unlink(missing_ok=True)
            raise
        self._file, self._descriptor, self._size = file, descriptor, len(line)
        self._rotate_at = monotonic() + self._max_age
        chain.advance(head)

    async def own_chain(self) -> str:
        return "" if self._chain is None else self._chain.id

    async def close(self) -> None:
        if self._chain is None:
            return
        try:
            self.append_now(_encode(ChainEnd(time=now())))
        except AuditStoreError as error:
            logger.warning("cannot end the audit's chain: %s", error)
        self._chain = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # Reading

    def _files(self) -> list[ChainFile]:
        try:
            found = [(_FILE.fullmatch(name), name) for name in os.listdir(self._folder)]
        except FileNotFoundError:
            return []
        return sorted(
            ChainFile(match[1], match[2], int(match[3]), self._folder / name)
            for match, name in found
            if match
        )

    def _files_of(self, chain: str) -> list[ChainFile]:
        return [file for file in self._files() if file.chain == chain]

    def _journals(self) -> list[str]:
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(self._folder))
            return [match[1] for name in names if (match := _JOURNAL.fullmatch(name))]
        return []

    async def chains(self) -> list[str]:
        with self._translated():
            return [*dict.fromkeys(file.chain for file in self._files()), *self._journals()]

    async def scan(self, chain: str) -> AsyncIterator[StoredLine]:
        with self._translated():
            journal = self._folder / f"{chain}.jsonl"
            paths = [journal] if _JOURNAL.fullmatch(journal.name) else [f.path for f in self._files_of(chain)]
            for path in paths:
                for number, line in enumerate(_lines(path), 1):
                    yield StoredLine(f"{path.name}:{number}", line, not line.endswith(b"\n"))

    async def heads(self) -> list[ChainHead]:
        with self._translated():
            return await asyncio.to_thread(self._heads)

    def _heads(self, limit: int | None = None) -> list[ChainHead]:
        """The heads, the one written last first."""
        by_chain: dict[str, list[ChainFile]] = {}
        for file in self._files():
            by_chain.setdefault(file.chain, []).append(file)
        newest = sorted(by_chain.values(), key=lambda files: _written(files[-1].path), reverse=True)
        found: list[ChainHead] = []
        for files in newest:
            # A process may have been killed before the first line of its last file was whole.
            heads = (self._head_of(file.path) for file in reversed(files))
            if head := next((head for head in heads if head is not None), None):
                found.append(head)
            if len(found) == limit:
                break
        return found

    def _head_of(self, path: Path) -> ChainHead | None:
        """Whoever follows the log asks again and again, and most files do not change."""
        with suppress(FileNotFoundError):  # pruned meanwhile
            found = path.stat()
            state = (found.st_size, found.st_mtime_ns)
            kept = self._known_heads.get(path)
            if kept is None or kept[0] != state:
                kept = self._known_heads[path] = (state, _last_head(path))
            return kept[1]
        return None

    async def read(self, chain: str, after: int, limit: int) -> list[bytes]:
        with self._translated():
            return await asyncio.to_thread(self._read, chain, after, limit)

    def _read(self, chain: str, after: int, limit: int) -> list[bytes]:
        files = self._files_of(chain)
        kept = self._positions.get(chain)
        position = kept if kept is not None and kept.seq == after and kept.file in files else None
        found: list[bytes] = []
        for file in files:
            if position is not None and file < position.file:
                continue
            offset = position.offset if position is not None and file == position.file else 0
            with file.path.open("rb") as opened:
                opened.seek(offset)
                while len(found) < limit:
                    line = opened.readline(MAX_LINE)
                    if not line.endswith(b"\n"):
                        break
                    offset += len(line)
                    parsed = read_line(line)
                    if parsed is not None and parsed.seq > after:
                        found.append(line)
                        after = parsed.seq
            self._positions[chain] = _Position(after, file, offset)
            if len(found) >= limit:
                break
        return found

    async def newest(self, since: float | None) -> AsyncIterator[LineBlock]:
        with self._translated():
            by_time = sorted(((_written(file.path), file.path) for file in self._files()), reverse=True)
            for number, (written, path) in enumerate(by_time):
                if since is not None and written < since:
                    return
                older = by_time[number + 1][0] if number + 1 < len(by_time) else 0.0
                yield LineBlock(_lines(path), older)

    # Retention

    async def prune(self, before: float) -> list[PrunedChain]:
        with self._translated():
            return await asyncio.to_thread(self._prune, before)

    def _prune(self, before: float) -> list[PrunedChain]:
        if not self._folder.is_dir():
            return []
        with locked(self._folder / ".prune.lock"):
            removed: list[PrunedChain] = []
            by_chain: dict[str, list[ChainFile]] = {}
            for file in self._files():
                by_chain.setdefault(file.chain, []).append(file)
            for files in by_chain.values():
                old = self._old_files(files, before)
                if old and (last := _last_head(old[-1].path)) is not None:
                    lines = sum(1 for file in old for _ in _lines(file.path))
                    removed.append(PrunedChain(last, lines))
                    # The journal first: if we are killed in between, the files are removed next time.
                    self._note(last)
                    for file in old:
                        file.path.unlink(missing_ok=True)
                        self._known_heads.pop(file.path, None)
                    if len(old) == len(files):
                        for cursor in (self._folder / "cursors").glob(f"*_{last.chain}"):
                            cursor.unlink(missing_ok=True)
            return removed

    def _old_files(self, files: list[ChainFile], before: float) -> list[ChainFile]:
        """The first files of a chain, up to the first that has a newer line or is being written."""
        old: list[ChainFile] = []
        for file in files:
            last = _last_line(file.path)
            parsed = None if last is None else read_line(last)
            if parsed is None or parsed.time.timestamp() >= before or _is_open(file.path):
                break
            old.append(file)
        return old

    def _note(self, last: ChainHead) -> None:
        journal = f"pruned-{self._key.id}"
        path = self._folder / f"{journal}.jsonl"
        head = _last_head(path) if path.exists() else None
        line, _ = Chain(self._key, head or ChainHead(journal, -1, "")).line(
            _encode(RecordsPruned(time=now(), last=last))
        )
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _drop_torn_end(path)
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)

    # Cursors

    def _cursor_file(self, sink: str, chain: str) -> Path:
        return self._folder / "cursors" / f"{sink}_{chain}"

    async def cursor(self, sink: str, chain: str) -> tuple[int, float]:
        path = self._cursor_file(sink, chain)
        with self._translated():
            try:
                return int(path.read_text()), path.stat().st_mtime
            except (FileNotFoundError, ValueError):
                return -1, 0.0

    async def save_cursor(self, sink: str, chain: str, seq: int) -> None:
        path = self._cursor_file(sink, chain)
        with self._translated():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.write_text(str(seq))
            draft.replace(path)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._translate_error(error) from None

    def _translate_error(self, error: OSError) -> AuditStoreError:
        fault = explain(error, Path(error.filename or self._folder))
        return AuditStoreError(f"the audit in {self.place!r} cannot be used: {fault.reason}", fault.hint)


def _written(path: Path) -> float:
    """When it was written last; 0 if it was pruned meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            yield line


def _last_line(path: Path) -> bytes | None:
    """The last whole line of a file."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        size = _TAIL
        while True:
            start = max(0, end - size)
            file.seek(start)
            text = file.read(end - start)
            whole = text[: text.rfind(b"\n") + 1]
            begin = whole.rfind(b"\n", 0, len(whole) - 1) + 1
            if whole and (begin or start == 0):
                return whole[begin:]
            if start == 0:
                return None
            size *= 4


def _last_head(path: Path) -> ChainHead | None:
    last = _last_line(path)
    parsed = None if last is None else read_line(last)
    return None if parsed is None else parsed.head


def _drop_torn_end(path: Path) -> None:
    """Of the journal, which the next process goes on with. No file is deleted before its line is whole."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        os.truncate(path, whole)


def _is_open(path: Path) -> bool:
    """Whether a process still writes to it."""
    if fcntl is None:
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
