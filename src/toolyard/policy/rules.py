"""The rules of `[access]`, read and checked one by one and against each other.

Owns what is a mistake in a rule. What the rules together mean for a caller is decided in `access`.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ..config.callers import AccessConfig, AccessRule
from ..config.errors import ConfigError
from ..config.patterns import ItemPattern, PatternError, ServerIndex, canonical, parse
from ..config.selectors import Groups, check_agents, read_selector
from .conditions import Expression, Verb

RESERVED = (DEFAULT, GRANT) = ("default", "grant")
"""What is named as the rule where no rule decided."""
PRECEDENCE: tuple[Verb, ...] = ("deny", "preview", "confirm", "allow")


class PolicyRule(Struct, frozen=True):
    """One rule of the file, read and checked."""

    number: int
    label: str
    where: str
    who: frozenset[str]
    patterns: dict[Verb, tuple[ItemPattern, ...]]
    indexes: dict[Verb, ServerIndex]
    """Its patterns by server, of the verbs that it has."""
    when: Expression | None
    scopes: tuple[str, ...]


def read_rules(config: AccessConfig) -> tuple[PolicyRule, ...]:
    """Raises ConfigError, which names the rule and what is wrong with it."""
    rules = tuple(_read_rule(rule, number, config) for number, rule in enumerate(config.rules, 1))
    _check_labels(rules)
    return rules


def _read_rule(rule: AccessRule, number: int, config: AccessConfig) -> PolicyRule:
    label = rule.name or f"rule {number}"
    where = f"[access.rules {number}]" + (f" {rule.name!r}" if rule.name else "")
    who = frozenset(read_selector(one, where) for one in rule.who)
    if not who:
        raise ConfigError(f"{where} is for nobody", 'name somebody in who, or leave it out for "*"')
    check_agents(who, config.agents, where)
    patterns: dict[Verb, tuple[ItemPattern, ...]] = {
        "deny": _read_patterns(rule.deny, where, "deny"),
        "preview": _read_patterns(rule.preview, where, "preview"),
        "confirm": _read_patterns(rule.confirm, where, "confirm"),
        "allow": _read_patterns(rule.allow, where, "allow"),
    }
    _check_contradictions(patterns, where)
    if not any(patterns.values()):
        raise ConfigError(f"{where} says nothing", "add allow, deny, confirm or preview")
    if rule.scopes and not any(patterns[verb] for verb in PRECEDENCE[1:]):
        raise ConfigError(f"{where} has 'scopes' and allows nothing", "scopes are for what a rule allows")
    when = _read_condition(rule.when, where)
    indexes: dict[Verb, ServerIndex] = {
        verb: ServerIndex(found, denies=verb == "deny") for verb, found in patterns.items() if found
    }
    return PolicyRule(number, label, where, who, patterns, indexes, when, rule.scopes)


def _read_patterns(texts: Iterable[str], where: str, verb: Verb) -> tuple[ItemPattern, ...]:
    try:
        return tuple(parse(text) for text in texts)
    except PatternError as error:
        raise ConfigError(f"{where}: {verb}: {error.message}", error.hint) from None


def _check_contradictions(patterns: Mapping[Verb, tuple[ItemPattern, ...]], where: str) -> None:
    seen: dict[str, Verb] = {}
    for verb, found in patterns.items():
        for pattern in found:
            other = seen.setdefault(canonical(pattern.text), verb)
            if other != verb:
                raise ConfigError(
                    f"{where} has {pattern.text!r} in {other!r} and in {verb!r}", "leave it in one of them"
                )


def _check_labels(rules: Iterable[PolicyRule]) -> None:
    seen: dict[str, PolicyRule] = {}
    for rule in rules:
        if canonical(rule.label) in RESERVED:
            raise ConfigError(f"{rule.where} has a name that means something else", "give it another name")
        other = seen.setdefault(canonical(rule.label), rule)
        if other is not rule:
            raise ConfigError(
                f"{rule.where} has the name of rule {other.number}", "give each rule a name of its own"
            )


def _read_condition(text: str, where: str) -> Expression | None:
    return Expression(text, f"{where}: when") if text.strip() else None


def unknown_groups(rules: Iterable[PolicyRule], groups: Groups) -> Iterator[str]:
    """A line for each group that the file does not define: tokens may have it, or it is misspelt."""
    for rule in rules:
        for selector in sorted(rule.who):
            if selector.startswith("group:") and selector not in groups:
                name = selector.partition(":")[2]
                yield f"{rule.where}: group {name!r} is not in [access.groups]; only tokens can have it"
