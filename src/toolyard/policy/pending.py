"""Calls that wait for a person, in the state store, where every replica and the command line see them.

Owns the entries: a waiting call adds its own, looks whether somebody decided, and removes it. `decide`
replaces an entry by its verdict; of two people who decide at once one is told that it was too late. Also
owns what was approved for a whole conversation, until that ends or somebody withdraws it. Knows nothing of
protocols and clients.

ApprovalError
├── UnknownApprovalError     no call waits under this id (any more)
├── NotStandingError         nothing is approved for a conversation under this id (any more)
├── AlreadyDecidedError      somebody else was faster; it says who
├── NoConversationError      "always" for a call that belongs to no conversation
└── TooManyPendingError      too many calls wait already
"""

import asyncio
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..languages import said
from ..state.store import State, StateError
from ..wire.seal import digest
from .description import CallDescription

logger = logging.getLogger("toolyard.policy")

PENDING = "approvals/pending/"
ALWAYS = "approvals/always/"
TALKS = "approvals/conversations/"
"""Conversations for which something is approved, so that nobody searches at the end of the others."""
USED = "approvals/used/"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
DECIDED_SECONDS = 60.0
"""How long a verdict stays, beyond the time of its call: who comes second is told who was first."""
LINGER_SECONDS = 1.0
"""How long the entry of a call stays beyond its time if it could not be removed: nobody waits there."""
WAITING_LIMIT = 1_000
_ID = re.compile(r"[0-9a-f]{10}")

DecisionWord = Literal["approve", "deny"]
Beat = Callable[[], Awaitable[None]]
"""Called again and again while a call waits."""


class ApprovalError(Exception):
    """For whoever decides: what is wrong, in one sentence."""


class UnknownApprovalError(ApprovalError):
    def __init__(self, id: str) -> None:
        super().__init__(f"no call waits as {id[:40]!r}: it ended, expired, or was never there")


class NotStandingError(ApprovalError):
    def __init__(self, id: str) -> None:
        super().__init__(
            f"nothing is approved for a conversation as {id[:40]!r}: it ended, was withdrawn, or never was"
        )


class AlreadyDecidedError(ApprovalError):
    def __init__(self, id: str, verdict: "Verdict") -> None:
        super().__init__(f"{id!r} was decided already: {verdict.decision}, by {verdict.by}")
        self.verdict = verdict


class NoConversationError(ApprovalError):
    def __init__(self, id: str) -> None:
        super().__init__(f"{id!r} belongs to no conversation, so it can only be approved once")


class TooManyPendingError(ApprovalError):
    def __init__(self) -> None:
        super().__init__(
            said("too many calls wait for approval already", "chamadas demais já esperam aprovação")
        )


class Verdict(Struct, frozen=True, kw_only=True):
    decision: DecisionWord
    by: str
    at: float
    """Seconds since 1970."""
    always: bool = False
    """For this tool in this conversation, from now on."""


class PendingApproval(Struct, frozen=True, kw_only=True):
    id: str
    call: CallDescription
    created: float
    expires: float
    """Seconds since 1970, by the clock of the gateway that waits."""
    has_conversation: bool
    verdict: Verdict | None = None

    def as_row(self, now: float) -> dict[str, Any]:
        """As the HTTP API and the command line show it."""
        return {
            "id": self.id,
            **msgspec.structs.asdict(self.call),
            "created": self.created,
            "expires": self.expires,
            "age_seconds": round(max(0.0, now - self.created), 1),
            "seconds_left": round(max(0.0, self.expires - now), 1),
            "may_always": self.has_conversation,
        }


class StandingApproval(Struct, frozen=True, kw_only=True):
    """A tool that needs no more confirmation in one conversation."""

    id: str
    call: CallDescription
    """The call with which it was approved, without its arguments: any will do from now on."""
    by: str
    since: float
    until: float

    def as_row(self, now: float) -> dict[str, Any]:
        """As the HTTP API and the command line show it."""
        row = msgspec.structs.asdict(self.call)
        del row["arguments"]
        return {
            "id": self.id,
            **row,
            "by": self.by,
            "since": self.since,
            "until": self.until,
            "age_seconds": round(max(0.0, now - self.since), 1),
            "seconds_left": round(max(0.0, self.until - now), 1),
        }


_decode = msgspec.json.Decoder(PendingApproval).decode
_decode_standing = msgspec.json.Decoder(StandingApproval).decode
_encode = msgspec.json.encode


