"""`toolyard access`: who may use what, which rule decides, and what a changed file would change."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from ..configuration import loader
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import TextLayout, counted, print_table
from ..ui.terminal import Terminal
from .options import DEFAULT_TIMEOUT, config_option, debug_option, json_option

if TYPE_CHECKING:
    from ...agents.definition import AgentDefinition, AgentLibrary
    from ...catalogue.catalogue import Catalogue, CatalogueEntry
    from ...catalogue.items import ItemKind
    from ...config import Config
    from ...config.callers import AccessConfig
    from ...policy.access import AccessPolicy, Decision
    from ...policy.review import RuleMatch, UnmatchedPattern
    from ...wire.call import Principal

ANYBODY_ELSE = "anybody else"
NO_AGENT = "no agent"
ALLOWED, ASKS, PREVIEWS, DEPENDS, SCOPES, NOTHING = "●", "?", "○", "≈", "§", "·"
SOME = "◐"
_MEANS = {
    ALLOWED: "allowed",
    SOME: "some of them",
    ASKS: "a person is asked",
    PREVIEWS: "described and not made",
    DEPENDS: "depends on the arguments",
    SCOPES: "needs scopes",
    NOTHING: "does not exist for them",
}
_PREFIXES = {"prompts": "prompt:", "resources": "resource:", "resourceTemplates": "resource:"}
_WORDS = {"allow": "allowed", "deny": "denied", "confirm": "a person is asked", "preview": "described only"}


class Person(Struct, frozen=True):
    """A column of the matrix: a caller by the name that the rules have for it.

    An agent that has a file is one that `toolyard agent` runs, with a grant of no more than its file says.
    """

    name: str
    principal: "Principal"
    file: "AgentDefinition | None" = None


class Item(Struct, frozen=True):
    """A row of the matrix with --tools."""

    kind: "ItemKind"
    server: str
    own: str
    reads: bool | None = None

    @property
    def text(self) -> str:
        """As in a pattern."""
        return f"{_PREFIXES.get(self.kind.name, '')}{self.server}/{self.own}"


@click.command("access", short_help="Show who may use which tools, and why.")
@click.option("--tools", "each", is_flag=True, help="Show every tool, prompt and resource.")
@click.option(
    "--explain",
    nargs=2,
    metavar="AGENT TOOL",
    help='Say which rule decides. AGENT as in `who`, "*" for anybody else. TOOL as in a pattern, or by name.',
)
@click.option(
    "--try",
    "other",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Show what the rules of another file would change.",
)
@click.option("--user", metavar="NAME", help="Try agents in the name of a user: SUBJECT or ISSUER#SUBJECT.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Try a group; may be repeated.")
@click.option("--tenant", metavar="NAME", help="Try a tenant.")
@click.option("--client", metavar="NAME", help="Try a client application.")
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="Try a scope; may be repeated.")
@click.option(
    "--agents",
    "agents_folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Agents as files, as for `toolyard agent`.",
)
@click.option("--offline", is_flag=True, help="Start no server: use the lists that were read last.")
@config_option
@json_option
@debug_option
def command(
    each: bool,
    explain: tuple[str, str] | None,
    other: Path | None,
    user: str | None,
    groups: tuple[str, ...],
    tenant: str | None,
    client: str | None,
    scopes: tuple[str, ...],
    agents_folder: Path | None,
    offline: bool,
    config: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Draw the matrix of [access]: servers by callers, with how many of their tools each may use.

    Callers are the agents, groups and users that the rules name. An agent with a file has no more than the
    file leaves it. Servers whose lists are known are not
    started. Patterns that match nothing are named on standard error.
    """
    file = loader.config_file(None, config)
    if file is None:
        raise CommandError("no configuration", "give one with --config, or make a toolyard.toml")
    settings = loader.load_config(file)
    tried = _principal_of(user, groups, tenant, client, scopes)
    policy = _policy(settings.access)
    changed = None if other is None else loader.load_config(other).access
    catalogue = _catalogue(settings, file, offline, debug)
    items = list(_items(catalogue))
    library = _library(agents_folder)
    if explain is not None:
        person = _as_its_file_says(_caller(explain[0], tried), library)
        _explain(policy, settings, person, _find(explain[1], items, catalogue), as_json)
        return
    people = _people(settings.access, tried)
    if changed is not None:
        people = _people(changed, tried, people)
    people = [_as_its_file_says(person, library) for person in people]
    if changed is not None:
        _compare(policy, _policy(changed), people, items, as_json)
    elif as_json:
        print_json(_as_json(policy, people, items, catalogue))
        return
    else:
        _draw(policy, people, items, each, settings)
    _name_mistakes(policy if changed is None else _policy(changed), catalogue)


