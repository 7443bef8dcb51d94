"""Which rules of `[limits]` are for a caller and a tool: `who` and `tools`, written as in `[access]`.

Names of callers are compared without regard to case, Unicode form and invisible characters: a limit is not
escaped by another spelling. Names of servers and tools are those of the catalogue.

It is not `policy.patterns`, and differs from it. On purpose: a limit counts tools, so `prompt:` and
`resource:` are refused; a limit has no `deny`, so no name is compared by its look. By accident, and not
changed, because that would change what files mean: a misspelt `*:raed` or an unknown `x:` is taken as a name
instead of refused; `SERVER/*` also counts prompts and resources; variation selectors in a caller's name count
as letters; a pattern of many stars takes time that grows with a power of the name's length.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..config.errors import ConfigError
from ..wire.call import Principal

EVERYBODY = "*"
_PREFIXES = ("agent", "group", "user", "tenant", "client")
_SUFFIXES = {":read": True, ":write": False}


class RuleMatcher:
    """`groups` are those of `[access.groups]`: their members, written as in `who`."""

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        self._groups = {
            f"group:{canonical(name)}": frozenset(
                _selector(one, f"[access.groups] {name!r}") for one in members
            )
            for name, members in groups.items()
        }

    def check(self, who: Iterable[str], tools: Iterable[str], where: str) -> None:
        """Raise a ConfigError for what is not written as it should be. `where` names the rule."""
        for text in who:
            _selector(text, where)
        for text in tools:
            _check_pattern(text, where)

    def matches(self, who: Iterable[str], principal: Principal) -> bool:
        names = self._names_of(principal)
        return any(_selector(text, "") in names for text in who)

    def matches_tool(
        self, patterns: Iterable[str], server: str, tool: str, reads: bool | None = None
    ) -> bool:
        """`reads`: whether the tool only reads, by its annotations; one that does not say may write."""
        return any(_matches(pattern, server, tool, bool(reads)) for pattern in patterns)

    def _names_of(self, principal: Principal) -> set[str]:
        found = {EVERYBODY, *_own_names(principal)}
        left = dict(self._groups)
        while joined := [name for name, members in left.items() if not members.isdisjoint(found)]:
            found.update(joined)
            for name in joined:
                del left[name]
        return found


def canonical(name: str) -> str:
    if name.isascii():
        return name.lower()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(letter for letter in text if unicodedata.category(letter) != "Cf")


def _own_names(principal: Principal) -> Iterable[str]:
    yield f"tenant:{canonical(principal.tenant)}"
    for agent in principal.agents:
        if agent:
            yield f"agent:{canonical(agent)}"
    if principal.client:
        yield f"client:{canonical(principal.client)}"
    if principal.subject:
        yield f"user:{canonical(principal.subject)}"
        yield f"user:{canonical(principal.user)}"
    for group in principal.groups:
        yield f"group:{canonical(group)}"


@lru_cache(maxsize=4096)
def _selector(text: str, where: str) -> str:
    if text == EVERYBODY:
        return text
    prefix, colon, name = text.partition(":")
    if not colon:
        prefix, name = "agent", text
    if prefix not in _PREFIXES:
        raise ConfigError(
            f"{where} names {text[:80]!r}", f"write NAME, *, or {':NAME, '.join(_PREFIXES)}:NAME"
        )
    if not name.strip() or "*" in name:
        raise ConfigError(f"{where} names nobody by {text[:80]!r}", f'write {prefix}:NAME, or "*" for all')
    return f"{prefix}:{canonical(name)}"


def _check_pattern(text: str, where: str) -> None:
    if text.startswith(("prompt:", "resource:")):
        raise ConfigError(f"{where} has {text[:80]!r}", "limits count calls of tools: SERVER or SERVER/TOOL")
    server, slash, tool = text.partition("/")
    if not server.strip() or (slash and not tool.strip()):
        raise ConfigError(f"{where} has the pattern {text[:80]!r}", "write SERVER, SERVER/TOOL or *")


def _matches(pattern: str, server: str, tool: str, reads: bool) -> bool:
    of_server, _, of_tool = pattern.partition("/")
    for suffix, wanted in _SUFFIXES.items():
        if of_tool.endswith(f"*{suffix}"):
            if reads is not wanted:
                return False
            of_tool = of_tool.removesuffix(suffix)
    return _regex(of_server).fullmatch(server) is not None and (
        not of_tool or _regex(of_tool).fullmatch(tool) is not None
    )


@lru_cache(maxsize=4096)
def _regex(glob: str) -> re.Pattern[str]:
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in _split(glob))
    return re.compile("".join(parts), re.DOTALL)


def _split(glob: str) -> list[str]:
    return re.split(r"(\*|\?)", re.sub(r"\*+", "*", glob))