def _verdict_in(raw: bytes) -> Verdict | None:
    try:
        return _decode(raw).verdict
    except msgspec.DecodeError:
        return None


class PendingApprovals:
    """`now` is the time of day; it is shown, and no limit depends on it."""

    def __init__(
        self,
        state: State,
        *,
        limit: int = WAITING_LIMIT,
        pauses: tuple[float, float] = (FIRST_PAUSE, LONGEST_PAUSE),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._limit = limit
        self._pauses = pauses
        self._now = now
        self._waiting: dict[str, asyncio.Event] = {}
        self._per_owner: Counter[str] = Counter()
        self._removing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many calls of this process wait."""
        return len(self._waiting)

    # Whoever decides

    async def list(self, tenant: str | None = None) -> list[PendingApproval]:
        """The calls that wait, the oldest first; of one tenant, or all."""
        found: list[PendingApproval] = []
        for key in await self._state.keys(PENDING):
            entry = await self._read(key.removeprefix(PENDING))
            if entry is not None and entry[1].verdict is None and tenant in (None, entry[1].call.tenant):
                found.append(entry[1])
        return sorted(found, key=lambda pending: (pending.created, pending.id))

    async def decide(
        self, id: str, decision: DecisionWord, by: str, *, always: bool = False, tenant: str | None = None
    ) -> PendingApproval:
        """Decide for a waiting call, and return it with the verdict. Raises ApprovalError or StateError."""
        entry = await self._read(id)
        if entry is None or tenant not in (None, entry[1].call.tenant):
            raise UnknownApprovalError(id)
        raw, pending = entry
        if pending.verdict is not None:
            raise AlreadyDecidedError(id, pending.verdict)
        if always and not pending.has_conversation:
            raise NoConversationError(id)
        verdict = Verdict(decision=decision, by=by, at=self._now(), always=always and decision == "approve")
        decided = msgspec.structs.replace(pending, verdict=verdict)
        ttl = max(0.0, pending.expires - self._now()) + DECIDED_SECONDS
        if not await self._state.swap(PENDING + id, raw, _encode(decided), ttl):
            entry = await self._read(id)
            if entry is not None and entry[1].verdict is not None:
                raise AlreadyDecidedError(id, entry[1].verdict)
            raise UnknownApprovalError(id)
        if id in self._waiting:
            self._waiting[id].set()
        return decided

    async def _read(self, id: str) -> tuple[bytes, PendingApproval] | None:
        raw = await self._state.get(PENDING + id) if _ID.fullmatch(id) else None
        if raw is None:
            return None
        try:
            return raw, _decode(raw)
        except msgspec.DecodeError:  # written by another version
            return None

    # The call that waits

    async def wait(
        self, call: CallDescription, owner: str, seconds: float, has_conversation: bool, beat: "Announce"
    ) -> Verdict | None:
        """Wait until somebody decides; None if nobody does within `seconds`. Calls are counted by `owner`.

        Raises StateError if the call cannot be entered, so that nobody could decide.
        """
        if len(self._waiting) >= self._limit or self._per_owner[owner] >= max(1, self._limit // 10):
            raise TooManyPendingError
        now = self._now()
        pending = PendingApproval(
            id=secrets.token_hex(5),
            call=call,
            created=now,
            expires=now + seconds,
            has_conversation=has_conversation,
        )
        self._waiting[pending.id] = asyncio.Event()
        self._per_owner[owner] += 1
        try:
            return await self._until_decided(pending, seconds, lambda: beat(pending))
        finally:
            del self._waiting[pending.id]
            self._per_owner[owner] -= 1
            if not self._per_owner[owner]:
                del self._per_owner[owner]

    async def _until_decided(self, pending: PendingApproval, seconds: float, beat: Beat) -> Verdict | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        entry, key = _encode(pending), PENDING + pending.id
        try:
            await self._state.put(key, entry, seconds + LINGER_SECONDS)
            verdict = await self._poll(pending.id, entry, deadline, beat)
            return verdict or await self._withdraw(pending.id, entry)
        except BaseException:  # cancelled, or the store did not say whether it has the entry
            removing = asyncio.create_task(self._remove(key, entry))
            self._removing.add(removing)
            removing.add_done_callback(self._removing.discard)
            await asyncio.shield(removing)
            raise

    async def _poll(self, id: str, entry: bytes, deadline: float, beat: Beat) -> Verdict | None:
        """Look at the entry until its verdict is there: at once in this process, after a pause in others."""
        decided, is_down = self._waiting[id], False
        pause, longest = self._pauses
        loop = asyncio.get_running_loop()
        while (left := deadline - loop.time()) > 0:
            await beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left)):
                    await decided.wait()
            decided.clear()
            pause = min(longest, pause * 1.5)
            try:
                found = await self._state.get(PENDING + id)
                if found is None:  # the store lost it: whoever decides has to find it
                    await self._state.swap(PENDING + id, None, entry, left + LINGER_SECONDS)
                elif found != entry:
                    return _verdict_in(found)
                is_down = False
            except StateError as error:
                if not is_down:
                    logger.warning("approval %s waits on, but nobody can decide now: %s", id, error)
                is_down = True
        return None

    async def _withdraw(self, id: str, entry: bytes) -> Verdict | None:
        """Nobody decided in time. Who decides in this very moment is not ignored, nor told a lie."""
        try:
            if await self._state.swap(PENDING + id, entry, None):
                return None
            found = await self._state.get(PENDING + id)
        except StateError as error:
            logger.warning("approval %s ended, and its entry could not be removed: %s", id, error)
            return None
        return None if found is None else _verdict_in(found)

    async def _remove(self, key: str, entry: bytes) -> None:
        with suppress(StateError):  # then it expires
            await self._state.swap(key, entry, None)

    # What was said for a conversation, and what may be used once

    async def remember(
        self, conversation: "ConversationTool", call: CallDescription, by: str, seconds: float
    ) -> None:
        """Approve a tool for the rest of a conversation."""
        now = self._now()
        standing = StandingApproval(
            id=conversation.id,
            call=msgspec.structs.replace(call, arguments=None),
            by=by,
            since=now,
            until=now + seconds,
        )
        await self._state.put(conversation.talk, b"1", seconds)
        await self._state.put(conversation.key, _encode(standing), seconds)

    async def remembered(self, conversation: "ConversationTool") -> str | None:
        """Who approved this tool for this conversation; None if nobody did."""
        found = await self._read_standing(conversation.key)
        return None if found is None else found[1].by

    async def list_standing(self, tenant: str | None = None) -> tuple[StandingApproval, ...]:
        """What is approved for conversations, the oldest first; of one tenant, or all."""
        found = [entry async for _, _, entry in self._standing(tenant)]
        return tuple(sorted(found, key=lambda standing: (standing.since, standing.id)))

    async def withdraw(self, id: str, tenant: str | None = None) -> StandingApproval:
        """Ask again from now on, in every process. Raises NotStandingError or StateError."""
        async for key, raw, entry in self._standing(tenant):
            # Somebody may approve it again in this moment, which then holds.
            if entry.id == id and await self._state.swap(key, raw, None):
                return entry
        raise NotStandingError(id)

    async def end_conversation(self, principal: str, thread: str) -> None:
        """Forget what was approved for a conversation that has ended."""
        conversation = ConversationTool(principal, thread, "", "")
        if await self._state.delete(conversation.talk):
            for key in await self._state.keys(conversation.start):
                await self._state.delete(key)

    async def _standing(self, tenant: str | None) -> AsyncIterator[tuple[str, bytes, StandingApproval]]:
        for key in await self._state.keys(ALWAYS):
            entry = await self._read_standing(key)
            if entry is not None and tenant in (None, entry[1].call.tenant):
                yield key, *entry

    async def _read_standing(self, key: str) -> tuple[bytes, StandingApproval] | None:
        raw = await self._state.get(key)
        try:
            return None if raw is None else (raw, _decode_standing(raw))
        except msgspec.DecodeError:  # written by another version
            return None

    async def use(self, id: str, seconds: float) -> bool:
        """Mark something as used; False if it was used before."""
        return await self._state.swap(USED + id, None, b"1", seconds)


Announce = Callable[[PendingApproval], Awaitable[None]]


class ConversationTool(Struct, frozen=True):
    """One tool in one conversation of one principal."""

    principal: str
    thread: str
    server: str
    tool: str

    @property
    def talk(self) -> str:
        return TALKS + _mark(self.principal, self.thread)

    @property
    def start(self) -> str:
        """How the keys of all tools of this conversation begin."""
        return f"{ALWAYS}{_mark(self.principal, self.thread)}/"

    @property
    def key(self) -> str:
        return self.start + _mark(self.server, self.tool)

    @property
    def id(self) -> str:
        return _mark(self.principal, self.thread, self.server, self.tool)[:10]


def _mark(*parts: str) -> str:
    return digest(*(part.encode("utf-8", "surrogatepass") for part in parts))
