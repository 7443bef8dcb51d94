"""Checks a whole audit: every line's hash, every chain's numbers, and the links between chains.

Finds any line that was changed, removed, moved or added, except one thing: whoever removes the last lines of
the newest chain makes it look like one whose process was killed. Such a chain is reported as not ended. The
next process that starts links to what is there, and from then on a removal is found.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct, field

from .chain import UNSIGNED, ChainHead, ChainKey, ChainLine, ChainStart, RecordsLost, RecordsPruned, read_line
from .store import AuditStore, StoredLine

DamageKind = Literal[
    "altered", "missing", "reordered", "unreadable", "foreign", "cut", "unsigned", "unknown key"
]
ChainState = Literal["ended", "open", "torn"]


class Damage(Struct, frozen=True):
    place: str
    kind: DamageKind
    detail: str


class CheckedChain(Struct):
    """What was found of one chain. `open`: its process runs, or was killed between two lines."""

    chain: str
    lines: int = 0
    records: int = 0
    lost: int = 0
    """Calls that went on without a record, as the chain itself says."""
    first: int = 0
    state: ChainState = "open"
    place: str = ""
    """Of its last line."""
    head: ChainHead | None = None


class AuditReport(Struct):
    chains: list[CheckedChain] = field(default_factory=list[CheckedChain])
    damages: list[Damage] = field(default_factory=list[Damage])
    pruned: int = 0
    """How many times old lines of a chain were removed, by the journal of retention."""

    @property
    def is_intact(self) -> bool:
        return not self.damages


Pruned = dict[str, dict[int, str]]
"""By chain: the number and hash of the last line of each removal."""


async def verify(store: AuditStore, keys: Iterable[ChainKey]) -> AuditReport:
    """Check every chain. `keys`: the gateway's key, and earlier ones that may have signed old chains."""
    known = {key.id: key for key in keys}
    wants_signatures = any(id != UNSIGNED for id in known)
    report = AuditReport()
    pruned: Pruned = {}
    heads = await store.heads()  # before the lines, which may become more meanwhile
    chains = await store.chains()
    for chain in chains:
        if chain.startswith("pruned-"):
            checker = _ChainChecker(chain, known, wants_signatures, report.damages, {})
            async for stored in store.scan(chain):
                line = checker.check(stored)
                if line is not None and line.event == "pruned":
                    with suppress(msgspec.DecodeError):  # signed with a key that is not known
                        last = msgspec.json.decode(stored.data, type=RecordsPruned).last
                        pruned.setdefault(last.chain, {})[last.seq] = last.hash
                        report.pruned += 1
            checker.finish()
    links = [(f"the end of chain {head.chain}", head) for head in heads]
    links += [link for chain in chains async for link in _links_of(store, chain)]
    wanted = {(link.chain, link.seq) for _, link in links}
    found: dict[tuple[str, int], str] = {}
    for chain in chains:
        if not chain.startswith("pruned-"):
            checker = _ChainChecker(chain, known, wants_signatures, report.damages, pruned)
            async for stored in store.scan(chain):
                line = checker.check(stored)
                if line is not None and (chain, line.seq) in wanted:
                    found[chain, line.seq] = line.hash
            report.chains.append(checker.finish())
    for place, link in links:
        if not _is_accounted_for(link, found, pruned):
            report.damages.append(
                Damage(
                    place,
                    "missing",
                    f"line {link.seq} of chain {link.chain} should be there, and is not or differs",
                )
            )
    return report


async def _links_of(store: AuditStore, chain: str) -> AsyncIterator[tuple[str, ChainHead]]:
    """The links of a chain's first line, with its place."""
    async for stored in store.scan(chain):
        line = read_line(stored.data)
        if line is not None and line.event == "start":
            with suppress(msgspec.DecodeError, UnicodeError):  # altered, which is noted where it is checked
                for link in msgspec.json.decode(stored.data, type=ChainStart).links:
                    yield stored.place, link
        return


def _is_accounted_for(link: ChainHead, found: dict[tuple[str, int], str], pruned: Pruned) -> bool:
    if (link.chain, link.seq) in found:
        return found[link.chain, link.seq] == link.hash
    return link.seq <= max(pruned.get(link.chain, ()), default=-1)


