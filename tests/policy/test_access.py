"""Rules decide: who is meant, which verb comes first, what a name matches, and what grants leave."""

import pytest

from toolyard.catalogue.items import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, ItemKind
from toolyard.config import ConfigError
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.policy.access import AccessPolicy, Rights
from toolyard.wire.call import Grant, Principal, Right


def policy(*rules: AccessRule, default: str = "deny", **more: object) -> AccessPolicy:
    return AccessPolicy(AccessConfig(rules=rules, default=default, **more))  # type: ignore[arg-type]


def verb(rights: Rights, server: str, own: str, reads: bool | None = None, kind: ItemKind = TOOLS) -> str:
    decision = rights.decide(kind, server, own, reads)
    assert decision.is_visible == rights.sees(kind, server, own, reads)
    return decision.verb


def granted(*rights: Right) -> Grant:
    return Grant("g1", ("g1",), rights, 9e9)


NOBODY = Principal()


def test_without_rules_everything_is_allowed_and_nothing_is_asked() -> None:
    rights = AccessPolicy(AccessConfig()).rights(NOBODY)

    assert rights.everything
    assert verb(rights, "any", "thing") == "allow"


def test_what_no_rule_names_is_left_to_the_default() -> None:
    rule = AccessRule(allow=("git/log",))

    assert verb(policy(rule).rights(NOBODY), "git", "push") == "deny"
    assert verb(policy(rule, default="allow").rights(NOBODY), "git", "push") == "allow"
    assert policy(rule).rights(NOBODY).decide(TOOLS, "git", "push", None).rule == "default"


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_deny_comes_before_preview_before_confirm_before_allow_wherever_they_stand(
    order: tuple[int, ...],
) -> None:
    rules = [
        AccessRule(name="all", allow=("s",)),
        AccessRule(name="ask", confirm=("s/c", "s/p", "s/d")),
        AccessRule(name="show", preview=("s/p", "s/d")),
        AccessRule(name="never", deny=("s/d",)),
    ]
    rights = policy(*(rules[index] for index in order)).rights(NOBODY)

    found = {own: rights.decide(TOOLS, "s", own, None) for own in "acpd"}

    assert {own: decision.verb for own, decision in found.items()} == {
        "a": "allow",
        "c": "confirm",
        "p": "preview",
        "d": "deny",
    }
    assert {own: decision.rule for own, decision in found.items()} == {
        "a": "all",
        "c": "ask",
        "p": "show",
        "d": "never",
    }


def test_a_rule_without_a_name_is_told_by_its_number() -> None:
    rights = policy(AccessRule(allow=("a",)), AccessRule(allow=("b",))).rights(NOBODY)

    assert rights.decide(TOOLS, "b", "x", None).rule == "rule 2"


