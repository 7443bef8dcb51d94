"""Who a rule is for: `who` as it stands in the file, and the names by which a principal is meant.

Everything is compared in the canonical form of `patterns`. Knows nothing of items and verbs.
"""

from collections.abc import Iterable, Mapping

from ..wire.call import Principal
from .errors import ConfigError, nearest, nearest_or_all
from .patterns import canonical

EVERYBODY = "*"
_PREFIXES = ("agent", "group", "user", "tenant", "client")


def read_selector(text: str, where: str) -> str:
    """One entry of `who`, as `PREFIX:NAME` in canonical form."""
    if text == EVERYBODY:
        return text
    prefix, colon, name = text.partition(":")
    if not colon:
        prefix, name = "agent", text
    if prefix not in _PREFIXES:
        raise ConfigError(
            f"{where} names {text[:80]!r}, and {prefix[:40]!r} is unknown", nearest_or_all(prefix, _PREFIXES)
        )
    if not name or name != name.strip():
        raise ConfigError(f"{where} names nobody by {text[:80]!r}", f"write {prefix}:NAME")
    if "*" in name:
        raise ConfigError(
            f"{where} has {text[:80]!r}: names of callers have no wildcards",
            'write the names one by one, make a group, or use "*" for everybody',
        )
    return f"{prefix}:{canonical(name)}"


class Groups:
    """The groups of the file, and which selectors a principal has."""

    def __init__(self, members: Mapping[str, Iterable[str]]) -> None:
        self._members: dict[str, frozenset[str]] = {}
        for name, who in members.items():
            where = f"[access.groups] {name!r}"
            selector = read_selector(f"group:{name}", where)
            if selector in self._members:
                raise ConfigError(f"{where} is there twice, in another spelling", "give each group one entry")
            self._members[selector] = frozenset(read_selector(one, where) for one in who)

    @property
    def selectors(self) -> frozenset[str]:
        """All that the members of the groups are named by."""
        return frozenset[str]().union(*self._members.values())

    def __contains__(self, selector: str) -> bool:
        return selector in self._members

    def selectors_of(self, principal: Principal) -> frozenset[str]:
        return self._joined({EVERYBODY, *_own_selectors(principal)})

    def selectors_of_agent(self, agent: str) -> frozenset[str]:
        """The agent and its groups, and nothing that others have too."""
        return self._joined({f"agent:{canonical(agent)}"} if agent else set())

    def _joined(self, found: set[str]) -> frozenset[str]:
        left = dict(self._members)
        while joined := [name for name, members in left.items() if not members.isdisjoint(found)]:
            found.update(joined)
            for name in joined:
                del left[name]
        return frozenset(found)


def _own_selectors(principal: Principal) -> Iterable[str]:
    yield f"tenant:{canonical(principal.tenant)}"
    if principal.agent:
        yield f"agent:{canonical(principal.agent)}"
    if principal.client:
        yield f"client:{canonical(principal.client)}"
    if principal.subject:
        if principal.issuer:
            yield f"user:{canonical(principal.issuer)}#{canonical(principal.subject)}"
        # Somebody else's issuer could name a user so that it reads as ISSUER#SUBJECT.
        if "#" not in canonical(principal.subject):
            yield f"user:{canonical(principal.subject)}"
    for group in principal.groups:
        yield f"group:{canonical(group)}"


def check_agents(selectors: Iterable[str], agents: Iterable[str], where: str) -> None:
    """Raise if a rule names an agent that is not among the known ones."""
    known = {f"agent:{canonical(agent)}": agent for agent in agents}
    if not known:
        return
    for selector in selectors:
        if selector.startswith("agent:") and selector not in known:
            name = selector.partition(":")[2]
            hint = nearest(name, known.values()) or f"'agents' of [access] has {', '.join(known.values())}"
            raise ConfigError(f"{where} names an unknown agent {name!r}", hint)
