"""The limits of the configuration, one by one: what each counts, for whom, and under which key.

Owns the keys of counters, which the limiter writes and `usage` reads. Owns no counting.
"""

import hashlib
from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from ..config.callers import LimitRule, LimitsConfig, PriceRule
from ..config.errors import ConfigError
from ..languages import said
from ..state.store import DAY
from ..wire.call import Principal
from .matching import RuleMatcher

PREFIX = "limits/"
MICRO = 1_000_000
"""Costs are counted in millionths of the currency, so that they are whole numbers."""
MOST = 2**53
"""What every store can count to."""
MAX_PART = 200
"""Characters of a name in a key. A longer one is cut, and a digest keeps it apart from others."""
_SAFE = "@:._-#+"

Unit = Literal["calls", "bytes", "tokens", "cost"]


class Limit(Struct, frozen=True):
    """One amount of one rule."""

    rule: LimitRule
    id: str
    """Of the rule, in keys."""
    measure: str
    """The key of the configuration that sets it: `rate`, `concurrent`, `calls`, `tokens_a_day`, …"""
    unit: Unit
    ceiling: int
    """For a rate, the burst."""
    period: float | Literal["month"]
    """Of a window; 0 for rates and slots."""
    currency: str = ""

    @property
    def text(self) -> str:
        """The amount, as people read it."""
        if self.measure == "rate":
            return _rate_text(self.rule.rate, self.ceiling)
        if self.measure == "concurrent":
            count = f"{self.rule.concurrent:,}"
            if self.rule.concurrent == 1:
                return said(f"{count} call at a time", f"{count} chamada por vez")
            return said(f"{count} calls at a time", f"{count} chamadas por vez")
        if self.measure == "calls":
            calls = _amount_text("calls", self.rule.calls, self.currency)
            time = _seconds_text(self.rule.window)
            return said(f"{calls} in {time}", f"{calls} em {time}")
        amount = _amount_text(self.unit, self.ceiling, self.currency)
        if self.period == "month":
            return said(f"{amount} a month", f"{amount} por mês")
        return said(f"{amount} a day", f"{amount} por dia")

    def key(self, scope: str) -> str:
        return f"{PREFIX}{self.id}/{self.measure}/{scope}"


class LimitScope(Struct, frozen=True):
    """Who shares a counter."""

    per: str
    key: str
    text: str


def scope_of(per: str, principal: Principal, server: str, tool: str) -> LimitScope:
    """Users and agents of one name in two tenants do not share."""
    tenant = principal.tenant
    match per:
        case "user":
            return _scope("user", tenant, principal.user)
        case "agent":
            # A grant counts for whoever made it: another name is no new budget.
            return _scope("agent", tenant, principal.agents[0])
        case "tenant":
            return _scope("tenant", tenant)
        case "server":
            return _scope("server", server)
        case "tool":
            return _scope("tool", server, tool)
        case _:
            return LimitScope("all", "all", _scope_text("all", ()))


def _scope(per: str, *parts: str) -> LimitScope:
    key = "/".join([per, *map(_key_part, parts)])
    return LimitScope(per, key, _scope_text(per, parts))


def read_scope(key: str) -> tuple[str, tuple[str | None, ...], str]:
    """What `LimitScope.key` was made for: `per`, the names, and both as people read them.

    A name that was cut is None: nobody can tell which it was.
    """
    per, *parts = key.split("/")
    names = tuple(unquote(part) if len(part) <= MAX_PART else None for part in parts)
    return per, names, _scope_text(per, tuple(map(unquote, parts)))


_SCOPES = {
    "user": "usuário",
    "agent": "agente",
    "tenant": "inquilino",
    "server": "servidor",
    "tool": "ferramenta",
}


def _scope_text(per: str, parts: tuple[str, ...]) -> str:
    word = said(per, _SCOPES.get(per, per))
    match per, parts:
        case (("user" | "agent"), (tenant, name)):
            if tenant == "local" and not name and per == "user":
                return said("the local user", "o usuário local")
            named = f"{word} {name!r}" if name else said(f"no {word}", f"nenhum {word}")
            return named if tenant == "local" else said(f"{named} of {tenant!r}", f"{named} de {tenant!r}")
        case "all", _:
            return said("all callers", "todos os que chamam")
        case _:
            return f"{word} {'/'.join(parts)!r}"