def _policy(config: "AccessConfig") -> "AccessPolicy":
    from ...config import ConfigError
    from ...policy.access import AccessPolicy

    try:
        return AccessPolicy(config)
    except ConfigError as error:
        raise loader.config_error(error) from None


# Who


def _principal_of(
    user: str | None,
    groups: tuple[str, ...],
    tenant: str | None,
    client: str | None,
    scopes: tuple[str, ...],
) -> "Principal":
    from ...wire.call import Principal

    issuer, _, subject = (user or "").rpartition("#")
    return Principal(
        tenant=tenant or "local",
        subject=subject,
        issuer=issuer,
        client=client or "",
        groups=frozenset(groups),
        scopes=frozenset(scopes),
    )


def _caller(who: str, tried: "Principal") -> Person:
    """A caller as `who` of a rule names it, with what the options add."""
    prefix, colon, name = who.partition(":")
    if who == "*":
        return Person(ANYBODY_ELSE, tried)
    match (prefix, name) if colon else ("agent", who):
        case ("agent", name):
            return Person(name, replace(tried, agent=name))
        case ("group", name):
            return Person(who, replace(tried, groups=tried.groups | {name}))
        case ("user", name):
            issuer, _, subject = name.rpartition("#")
            return Person(who, replace(tried, issuer=issuer, subject=subject))
        case ("tenant", name):
            return Person(who, replace(tried, tenant=name))
        case ("client", name):
            return Person(who, replace(tried, client=name))
        case _:
            raise CommandError(f"no caller is written {who!r}", "as in who: NAME, group:NAME, user:NAME")


def _people(config: "AccessConfig", tried: "Principal", known: Iterable[Person] = ()) -> list[Person]:
    """The callers that the rules name. With a principal to try, its agents."""
    from ...config.patterns import canonical
    from ...wire.call import Principal

    named = [*config.agents, *(who for rule in config.rules for who in rule.who)]
    named += [f"group:{group}" for group in config.groups]
    named += [who for members in config.groups.values() for who in members]
    is_tried = tried != Principal()
    found = {canonical(person.name): person for person in known if person.principal != tried}
    for who in named:
        who = who.removeprefix("agent:")
        if who != "*" and not (is_tried and ":" in who):
            found.setdefault(canonical(who), _caller(who, tried))
    # Agents first, then groups, users and so on.
    people = sorted(
        found.values(), key=lambda person: person.name.partition(":")[0] if ":" in person.name else ""
    )
    return [*people, Person(NO_AGENT if is_tried else ANYBODY_ELSE, tried)]


def _library(folder: Path | None) -> "AgentLibrary":
    from ...agents.definition import AgentFileError, AgentLibrary

    try:
        return AgentLibrary.load(folder)
    except AgentFileError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None


def _as_its_file_says(person: Person, library: "AgentLibrary") -> Person:
    """The agent with the grant that `toolyard agent` makes for it."""
    from ...wire.call import Grant, Right

    agent = person.principal.agent
    file = next((one for one in library if one.name == agent), None)
    if file is None:
        return person
    rights = [Right(("*",) if file.tools is None else file.tools, file.denied_tools)]
    if file.delegated_tools:
        rights.append(Right(("*",), file.delegated_tools))
    grant = Grant("", (), tuple(rights), math.inf, parent_agents=(agent,))
    return Person(person.name, replace(person.principal, grant=grant), file)


# What


def _catalogue(settings: "Config", file: Path, offline: bool, debug: bool) -> "Catalogue":
    """The lists that were read last; servers are started only if some were never read."""
    from ...catalogue.catalogue import Catalogue
    from ...catalogue.store import CatalogueStore
    from ...config.files import state_folder

    stored, store = Catalogue(), CatalogueStore(state_folder(settings))
    for server in settings.servers:
        store.load(server, stored.add(server))
    if offline or all(server.was_read for server in stored.servers.values()):
        return stored
    from ..client.connection import ConnectOptions, MountedSession, connected

    where = ConnectOptions(None, file, None, (), DEFAULT_TIMEOUT, debug, wait=math.inf)
    with Terminal() as user, connected(where, user) as session:
        assert isinstance(session, MountedSession)
        return session.catalogue