@pytest.mark.parametrize(
    ("pattern", "kind", "server", "own", "reads", "expected"),
    [
        ("*", TOOLS, "git", "log", None, True),
        ("*", RESOURCES, "git", "file:///a", None, True),
        ("git", TOOLS, "git", "log", None, True),
        ("git", PROMPTS, "git", "greet", None, True),
        ("git", RESOURCES, "git", "file:///a", None, True),
        ("git", TEMPLATES, "git", "file:///{path}", None, True),
        ("git", TOOLS, "github", "log", None, False),
        ("git*", TOOLS, "github", "log", None, True),
        ("git/log", TOOLS, "git", "log", None, True),
        ("git/log", TOOLS, "git", "Log", None, False),
        ("git/log", TOOLS, "git", "logs", None, False),
        ("git/log", PROMPTS, "git", "log", None, False),
        ("git/l?g", TOOLS, "git", "lag", None, True),
        ("git/l*", TOOLS, "git", "list_all", None, True),
        ("git/*_all", TOOLS, "git", "list_all", None, True),
        ("git/*s*_*l", TOOLS, "git", "list_all", None, True),
        ("git/*s*_*k", TOOLS, "git", "list_all", None, False),
        ("*/log", TOOLS, "any", "log", None, True),
        ("git/*:read", TOOLS, "git", "log", True, True),
        ("git/*:read", TOOLS, "git", "log", False, False),
        ("git/*:read", TOOLS, "git", "log", None, False),
        ("git/*:write", TOOLS, "git", "log", True, False),
        ("git/*:write", TOOLS, "git", "log", False, True),
        ("git/*:write", TOOLS, "git", "log", None, True),
        ("git/get_*:read", TOOLS, "git", "get_x", True, True),
        ("git/get_*:read", TOOLS, "git", "set_x", True, False),
        ("*/*:read", TOOLS, "git", "log", True, True),
        ("git/notes:read", TOOLS, "git", "notes:read", None, True),
        ("prompt:git/greet", PROMPTS, "git", "greet", None, True),
        ("prompt:git/greet", TOOLS, "git", "greet", None, False),
        ("prompt:*/*", PROMPTS, "git", "greet", None, True),
        ("resource:git/file:///a/*", RESOURCES, "git", "file:///a/b", None, True),
        ("resource:git/file:///a/*", RESOURCES, "git", "file:///c/b", None, False),
        ("resource:git/file:///a/*", TEMPLATES, "git", "file:///a/{name}", None, True),
        ("resource:git/file:///a/*", TOOLS, "git", "file:///a/b", None, False),
        ("git/[ab]", TOOLS, "git", "a", None, False),
        ("git/[ab]", TOOLS, "git", "[ab]", None, True),
        ("a?b/tool", TOOLS, "a/b", "tool", None, True),
    ],
)
def test_a_pattern_names(
    pattern: str, kind: ItemKind, server: str, own: str, reads: bool | None, expected: bool
) -> None:
    rights = policy(AccessRule(allow=(pattern,))).rights(NOBODY)

    assert (verb(rights, server, own, reads, kind) == "allow") is expected


ADA = Principal(
    tenant="acme",
    agent="Writer",
    subject="ada",
    issuer="https://login.example",
    client="desk",
    groups=frozenset({"Staff"}),
)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("*", True),
        ("writer", True),
        ("agent:WRITER", True),
        ("agent:reader", False),
        ("user:ada", True),
        ("user:https://login.example#ada", True),
        ("user:https://other.example#ada", False),
        ("user:writer", False),
        ("tenant:acme", True),
        ("tenant:other", False),
        ("client:desk", True),
        ("client:acme", False),
        ("group:staff", True),
        ("group:authors", True),
        ("group:everyone", True),
        ("group:others", False),
    ],
)
def test_who_a_rule_is_for(who: str, expected: bool) -> None:
    groups = {"authors": ("writer",), "everyone": ("group:authors",), "others": ("user:bob", "group:others")}
    rights = policy(AccessRule(who=(who,), allow=("*",)), groups=groups).rights(ADA)

    assert (verb(rights, "s", "t") == "allow") is expected


def test_a_user_of_another_issuer_cannot_name_itself_like_an_issuer_and_a_user() -> None:
    rights = policy(AccessRule(who=("user:https://login.example#ada",), allow=("*",)))
    forged = Principal(subject="https://login.example#ada", issuer="https://evil.example")

    assert verb(rights.rights(forged), "s", "t") == "deny"
    assert verb(rights.rights(Principal(subject="https://login.example\uff03ada")), "s", "t") == "deny"


@pytest.mark.parametrize(
    "own",
    [
        "delete_repo",
        "Delete_Repo",
        "DELETE_REPO",
        "\uff44\uff45lete_repo",  # full width
        "delete\u200b_repo",  # a blank of no width
        "de\u00adlete_repo",  # a soft hyphen
        "delete_repo\ufe0f",  # a variation selector
        "d\u0435l\u0435t\u0435_r\u0435p\u043e",  # Cyrillic letters
        "d\u0395lete_rep\u039f",  # Greek capitals
    ],
)
def test_a_spelling_does_not_lead_around_a_deny(own: str) -> None:
    rights = policy(AccessRule(allow=("*",), deny=("GitHub/delete_*",))).rights(NOBODY)

    assert verb(rights, "github", own) == "deny"
    assert verb(rights, "github", "create_repo") == "allow"


