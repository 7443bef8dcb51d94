"""A grant shares the limits of whoever made it, whatever its name."""

import pytest

from toolyard.config.callers import LimitRule, LimitsConfig
from toolyard.limits import Limiter, LimitExceededError
from toolyard.state import MemoryState
from toolyard.wire.call import Grant, Principal, Right

PLANNER = Principal(agent="planner", subject="ana")


def grant_of_planner(name: str) -> Principal:
    grant = Grant(name, (name,), (Right(("*",)),), 9e9, parent_agents=("planner",))
    return Principal(agent=name, subject="ana", kind="grant", grant=grant)


@pytest.mark.parametrize("per", ["user", "agent", "tenant", "all"])
async def test_another_name_is_no_new_budget(per: str) -> None:
    limiter = Limiter(LimitsConfig(rules=(LimitRule(per=per, calls_a_day=3),)), MemoryState())  # pyright: ignore[reportArgumentType]
    await limiter.admit(PLANNER, "notes", "add")
    await limiter.admit(grant_of_planner("one"), "notes", "add")
    await limiter.admit(grant_of_planner("two"), "notes", "add")
    for who in (PLANNER, grant_of_planner("three")):
        with pytest.raises(LimitExceededError):
            await limiter.admit(who, "notes", "add")


async def test_a_rule_for_the_maker_or_for_the_name_is_for_the_grant() -> None:
    rules = (LimitRule(who=("planner",), calls_a_day=2), LimitRule(who=("helper",), calls_a_day=1))
    limiter = Limiter(LimitsConfig(rules=rules), MemoryState())
    await limiter.admit(grant_of_planner("helper"), "notes", "add")
    with pytest.raises(LimitExceededError):
        await limiter.admit(grant_of_planner("helper"), "notes", "add")
    await limiter.admit(grant_of_planner("other"), "notes", "add")
    with pytest.raises(LimitExceededError):
        await limiter.admit(grant_of_planner("third"), "notes", "add")
