"""Conditions on arguments: what they see, what happens when they fail, and that they end."""

import sys
import time
from typing import Any

import pytest

from toolyard.catalogue.items import TOOLS
from toolyard.config import ConfigError
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.extras import install_command
from toolyard.policy.access import AccessPolicy, Decision
from toolyard.policy.conditions import MAX_BYTES, MAX_EXPRESSION
from toolyard.wire.call import Principal

ADA = Principal(
    tenant="acme",
    agent="writer",
    subject="ada",
    issuer="https://login.example",
    client="desk",
    groups=frozenset({"Staff"}),
    scopes=frozenset({"mail"}),
)


def decide(
    *rules: AccessRule, args: dict[str, Any], default: Any = "deny", principal: Principal = ADA
) -> Decision:
    policy = AccessPolicy(AccessConfig(rules=rules, default=default))
    open_decision = policy.rights(principal).decide(TOOLS, "mail", "send", None)
    found = policy.resolve(open_decision, principal, "mail", "send", args)
    assert found.conditions == ()
    return found


def allows(when: str, **args: Any) -> bool:
    return decide(AccessRule(allow=("*",), when=when), args=args).verb == "allow"


def denies(when: str, **args: Any) -> bool:
    rule = AccessRule(deny=("*",), when=when)
    return decide(rule, args=args, default="allow").verb == "deny"


@pytest.mark.parametrize(
    "when",
    [
        "args.amount < 200",
        "args['amount'] == 100",
        "args.to.all(one, one.endsWith('@acme.example'))",
        "has(args.note) ? false : true",
        "tool == 'send' && server == 'mail'",
        "agent == 'writer' && tenant == 'acme' && client == 'desk'",
        "user == 'https://login.example#ada'",
        "'Staff' in groups && 'staff' in groups",
        "'mail' in scopes",
        "args.exists(name, name == 'amount')",
        ".args.amount == 100",
        "args.nested.deep.value",
        "size(args) == 3 // all of them",
        "args.nested // a (remark)\n .deep.value",
    ],
)
def test_a_condition_can_use(when: str) -> None:
    assert allows(when, amount=100, to=["bob@acme.example"], nested={"deep": {"value": True}})


def test_a_condition_that_does_not_hold_leaves_it_to_the_next_rule() -> None:
    rules = (
        AccessRule(name="never", deny=("mail",), when="args.amount > 1000"),
        AccessRule(name="ask", confirm=("mail",), when="args.amount > 100"),
        AccessRule(name="show", preview=("mail",), when="args.draft"),
        AccessRule(name="all", allow=("mail",)),
    )

    found = [decide(*rules, args={"amount": amount, "draft": False}) for amount in (1, 101, 1001)]

    assert [(one.verb, one.rule) for one in found] == [
        ("allow", "all"),
        ("confirm", "ask"),
        ("deny", "never"),
    ]
    assert decide(*rules, args={"amount": 101, "draft": True}).verb == "preview"


def test_a_tool_under_a_condition_is_seen() -> None:
    policy = AccessPolicy(
        AccessConfig(default="deny", rules=(AccessRule(allow=("mail/send",), when="args.amount < 9"),))
    )

    assert policy.rights(ADA).sees(TOOLS, "mail", "send", None)
    assert not policy.rights(ADA).sees(TOOLS, "mail", "read", None)


FAILING = [
    ("args.missing == 1", {}, "an argument is missing"),
    ("args.amount > 1", {"amount": "many"}, "another type"),
    ("args.amount / args.by > 1", {"amount": 1, "by": 0}, "divides by zero"),
    ("args.amount", {"amount": "yes"}, "not true or false"),
    ("args.amount > 1", {"amount": 2**70}, "out of range"),
    ("args.name == 'a'", {"name": "a\0b"}, "NUL"),
    ("args.name.x == 'a'", {"name": {"x": "a", "y\0": 1}}, "NUL"),
    ("args.name == 'a'", {"name": "a\ud800"}, "cannot be evaluated"),
    ("args.name.matches(args.pattern)", {"name": "a", "pattern": "("}, "regular expression"),
    ("args.name == 'a'", {"name": "a" * (MAX_BYTES + 1)}, "too large"),
]