def test_a_name_that_looks_like_an_allowed_one_is_another() -> None:
    alike = "\u0430d\u0430"  # Cyrillic letters
    tool = policy(AccessRule(allow=("s/ada",)))
    user = policy(AccessRule(who=("user:ada",), allow=("s",)))

    assert verb(tool.rights(NOBODY), "s", alike) == "deny"
    assert verb(user.rights(Principal(subject=alike)), "s", "t") == "deny"
    assert verb(user.rights(Principal(subject="ada")), "s", "t") == "allow"


def test_composed_and_decomposed_letters_are_one_name_to_a_deny_and_two_to_an_allow() -> None:
    composed, decomposed = "café", "cafe\u0301"
    denied = policy(AccessRule(deny=(f"s/{composed}",)), default="allow").rights(NOBODY)
    allowed = policy(AccessRule(allow=(f"s/{composed}",))).rights(NOBODY)

    assert [verb(denied, "s", own) for own in (composed, decomposed)] == ["deny", "deny"]
    assert [verb(allowed, "s", own) for own in (composed, decomposed)] == ["allow", "deny"]
    # A deny by the beginning of the letters as they are sent holds too.
    assert (
        verb(policy(AccessRule(deny=("s/cafe*",)), default="allow").rights(NOBODY), "s", decomposed) == "deny"
    )


@pytest.mark.parametrize(
    "uri", ["file:///secret/a", "file:///pub/../secret/a", "file:///%73ecret/a", "FILE:///Secret/a"]
)
def test_an_address_does_not_lead_around_a_deny(uri: str) -> None:
    rights = policy(AccessRule(allow=("*",), deny=("resource:s/file:///secret/*",))).rights(NOBODY)

    assert verb(rights, "s", uri, kind=RESOURCES) == "deny"
    assert verb(rights, "s", "file:///pub/a", kind=RESOURCES) == "allow"


@pytest.mark.parametrize(
    "uri", ["file:///pub/../secret/a", "file:///pub/%2e%2e/secret/a", "file:///pub/%252e%252e/x"]
)
def test_an_address_does_not_lead_out_of_what_is_allowed(uri: str) -> None:
    rights = policy(AccessRule(allow=("resource:s/file:///pub/*",))).rights(NOBODY)

    assert verb(rights, "s", uri, kind=RESOURCES) == "deny"
    assert verb(rights, "s", "file:///pub/a/./b", kind=RESOURCES) == "allow"


def test_a_rule_may_demand_scopes_and_names_all_of_them() -> None:
    rules = policy(AccessRule(allow=("s",), scopes=("a", "b")), AccessRule(allow=("s/free",)))
    some = rules.rights(Principal(scopes=frozenset({"a", "z"})))
    both = rules.rights(Principal(scopes=frozenset({"a", "b"})))

    assert some.decide(TOOLS, "s", "t", None).scopes == ("a", "b")
    assert some.sees(TOOLS, "s", "t", None)
    assert some.decide(TOOLS, "s", "free", None).scopes == ()
    assert both.decide(TOOLS, "s", "t", None).scopes == ()


def test_principals_to_whom_the_same_rules_apply_share_their_rights() -> None:
    rules = policy(AccessRule(who=("a", "b"), allow=("s",)), AccessRule(who=("c",), allow=("s",)))
    grants = [granted(Right(("s/x",))), granted(Right(("s/x",))), granted(Right(("s/y",)))]

    assert rules.rights(Principal(agent="a")) is rules.rights(Principal(agent="b", tenant="t"))
    assert rules.rights(Principal(agent="a")) is not rules.rights(Principal(agent="c"))
    one, same, other = (rules.rights(Principal(agent="a", grant=grant)) for grant in grants)
    assert one is same
    assert one is not other


def test_a_grant_leaves_what_each_of_its_rights_permits() -> None:
    rules = policy(AccessRule(allow=("s",), deny=("s/never",)))
    grant = granted(Right(("s", "other"), deny=("s/two",)), Right(("s/one", "s/two", "s/never", "other/x")))
    rights = rules.rights(Principal(grant=grant))

    assert {own: verb(rights, "s", own) for own in ("one", "two", "three", "never")} == {
        "one": "allow",
        "two": "deny",
        "three": "deny",
        "never": "deny",
    }
    assert verb(rights, "other", "x") == "deny"
    assert rights.decide(TOOLS, "s", "two", None).rule == "grant"


