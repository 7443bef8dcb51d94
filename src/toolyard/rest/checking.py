"""Whether what a table says can work: names exist, places fit, addresses and limits make sense.

Owns what holds for the whole server; `tool_rules` has what holds for one tool, `parameter_rules` for one
parameter. Every mistake is told, not the first only.
"""

from collections.abc import Iterable, Iterator
from math import inf

from ..config.errors import nearest_or_all
from .mistakes import Keys, Mistake
from .origin import Origin, WrongAddress
from .parameter_rules import rules_of_parameter
from .placeholders import placeholders, wrong_path
from .table import Auth, Gate, Lookup, Overlay, Paging, Retry, Table
from .tool_rules import rules_of_errors, rules_of_tool, unknown_paging
from .words import HEADER_NAME, NO_CONTROLS, OUR_HEADERS, TOOL_NAME, VARIABLE


def mistakes(table: Table) -> Iterator[Mistake]:
    yield from _server(table)
    yield from _auth(table.auth)
    yield from _retry(table.retry)
    if table.gate is not None:
        yield from _gate(table.gate, table.auth)
    for name, paging in table.paging.items():
        yield from _paging(paging, ("paging", name))
    yield from rules_of_errors(table.errors, ("errors",))
    for name, lookup in table.lookups.items():
        yield from _lookup(table, lookup, ("lookups", name))
    for name, parameter in table.shared.items():
        yield from rules_of_parameter(parameter, ("shared", name), name)
    for name, tool in table.tools.items():
        yield from rules_of_tool(table, name, tool)


def mistakes_of_overlay(overlay: Overlay, table: Table) -> Iterator[Mistake]:
    if overlay.denied and table.gate is None:
        yield Mistake(("denied",), "the table has no gate")
    yield from rules_of_errors(overlay.errors, ("errors",))
    yield from _known(overlay.shared, table.shared, ("shared",), "shared parameter")
    yield from _known(overlay.lookups, table.lookups, ("lookups",), "lookup")
    yield from _known(overlay.tools, table.tools, ("tools",), "tool")
    for name, texts in overlay.tools.items():
        tool = table.tools.get(name)
        if tool is None:
            continue
        here: Keys = ("tools", name)
        own = [*tool.parameters, *tool.use]
        yield from _known(texts.parameters, own, (*here, "parameters"), "parameter")
        yield from rules_of_errors(texts.errors, (*here, "errors"))
        for word in placeholders(texts.said):
            if word not in own:
                yield Mistake((*here, "said"), f"{{{word}}} is no parameter of it", nearest_or_all(word, own))


def _known(names: Iterable[str], known: Iterable[str], keys: Keys, what: str) -> Iterator[Mistake]:
    known = list(known)
    for name in names:
        if name not in known:
            yield Mistake((*keys, name), f"the table has no {what} {name!r}", nearest_or_all(name, known))


def _server(table: Table) -> Iterator[Mistake]:
    if not TOOL_NAME.fullmatch(table.name):
        yield Mistake(("name",), f"{table.name!r} is no name", "letters, digits, '_' and '-', 64 at most")
    try:
        Origin.parse(table.base_url)
    except WrongAddress as error:
        yield Mistake(("base_url",), error.what, error.hint)
    if not table.tools:
        yield Mistake((), "there are no tools", "begin one with [tools.NAME]")
    if not 0 < table.timeout < inf:
        yield Mistake(("timeout",), "must be a number of seconds over 0")
    if table.max_reply <= 0:
        yield Mistake(("max_reply",), "must be over 0 bytes")
    for name, value in table.headers.items():
        yield from header_name(name, ("headers", name))
        if not NO_CONTROLS.fullmatch(value):
            yield Mistake(("headers", name), "a header's value is one line of printable ASCII")


def header_name(name: str, keys: Keys) -> Iterator[Mistake]:
    if not HEADER_NAME.fullmatch(name):
        yield Mistake(keys, f"{name!r} is no name of a header")
    elif name.lower() in OUR_HEADERS:
        yield Mistake(keys, f"the header {name!r} is written by Toolyard")