def _items(catalogue: "Catalogue") -> Iterator[Item]:
    from ...catalogue.items import KINDS

    for server in catalogue.servers.values():
        for kind in KINDS:
            for entry in server.entries[kind.name]:
                yield Item(kind, server.name, entry.item.own, entry.item.reads)


def _find(text: str, items: list[Item], catalogue: "Catalogue") -> Item:
    """An item by its pattern or by the name it is shown under, listed or not."""
    from ...catalogue.items import PROMPTS, RESOURCES, TOOLS
    from ...config.patterns import PatternError, parse

    for kind in (TOOLS, PROMPTS, RESOURCES):
        if entry := catalogue.find(kind, text):
            return Item(kind, entry.server, entry.item.own, entry.item.reads)
    for item in items:
        if item.text == text:
            return item
    from difflib import get_close_matches

    near = get_close_matches(text, [item.text for item in items], 1, 0.6)
    hints = [f"did you mean {near[0]!r}?"] if near else []
    try:
        pattern = parse(text)
    except PatternError as error:
        raise CommandError(f"no tool {text!r}", *hints, error.hint) from None
    if pattern.is_server or pattern.server not in catalogue.servers:
        raise CommandError(f"no tool {text!r}", *hints, "`toolyard access --tools` shows them all")
    warn(f"{pattern.server} does not list {pattern.name!r}", *hints)
    kind = next(kind for kind in (TOOLS, PROMPTS, RESOURCES) if kind.name in pattern.kinds)
    return Item(kind, pattern.server, pattern.name)


# The matrix


def _symbol(decision: "Decision") -> str:
    if not decision.is_visible:
        return NOTHING
    if decision.conditions:
        return DEPENDS
    if decision.scopes:
        return SCOPES
    return {"allow": ALLOWED, "confirm": ASKS, "preview": PREVIEWS}[decision.verb]


def _decider(policy: "AccessPolicy", person: Person) -> "Callable[[Item], Decision]":
    """What is decided for a caller. Its file is named only where the rules would let it."""
    rights = policy.rights(person.principal)
    by_rules = policy.rights(replace(person.principal, grant=None))

    def decide(item: Item) -> "Decision":
        decision = rights.decide(item.kind, item.server, item.own, item.reads)
        if not _is_left_out(decision):
            return decision
        without = by_rules.decide(item.kind, item.server, item.own, item.reads)
        return decision if without.is_visible else without

    return decide


def _draw(
    policy: "AccessPolicy", people: list[Person], items: list[Item], each: bool, settings: "Config"
) -> None:
    if not settings.access.is_on:
        click.echo("There are no rules in [access]: every caller may use everything.")
        return
    deciders = [_decider(policy, person) for person in people]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.text if each else _group_of(item), []).append(item)
    rows: list[list[str]] = []
    for name, some in groups.items():
        symbols = [[_symbol(decide(item)) for item in some] for decide in deciders]
        rows.append([one_line(name), *(found[0] if each else _cell(found) for found in symbols)])
    if not rows:
        click.echo("No server lists anything.")
        return
    _print_matrix("tool" if each else "server", [person.name for person in people], rows)
    used = [symbol for symbol in _MEANS if any(symbol in cell for row in rows for cell in row[1:])]
    click.echo(click.style("\n" + "   ".join(f"{symbol} {_MEANS[symbol]}" for symbol in used), dim=True))
    click.echo(click.style(f"What no rule names is {_WORDS[settings.access.default]}.", dim=True))
    for person in people:
        if person.file is not None and _is_narrowed(policy, person, items):
            click.echo(
                click.style(f"{one_line(person.name)}: no more than {_file_of(person)} says.", dim=True)
            )


def _is_narrowed(policy: "AccessPolicy", person: Person, items: list[Item]) -> bool:
    return any(map(_is_left_out, map(_decider(policy, person), items)))


