"""The audit in a database: the lines of each process's chain as rows, written in shared commits.

Calls that end at the same time wait for one commit. Owns the tables and their statements; `sqlite` and
`postgres` run them. The row of a chain's head is written with its lines, so that lines removed from the end
are missed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from .chain import Chain, ChainEnd, ChainHead, ChainKey, RecordsPruned, chain_start, read_line
from .record import now
from .store import MAX_LINKS, AuditStoreError, LineBlock, PrunedChain, StoredLine

MAX_BATCH = 500
PAGE = 1000

TABLES = (
    "CREATE TABLE IF NOT EXISTS toolyard_audit"
    " (chain text NOT NULL, seq bigint NOT NULL, written double precision NOT NULL, line text NOT NULL,"
    " PRIMARY KEY (chain, seq))",
    "CREATE INDEX IF NOT EXISTS toolyard_audit_written ON toolyard_audit (written)",
    "CREATE TABLE IF NOT EXISTS toolyard_audit_chains"
    " (chain text PRIMARY KEY, seq bigint NOT NULL, hash text NOT NULL, started double precision NOT NULL,"
    " written double precision NOT NULL)",
    "CREATE TABLE IF NOT EXISTS toolyard_audit_cursors"
    " (sink text NOT NULL, chain text NOT NULL, seq bigint NOT NULL, saved double precision NOT NULL,"
    " PRIMARY KEY (sink, chain))",
)
_INSERT = "INSERT INTO toolyard_audit VALUES (?, ?, ?, ?)"
_SET_HEAD = (
    "INSERT INTO toolyard_audit_chains VALUES (?, ?, ?, ?, ?) ON CONFLICT (chain) DO UPDATE"
    " SET seq = excluded.seq, hash = excluded.hash, written = excluded.written"
)
_CHAINS = "SELECT chain FROM toolyard_audit GROUP BY chain ORDER BY min(written)"
_HEADS = (
    "SELECT chain, seq, hash FROM toolyard_audit_chains WHERE chain NOT LIKE 'pruned-%' ORDER BY written DESC"
)
_READ = "SELECT seq, line FROM toolyard_audit WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?"
_LAST = "SELECT line FROM toolyard_audit WHERE chain = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
_NEWEST = (
    "SELECT written, chain, seq, line FROM toolyard_audit"
    " WHERE written >= ? AND (written, chain, seq) < (?, ?, ?)"
    " ORDER BY written DESC, chain DESC, seq DESC LIMIT ?"
)
_FIRST_KEPT = "SELECT seq FROM toolyard_audit WHERE chain = ? AND written >= ? ORDER BY seq LIMIT 1"
_COUNT = "SELECT count(*) FROM toolyard_audit WHERE chain = ? AND seq <= ?"
_DELETE = "DELETE FROM toolyard_audit WHERE chain = ? AND seq <= ?"
_DELETE_HEAD = "DELETE FROM toolyard_audit_chains WHERE chain = ? AND seq <= ?"
_DELETE_CURSORS = "DELETE FROM toolyard_audit_cursors WHERE chain = ? AND seq <= ?"
_CURSOR = "SELECT seq, saved FROM toolyard_audit_cursors WHERE sink = ? AND chain = ?"
_SET_CURSOR = (
    "INSERT INTO toolyard_audit_cursors VALUES (?, ?, ?, ?) ON CONFLICT (sink, chain) DO UPDATE"
    " SET seq = excluded.seq, saved = excluded.saved"
)
_NO_LIMIT = 2**62
_NOTHING = b""
_encode = msgspec.json.Encoder().encode

Values = Sequence[Any]


class AuditDatabase(Protocol):
    """Runs statements with `?` for values. Makes the tables at the first use."""

    place: str

    async def fetch(self, statement: str, values: Values) -> list[tuple[Any, ...]]: ...

    async def write(self, statements: Sequence[tuple[str, Sequence[Values]]]) -> None:
        """Run each statement for each of its rows, all in one transaction, and commit it."""
        ...

    async def close(self) -> None: ...


class DatabaseAuditStore:
    def __init__(self, database: AuditDatabase, key: ChainKey) -> None:
        self.place = database.place
        self._database = database
        self._key = key
        self._chain: Chain | None = None
        self._started = 0.0
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_unsure = False
        """A commit failed, and may have been done all the same."""

    async def begin(self) -> None:
        await self.append(_NOTHING)

    async def check(self) -> None:
        row = ("health", "", 0, time.time())
        await self._database.write([(_SET_CURSOR, [row]), (_DELETE_CURSORS, [("", 0)])])

    async def append(self, body: bytes) -> None:
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((body, written))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_waiting())
        await written

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                failure: AuditStoreError | None = None
                try:
                    await self._write([body for body, _ in batch])
                except AuditStoreError as error:
                    failure = error
                except Exception as error:  # it supervises: nobody may wait for ever
                    failure = AuditStoreError(f"the audit in {self.place} failed: {error!r}")
                for _, written in batch:
                    if written.done():  # its caller was cancelled; the record is kept
                        continue
                    if failure is None:
                        written.set_result(None)
                    else:
                        written.set_exception(AuditStoreError(failure.message, failure.hint))
        finally:
            self._writer = None

    async def _write(self, bodies: list[bytes]) -> None:
        chain = self._chain
        if chain is None:
            chain = self._chain = Chain(self._key)
            self._started = time.time()
        if self._is_unsure:
            await self._find_head(chain)
        bodies = [body for body in bodies if body != _NOTHING]
        if chain.head.seq < 0:
            links = (await self.heads())[:MAX_LINKS]
            bodies = [_encode(chain_start(links)), *bodies]
        if not bodies:
            return
        head, written = chain.head, time.time()
        rows: list[Values] = []
        for body in bodies:
            line, head = chain.line(body, head)
            rows.append((head.chain, head.seq, written, line[:-1].decode()))
        statements = [
            (_INSERT, rows),
            (_SET_HEAD, [(head.chain, head.seq, head.hash, self._started, written)]),
        ]
        try:
            await self._database.write(statements)
        except AuditStoreError:
            # A broken connection is seen only here, so the second attempt is over a new one.
            self._is_unsure = True
            await self._find_head(chain)
            if chain.head != head:
                self._is_unsure = True
                await self._database.write(statements)
                self._is_unsure = False
        chain.advance(head)

    async def _find_head(self, chain: Chain) -> None:
        """Whether a commit that failed was done can be seen from what is there."""
        rows = await self._database.fetch(_LAST, (chain.id, _NO_LIMIT))
        line = read_line(_bytes(rows[0][0])) if rows else None
        if line is not None and line.seq > chain.head.seq:
            chain.advance(line.head)
        self._is_unsure = False

    async def own_chain(self) -> str:
        return "" if self._chain is None else self._chain.id

    async def close(self) -> None:
        if self._chain is not None:
            with suppress(AuditStoreError):  # then it ends as that of a killed process does
                await self.append(_encode(ChainEnd(time=now())))
        await self._database.close()

    async def chains(self) -> list[str]:
        return [chain for (chain,) in await self._database.fetch(_CHAINS, ())]

    async def scan(self, chain: str) -> AsyncIterator[StoredLine]:
        last = -(2**62)
        while rows := await self._database.fetch(_READ, (chain, last, PAGE)):
            for seq, line in rows:
                yield StoredLine(f"chain {chain}, row {seq}", _bytes(line) + b"\n")
            last = rows[-1][0]

    async def heads(self) -> list[ChainHead]:
        return [ChainHead(*row) for row in await self._database.fetch(_HEADS, ())]

    async def read(self, chain: str, after: int, limit: int) -> list[bytes]:
        rows = await self._database.fetch(_READ, (chain, after, limit))
        return [_bytes(line) + b"\n" for _, line in rows]

    async def newest(self, since: float | None) -> AsyncIterator[LineBlock]:
        last: Values = (float(_NO_LIMIT), "", 0)
        while rows := await self._database.fetch(_NEWEST, (since or 0.0, *last, PAGE)):
            last = rows[-1][:3]
            yield LineBlock([_bytes(row[3]) + b"\n" for row in reversed(rows)], last[0])

    async def prune(self, before: float) -> list[PrunedChain]:
        """Two processes may do it at once: the journal takes each number once, and one of them fails."""
        found = [await self._old_rows(chain.chain, before) for chain in await self.heads()]
        removed = [pruned for pruned in found if pruned is not None]
        if not removed:
            return []
        journal = await self._journal_lines([pruned.last for pruned in removed])
        ends = [(pruned.last.chain, pruned.last.seq) for pruned in removed]
        deletions = [(statement, ends) for statement in (_DELETE, _DELETE_HEAD, _DELETE_CURSORS)]
        await self._database.write([(_INSERT, journal), *deletions])
        return removed

    async def _old_rows(self, chain: str, before: float) -> PrunedChain | None:
        kept = await self._database.fetch(_FIRST_KEPT, (chain, before))
        rows = await self._database.fetch(_LAST, (chain, kept[0][0] - 1 if kept else _NO_LIMIT))
        line = read_line(_bytes(rows[0][0])) if rows else None
        if line is None:
            return None
        return PrunedChain(line.head, (await self._database.fetch(_COUNT, (chain, line.seq)))[0][0])

    async def _journal_lines(self, removed: list[ChainHead]) -> list[Values]:
        journal = f"pruned-{self._key.id}"
        rows = await self._database.fetch(_LAST, (journal, _NO_LIMIT))
        last = read_line(_bytes(rows[0][0])) if rows else None
        chain = Chain(self._key, ChainHead(journal, -1, "") if last is None else last.head)
        lines: list[Values] = []
        for head in removed:
            line, noted = chain.line(_encode(RecordsPruned(time=now(), last=head)))
            chain.advance(noted)
            lines.append((journal, noted.seq, time.time(), line[:-1].decode()))
        return lines

    async def cursor(self, sink: str, chain: str) -> tuple[int, float]:
        rows = await self._database.fetch(_CURSOR, (sink, chain))
        return (rows[0][0], rows[0][1]) if rows else (-1, 0.0)

    async def save_cursor(self, sink: str, chain: str, seq: int) -> None:
        await self._database.write([(_SET_CURSOR, [(sink, chain, seq, time.time())])])


def _bytes(line: Any) -> bytes:
    """A row as it is: whoever changed it may have changed its type too."""
    return line if isinstance(line, bytes) else str(line).encode("utf-8", "surrogateescape")
