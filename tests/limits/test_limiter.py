"""What a limiter admits, whom it counts together, and what it says when there is no more."""

from datetime import UTC, datetime

import pytest

from toolyard.config.callers import LimitRule, LimitsConfig, PriceRule
from toolyard.config.errors import ConfigError
from toolyard.limits import Limiter, LimitExceededError
from toolyard.state import MemoryState
from toolyard.wire.call import Principal

NOON = datetime(2027, 1, 30, 12, tzinfo=UTC).timestamp()
DAY = 86400.0
ANA, BEN = Principal(subject="ana", agent="coder"), Principal(subject="ben", agent="coder")


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Yard:
    """A limiter, the clock of its store, and calls that begin and end at once."""

    def __init__(
        self, *rules: LimitRule, groups: dict[str, tuple[str, ...]] | None = None, **more: object
    ) -> None:
        self.clock = Clock()
        config = LimitsConfig(rules=rules, **more)  # pyright: ignore[reportArgumentType]
        self.limiter = Limiter(config, MemoryState(clock=self.clock), groups)

    async def call(
        self,
        who: Principal = ANA,
        tool: str = "notes/add",
        *,
        bytes: int = 0,
        tokens: int = 0,
        failed: bool = False,
    ) -> None:
        server, own = tool.split("/")
        admission = await self.limiter.admit(who, server, own)
        await admission.finish(bytes=bytes, tokens=tokens, failed=failed)

    async def calls(self, who: Principal = ANA, tool: str = "notes/add", times: int = 20) -> int:
        """How many of so many pass."""
        passed = 0
        for _ in range(times):
            try:
                await self.call(who, tool)
            except LimitExceededError:
                continue
            passed += 1
        return passed

    async def refusal(self, who: Principal = ANA, tool: str = "notes/add") -> LimitExceededError:
        with pytest.raises(LimitExceededError) as caught:
            await self.call(who, tool)
        return caught.value


async def test_a_rate_gives_a_burst_at_once_and_then_so_many_a_second() -> None:
    yard = Yard(LimitRule(rate=2, burst=5))
    assert await yard.calls() == 5
    yard.clock.now += 1
    assert await yard.calls() == 2
    yard.clock.now += 60
    assert await yard.calls() == 5
    assert await Yard(LimitRule(rate=2.5)).calls() == 2
    assert await Yard(LimitRule(rate=0.1)).calls() == 1


async def test_a_refusal_says_which_limit_how_much_and_when_it_is_free_again() -> None:
    yard = Yard(LimitRule(name="team", calls_a_day=3))
    await yard.calls()
    error = await yard.refusal()
    assert error.message == (
        "Limit 'team' reached: 3 calls a day for user 'ana'; try again in 12 h, at 2027-01-31T00:00:00Z"
    )
    assert error.code == -32029
    assert error.http_status == 429
    assert error.http_headers == [(b"retry-after", b"43200")]
    assert error.data == {
        "limit": "team",
        "scope": "user 'ana'",
        "retry_after": 12 * 3600,
        "resets_at": "2027-01-31T00:00:00Z",
    }
    yard.clock.now += error.retry_after
    assert await yard.calls() == 3, "whoever waits as long as asked gets in"


@pytest.mark.parametrize(
    ("rule", "text", "wait"),
    [
        (LimitRule(rate=2), "2 calls a second, 2 at once", 1),
        (LimitRule(rate=1), "a call every 1 s", 1),
        (LimitRule(rate=0.1), "a call every 10 s", 10),
        (LimitRule(calls=1, window=60), "1 call in 60 s", 60),
        (LimitRule(calls_a_month=1000), "1,000 calls a month", 36 * 3600),
    ],
)
async def test_every_kind_of_limit_names_its_amount_and_its_end(
    rule: LimitRule, text: str, wait: int
) -> None:
    yard = Yard(rule)
    await yard.calls(times=1001)
    error = await yard.refusal()
    assert f"Limit reached: {text} for user 'ana'; try again in" in error.message
    assert error.data["limit"] == text
    assert error.retry_after == wait
    yard.clock.now += wait
    await yard.call()


async def test_budgets_in_bytes_and_tokens_end_when_they_are_used_up() -> None:
    yard = Yard(LimitRule(name="b", bytes_a_day=1000), LimitRule(name="t", tokens_a_month=100))
    await yard.call(bytes=999, tokens=50)
    await yard.call(bytes=500, tokens=49)
    assert "1,000 bytes a day" in (await yard.refusal()).message
    yard.clock.now += DAY / 2
    await yard.call(tokens=1)
    assert "100 tokens a month" in (await yard.refusal()).message
    yard.clock.now += DAY
    await yard.call()


