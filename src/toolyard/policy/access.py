"""Access: the rules of `[access]` compiled into the rights of a principal, and the decision on one item.

Owns the precedence of rules (deny, preview, confirm, allow, default), the narrowing by grants, and the
caches. Rules are read in `rules`, patterns in `patterns`, callers in `selectors`, conditions in `conditions`.

A rule without a condition decides at once. With conditions a decision stays open until the arguments are
known, and `resolve` closes it. A condition that cannot be evaluated never helps the caller: a deny holds,
an allow does not, and confirm and preview put the call to a person or describe it.

For a grant the rules of whoever made it decide, as if that caller asked. Rules that name an agent of the
chain come on top and only take away: what they deny is denied; if they permit something, the rest is denied;
of two verbs the stricter holds. Last, every block of the grant must permit the item.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..catalogue.catalogue import CatalogueEntry
from ..catalogue.items import KINDS, ItemKind
from ..config.callers import AccessConfig
from ..config.patterns import (
    ADDRESSED,
    DenyMatcher,
    GlobMatcher,
    ItemPattern,
    PatternError,
    ServerIndex,
    parse,
    spellings,
)
from ..config.selectors import Groups, check_agents
from ..wire.call import Principal, Right
from .conditions import Condition, ConditionError, Expression, Verb
from .rules import DEFAULT, GRANT, PRECEDENCE, PolicyRule, read_rules, unknown_groups

MAX_DECISIONS = 20_000
MAX_REMEMBERED_NAME = 512
MAX_TABLES = 4096
MAX_RIGHTS = 1024
MAX_PRINCIPALS = 8192


class Decision(Struct, frozen=True):
    """What becomes of a call."""

    verb: Verb
    rule: str
    """The rule that decided: its name, else `rule N`; `default`; or `grant`."""
    scopes: tuple[str, ...] = ()
    """All scopes that the rule demands, if the principal lacks one of them: refuse and name them."""
    conditions: tuple[Condition, ...] = ()
    """Rules that come first if they hold for the arguments; see `AccessPolicy.resolve`."""
    parts: "tuple[tuple[int, Decision], ...]" = ()
    """For a grant with conditions: the decisions for agents of its chain, by their place in it."""

    @property
    def is_visible(self) -> bool:
        """Whether the item may come to be called: some outcome is not a refusal."""
        if self.parts:
            return all(part.is_visible for _, part in self.parts)
        return self.verb != "deny" or any(condition.verb != "deny" for condition in self.conditions)


_EVERYTHING = Decision("allow", DEFAULT)
_NOT_GRANTED = Decision("deny", GRANT)


def _strictest(parts: tuple[tuple[int, Decision], ...]) -> Decision:
    """One decision for several that must all permit a call."""
    worst = min((part for _, part in parts), key=lambda part: PRECEDENCE.index(part.verb))
    scopes = [] if worst.verb == "deny" else [scope for _, part in parts for scope in part.scopes]
    conditions = tuple(condition for _, part in parts for condition in part.conditions)
    named = tuple(dict.fromkeys(scopes))
    return Decision(worst.verb, worst.rule, named, conditions, parts if conditions else ())


class _Clause(Struct, frozen=True):
    """One verb of one rule, as far as it concerns one kind of items of one server."""

    globs: tuple[str, ...]
    verb: Verb
    rule: str
    scopes: tuple[str, ...]
    when: Expression | None


class _Narrowing(Struct, frozen=True):
    """One right of a grant, as far as it concerns one kind of items of one server."""

    allow: GlobMatcher
    deny: DenyMatcher

    @property
    def is_idle(self) -> bool:
        return self.allow.everything and self.deny.nothing

    @property
    def is_total(self) -> bool:
        return self.allow.nothing or self.deny.everything

    def permits(self, names: tuple[str, ...]) -> bool:
        return all(map(self.allow.matches, names)) and not any(map(self.deny.matches, names))


class _ItemTable:
    """The clauses for one kind of items of one server, reading or writing tools apart."""

    def __init__(
        self,
        clauses: tuple[_Clause, ...],
        default: Verb,
        narrowings: tuple[_Narrowing, ...],
        addressed: bool,
    ) -> None:
        self._clauses = clauses
        self._default: Verb = default
        self._narrowings = narrowings
        self._addressed = addressed
        hidden = [glob for one in clauses if one.verb == "deny" and one.when is None for glob in one.globs]
        shown = [glob for one in clauses if one.verb != "deny" for glob in one.globs]
        self._hidden = DenyMatcher(hidden)
        self._shown = GlobMatcher(["*"] if default == "allow" else shown)
        self._narrows = tuple(one for one in narrowings if not one.is_idle)
        self.hides, self.shows = self._hidden.matches_ascii, self._shown.matches
        self.is_plain = not addressed and not self._narrows
        """For a name in ASCII, `shows` and `hides` say the same as `sees`."""
        self.constant = self._constant()
        """Whether all of them are seen, or none; None if it depends on the name."""

    def _constant(self) -> bool | None:
        if self._hidden.everything or self._shown.nothing or any(one.is_total for one in self._narrows):
            return False
        return True if self._hidden.nothing and self._shown.everything and not self._narrows else None

    def sees(self, own: str) -> bool:
        if self.constant is not None:
            return self.constant
        if self._addressed:
            return self.decide(own).is_visible
        if (not self._hidden.nothing and self._hidden.matches(own)) or not self._shown.matches(own):
            return False
        for narrowing in self._narrows:
            if not narrowing.allow.matches(own) or narrowing.deny.matches(own):
                return False
        return True

    def _names(self, own: str) -> tuple[str, ...]:
        """The name, and an address also as a server may read it: no `..` or `%2e` leads around a rule."""
        return spellings(own) if self._addressed else (own,)

    @cached_property
    def _matchers(self) -> list[tuple[_Clause, DenyMatcher | GlobMatcher]]:
        """Lists need them not, so they are made for the first decision."""
        return [
            (one, DenyMatcher(one.globs) if one.verb == "deny" else GlobMatcher(one.globs))
            for one in self._clauses
        ]

    def decide(self, own: str) -> Decision:
        names = self._names(own)
        if not all(narrowing.permits(names) for narrowing in self._narrowings):
            return _NOT_GRANTED
        conditions: list[Condition] = []
        for clause, matcher in self._matchers:
            # Of the two names of an address a deny needs one, anything else both.
            how = any if clause.verb == "deny" else all
            if not how(map(matcher.matches, names)):
                continue
            if clause.when is None:
                return Decision(clause.verb, clause.rule, clause.scopes, tuple(conditions))
            conditions.append(Condition(clause.verb, clause.rule, clause.when, clause.scopes))
        return Decision(self._default, DEFAULT, (), tuple(conditions))


class Rights:
    """What the principals may do to whom the same rules apply. Decisions are remembered, within bounds."""

    def __init__(
        self,
        rules: Iterable[PolicyRule] = (),
        default: Verb = "allow",
        scopes: frozenset[str] = frozenset(),
        narrowed: tuple[Right, ...] | None = None,
        limits: "tuple[tuple[int, Rights], ...]" = (),
    ) -> None:
        """`limits`: what the rules for agents of a grant's chain leave, by their place in it."""
        rules = tuple(rules)
        self._ordered = tuple(_by_precedence(rules, scopes))
        self._default: Verb = default
        self._narrowed = tuple(map(_read_right, narrowed or ()))
        self._limits = limits
        self.everything = not rules and default == "allow" and narrowed is None
        """Nothing to ask: there are no rules for the principal, and no grant."""
        self._tables: dict[tuple[str, str, bool], _ItemTable] = {}
        self._shared_tables: dict[object, _ItemTable] = {}
        self._decisions: dict[tuple[str, str, str, bool | None], Decision] = {}

    def decide(self, kind: ItemKind, server: str, own: str, reads: bool | None) -> Decision:
        """The decision on an item by its server and own name; it may still have conditions."""
        key = (kind.name, server, own, reads)
        known = self._decisions.get(key)
        if known is None:
            known = _EVERYTHING
            if not self.everything:
                known = self._table(kind.name, server, reads is True).decide(own)
            if self._limits:
                limits = ((at, one.decide(kind, server, own, reads)) for at, one in self._limits)
                known = _strictest(((0, known), *limits))
            if len(own) > MAX_REMEMBERED_NAME:  # callers choose addresses, which may be megabytes long
                return known
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = known
        return known

    def sees(self, kind: ItemKind, server: str, own: str, reads: bool | None) -> bool:
        """Whether the item exists for the principal: allowed, if under a condition, confirm or preview."""
        if self.everything:
            return True
        is_seen = self._table(kind.name, server, reads is True).sees(own)
        return is_seen and all(one.sees(kind, server, own, reads) for _, one in self._limits)

    def reaches(self, server: str) -> bool:
        """Whether anything of this server could exist for the principal."""
        if self.everything:
            return True
        is_reached = any(
            self._table(kind.name, server, is_read).constant is not False
            for kind in KINDS
            for is_read in (True, False)
        )
        return is_reached and all(one.reaches(server) for _, one in self._limits)

    def visible(self, kind: ItemKind, entries: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
        """The entries that exist for the principal, in their order."""
        if self.everything:
            return list(entries)
        for _, one in self._limits:
            entries = one.visible(kind, entries)
        found: list[CatalogueEntry] = []
        readers: dict[str, _ItemTable] = {}
        others: dict[str, _ItemTable] = {}
        for entry in entries:
            item = entry.item
            tables = readers if item.reads else others
            table = tables.get(entry.server)
            if table is None:
                table = tables[entry.server] = self._table(kind.name, entry.server, item.reads is True)
            if table.constant is None:
                own = item.own
                # As `sees` does it, without its three calls: a list may have ten thousand tools.
                if table.is_plain and own.isascii():
                    if table.shows(own) and not table.hides(own):
                        found.append(entry)
                elif table.sees(own):
                    found.append(entry)
            elif table.constant:
                found.append(entry)
        return found

    def _table(self, kind: str, server: str, is_read: bool) -> _ItemTable:
        key = (kind, server, is_read)
        table = self._tables.get(key)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
                self._shared_tables.clear()
            table = self._tables[key] = self._shared_table(kind, server, is_read)
        return table

    def _shared_table(self, kind: str, server: str, is_read: bool) -> _ItemTable:
        """Most servers are in the same patterns, those with a `*`, and so they can have one table."""
        parts: list[tuple[Verb, PolicyRule, tuple[str, ...], tuple[str, ...]]] = [
            (verb, rule, scopes, names)
            for verb, rule, index, scopes in self._ordered
            if (names := tuple(index.names(kind, server, is_read)))
        ]
        narrowed = tuple(
            (tuple(allow.names(kind, server, is_read)), tuple(deny.names(kind, server, is_read)))
            for allow, deny in self._narrowed
        )
        is_addressed = kind in ADDRESSED
        key = (is_addressed, tuple((verb, rule.number, names) for verb, rule, _, names in parts), narrowed)
        table = self._shared_tables.get(key)
        if table is None:
            table = self._shared_tables[key] = _ItemTable(
                tuple(
                    _Clause(names, verb, rule.label, scopes, rule.when) for verb, rule, scopes, names in parts
                ),
                self._default,
                tuple(_Narrowing(GlobMatcher(allow), DenyMatcher(deny)) for allow, deny in narrowed),
                is_addressed,
            )
        return table


def _by_precedence(
    rules: tuple[PolicyRule, ...], held: frozenset[str]
) -> Iterator[tuple[Verb, PolicyRule, ServerIndex, tuple[str, ...]]]:
    """Each verb of each rule, with the scopes to demand.

    Within a verb first the rules whose scopes the principal has, and of those the ones without condition.
    """
    for verb in PRECEDENCE:
        some = [rule for rule in rules if verb in rule.indexes]
        lacks = [verb != "deny" and not held.issuperset(rule.scopes) for rule in some]
        pairs = sorted(zip(lacks, some, strict=True), key=lambda pair: (pair[0], pair[1].when is not None))
        for is_lacking, rule in pairs:
            yield verb, rule, rule.indexes[verb], rule.scopes if is_lacking else ()


def _read_right(right: Right) -> tuple[ServerIndex, ServerIndex]:
    """Others may have written it: a pattern that cannot be read allows nothing, or denies everything."""
    allow, deny = [_read_or_none(text) for text in right.allow], [_read_or_none(text) for text in right.deny]
    return (
        ServerIndex([pattern for pattern in allow if pattern is not None], denies=False),
        ServerIndex([pattern or parse("*") for pattern in deny], denies=True),
    )


def _read_or_none(text: str) -> ItemPattern | None:
    try:
        return parse(text)
    except PatternError:
        return None


def _asker(principal: Principal, at: int) -> Principal:
    """The agent at this place of a grant's chain, as if it asked by itself; the maker is the first."""
    return (
        principal if principal.grant is None else replace(principal, agent=principal.agents[at], grant=None)
    )


def _default_of(rules: Iterable[PolicyRule]) -> Verb:
    """For limits: rules that only deny leave the rest as it is."""
    return "deny" if any(verb in rule.indexes for rule in rules for verb in PRECEDENCE[1:]) else "allow"


class AccessPolicy:
    """The rules, read and checked. Raises ConfigError, which names the rule and what is wrong with it."""

    def __init__(self, config: AccessConfig) -> None:
        self._default: Verb = config.default
        self._groups = Groups(config.groups)
        check_agents(self._groups.selectors, config.agents, "[access.groups]")
        self.rules = read_rules(config)
        self._mentioned_scopes = frozenset[str]().union(*(rule.scopes for rule in self.rules))
        self.warnings = tuple(unknown_groups(self.rules, self._groups))
        """What may be a mistake and need not be one."""
        self._by_principal: dict[Principal, Rights] = {}
        self._shared: dict[object, Rights] = {}
        self._caller_variables: dict[Principal, dict[str, Any]] = {}

    def rights(self, principal: Principal) -> Rights:
        """The rights of a principal; those to whom the same rules apply, with equal grants, share them."""
        known = self._by_principal.get(principal)
        if known is None:
            if len(self._by_principal) >= MAX_PRINCIPALS:
                self._by_principal.clear()
            known = self._by_principal[principal] = self._shared_rights(principal)
        return known

    def rules_for(self, principal: Principal) -> tuple[PolicyRule, ...]:
        """The rules that are for a principal, as they stand in the file; of a grant, for its maker."""
        selectors = self._groups.selectors_of(_asker(principal, 0))
        return tuple(rule for rule in self.rules if not rule.who.isdisjoint(selectors))

    def _shared_rights(self, principal: Principal) -> Rights:
        rules = self.rules_for(principal)
        scopes = principal.scopes & self._mentioned_scopes
        narrowed = None if principal.grant is None else principal.grant.rights
        limits = tuple(self._limits(principal))
        numbers = tuple((at, tuple(rule.number for rule in some)) for at, some in limits)
        key = (tuple(rule.number for rule in rules), scopes, narrowed, numbers)
        known = self._shared.get(key)
        if known is None:
            if len(self._shared) >= MAX_RIGHTS:
                self._shared.clear()
            limiting = tuple((at, Rights(some, _default_of(some), scopes)) for at, some in limits)
            known = self._shared[key] = Rights(rules, self._default, scopes, narrowed, limiting)
        return known

    def _limits(self, principal: Principal) -> Iterator[tuple[int, tuple[PolicyRule, ...]]]:
        """The rules that name an agent of a grant's chain, by its place."""
        for at, agent in enumerate(principal.agents[1:], 1):
            selectors = self._groups.selectors_of_agent(agent)
            if rules := tuple(rule for rule in self.rules if not rule.who.isdisjoint(selectors)):
                yield at, rules

    def resolve(
        self, decision: Decision, principal: Principal, server: str, own: str, args: Mapping[str, Any]
    ) -> Decision:
        """Close a decision by its conditions: the first that holds for the arguments decides."""
        if not decision.conditions:
            return decision
        call = {"server": server, "tool": own, "args": args}
        if decision.parts:
            return _strictest(
                tuple((at, self._resolve(part, principal, at, call)) for at, part in decision.parts)
            )
        return self._resolve(decision, principal, 0, call)

    def _resolve(
        self, decision: Decision, principal: Principal, at: int, call: Mapping[str, Any]
    ) -> Decision:
        variables = {**self._variables(_asker(principal, at)), **call}
        failed = ""
        for condition in decision.conditions:
            try:
                if condition.expression.holds(variables):
                    return Decision(condition.verb, condition.rule, condition.scopes)
            except ConditionError as error:
                if condition.verb != "allow":
                    rule = f"{condition.rule} (its condition failed: {error})"
                    return Decision(condition.verb, rule, condition.scopes)
                failed = failed or f" (the condition of {condition.rule} failed: {error})"
        return Decision(decision.verb, decision.rule + failed, decision.scopes)

    def _variables(self, principal: Principal) -> dict[str, Any]:
        known = self._caller_variables.get(principal)
        if known is None:
            selectors = self._groups.selectors_of(principal)
            groups = {one.removeprefix("group:") for one in selectors if one.startswith("group:")}
            if len(self._caller_variables) >= MAX_PRINCIPALS:
                self._caller_variables.clear()
            known = self._caller_variables[principal] = {
                "agent": principal.agent,
                "user": principal.user,
                "tenant": principal.tenant,
                "client": principal.client,
                "groups": sorted(principal.groups | groups),
                "scopes": sorted(principal.scopes),
            }
        return known
