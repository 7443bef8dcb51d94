"""What a person asks about rules: which one decides, and which patterns match nothing."""

from toolyard.catalogue.catalogue import CatalogueEntry
from toolyard.catalogue.items import PROMPTS, RESOURCES, TOOLS, UpstreamItem
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.policy.access import AccessPolicy
from toolyard.policy.review import matching_rules, unmatched_patterns
from toolyard.wire.call import Principal


def entry(server: str, own: str, reads: bool | None = None) -> CatalogueEntry:
    return CatalogueEntry(server, own, own, UpstreamItem(own, b"}", reads=reads))


ENTRIES = {
    TOOLS: [entry("git", "log", True), entry("git", "push", False), entry("mail", "send")],
    PROMPTS: [entry("git", "review")],
    RESOURCES: [entry("git", "file:///a")],
}


def unmatched(*rules: AccessRule, unread: tuple[str, ...] = ()) -> dict[str, str]:
    policy = AccessPolicy(AccessConfig(rules=rules, default="deny"))
    found = unmatched_patterns(policy, ("git", "mail", "empty"), ENTRIES, unread)
    return {one.pattern: one.hint for one in found}


def test_patterns_that_match_something_are_not_named() -> None:
    fine = (
        "*",
        "git",
        "empty",
        "git/log",
        "git/*:read",
        "git/*:write",
        "*/send",
        "prompt:git/*",
        "resource:*/file:*",
    )

    assert unmatched(AccessRule(allow=fine)) == {}
    assert unmatched(AccessRule(deny=("GIT/LOG",))) == {}


def test_patterns_that_match_nothing_are_named_with_what_is_near() -> None:
    found = unmatched(
        AccessRule(allow=("gti", "git/lgo", "mail/*:read", "prompt:mail/*", "Git/log")),
        AccessRule(deny=("x/*",)),
    )

    assert set(found) == {"x/*", "gti", "git/lgo", "mail/*:read", "prompt:mail/*", "Git/log"}
    assert found["gti"] == "did you mean 'git'?"
    assert found["git/lgo"] == "did you mean 'log'?"
    assert found["Git/log"] == "did you mean 'git'?"


def test_a_server_that_was_not_read_may_have_anything() -> None:
    assert unmatched(AccessRule(allow=("empty/tool", "git/lgo")), unread=("empty",)) == {
        "git/lgo": "did you mean 'log'?"
    }


def test_the_rules_that_concern_an_item_come_in_the_order_in_which_they_decide() -> None:
    policy = AccessPolicy(
        AccessConfig(
            default="deny",
            rules=(
                AccessRule(name="all", allow=("git",)),
                AccessRule(name="others", who=("b",), deny=("git",)),
                AccessRule(name="careful", confirm=("git/*:write",), scopes=("push",)),
                AccessRule(name="never", deny=("git/push",), when="args.force"),
            ),
        )
    )

    found = matching_rules(policy, Principal(agent="a"), TOOLS, "git", "push", False)

    assert [(one.rule, one.verb, one.pattern, one.when) for one in found] == [
        ("never", "deny", "git/push", "args.force"),
        ("careful", "confirm", "git/*:write", ""),
        ("all", "allow", "git", ""),
    ]