def _auth(auth: Auth) -> Iterator[Mistake]:
    if auth.kind == "none":
        for key in ("name", "prefix", "caller", "variable"):
            if getattr(auth, key):
                yield Mistake(
                    ("auth", key), "without a 'kind' no key is sent", "set kind to bearer, header or query"
                )
        return
    named = auth.kind in ("header", "query")
    if named and not auth.name:
        yield Mistake(("auth",), f"the key 'name' is missing: of the {auth.kind} that has the key")
    if auth.name and not named:
        yield Mistake(("auth", "name"), "bearer has no name of its own", "the header is Authorization")
    if auth.prefix and auth.kind != "header":
        yield Mistake(("auth", "prefix"), f"{auth.kind} takes no prefix")
    if auth.name and auth.kind == "header":
        yield from header_name(auth.name, ("auth", "name"))
    for number, name in enumerate(auth.caller):
        here = ("auth", "caller", number)
        yield from header_name(name, here)
        if name != name.lower():
            yield Mistake(here, f"{name!r} is never found there", f"headers are compared as {name.lower()!r}")
    if auth.variable and not VARIABLE.fullmatch(auth.variable):
        yield Mistake(("auth", "variable"), f"{auth.variable!r} is no name of a variable")


def _retry(retry: Retry) -> Iterator[Mistake]:
    if not 0 <= retry.most <= 10:
        yield Mistake(("retry", "most"), "must be from 0 to 10")
    for key in ("pause", "longest"):
        if not 0 <= getattr(retry, key) <= 3600:
            yield Mistake(("retry", key), "must be from 0 to 3600 seconds")


def _gate(gate: Gate, auth: Auth) -> Iterator[Mistake]:
    yield from wrong_path(gate.path, ("gate", "path"))
    for word in placeholders(gate.path):
        yield Mistake(("gate", "path"), f"{{{word}}} has no value there: the gate has no parameters")
    if not gate.field:
        yield Mistake(("gate", "field"), "must name a field of the reply")
    if gate.seconds < 0:
        yield Mistake(("gate", "seconds"), "must not be below 0")
    if auth.kind == "none" or not auth.caller:
        yield Mistake(("gate",), "no caller brings a key", "name their headers in 'caller' of [auth]")


def _paging(paging: Paging, keys: Keys) -> Iterator[Mistake]:
    if paging.kind != "link" and not paging.position:
        yield Mistake(keys, f"the key 'position' is missing: the query parameter of the {paging.kind}")
    if paging.kind == "cursor" and not paging.next:
        yield Mistake(keys, "the key 'next' is missing: where the reply has the next cursor")
    if paging.next and paging.kind != "cursor":
        yield Mistake((*keys, "next"), f"{paging.kind} has no cursor")
    if paging.position and paging.kind == "link":
        yield Mistake((*keys, "position"), "link follows the Link header, which says all")
    if paging.position and paging.position == paging.size:
        yield Mistake((*keys, "size"), "is the same as 'position'")
    if paging.most < 1:
        yield Mistake((*keys, "most"), "must be 1 at least")
    if not 1 <= paging.default <= max(paging.most, 1):
        yield Mistake((*keys, "default"), f"must be from 1 to {paging.most}, which is 'most'")
    if paging.first < 0:
        yield Mistake((*keys, "first"), "must not be below 0")
    if paging.most_items < 1:
        yield Mistake((*keys, "most_items"), "must be 1 at least")


def _lookup(table: Table, lookup: Lookup, keys: Keys) -> Iterator[Mistake]:
    yield from wrong_path(lookup.path, (*keys, "path"))
    if not lookup.match:
        yield Mistake((*keys, "match"), "must name a field at least")
    if not lookup.id:
        yield Mistake((*keys, "id"), "must name a field")
    for name, value in lookup.query.items():
        if not isinstance(value, str | int | float):
            yield Mistake((*keys, "query", name), "must be a text, a number, true or false")
        elif isinstance(value, str) and {*placeholders(value)} - {"name"}:
            yield Mistake((*keys, "query", name), "only {name} is known there: the name that was given")
    yield from unknown_paging(table, lookup.paging, (*keys, "paging"))
    paging = table.paging.get(lookup.paging)
    for name in (paging.position, paging.size) if paging is not None else ():
        if name in lookup.query:
            yield Mistake((*keys, "query", name), f"the paging {lookup.paging!r} sends it", "leave it out")