async def test_costs_are_those_of_the_first_price_that_fits_and_a_failed_call_costs_nothing() -> None:
    prices = (
        PriceRule(tools=("notes/add",), call=0.4),
        PriceRule(tools=("search",), million_tokens=10.0),
        PriceRule(tools=("*",), call=0.01),
    )
    yard = Yard(LimitRule(cost_a_day=1.0), prices=prices, currency="EUR")
    await yard.call()
    for _ in range(5):
        await yard.call(failed=True)
    await yard.call()
    error = await yard.refusal()
    assert "1.00 EUR a day" in error.message
    await yard.call(tool="search/web", tokens=19_999)
    assert await yard.calls(tool="other/tool") == 0, "0.000010 are left"
    await yard.call(tool="search/web", tokens=1)
    assert await yard.calls(tool="search/web") == 0


async def test_no_more_calls_run_at_a_time_than_the_limit_says() -> None:
    yard = Yard(LimitRule(name="few", concurrent=2))
    first = await yard.limiter.admit(ANA, "notes", "add")
    second = await yard.limiter.admit(ANA, "notes", "add")
    error = await yard.refusal()
    assert error.message == "Limit 'few' reached: 2 calls at a time for user 'ana'; try again in 1 s"
    assert "resets_at" not in error.data
    await yard.call(BEN)
    await first.finish(bytes=0, tokens=0, failed=True)
    await first.finish(bytes=0, tokens=0, failed=True)
    third = await yard.limiter.admit(ANA, "notes", "add")
    await yard.refusal()
    for each in (second, third):
        await each.finish(bytes=0, tokens=0, failed=False)
    assert await yard.calls() == 20


async def test_a_call_that_one_limit_refuses_is_counted_by_none() -> None:
    yard = Yard(
        LimitRule(name="wide", calls_a_day=10),
        LimitRule(name="narrow", tools=("notes/add",), calls=3, window=60),
        LimitRule(name="slots", concurrent=1),
    )
    assert await yard.calls() == 3
    assert (await yard.refusal()).limit == "narrow"
    assert await yard.calls(tool="notes/list") == 7
    assert (await yard.refusal()).limit == "wide", "of two limits the one that takes longer is named"


@pytest.mark.parametrize(
    ("per", "others", "apart"),
    [
        (
            "user",
            [(ANA, "other/tool")],
            [(BEN, "notes/add"), (Principal(tenant="b", subject="ana"), "notes/add")],
        ),
        ("agent", [(BEN, "notes/add")], [(Principal(subject="ana", agent="b"), "notes/add")]),
        ("tenant", [(BEN, "other/tool"), (Principal(), "a/b")], [(Principal(tenant="b"), "notes/add")]),
        ("server", [(BEN, "notes/list")], [(ANA, "other/tool")]),
        ("tool", [(BEN, "notes/add")], [(ANA, "notes/list"), (ANA, "other/add")]),
        ("all", [(BEN, "other/tool"), (Principal(tenant="b"), "a/b")], []),
    ],
)
async def test_a_limit_is_shared_by_those_whom_it_names(per, others, apart) -> None:
    yard = Yard(LimitRule(calls_a_day=5, per=per))
    assert await yard.calls() == 5
    for who, tool in others:
        assert await yard.calls(who, tool) == 0
    for who, tool in apart:
        assert await yard.calls(who, tool) == 5


async def test_names_that_could_be_mistaken_for_each_other_have_counters_of_their_own() -> None:
    yard = Yard(LimitRule(calls_a_day=1))
    names = ["a/b", "a%2Fb", "a", "b\n", "b", "é", "e\u0301", "x" * 400, "x" * 401, "\ud800", "?"]
    for tenant in ("local", "a"):
        for name in names:
            assert await yard.calls(Principal(tenant=tenant, subject=name)) == 1, name


@pytest.mark.parametrize(
    ("who", "limited", "free"),
    [
        ("*", [ANA, Principal()], []),
        ("coder", [ANA], [Principal(subject="coder")]),
        ("agent:Coder", [ANA], [Principal(agent="coder2")]),
        ("user:ana", [ANA, Principal(subject="ANA"), Principal(subject="ａｎａ")], [BEN]),  # noqa: RUF001
        ("tenant:acme", [Principal(tenant="acme", subject="x")], [ANA]),
        ("client:cli", [Principal(client="cli")], [ANA]),
        ("group:staff", [Principal(groups=frozenset({"staff"})), BEN], [ANA]),
        ("group:all", [BEN, Principal(groups=frozenset({"staff"}))], [ANA]),
    ],
)
async def test_a_rule_is_for_those_whom_it_names(
    who: str, limited: list[Principal], free: list[Principal]
) -> None:
    groups = {"staff": ("user:ben",), "all": ("group:staff",)}
    for principal in limited:
        assert await Yard(LimitRule(who=(who,), calls_a_day=1), groups=groups).calls(principal) == 1
    for principal in free:
        assert await Yard(LimitRule(who=(who,), calls_a_day=1), groups=groups).calls(principal) == 20


