"""The rules for a grant: those of whoever made it, and those for each name of its chain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.catalogue.catalogue import CatalogueEntry
from toolyard.catalogue.items import TOOLS, UpstreamItem
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.policy.access import AccessPolicy
from toolyard.wire.call import Grant, Principal, Right

EVERYTHING = (Right(("*",)),)


def rule(*who: str, **fields: Any) -> AccessRule:
    return AccessRule(who=who, **fields)


def policy(*rules: AccessRule, **fields: Any) -> AccessPolicy:
    return AccessPolicy(AccessConfig(default="deny", rules=rules, **fields))


def grant_of(*agents: str, rights: tuple[Right, ...] = EVERYTHING, **fields: Any) -> Principal:
    """The last name uses a grant of those before it."""
    *above, agent = agents
    grant = Grant("g1", ("g1",), rights, 9e9, parent_agents=tuple(above))
    return Principal(agent=agent, kind="grant", grant=grant, **fields)


def verb(policy: AccessPolicy, principal: Principal, own: str, **args: Any) -> str:
    decision = policy.rights(principal).decide(TOOLS, "notes", own, None)
    return policy.resolve(decision, principal, "notes", own, args).verb


def test_the_rules_of_the_parent_apply_to_a_grant_of_any_name() -> None:
    rules = policy(rule("planner", allow=("notes/read",)))

    assert verb(rules, grant_of("planner", "helper"), "read") == "allow"
    assert verb(rules, grant_of("planner", "helper"), "write") == "deny"


def test_the_name_of_a_grant_gives_it_nothing() -> None:
    rules = policy(rule("planner", allow=("notes/read",)), rule("admin", allow=("*",)))

    assert verb(rules, grant_of("planner", "admin"), "write") == "deny"
    assert verb(rules, Principal(agent="admin"), "write") == "allow"


def test_rules_for_the_name_of_a_grant_limit_it() -> None:
    rules = policy(rule("planner", allow=("notes",)), rule("helper", allow=("notes/read",)))

    assert verb(rules, grant_of("planner", "helper"), "read") == "allow"
    assert verb(rules, grant_of("planner", "helper"), "write") == "deny"


def test_a_deny_for_the_name_takes_away_that_and_nothing_else() -> None:
    rules = policy(rule("planner", allow=("notes",)), rule("helper", deny=("notes/write",)))

    assert verb(rules, grant_of("planner", "helper"), "write") == "deny"
    assert verb(rules, grant_of("planner", "helper"), "read") == "allow"


def test_rules_for_every_name_of_the_chain_limit_it() -> None:
    rules = policy(rule("planner", allow=("notes",)), rule("helper", deny=("notes/write",)))

    assert verb(rules, grant_of("planner", "helper", "third"), "write") == "deny"
    assert verb(rules, grant_of("planner", "helper", "third"), "read") == "allow"


def test_rules_for_a_group_that_the_name_is_in_limit_it() -> None:
    rules = policy(
        rule("planner", allow=("notes",)),
        rule("group:helpers", allow=("notes/read",)),
        groups={"helpers": ("helper",)},
    )

    assert verb(rules, grant_of("planner", "helper"), "write") == "deny"
    assert verb(rules, grant_of("planner", "helper"), "read") == "allow"


def test_the_stricter_of_two_verbs_holds() -> None:
    rules = policy(rule("planner", allow=("notes",)), rule("helper", confirm=("notes",)))
    turned = policy(rule("planner", preview=("notes",)), rule("helper", confirm=("notes",)))

    assert verb(rules, grant_of("planner", "helper"), "read") == "confirm"
    assert verb(turned, grant_of("planner", "helper"), "read") == "preview"


def test_conditions_of_both_are_asked() -> None:
    rules = policy(
        rule("planner", allow=("notes",), when="args.x < 10"),
        rule("helper", allow=("notes",), when="args.x > 5"),
    )
    helper = grant_of("planner", "helper")

    assert [verb(rules, helper, "read", x=x) for x in (3, 7, 12)] == ["deny", "allow", "deny"]
    assert policy_sees(rules, helper, "read")


def test_conditions_see_the_agent_whose_rule_it_is() -> None:
    rules = policy(
        rule("*", allow=("notes",)),
        rule("*", deny=("notes",), when='agent == "planner"'),
        rule("helper", allow=("notes",), when='agent == "helper"'),
    )

    assert verb(rules, Principal(agent="planner"), "read") == "deny"
    assert verb(rules, grant_of("planner", "helper"), "read") == "deny"
    assert verb(rules, grant_of("other", "helper"), "read") == "allow"


def test_scopes_that_either_demands_are_named() -> None:
    rules = policy(
        rule("planner", allow=("notes",), scopes=("read",)),
        rule("helper", allow=("notes",), scopes=("more",)),
    )

    assert set(policy_decides(rules, grant_of("planner", "helper")).scopes) == {"read", "more"}
    both = grant_of("planner", "helper", scopes=frozenset({"read", "more"}))
    assert policy_decides(rules, both).scopes == ()


def test_a_list_shows_what_both_allow() -> None:
    rules = policy(
        rule("planner", allow=("notes/read", "notes/write")), rule("helper", deny=("notes/write",))
    )
    entries = [
        CatalogueEntry("notes", own, own, UpstreamItem(own, b"}", reads=None))
        for own in ("read", "write", "delete")
    ]
    rights = rules.rights(grant_of("planner", "helper"))

    assert [entry.item.own for entry in rights.visible(TOOLS, entries)] == ["read"]


def test_the_rule_that_decided_is_named() -> None:
    rules = policy(
        rule("planner", name="plans", allow=("notes",)), rule("helper", name="helps", deny=("notes/write",))
    )
    helper = grant_of("planner", "helper")

    assert rules.rights(helper).decide(TOOLS, "notes", "write", None).rule == "helps"
    assert rules.rights(helper).decide(TOOLS, "notes", "read", None).rule == "plans"


@pytest.mark.parametrize("config", [AccessConfig(), AccessConfig(default="deny")])
def test_without_rules_the_patterns_of_the_grant_remain(config: AccessConfig) -> None:
    rules = AccessPolicy(config)
    helper = grant_of("planner", "helper", rights=(Right(("notes/read",)),))

    assert verb(rules, helper, "read") == ("allow" if config.default == "allow" else "deny")
    assert verb(rules, helper, "write") == "deny"


def test_grants_of_equal_limits_share_their_rights() -> None:
    rules = policy(rule("planner", allow=("notes",)))
    others = [grant_of("planner", name, subject=name) for name in ("a", "b")]

    assert rules.rights(others[0]) is rules.rights(others[1])


def policy_decides(policy: AccessPolicy, principal: Principal) -> Any:
    return policy.rights(principal).decide(TOOLS, "notes", "read", None)


def policy_sees(policy: AccessPolicy, principal: Principal, own: str) -> bool:
    return policy.rights(principal).sees(TOOLS, "notes", own, None)


NAMES = ("planner", "helper", "admin", "third")
ORDER = ("deny", "preview", "confirm", "allow")
patterns = st.lists(
    st.sampled_from(["*", "notes", "notes/read", "notes/w*", "*/*:read", "other"]), unique=True, max_size=2
)


@st.composite
def rules(draw: st.DrawFn) -> AccessRule:
    verbs: dict[str, Any] = {draw(st.sampled_from(ORDER)): tuple(draw(patterns)) or ("notes",)}
    who = draw(st.sampled_from([*NAMES, "group:g", "*"]))
    return AccessRule(
        who=(who,), when=draw(st.sampled_from(["", 'agent != "helper"', "args.x == 1"])), **verbs
    )


configs = st.builds(
    AccessConfig,
    rules=st.lists(rules(), max_size=5).map(tuple),
    default=st.sampled_from(["allow", "deny"]),
    groups=st.just({"g": ("admin", "third")}),
)
chains = st.lists(st.sampled_from(NAMES), min_size=2, max_size=4)


@given(configs, chains, st.sampled_from(["read", "write", "x"]), st.sampled_from([0, 1]))
def test_whatever_the_names_a_grant_has_no_right_that_its_parent_lacks(
    config: AccessConfig, agents: list[str], own: str, x: int
) -> None:
    found = AccessPolicy(config)
    parents = [Principal(agent=agents[0]), *(grant_of(*agents[:n]) for n in range(2, len(agents) + 1))]
    verbs = [ORDER.index(verb(found, one, own, x=x)) for one in parents]
    seen = [policy_sees(found, one, own) for one in parents]

    assert verbs == sorted(verbs, reverse=True)
    assert seen == sorted(seen, reverse=True)
    for one, is_seen in zip(parents, seen, strict=True):
        decision = found.rights(one).decide(TOOLS, "notes", own, None)
        assert decision.is_visible == is_seen
        assert found.resolve(decision, one, "notes", own, {"x": x}).conditions == ()
        if not decision.conditions:
            assert found.resolve(decision, one, "notes", own, {"x": x}) is decision