def test_a_grant_narrows_where_there_are_no_rules() -> None:
    rights = AccessPolicy(AccessConfig()).rights(Principal(grant=granted(Right(("s/one",)))))

    assert not rights.everything
    assert [verb(rights, "s", own) for own in ("one", "two")] == ["allow", "deny"]


def test_a_pattern_of_a_grant_that_cannot_be_read_permits_nothing() -> None:
    rules = AccessPolicy(AccessConfig())

    assert verb(rules.rights(Principal(grant=granted(Right(("s/", "s/one"))))), "s", "two") == "deny"
    assert (
        verb(rules.rights(Principal(grant=granted(Right(("s",), deny=("promt:x/y",))))), "s", "one") == "deny"
    )
    assert verb(rules.rights(Principal(grant=granted(Right(())))), "s", "one") == "deny"


@pytest.mark.parametrize(
    ("rule", "said", "hint"),
    [
        (AccessRule(allow=("/tool",)), "names no server", "SERVER/tool"),
        (AccessRule(allow=("git/",)), "ends with '/'", "git/*"),
        (AccessRule(allow=("",)), "is no pattern", "SERVER"),
        (AccessRule(allow=(" git",)), "is no pattern", "without blanks"),
        (AccessRule(allow=("promt:git/x",)), "begins with 'promt:'", "did you mean 'prompt'"),
        (AccessRule(allow=("prompt:git",)), "names no prompt", "prompt:git/*"),
        (AccessRule(allow=("git/*:raed",)), "ends with ':raed'", "did you mean 'read'"),
        (AccessRule(allow=("*:read",)), "names no tools", "*/*:read"),
        (AccessRule(allow=("git",), deny=("git",)), "'git' in 'deny' and in 'allow'", "one of them"),
        (AccessRule(allow=("Git",), deny=("git",)), "in 'deny' and in 'allow'", "one of them"),
        (AccessRule(who=("wirter",), allow=("git",)), "an unknown agent 'wirter'", "did you mean 'writer'"),
        (AccessRule(who=("agnet:writer",), allow=("git",)), "'agnet' is unknown", "did you mean 'agent'"),
        (AccessRule(who=("group:",), allow=("git",)), "names nobody", "group:NAME"),
        (AccessRule(who=("wri*",), allow=("git",)), "no wildcards", "group"),
        (AccessRule(who=(), allow=("git",)), "is for nobody", "leave it out"),
        (AccessRule(), "says nothing", "add allow"),
        (AccessRule(deny=("git",), scopes=("a",)), "allows nothing", "what a rule allows"),
    ],
)
def test_a_mistake_in_a_rule_is_named(rule: AccessRule, said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        policy(AccessRule(allow=("fine",)), rule, agents=("writer", "reader"))

    assert "[access.rules 2]" in raised.value.message
    assert said in raised.value.message
    assert hint in (raised.value.hint or "")


def test_a_mistake_names_the_rule_by_its_name_too() -> None:
    with pytest.raises(ConfigError, match="'my writers'"):
        policy(AccessRule(name="my writers", allow=("/x",)))


def test_two_rules_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="has the name of rule 1"):
        policy(AccessRule(name="a", allow=("x",)), AccessRule(name="A", allow=("y",)))


def test_an_unknown_agent_in_a_group_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="unknown agent 'wirter'"):
        policy(AccessRule(allow=("x",)), agents=("writer",), groups={"g": ("wirter",)})


def test_a_group_that_only_tokens_can_have_is_a_warning() -> None:
    found = policy(AccessRule(who=("group:ops", "group:mine"), allow=("x",)), groups={"mine": ("a",)})

    assert len(found.warnings) == 1
    assert "'ops'" in found.warnings[0]


def test_kinds_are_those_of_the_catalogue() -> None:
    rights = policy(AccessRule(allow=("s",))).rights(NOBODY)

    assert all(rights.sees(kind, "s", "x", None) for kind in KINDS)
