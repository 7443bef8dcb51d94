"""Which rules of `[limits]` are for a caller and a tool: `who` and `tools`, written as in `[access]`.

A limit counts calls of tools, so `prompt:` and `resource:` are refused. Requests for prompts and resources
count under patterns that mean a whole server.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..config.errors import ConfigError
from ..config.patterns import GlobMatcher, PatternError, parse
from ..config.selectors import Groups, read_selector
from ..wire.call import Principal


class RuleMatcher:
    """`groups` are those of `[access.groups]`: their members, written as in `who`."""

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        self._groups = Groups(groups)

    def check(self, who: Iterable[str], tools: Iterable[str], where: str) -> None:
        """Raise a ConfigError for what is not written as it should be. `where` names the rule."""
        for text in who:
            read_selector(text, where)
        for text in tools:
            try:
                kinds = parse(text).kinds
            except PatternError as error:
                raise ConfigError(f"{where}: {error.message}", error.hint) from None
            if "tools" not in kinds:
                raise ConfigError(
                    f"{where} has {text[:80]!r}", "limits count calls of tools: SERVER or SERVER/TOOL"
                )

    def matches(self, who: Iterable[str], principal: Principal) -> bool:
        """A rule for any agent in the chain of a grant holds for its holder."""
        agents = map(self._groups.selectors_of_agent, principal.agents)
        selectors = self._groups.selectors_of(principal).union(*agents)
        return any(read_selector(text, "") in selectors for text in who)

    def matches_tool(
        self, patterns: Iterable[str], server: str, tool: str, reads: bool | None = None
    ) -> bool:
        """`reads`: whether the tool only reads, by its annotations; one that does not say may write.

        `tool` is empty for a request that is not a call of a tool.
        """
        return any(_matches(pattern, server, tool, bool(reads)) for pattern in patterns)


def _matches(text: str, server: str, tool: str, reads: bool) -> bool:
    pattern = parse(text)
    if not _globs(pattern.server).matches(server):
        return False
    if pattern.is_server:
        return True
    return bool(tool) and pattern.reads in (None, reads) and _globs(pattern.name).matches(tool)


@lru_cache(maxsize=4096)
def _globs(glob: str) -> GlobMatcher:
    return GlobMatcher([glob])
