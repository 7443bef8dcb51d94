"""Admits calls within the limits of the configuration, and books what they used.

A call asks the store once when it begins, and once when it ends if it holds a slot or its bytes, tokens or
costs are counted. Owns which counters a call has and what happens while the store cannot be asked. The
counting itself is the store's (`State.spend`), by its clock: this module reads no time of day.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from ..config.callers import LimitsConfig
from ..state import MemoryState, State, StateError
from ..state.store import MAX_TTL, RateSpend, SlotSpend, Spend, SpendResult, WindowSpend
from ..wire.call import Principal
from .errors import LimitExceededError, LimitsUnavailableError
from .matching import RuleMatcher
from .meter import Booking, MemoryMeter, Slot, cost_of
from .table import MICRO, MOST, Limit, LimitScope, LimitTable, scope_of
from .usage import CounterFilter, UsageReport, read_usage

logger = logging.getLogger("toolyard.limits")

STORE_SECONDS = 1.0
"""How long calls wait for a store that answers nobody. One that is busy is waited for."""
ASKED_AT_ONCE = 8
"""How many calls ask the store for admission at a time; others queue here, where no time limit runs."""
RETRY_SECONDS = 2.0
"""How long a store that failed is not asked again; then one call tries."""
LEASE_SECONDS = 30.0
"""When the slots of a process that was killed are free again. A living one renews its slots in time."""
SLOT_SECONDS = 1
"""When to try again if all slots are taken: nobody knows when one is freed."""
WARN_SECONDS = 600.0
MAX_PLANS = 10_000

T = TypeVar("T")


class LimitPlan(Struct, frozen=True):
    """How calls of one principal to one tool are counted. It is for the limiter that made it."""

    entries: tuple[RateSpend | WindowSpend, ...]
    slots: tuple[Slot, ...]
    bookings: tuple[Booking, ...]
    limits: tuple[tuple[Limit, LimitScope], ...]
    """Of the entries, then of the slots."""
    call_cost: int
    token_cost: float
    meter: MemoryMeter | None
    """Counts without waiting; None if the counters are not in memory."""


class Admission:
    """A call that was admitted. Call `finish` however it ended; a second time does nothing."""

    __slots__ = ("_lease", "_limiter", "_plan")

    def __init__(
        self, limiter: "Limiter | None" = None, plan: LimitPlan | None = None, lease: str = ""
    ) -> None:
        self._limiter = limiter
        self._plan = plan
        self._lease = lease

    async def finish(self, *, bytes: int, tokens: int, failed: bool) -> None:
        """Release the slot, and book what the result had. A failed call counts, and costs nothing."""
        limiter, plan = self._limiter, self._plan
        if limiter is not None and plan is not None:
            self._limiter = None
            entries = limiter.closing(plan, self._lease, bytes, tokens, failed)
            if entries and not limiter.spend_in_memory(entries):
                await limiter.finish(plan, self._lease, entries)


_NOTHING_TO_FINISH = Admission()


class Limiter:
    """Raises ConfigError for rules that cannot be. Without rules there should be no limiter at all."""

    def __init__(
        self,
        config: LimitsConfig,
        state: State,
        groups: Mapping[str, Sequence[str]] | None = None,
        *,
        store_seconds: float = STORE_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`groups` are those of `[access]`."""
        self._plans: dict[tuple[Principal, str, str, bool | None], LimitPlan | None] = {}
        self.reconfigure(config, groups)
        self._state = state
        self._silence = _SilenceWatch(store_seconds)
        self._asking = asyncio.Semaphore(ASKED_AT_ONCE)
        self._retry_seconds = retry_seconds
        self._retry_at: float | None = None
        """None while the store answers."""
        self._warned_at: float | None = None
        self._memory = state if isinstance(state, MemoryState) else None
        """The store, if it is this process's memory: it neither waits nor fails."""
        # A lease in memory ends with the process.
        self._lease_seconds = MAX_TTL if self._memory is not None else lease_seconds
        self._process = secrets.token_hex(6)
        self._leases = 0
        self._held: dict[str, tuple[tuple[str, int], ...]] = {}
        """The slots of each lease."""
        self._renewal: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()
        self._releases: set[asyncio.Task[None]] = set()

    def reconfigure(self, config: LimitsConfig, groups: Mapping[str, Sequence[str]] | None = None) -> None:
        """Take over changed rules. Calls under way keep their slots and are booked by the old ones.

        Raises ConfigError for rules that cannot be, and changes nothing then.
        """
        self._table = LimitTable(config, RuleMatcher(groups or {}))
        self._is_open = config.unavailable == "open"
        self._plans.clear()

    def plan_of(
        self, principal: Principal, server: str, tool: str, reads: bool | None = None
    ) -> LimitPlan | None:
        """How such calls are counted; None if no rule is for them.

        `reads` says whether the tool only reads, by its annotations, for patterns such as `notes/*:write`.
        """
        subject = (principal, server, tool, reads)
        return self._plans[subject] if subject in self._plans else self._make_plan(subject)

    async def admit(
        self, principal: Principal, server: str, tool: str, reads: bool | None = None
    ) -> Admission:
        """Count the call, or raise LimitExceededError and count nothing. `reads` as for `plan_of`."""
        plan = self.plan_of(principal, server, tool, reads)
        if plan is None:
            return _NOTHING_TO_FINISH
        if plan.slots:
            return await self._admit_to_slots(plan)
        entries, memory = plan.entries, self._memory
        result = await self._spend(entries) if memory is None else self._spend_in(memory, entries)
        if result is None:
            return _NOTHING_TO_FINISH
        if result.refused:
            raise _refusal(plan, result)
        return Admission(self, plan) if plan.bookings else _NOTHING_TO_FINISH

    async def book(
        self, principal: Principal, server: str, tool: str, reads: bool | None, *, bytes: int, tokens: int
    ) -> None:
        """Book what came of a call later than its end: the result of a task. Refuses nothing."""
        plan = self.plan_of(principal, server, tool, reads)
        if plan is not None:
            entries = self.closing(plan, "", bytes, tokens, failed=False)
            if entries and not self.spend_in_memory(entries):
                await self.finish(plan, "", entries)

    async def usage(self, sees: CounterFilter | None = None) -> UsageReport:
        """What is used of each limit, of the counters that `sees` lets pass. Raises StateError."""
        return await read_usage(self._table, self._state, sees)

    def finish_metered(self, plan: LimitPlan, lease: str, size: int, tokens: int, failed: bool) -> None:
        """For a call that a meter let in and could not book: its window has ended, or there is no room."""
        self.spend_in_memory(self.closing(plan, lease, size, tokens, failed))

    def closing(self, plan: LimitPlan, lease: str, bytes: int, tokens: int, failed: bool) -> list[Spend]:
        """For `Admission.finish`: what there is to book and to free."""
        cost = cost_of(tokens, failed, plan.call_cost, plan.token_cost)
        entries: list[Spend] = []
        for unit, key, period in plan.bookings:
            amount = tokens if unit == "tokens" else cost if unit == "cost" else bytes
            if amount:
                entries.append(WindowSpend(key, amount, None, period))
        if lease:
            self._held.pop(lease, None)
            for key, _ in plan.slots:
                entries.append(SlotSpend(key, (lease,), None, 0.0))
        return entries

    def spend_in_memory(self, entries: Sequence[Spend]) -> bool:
        """For `Admission.finish`: False if the counters are elsewhere, and have to be waited for."""
        if self._memory is None:
            return False
        self._spend_in(self._memory, entries, must_count=False)
        return True

    async def finish(self, plan: LimitPlan, lease: str, entries: Sequence[Spend]) -> None:
        """For `Admission.finish`."""
        try:
            if lease:
                async with self._renewing:  # a renewal that arrives later would take the slot again
                    await self._spend(entries, must_count=False)
            else:
                await self._spend(entries, must_count=False)
        except asyncio.CancelledError:
            self._free_later(plan, lease)
            raise

    async def close(self) -> None:
        """Free the slots that are held. Does not close the store."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        held, self._held = self._held, {}
        if held:
            await self._spend(_grouped(held, 0.0), must_count=False)
        await asyncio.gather(*self._releases, return_exceptions=True)
        self._silence.close()

    async def _admit_to_slots(self, plan: LimitPlan) -> Admission:
        self._leases += 1
        lease = f"{self._process}-{self._leases}"
        entries: list[Spend] = [*plan.entries]
        for key, ceiling in plan.slots:
            entries.append(SlotSpend(key, (lease,), ceiling, self._lease_seconds))
        memory = self._memory
        try:
            result = await self._spend(entries) if memory is None else self._spend_in(memory, entries)
        except asyncio.CancelledError:
            # The store may have counted it.
            self._free_later(plan, lease)
            raise
        if result is None:
            return _NOTHING_TO_FINISH
        if result.refused:
            raise _refusal(plan, result)
        self._held[lease] = plan.slots
        if memory is None and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._renew())
        return Admission(self, plan, lease)

    async def _spend(self, entries: Sequence[Spend], must_count: bool = True) -> SpendResult | None:
        """None if the store cannot be asked and calls pass without it."""
        if self._memory is not None:
            return self._spend_in(self._memory, entries, must_count)
        if not must_count:  # the end of a call, which must not wait behind those that begin
            return await self._ask(entries, must_count)
        if self._asking.locked() and self._is_down():
            return self._uncounted(must_count)
        async with self._asking:
            return await self._ask(entries, must_count)

    def _is_down(self) -> bool:
        return self._retry_at is not None and time.monotonic() < self._retry_at

    async def _ask(self, entries: Sequence[Spend], must_count: bool) -> SpendResult | None:
        if self._retry_at is not None:
            if self._is_down():
                return self._uncounted(must_count)
            # This call tries; others do not wait with it.
            self._retry_at = time.monotonic() + self._retry_seconds
        try:
            result = await self._silence.ended(self._state.spend(entries))
        except (StateError, TimeoutError) as error:
            self._retry_at = time.monotonic() + self._retry_seconds
            return self._uncounted(must_count, str(error) or f"no answer within {self._silence.seconds:g} s")
        if self._retry_at is not None:
            self._retry_at = self._warned_at = None
            logger.info("calls are counted in the state store again")
        return result

    def _spend_in(
        self, memory: MemoryState, entries: Sequence[Spend], must_count: bool = True
    ) -> SpendResult | None:
        try:
            return memory.spend_now(entries)
        except StateError as error:
            # Full for new callers. Those that have counters are counted as before.
            return self._uncounted(must_count, str(error))

    def _uncounted(self, must_count: bool, reason: str = "") -> None:
        """`reason` is for the log, which has it once for an outage, and again if it lasts."""
        now = time.monotonic()
        if reason and (self._warned_at is None or now - self._warned_at > WARN_SECONDS):
            self._warned_at = now
            what = "pass without limits" if self._is_open else "that have limits are refused"
            logger.warning("calls cannot be counted and %s for now: %s", what, reason)
        if must_count and not self._is_open:
            raise LimitsUnavailableError(self._retry_seconds)

    async def _renew(self) -> None:
        while self._held:
            await asyncio.sleep(self._lease_seconds / 3)
            async with self._renewing:
                if self._held:
                    await self._spend(_grouped(self._held, self._lease_seconds), must_count=False)

    def _free_later(self, plan: LimitPlan, lease: str) -> None:
        """For a call that was cancelled while it waited for the store."""

        async def free() -> None:
            await self._spend(_freed(plan, lease), must_count=False)

        if plan.slots:
            task = asyncio.create_task(free())
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    def _make_plan(self, subject: tuple[Principal, str, str, bool | None]) -> LimitPlan | None:
        principal, server, tool, reads = subject
        price = self._table.price_of(server, tool, reads)
        call_cost = 0 if price is None else min(MOST, math.ceil(price.call * MICRO))
        # A price for a million tokens is as many millionths for one.
        token_cost = 0.0 if price is None else price.million_tokens
        entries: list[tuple[RateSpend | WindowSpend, Limit, LimitScope]] = []
        slots: list[tuple[str, Limit, LimitScope]] = []
        bookings: list[Booking] = []
        for limit in self._table.of(*subject):
            scope = scope_of(limit.rule.per, principal, server, tool)
            key = limit.key(scope.key)
            if limit.measure == "concurrent":
                slots.append((key, limit, scope))
                continue
            if limit.measure == "rate":
                spend = RateSpend(key, limit.rule.rate, limit.ceiling)
            else:
                amount = 1 if limit.unit == "calls" else call_cost if limit.unit == "cost" else 0
                spend = WindowSpend(key, amount, limit.ceiling, limit.period)
                if limit.unit != "calls":
                    bookings.append((limit.unit, key, limit.period))
            entries.append((spend, limit, scope))
        spends = tuple(spend for spend, _, _ in entries)
        held = tuple((key, limit.ceiling) for key, limit, _ in slots)
        memory, meter = self._memory, None
        if memory is not None:
            meter = MemoryMeter(memory, spends, held, bookings, call_cost, token_cost)
        plan = LimitPlan(
            spends,
            held,
            tuple(bookings),
            tuple((limit, scope) for _, limit, scope in (*entries, *slots)),
            call_cost,
            token_cost,
            meter,
        )
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        kept = self._plans[subject] = plan if plan.limits else None
        return kept


class _SilenceWatch:
    """Ends the wait for a store that has answered nobody for so many seconds.

    It goes by answers and not by the time of each question: under load questions wait for each other, and a
    limit that fell away then would be none. A second of a busy process counts only if the process had
    time to read answers in it, so it is counted in steps, of which each is a turn of the loop at least.
    """

    STEPS = 20

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: set[asyncio.Timeout] = set()
        self._silent = 0
        """Steps since the last answer."""
        self._watch: asyncio.Task[None] | None = None

    async def ended(self, question: Awaitable[T]) -> T:
        """The answer; TimeoutError if there was none, for this question or another."""
        async with asyncio.timeout(None) as limit:
            self._waiting.add(limit)
            if self._watch is None:
                self._silent = 0
                self._watch = asyncio.create_task(self._count())
            try:
                answer = await question
            finally:
                self._waiting.discard(limit)
            self._silent = 0
            return answer

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def _count(self) -> None:
        """Ends by itself when nobody waits any more."""
        while self._waiting:
            await asyncio.sleep(self.seconds / self.STEPS)
            self._silent += 1
            if self._silent > self.STEPS:
                now = asyncio.get_running_loop().time()
                for limit in self._waiting:
                    limit.reschedule(now)
                self._waiting.clear()
        self._watch = None


def _freed(plan: LimitPlan, lease: str) -> list[Spend]:
    return [SlotSpend(key, (lease,), None, 0.0) for key, _ in plan.slots]


def _grouped(held: Mapping[str, tuple[tuple[str, int], ...]], ttl: float) -> list[Spend]:
    """One entry for each counter, whatever the ceiling: these slots are taken already."""
    leases: dict[str, list[str]] = {}
    for lease, slots in held.items():
        for key, _ in slots:
            leases.setdefault(key, []).append(lease)
    return [SlotSpend(key, tuple(each), None, ttl) for key, each in leases.items()]


def _refusal(plan: LimitPlan, result: SpendResult) -> LimitExceededError:
    """Of several limits, the one that takes longest."""
    worst = max(result.refused, key=lambda refused: refused.wait)
    limit, scope = plan.limits[worst.position]
    if limit.measure == "concurrent":
        return LimitExceededError(limit.rule.name, limit.text, scope.text, SLOT_SECONDS)
    return LimitExceededError(limit.rule.name, limit.text, scope.text, worst.wait, worst.free_at)