def _key_part(text: str) -> str:
    encoded = text.encode(errors="surrogatepass")
    quoted = quote(encoded, safe=_SAFE)
    if len(quoted) <= MAX_PART:
        return quoted
    return f"{quoted[:MAX_PART]}~{hashlib.blake2b(encoded, digest_size=8).hexdigest()}"


class LimitTable:
    """All limits of a configuration, checked. Raises ConfigError for a rule that cannot be."""

    def __init__(self, config: LimitsConfig, matcher: RuleMatcher) -> None:
        self._matcher = matcher
        self._prices = config.prices
        self.currency = config.currency
        self._rules: list[tuple[LimitRule, tuple[Limit, ...]]] = []
        self._by_id: dict[tuple[str, str], Limit] = {}
        for number, rule in enumerate(config.rules, 1):
            where = f"[limits.rules {number}]"
            matcher.check(rule.who, rule.tools, where)
            found = tuple(_limits_of(rule, config.currency))
            for limit in found:
                other = self._by_id.setdefault((limit.id, limit.measure), limit)
                if other is not limit:
                    raise ConfigError(
                        f"{where} limits {limit.measure!r} for the same as another rule"
                        if not rule.name
                        else f"{where} has the name {rule.name!r}, as another rule",
                        "give each of the two a name of its own",
                    )
            self._rules.append((rule, found))
        for number, price in enumerate(config.prices, 1):
            matcher.check((), price.tools, f"[limits.prices {number}]")

    def of(self, principal: Principal, server: str, tool: str, reads: bool | None) -> Iterator[Limit]:
        for rule, limits in self._rules:
            if self._matcher.matches(rule.who, principal) and self._matcher.matches_tool(
                rule.tools, server, tool, reads
            ):
                yield from limits

    def price_of(self, server: str, tool: str, reads: bool | None) -> PriceRule | None:
        """The first price that fits."""
        for price in self._prices:
            if self._matcher.matches_tool(price.tools, server, tool, reads):
                return price
        return None

    def find(self, key: str) -> tuple[Limit, str] | None:
        """The limit that a counter belongs to, and the key of its scope; None if no rule has it any more."""
        parts = key.removeprefix(PREFIX).split("/", 2)
        limit = self._by_id.get((parts[0], parts[1])) if len(parts) == 3 else None
        return None if limit is None else (limit, parts[2])


def _limits_of(rule: LimitRule, currency: str) -> Iterator[Limit]:
    id = _rule_id(rule)
    if rule.rate:
        burst = rule.burst or max(1, int(rule.rate))
        yield Limit(rule, id, "rate", "calls", burst, 0.0)
    if rule.concurrent:
        yield Limit(rule, id, "concurrent", "calls", rule.concurrent, 0.0)
    if rule.calls:
        yield Limit(rule, id, "calls", "calls", min(MOST, rule.calls), rule.window)
    units: tuple[Unit, ...] = ("calls", "bytes", "tokens", "cost")
    for unit in units:
        for name in ("day", "month"):
            measure = f"{unit}_a_{name}"
            amount = getattr(rule, measure)
            if amount:
                ceiling = min(MOST, max(1, round(amount * MICRO)) if unit == "cost" else amount)
                period: float | Literal["month"] = "month" if name == "month" else DAY
                yield Limit(rule, id, measure, unit, ceiling, period, currency)


def _rule_id(rule: LimitRule) -> str:
    """A rule with a name keeps its counters when it is changed; one without is known by whom it is for."""
    if rule.name:
        return _key_part(rule.name)
    parts = "\n".join((*rule.who, "", *rule.tools, "", rule.per))
    return "~" + hashlib.blake2b(parts.encode(), digest_size=6).hexdigest()


def _rate_text(rate: float, burst: int) -> str:
    if rate > 1:
        text = said(f"{rate:g} calls a second", f"{rate:g} chamadas por segundo")
    else:
        pause = _seconds_text(1 / rate)
        text = said(f"a call every {pause}", f"uma chamada a cada {pause}")
    return said(f"{text}, {burst:,} at once", f"{text}, {burst:,} de uma vez") if burst > 1 else text


def _seconds_text(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def _amount_text(unit: Unit, amount: int, currency: str) -> str:
    match unit:
        case "cost":
            return f"{amount / MICRO:,.2f} {currency}"
        case "bytes":
            return f"{amount:,} bytes"
        case "tokens":
            return f"{amount:,} {'tokens' if amount != 1 else 'token'}"
        case "calls":
            if amount == 1:
                return said(f"{amount:,} call", f"{amount:,} chamada")
            return said(f"{amount:,} calls", f"{amount:,} chamadas")