@pytest.mark.parametrize(
    ("pattern", "limited", "free"),
    [
        ("*", ["notes/add", "other/x"], []),
        ("notes", ["notes/add", "notes/list"], ["notes2/add"]),
        ("notes/add", ["notes/add"], ["notes/add2", "notes/Add"]),
        ("notes/*_all", ["notes/list_all"], ["notes/list", "notes/all_x"]),
        ("n?tes*/*", ["notes/add", "nates2/x"], ["ntes/add"]),
        ("*/delete.it", ["a/delete.it"], ["a/delete-it"]),
    ],
)
async def test_a_rule_is_for_the_tools_that_its_patterns_name(
    pattern: str, limited: list[str], free: list[str]
) -> None:
    yard = Yard(LimitRule(tools=(pattern,), calls_a_day=1, per="tool"))
    assert [await yard.calls(tool=tool) for tool in limited] == [1] * len(limited)
    assert [await yard.calls(tool=tool) for tool in free] == [20] * len(free)


async def test_tools_that_read_and_tools_that_write_may_have_limits_of_their_own() -> None:
    yard = Yard(LimitRule(tools=("notes/*:write",), calls_a_day=1, per="tool"))
    for tool, reads in (("add", False), ("unknown", None)):
        await yard.limiter.admit(ANA, "notes", tool, reads)
        with pytest.raises(LimitExceededError):
            await yard.limiter.admit(ANA, "notes", tool, reads)
    for _ in range(3):
        await yard.limiter.admit(ANA, "notes", "list", True)


async def test_prompts_and_resources_count_under_a_whole_server_only() -> None:
    yard = Yard(LimitRule(tools=("notes/*",), calls_a_day=1), LimitRule(tools=("files",), calls_a_day=1))
    for _ in range(3):
        await yard.limiter.admit(ANA, "notes", "")
    await yard.limiter.admit(ANA, "files", "")
    with pytest.raises(LimitExceededError):
        await yard.limiter.admit(ANA, "files", "")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([LimitRule(who=("usr:ana",), rate=1)], r"limits.rules 1.*'usr:ana'"),
        ([LimitRule(who=("user:",), rate=1)], "names nobody"),
        ([LimitRule(who=("user:a*",), rate=1)], "no wildcards"),
        ([LimitRule(tools=("notes/*:raed",), rate=1)], r"limits.rules 1.*':raed', which is unknown"),
        ([LimitRule(tools=("tool:notes",), rate=1)], "'tool:', which is unknown"),
        ([LimitRule(rate=1), LimitRule(tools=("/x",), rate=1)], "limits.rules 2.*'/x'"),
        ([LimitRule(tools=("resource:notes/x",), rate=1)], "'resource:notes/x'"),
        ([LimitRule(name="a", rate=1), LimitRule(name="a", rate=2)], "rules 2.*name 'a'"),
        ([LimitRule(rate=1, per="all"), LimitRule(rate=2, per="all")], "'rate' for the same"),
    ],
)
def test_a_rule_that_cannot_be_is_named(rules: list[LimitRule], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Yard(*rules)
    assert caught.match(f"(?s){told}")


async def test_a_rule_with_a_name_keeps_its_counters_when_it_is_changed() -> None:
    state = MemoryState()

    async def passed(ceiling: int) -> int:
        limiter = Limiter(LimitsConfig(rules=(LimitRule(name="day", calls_a_month=ceiling),)), state)
        done = 0
        for _ in range(20):
            try:
                await limiter.admit(ANA, "notes", "add")
            except LimitExceededError:
                continue
            done += 1
        return done

    assert await passed(5) == 5
    assert await passed(3) == 0
    assert await passed(7) == 2


async def test_calls_under_way_keep_their_slots_when_the_rules_change() -> None:
    yard = Yard(LimitRule(name="few", concurrent=1))
    running = await yard.limiter.admit(ANA, "notes", "add")
    yard.limiter.reconfigure(LimitsConfig(rules=(LimitRule(name="few", concurrent=2),)))
    second = await yard.limiter.admit(ANA, "notes", "add")
    await yard.refusal()
    with pytest.raises(ConfigError):
        yard.limiter.reconfigure(LimitsConfig(rules=(LimitRule(who=("usr:a",), rate=1),)))
    await yard.refusal()
    for each in (running, second):
        await each.finish(bytes=0, tokens=0, failed=False)
    assert await yard.calls() == 20
