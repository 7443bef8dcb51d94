"""A policy looked at from outside: which rules concern one item, and which patterns match nothing.

For people and their commands; no call passes through here.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from ..catalogue.catalogue import CatalogueEntry
from ..catalogue.items import KINDS, ItemKind
from ..config.errors import nearest
from ..config.patterns import ADDRESSED, DenyMatcher, GlobMatcher, ItemPattern, ServerIndex, spellings
from ..wire.call import Principal
from .access import AccessPolicy
from .conditions import Verb
from .rules import PRECEDENCE


class RuleMatch(Struct, frozen=True):
    """A rule that is for the caller and names the item."""

    rule: str
    number: int
    verb: Verb
    pattern: str
    when: str = ""
    scopes: tuple[str, ...] = ()


def matching_rules(
    policy: AccessPolicy, principal: Principal, kind: ItemKind, server: str, own: str, reads: bool | None
) -> list[RuleMatch]:
    """In the order in which they decide."""
    found: list[RuleMatch] = []
    for verb in PRECEDENCE:
        for rule in sorted(policy.rules_for(principal), key=lambda rule: rule.when is not None):
            for pattern in rule.patterns[verb]:
                if _names(pattern, verb, kind.name, server, own, reads is True):
                    when = "" if rule.when is None else rule.when.text
                    found.append(RuleMatch(rule.label, rule.number, verb, pattern.text, when, rule.scopes))
                    break
    return found


def _names(pattern: ItemPattern, verb: Verb, kind: str, server: str, own: str, is_read: bool) -> bool:
    names = ServerIndex([pattern], denies=verb == "deny").names(kind, server, is_read)
    matcher = (DenyMatcher if verb == "deny" else GlobMatcher)(names)
    found = map(matcher.matches, spellings(own) if kind in ADDRESSED else (own,))
    return any(found) if verb == "deny" else all(found)


class UnmatchedPattern(Struct, frozen=True):
    """A pattern that matches nothing of the catalogue, which is likely a mistake."""

    rule: str
    verb: Verb
    pattern: str
    hint: str = ""


def unmatched_patterns(
    policy: AccessPolicy,
    servers: Collection[str],
    entries: Mapping[ItemKind, Iterable[CatalogueEntry]],
    unread: Collection[str] = (),
) -> list[UnmatchedPattern]:
    """Patterns that match nothing of the catalogue. Servers in `unread` may have anything."""
    items = [(kind.name, entry) for kind in KINDS for entry in entries.get(kind, ())]
    return [
        UnmatchedPattern(rule.label, verb, pattern.text, hint)
        for rule in policy.rules
        for verb, patterns in rule.patterns.items()
        for pattern in patterns
        if (hint := _why_unmatched(pattern, verb, servers, items, unread)) is not None
    ]


def servers_in_question(policy: AccessPolicy, unread: Collection[str]) -> list[str]:
    """Those of the unread servers about whose tools and other items a rule says something."""
    patterns = [
        (ServerIndex([pattern], denies=verb == "deny"))
        for rule in policy.rules
        for verb, patterns in rule.patterns.items()
        for pattern in patterns
        if not pattern.is_server and pattern.name != "*"
    ]
    return [server for server in unread if any(index.covers(server) for index in patterns)]


def _why_unmatched(
    pattern: ItemPattern,
    verb: Verb,
    servers: Collection[str],
    items: list[tuple[str, CatalogueEntry]],
    unread: Collection[str],
) -> str | None:
    """A hint if the pattern matches nothing, else None."""
    index = ServerIndex([pattern], denies=verb == "deny")
    meant = [server for server in servers if index.covers(server)]
    if not meant:
        return nearest(pattern.server, servers) or "no server has such a name"
    if pattern.is_server or not set(unread).isdisjoint(meant):
        return None
    names = (DenyMatcher if verb == "deny" else GlobMatcher)([pattern.name])
    known: list[str] = []
    for kind, entry in items:
        if entry.server in meant and kind in pattern.kinds:
            known.append(entry.item.own)
            if pattern.reads in (None, entry.item.reads is True) and names.matches(entry.item.own):
                return None
    return nearest(pattern.name, known) or "its server has nothing of the kind"
