"""A meter in memory counts as the limiter would, or leaves the decision to it."""

from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.callers import LimitRule, LimitsConfig, PriceRule
from toolyard.limits import Limiter, LimitExceededError
from toolyard.state import MemoryState
from toolyard.wire.call import Principal

from .test_limiter import ANA, Clock

RULES = {
    "rate": (LimitRule(rate=2.0, burst=5),),
    "slots": (LimitRule(concurrent=3, per="all"),),
    "calls": (LimitRule(calls=6, window=10.0),),
    "budgets": (LimitRule(bytes_a_day=4000, tokens_a_day=900, cost_a_month=0.02),),
    "all": (
        LimitRule(name="all", rate=2.0, burst=5, concurrent=3, tokens_a_day=900, per="all"),
        LimitRule(name="some", calls=6, window=10.0, bytes_a_day=4000, cost_a_month=0.02),
    ),
}
PRICES = (PriceRule(tools=("notes/*",), call=0.001, million_tokens=10.0),)

steps = st.lists(
    st.tuples(st.just("begin"), st.just(0), st.just(False))
    | st.tuples(st.just("call"), st.integers(0, 2000), st.booleans())
    | st.tuples(st.just("end"), st.integers(0, 2000), st.booleans())
    | st.tuples(st.just("wait"), st.sampled_from([1, 100, 700, 11_000, 90_000_000, -5_000]), st.just(False)),
    min_size=10,
    max_size=60,
)


class Twin:
    """A limiter and the calls that it let in; with `metered`, by the way of the guard."""

    def __init__(self, metered: bool, rules: tuple[LimitRule, ...] = RULES["all"]) -> None:
        self.clock = Clock()
        self.state = MemoryState(clock=self.clock)
        self.limiter = Limiter(LimitsConfig(rules=rules, prices=PRICES), self.state)
        self.open: list[object] = []
        self._metered = metered
        self._number = 0

    async def begin(self, who: Principal = ANA) -> bool:
        plan = self.limiter.plan_of(who, "notes", "add")
        assert plan is not None
        assert plan.meter is not None
        self._number += 1
        lease = f"lease-{self._number}"
        if self._metered and plan.meter.take(lease):
            self.open.append((plan, lease))
            return True
        try:
            self.open.append(await self.limiter.admit(who, "notes", "add"))
        except LimitExceededError:
            return False
        return True

    async def end(self, size: int, failed: bool) -> None:
        match self.open.pop(0):
            case (plan, lease):
                if not plan.meter.give(lease, size, size // 4, failed):
                    self.limiter.finish_metered(plan, lease, size, size // 4, failed)
            case admission:
                await admission.finish(bytes=size, tokens=size // 4, failed=failed)  # pyright: ignore[reportAttributeAccessIssue]

    def counted(self) -> dict[str, object]:
        """The counters; of slots only how many are taken, since leases have different names."""
        return {key: len(each) if isinstance(each, dict) else each for key, each in self.state.live.items()}


@given(st.sampled_from(sorted(RULES)), steps)
async def test_a_meter_and_a_limiter_count_alike(rules: str, steps: list[tuple[str, int, bool]]):
    metered, plain = Twin(True, RULES[rules]), Twin(False, RULES[rules])
    for what, amount, failed in steps:
        if what == "wait":
            metered.clock.now += amount / 1000
            plain.clock.now += amount / 1000
        elif what != "end":
            assert await metered.begin() == await plain.begin()
        if what in ("call", "end") and plain.open:
            await metered.end(amount, failed)
            await plain.end(amount, failed)
        assert metered.counted() == plain.counted()


async def test_a_meter_knows_nothing_of_a_caller_that_was_not_counted_before():
    twin = Twin(metered=True)
    plan = twin.limiter.plan_of(ANA, "notes", "add")
    assert plan is not None
    assert plan.meter is not None
    assert not plan.meter.take("lease")
    assert not twin.state.live
    assert await twin.begin()
    assert plan.meter.take("lease")


async def test_counters_that_were_swept_away_are_counted_anew():
    twin = Twin(metered=True)
    assert await twin.begin()
    plan = twin.limiter.plan_of(ANA, "notes", "add")
    assert plan is not None
    assert plan.meter is not None
    assert plan.meter.take("lease")
    twin.state.live.clear()
    assert not plan.meter.give("lease", 100, 25, failed=False)
    twin.limiter.finish_metered(plan, "lease", 100, 25, failed=False)
    assert any(counter[0] == 25 for counter in twin.state.live.values() if isinstance(counter, tuple))