def _is_left_out(decision: "Decision") -> bool:
    """By the agent's file, not by a rule."""
    from ...policy.rules import GRANT

    return decision.rule == GRANT


def _file_of(person: Person) -> str:
    from ...config.files import display_path

    assert person.file is not None
    assert person.file.path is not None
    return display_path(person.file.path)


def _group_of(item: Item) -> str:
    words = {"tools": "", "prompts": " prompts", "resources": " resources", "resourceTemplates": " templates"}
    return item.server + words[item.kind.name]


def _cell(symbols: list[str]) -> str:
    """`● 12`, `◐ 5/12 ?2`, `·`."""
    counts = Counter(symbols)
    seen = len(symbols) - counts[NOTHING]
    if not seen:
        return NOTHING
    special = [f"{symbol}{counts[symbol]}" for symbol in (ASKS, PREVIEWS, DEPENDS, SCOPES) if counts[symbol]]
    share = f"{ALLOWED} {seen}" if seen == len(symbols) else f"{SOME} {seen}/{len(symbols)}"
    return " ".join([share, *special])


def _print_matrix(first: str, names: list[str], rows: list[list[str]]) -> None:
    """As many callers beside each other as fit, and the others below."""
    page = TextLayout()
    columns = list(zip(*([first, *map(one_line, names)], *rows), strict=True))
    widths = [max(page.measure(cell) for cell in column) + 2 for column in columns]
    start = 1
    while start < len(columns):
        end = start + 1
        while end < len(columns) and widths[0] + sum(widths[start : end + 1]) <= page.width:
            end += 1
        if start > 1:
            click.echo("")
        heading, *cells = zip(columns[0], *columns[start:end], strict=True)
        print_table(heading, cells)
        start = end


def _as_json(
    policy: "AccessPolicy", people: list[Person], items: list[Item], catalogue: "Catalogue"
) -> dict[str, object]:
    callers: dict[str, dict[str, object]] = {}
    for person in people:
        decide = _decider(policy, person)
        callers[person.name] = {item.text: _decision_object(decide(item), person) for item in items}
    unmatched = [
        {"rule": one.rule, "verb": one.verb, "pattern": one.pattern, "hint": one.hint}
        for one in _unmatched(policy, catalogue)
    ]
    return {"callers": callers, "unmatched": unmatched, "warnings": list(policy.warnings)}


def _decision_object(decision: "Decision", person: Person) -> dict[str, object]:
    conditions = [
        {"verb": one.verb, "rule": one.rule, "when": one.expression.text} for one in decision.conditions
    ]
    scopes = {"scopes": list(decision.scopes)} if decision.scopes else {}
    rule = f"file {_file_of(person)}" if _is_left_out(decision) else decision.rule
    said = {"verb": decision.verb, "rule": rule, "visible": decision.is_visible}
    return {**said, **scopes, **({"conditions": conditions} if conditions else {})}


# Why


def _explain(policy: "AccessPolicy", settings: "Config", person: Person, item: Item, as_json: bool) -> None:
    from ...policy.review import matching_rules

    decision = _decider(policy, person)(item)
    rules = matching_rules(policy, person.principal, item.kind, item.server, item.own, item.reads)
    if as_json:
        found = [
            {"rule": one.rule, "verb": one.verb, "pattern": one.pattern}
            | ({"when": one.when} if one.when else {})
            | ({"scopes": list(one.scopes)} if one.scopes else {})
            for one in rules
        ]
        about = {"caller": person.name, "item": item.text, "reads": item.reads}
        print_json({**about, **_decision_object(decision, person), "rules": found})
        return
    what = DEPENDS if decision.conditions else SCOPES if decision.scopes else ""
    said = _MEANS[what] if what else _WORDS[decision.verb]
    click.echo(f"{click.style(f'{person.name}, {item.text}', bold=True)}: {said}")
    click.echo(f"  it {_reading(item)}")
    for one in rules:
        name = one.rule if one.rule == f"rule {one.number}" else f"rule {one.number} {one.rule!r}"
        line = f"{name}: {one.verb} {one.pattern}"
        line += f", if {one_line(one.when)}" if one.when else ""
        line += f", with {counted(len(one.scopes), 'scopes')} {' '.join(one.scopes)}" if one.scopes else ""
        click.echo(f"  {click.style('→', fg='green') if _decides(one, decision) else ' '} {line}")
    if _is_left_out(decision):
        click.echo(f"  {click.style('→', fg='green')} its file, {_file_of(person)}: {_words_of(person)}")
    if decision.rule == "default":
        why = f"{'else' if rules else 'no rule names it:'} the default, {settings.access.default}"
        click.echo(f"  {click.style('→', fg='green')} {why}")