class _ChainChecker:
    """Checks the lines of one chain in their order. After a damage it goes on from what the line says."""

    def __init__(
        self,
        chain: str,
        keys: dict[str, ChainKey],
        wants_signatures: bool,
        damages: list[Damage],
        pruned: Pruned,
    ) -> None:
        self._chain = chain
        self._damages = damages
        self._pruned = pruned.get(chain, {})
        self._key_id = chain.rpartition("-")[2]
        self._key = keys.get(self._key_id) or (ChainKey(None) if self._key_id == UNSIGNED else None)
        self._refuses_unsigned = wants_signatures and self._key_id == UNSIGNED
        self._checked = CheckedChain(chain)
        self._last: ChainLine | None = None
        self._unsure = False
        """After a line that cannot be read, nobody knows which number it had."""
        self._torn: StoredLine | None = None

    def check(self, stored: StoredLine) -> ChainLine | None:
        """The line, if it can be read and its hash is right."""
        checked = self._checked
        if self._torn is not None:
            self._damage(self._torn.place, "cut", "the line has no end, and more lines follow")
            self._unsure, self._torn = True, None
        if not checked.lines:
            self._check_key(stored.place)
        checked.lines += 1
        checked.place = stored.place
        if stored.is_torn:
            self._torn = stored
            return None
        line = read_line(stored.data)
        if line is None:
            self._damage(stored.place, "unreadable", "this is not a line of an audit")
            self._unsure = True
            return None
        if line.chain != self._chain:
            self._damage(stored.place, "foreign", f"the line belongs to chain {line.chain}")
            return None
        is_right = self._key is None or self._key.hash(line.signed) == line.hash
        if not is_right:
            self._damage(stored.place, "altered", f"line {line.seq} does not have its own hash")
        self._check_order(stored.place, line)
        self._last, self._unsure = line, False
        self._count(line, stored)
        return line if is_right else None

    def finish(self) -> CheckedChain:
        checked, last = self._checked, self._last
        if self._torn is not None:
            if self._is_next_line(self._torn.data):
                checked.state = "torn"
            else:
                self._damage(self._torn.place, "unreadable", "this is not the beginning of the next line")
        elif last is not None and last.event == "end":
            checked.state = "ended"
        checked.head = None if last is None else last.head
        return checked

    def _check_key(self, place: str) -> None:
        if self._refuses_unsigned:
            self._damage(place, "unsigned", "the chain was made without a key, so anybody could have made it")
        elif self._key is None:
            self._damage(
                place, "unknown key", f"the chain is signed with the key {self._key_id}, which was not given"
            )

    def _check_order(self, place: str, line: ChainLine) -> None:
        last = self._last
        if last is None:
            self._checked.first = line.seq
            self._check_first(place, line)
        elif line.seq <= last.seq:
            self._damage(place, "reordered", f"line {line.seq} follows line {last.seq}")
        elif self._unsure and line.seq <= last.seq + 2:
            return
        elif line.seq > last.seq + 1:
            self._damage(place, "missing", _range(last.seq + 1, line.seq - 1))
        elif line.prev != last.hash:
            self._damage(place, "altered", f"line {line.seq} does not follow the line before it")

    def _check_first(self, place: str, line: ChainLine) -> None:
        if line.seq == 0 and line.prev == "":
            return
        if self._unsure and line.seq <= 1:
            return
        if self._pruned.get(line.seq - 1) != line.prev:
            self._damage(place, "missing", _range(0, line.seq - 1))

    def _is_next_line(self, data: bytes) -> bool:
        last = self._last
        seq, prev = (0, "") if last is None else (last.seq + 1, last.hash)
        start = f'{{"chain":"{self._chain}","seq":{seq},"prev":"{prev}",'.encode()
        return data.startswith(start) or start.startswith(data)

    def _count(self, line: ChainLine, stored: StoredLine) -> None:
        if line.event == "call":
            self._checked.records += 1
        elif line.event == "lost":
            with suppress(msgspec.DecodeError):  # an altered line, which was noted already
                self._checked.lost += msgspec.json.decode(stored.data, type=RecordsLost).count

    def _damage(self, place: str, kind: DamageKind, detail: str) -> None:
        self._damages.append(Damage(place, kind, detail))


def _range(first: int, last: int) -> str:
    return f"line {first} is missing" if first == last else f"lines {first} to {last} are missing"
