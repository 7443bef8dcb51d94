"""Finds records: those that fit a filter, the newest of them, and new ones as they are written.

Believes what is written; `verify` checks it.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import count

import msgspec
from msgspec import Struct

from .chain import read_line
from .record import AuditRecord
from .store import AuditStore

POLL_SECONDS = 0.5
PAGE = 500
_CALL = b'"event":"call"'
_decode = msgspec.json.Decoder(AuditRecord).decode


class RecordFilter(Struct, frozen=True, kw_only=True):
    """What is empty fits everything. Names may have `*` and `?`."""

    agent: str = ""
    user: str = ""
    """The subject, alone or after its issuer and `#`."""
    tenant: str = ""
    tool: str = ""
    """A tool, `SERVER/TOOL`, or a method."""
    outcome: str = ""
    arguments_digest: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, record: AuditRecord) -> bool:
        if (self.since is not None and record.time < self.since) or (
            self.until is not None and record.time >= self.until
        ):
            return False
        return (
            (not self.outcome or self.outcome == record.outcome)
            and (not self.arguments_digest or self.arguments_digest == record.arguments_digest)
            and _fits(self.agent, record.agent)
            and _fits(self.tenant, record.tenant)
            and _fits(self.user, record.subject, record.user)
            and _fits(self.tool, record.tool, f"{record.server}/{record.tool}", record.method)
        )


def _fits(pattern: str, *names: str) -> bool:
    return not pattern or any(fnmatchcase(name, pattern) for name in names)


class FoundRecord(Struct, frozen=True):
    record: AuditRecord
    line: bytes
    """As it is stored, with its place in the chain."""


def find_in(line: bytes, wanted: RecordFilter) -> FoundRecord | None:
    if _CALL not in line:
        return None
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # another event, or damaged
        return None
    return FoundRecord(record, line) if wanted.fits(record) else None


Heads = dict[str, int]


async def current_heads(store: AuditStore) -> Heads:
    """Where each chain ends now, for `newest_records` and `follow_records`."""
    return {head.chain: head.seq for head in await store.heads()}


async def newest_records(
    store: AuditStore, wanted: RecordFilter, limit: int, heads: Heads | None = None
) -> list[FoundRecord]:
    """The newest records that fit, the oldest of them first. `heads`: only up to there."""
    order = count()
    kept: list[tuple[datetime, int, FoundRecord]] = []
    since = None if wanted.since is None else wanted.since.timestamp()
    async for block in store.newest(since):
        for line in block.lines:
            found = find_in(line, wanted)
            if found is None or (heads is not None and _is_after(line, heads)):
                continue
            entry = (found.record.time, next(order), found)
            if len(kept) < limit:
                heapq.heappush(kept, entry)
            elif entry > kept[0]:
                heapq.heapreplace(kept, entry)
        if len(kept) >= limit and kept[0][0].timestamp() >= block.written_before:
            break
    return [found for _, _, found in sorted(kept, key=lambda entry: entry[:2])]


def _is_after(line: bytes, heads: Heads) -> bool:
    parsed = read_line(line)
    return parsed is not None and parsed.seq > heads.get(parsed.chain, -1)


async def follow_records(
    store: AuditStore, wanted: RecordFilter, heads: Heads
) -> AsyncIterator[list[FoundRecord]]:
    """The records that are written after `heads`, until the caller stops."""
    while True:
        found: list[FoundRecord] = []
        for head in await store.heads():
            while head.seq > heads.get(head.chain, -1):
                lines = await store.read(head.chain, heads.get(head.chain, -1), PAGE)
                if not lines:
                    break
                found += [record for line in lines if (record := find_in(line, wanted)) is not None]
                last = read_line(lines[-1])
                heads[head.chain] = head.seq if last is None else last.seq
        if found:
            yield sorted(found, key=lambda one: one.record.time)
        else:
            await asyncio.sleep(POLL_SECONDS)