def _words_of(person: Person) -> str:
    """`tools: git/log, mail/*; disallowedTools: mail/send`"""
    assert person.file is not None
    lists = {
        "tools": person.file.tools,
        "disallowedTools": person.file.denied_tools,
        "delegatedTools": person.file.delegated_tools,
    }
    return "; ".join(f"{key}: {', '.join(names)}" for key, names in lists.items() if names)


def _reading(item: Item) -> str:
    if item.kind.name != "tools":
        return f"is one of the {item.kind.name} of {item.server}"
    return {
        True: "only reads, as its annotations say",
        False: "writes, as its annotations say",
        None: "counts as one that writes: its annotations do not say",
    }[item.reads]


def _decides(match: "RuleMatch", decision: "Decision") -> bool:
    deciding = [(decision.verb, decision.rule), *((one.verb, one.rule) for one in decision.conditions)]
    return (match.verb, match.rule) in deciding


# What would change


def _compare(
    before: "AccessPolicy", after: "AccessPolicy", people: list[Person], items: list[Item], as_json: bool
) -> None:
    found: dict[str, dict[str, list[str]]] = {}
    for person in people:
        changes = _changes(_decider(before, person), _decider(after, person), items)
        if any(changes.values()):
            found[person.name] = changes
    if as_json:
        print_json({"callers": found})
    elif not found:
        click.echo("Nothing changes.")
    else:
        _print_changes(found)


def _changes(
    before: "Callable[[Item], Decision]", after: "Callable[[Item], Decision]", items: list[Item]
) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {"added": [], "removed": [], "changed": []}
    for item in items:
        old, new = before(item), after(item)
        if old.is_visible != new.is_visible:
            changes["added" if new.is_visible else "removed"].append(item.text)
        elif _what(old) != _what(new):
            changes["changed"].append(f"{item.text}: {_word(old)} → {_word(new)}")
    return changes


def _what(decision: "Decision") -> object:
    conditions = [(one.verb, one.expression.text, one.scopes) for one in decision.conditions]
    return decision.verb, decision.scopes, conditions


def _word(decision: "Decision") -> str:
    conditions = [f"{one.verb} if {one_line(one.expression.text)}" for one in decision.conditions]
    scopes = f" with {' '.join(decision.scopes)}" if decision.scopes else ""
    return ", ".join([*conditions, decision.verb + scopes])


def _print_changes(found: Mapping[str, Mapping[str, list[str]]]) -> None:
    signs = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
    for name, changes in found.items():
        counts = ", ".join(f"{len(some)} {what}" for what, some in changes.items() if some)
        click.echo(f"{click.style(one_line(name), bold=True)}: {counts}")
        for what, some in changes.items():
            sign, colour = signs[what]
            for line in some:
                click.echo(click.style(f"  {sign} {one_line(line)}", fg=colour))


# Mistakes


def _unmatched(policy: "AccessPolicy", catalogue: "Catalogue") -> "list[UnmatchedPattern]":
    from ...catalogue.items import KINDS
    from ...policy.review import unmatched_patterns

    entries: dict[ItemKind, list[CatalogueEntry]] = {
        kind: [entry for server in catalogue.servers.values() for entry in server.entries[kind.name]]
        for kind in KINDS
    }
    unread = [server.name for server in catalogue.servers.values() if not server.was_read]
    return unmatched_patterns(policy, tuple(catalogue.servers), entries, unread)


def _name_mistakes(policy: "AccessPolicy", catalogue: "Catalogue") -> None:
    for one in _unmatched(policy, catalogue):
        warn(f"{one.rule}: {one.verb} {one.pattern!r} matches nothing", *([one.hint] if one.hint else []))
    for line in policy.warnings:
        warn(line)
    unread = [server.name for server in catalogue.servers.values() if not server.was_read]
    if unread:
        hint(f"the lists of {', '.join(unread)} are not known, so they are not in the table")
