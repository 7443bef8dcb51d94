"""What each conversation has found: what becomes of it is learnt from, and by setting it is listed.

Kept in this process, not in the state. It decides what is listed and what is learnt, never what may be
called: every tool that a caller may use can be called by its full name, found or not. A client that follows
lists does so on a stream of one process, and the next search lists its tools again wherever it is made.
"""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct, field

from .answers import Finding

MAX_THREADS = 2_000
MAX_TOOLS = 24
"""Of a conversation: a list is for a model to read."""
MAX_USE_CASE = 300


class _Thread(Struct):
    tools: OrderedDict[str, tuple[str, str]] = field(default_factory=OrderedDict[str, tuple[str, str]])
    """By full name, the latest last: the server, and the use case it was found for."""
    last: tuple[str, ...] = ()
    """The use cases of the last search."""


class Finds:
    def __init__(self) -> None:
        self._threads: OrderedDict[str, _Thread] = OrderedDict()

    def note(self, whose: str, findings: Iterable[Finding]) -> bool:
        """Whether other tools are to be listed than before."""
        findings = list(findings)
        thread = self._threads.setdefault(whose, _Thread())
        self._threads.move_to_end(whose)
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        before = set(thread.tools)
        thread.last = tuple(finding.query.use_case[:MAX_USE_CASE] for finding in findings)
        # The best come last, so that they stay longest.
        for finding, use_case in zip(reversed(findings), reversed(thread.last), strict=True):
            for found in reversed(finding.results):
                thread.tools[found.tool] = (found.server, use_case)
                thread.tools.move_to_end(found.tool)
        while len(thread.tools) > MAX_TOOLS:
            thread.tools.popitem(last=False)
        return set(thread.tools) != before

    def tools(self, whose: str) -> list[str]:
        thread = self._threads.get(whose)
        return [] if thread is None else list(thread.tools)

    def servers(self, whose: str) -> set[str]:
        thread = self._threads.get(whose)
        return set() if thread is None else {server for server, _ in thread.tools.values()}

    def use_case(self, whose: str, tool: str) -> str | None:
        """What a tool was found for."""
        thread = self._threads.get(whose)
        return thread.tools[tool][1] if thread is not None and tool in thread.tools else None

    def last_use_case(self, whose: str) -> str | None:
        """What was last searched for, if that was one thing."""
        thread = self._threads.get(whose)
        return thread.last[0] if thread is not None and len(thread.last) == 1 else None