@pytest.mark.parametrize(("when", "args", "reason"), FAILING)
def test_a_condition_that_fails_never_helps_the_caller(when: str, args: dict[str, Any], reason: str) -> None:
    ask, show = AccessRule(confirm=("*",), when=when), AccessRule(preview=("*",), when=when)
    denied = decide(AccessRule(name="mine", deny=("*",), when=when), args=args, default="allow")

    not_allowed = decide(AccessRule(name="mine", allow=("*",), when=when), args=args)

    assert not_allowed.verb == "deny"
    assert not_allowed.rule.startswith("default (the condition of mine failed: ")
    assert denied.verb == "deny"
    assert denied.rule.startswith("mine (its condition failed: ")
    assert reason in denied.rule
    assert decide(ask, args=args, default="allow").verb == "confirm"
    assert decide(show, args=args, default="allow").verb == "preview"


def test_what_is_said_of_a_failure_quotes_no_value() -> None:
    found = decide(AccessRule(deny=("*",), when="args.n > 1"), args={"n": 987654321**9}, default="allow")

    assert "987" not in found.rule


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("args.amount >", "is no CEL"),
        ("amount > 1", "undeclared reference to 'amount'"),
        ("args.size() + 1", "gives int"),
        ("'text'", "gives string"),
        ("args.a == 'x' || " * 300 + "true", f"over {MAX_EXPRESSION} characters"),
        ("(" * 500 + "true" + ")" * 500, "is no CEL"),
        ("args.r.all(a, args.r.all(b, args.r.all(c, a + b + c > 0)))", "more than 2 deep"),
        ("args.r.all(a, args.r.all(b, args.r.all //(\n(c, a + b + c > 0)))", "more than 2 deep"),
    ],
)
def test_a_condition_that_cannot_be_used_is_named(when: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decide(AccessRule(name="mine", allow=("*",), when=when), args={})

    assert "[access.rules 1] 'mine': when" in raised.value.message
    assert said in raised.value.message


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolyard.policy import conditions

    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    monkeypatch.setattr(conditions, "_environment", conditions._environment.__wrapped__)  # pyright: ignore
    with pytest.raises(ConfigError) as raised:
        decide(AccessRule(allow=("*",), when="true"), args={})

    assert raised.value.hint == install_command("policy")


NUMBERS = list(range(9000))


@pytest.mark.parametrize(
    ("when", "args"),
    [
        ("args.r.all(a, args.r.all(b, a + b >= 0))", {"r": NUMBERS}),
        ("args.r.map(a, args.s + args.s).size() > 0", {"r": NUMBERS, "s": "x" * 20_000}),
        ("args.r.exists(a, !args.s.matches('(x+x+)+y'))", {"r": NUMBERS, "s": "x" * 200_000}),
        ("args.s.matches('(x+x+)+y$')", {"s": "x" * 200_000}),
        ("args.s.matches(args.p)", {"s": "x" * 200_000, "p": "(x*)*" * 50 + "y"}),
        ("args.s == args.t", {"s": [[[[["x"] * 30_000]]]], "t": 1}),
    ],
)
def test_a_condition_ends_soon_whatever_the_arguments(when: str, args: dict[str, Any]) -> None:
    before = time.process_time()

    decide(AccessRule(allow=("*",), when=when), args=args)

    assert time.process_time() - before < 60  # without the limits it would be hours


def test_arguments_that_a_condition_does_not_look_at_do_not_count() -> None:
    assert allows("args.path == 'a' && args['mode'] == 'w'", path="a", mode="w", body="x\0" * MAX_BYTES)
    assert not allows("args.path == 'a' && size(args) > 1", path="a", body="x" * MAX_BYTES * 2)
    assert denies("args.exists //\n (name, name == 'body')", body="x")
    assert denies("args.exists // it's (\n (name, name == 'body')", body="x")
    assert denies(r"""r"\d" != "" && args.exists(name, name == 'body')""", body="x")
    assert denies("args . body == 'x'", body="x")
    assert denies("args.`body` == 'x'", body="x")
