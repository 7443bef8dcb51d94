"""What holds for any rules, grants and names: nothing is gained by narrowing, and all questions agree."""

import re
import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolyard.catalogue.catalogue import CatalogueEntry
from toolyard.catalogue.items import KINDS, TOOLS, ItemKind, UpstreamItem
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.config.patterns import DenyMatcher, GlobMatcher, canonical, parse
from toolyard.policy.access import AccessPolicy, Rights
from toolyard.wire.call import Grant, Principal, Right

SERVERS = ("git", "Git", "mail", "a/b", "café")
NAMES = (
    "log",
    "Log",
    "log_all",
    "push",
    "push_all",
    "file:///a/b",
    "file:///a/../c",
    "cafe\u0301",
    "*",
    "x:read",
)
servers = st.sampled_from(SERVERS)
names = st.sampled_from(NAMES)
kinds = st.sampled_from(KINDS)
readings = st.sampled_from([True, False, None])
globs = st.sampled_from(["*", "log", "l*", "*_all", "p?sh", "*o*", "*:read", "*:write", "LOG", "l*_*l"])
patterns = st.one_of(
    st.just("*"),
    st.sampled_from(["git", "mail", "g*", "?it"]),
    st.builds("{}/{}".format, st.sampled_from(["git", "mail", "*", "m*", "a?b"]), globs),
    st.builds("prompt:{}/{}".format, st.sampled_from(["git", "*"]), st.sampled_from(["*", "log", "p*"])),
    st.builds("resource:{}/{}".format, st.sampled_from(["git", "*"]), st.sampled_from(["*", "file:///a/*"])),
)
some_patterns = st.lists(patterns, max_size=3).map(tuple)
who = st.sampled_from([("*",), ("a",), ("b",), ("group:g",)])


@st.composite
def access_rules(draw: st.DrawFn) -> AccessRule:
    left = draw(st.lists(patterns, min_size=1, max_size=5, unique_by=canonical))
    verbs: dict[str, list[str]] = {}
    for pattern in left:
        verbs.setdefault(draw(st.sampled_from(["allow", "deny", "confirm", "preview"])), []).append(pattern)
    when = draw(st.sampled_from(["", "", "args.x == 1"]))
    given_rules: dict[str, Any] = {verb: tuple(found) for verb, found in verbs.items()}
    return AccessRule(who=draw(who), when=when, **given_rules)


configs = st.builds(
    AccessConfig,
    rules=st.lists(access_rules(), max_size=4).map(tuple),
    default=st.sampled_from(["allow", "deny"]),
    groups=st.just({"g": ("a", "user:u")}),
)
rights_of_grants = st.lists(st.builds(Right, some_patterns, some_patterns), max_size=3).map(tuple)
items = st.tuples(kinds, servers, names, readings)


def seen(rights: Rights) -> set[tuple[str, str, str, bool | None]]:
    return {
        (kind.name, server, own, reads)
        for kind in KINDS
        for server in SERVERS
        for own in NAMES
        for reads in (True, False, None)
        if rights.sees(kind, server, own, reads)
    }


def with_grant(*rights: Right) -> Principal:
    return Principal(agent="a", grant=Grant("g", ("g",), rights, 9e9))


@given(configs, rights_of_grants, st.builds(Right, some_patterns, some_patterns))
def test_narrowing_a_grant_never_adds_a_right(
    config: AccessConfig, rights: tuple[Right, ...], further: Right
) -> None:
    policy = AccessPolicy(config)
    alone = seen(policy.rights(Principal(agent="a")))
    granted = seen(policy.rights(with_grant(*rights)))
    narrowed = seen(policy.rights(with_grant(*rights, further)))

    assert narrowed <= granted <= alone


@given(configs, rights_of_grants, items)
def test_a_grant_changes_no_verb_but_to_deny(
    config: AccessConfig, rights: tuple[Right, ...], item: tuple[ItemKind, str, str, bool | None]
) -> None:
    policy = AccessPolicy(config)
    alone = policy.rights(Principal(agent="a")).decide(*item)
    granted = policy.rights(with_grant(*rights)).decide(*item)

    assert granted == alone or granted.verb == "deny"


@given(configs, rights_of_grants, st.lists(items, max_size=8))
def test_a_list_shows_what_a_decision_may_permit(
    config: AccessConfig,
    rights: tuple[Right, ...],
    some: list[tuple[ItemKind, str, str, bool | None]],
) -> None:
    of_principal = AccessPolicy(config).rights(with_grant(*rights))
    for kind in KINDS:
        entries = [
            CatalogueEntry(server, own, own, UpstreamItem(own, b"}", reads=reads))
            for of_kind, server, own, reads in some
            if of_kind is kind
        ]
        expected = [
            entry
            for entry in entries
            if of_principal.decide(kind, entry.server, entry.item.own, entry.item.reads).is_visible
        ]

        assert of_principal.visible(kind, entries) == expected
        for entry in entries:
            is_seen = of_principal.sees(kind, entry.server, entry.item.own, entry.item.reads)
            assert is_seen == (entry in expected)


@given(configs, patterns, items)
def test_a_further_deny_never_adds_a_right(
    config: AccessConfig, pattern: str, item: tuple[ItemKind, str, str, bool | None]
) -> None:
    denied = AccessConfig(
        rules=(*config.rules, AccessRule(deny=(pattern,))), default=config.default, groups=config.groups
    )
    before = AccessPolicy(config).rights(Principal(agent="a")).sees(*item)
    after = AccessPolicy(denied).rights(Principal(agent="a")).sees(*item)

    assert before or not after


LETTERS = "abAB*?[.]\\é"


@given(st.text(LETTERS, min_size=1, max_size=6), st.text(LETTERS, max_size=8))
def test_a_matcher_means_what_the_characters_say(glob: str, name: str) -> None:
    pieces = [".*" if one == "*" else "." if one == "?" else re.escape(one) for one in glob]
    expected = re.fullmatch("".join(pieces), name, re.DOTALL) is not None

    assert GlobMatcher([glob]).matches(name) == expected
    assert GlobMatcher(["zzz", glob]).matches(name) == expected
    if expected:
        assert DenyMatcher([glob]).matches(name)
        assert DenyMatcher([glob]).matches(name.upper())


@given(st.text(string.printable + "é\u200b\uff21", max_size=12))
def test_the_canonical_form_is_its_own(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)


@given(st.text("ab*?", min_size=1, max_size=30))
def test_patterns_take_linear_time(glob: str) -> None:
    assert GlobMatcher([glob + "*a" * 20 + "c"]).matches("a" * 2000) is False


def test_the_words_of_a_pattern_are_kept() -> None:
    assert parse("git/*:read").text == "git/*:read"
    assert TOOLS.name in parse("git").kinds
