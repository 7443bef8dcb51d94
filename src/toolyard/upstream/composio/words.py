"""The plainest of rankings: how many words of a use case a text has. For where Composio gives no order."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_WORDS = re.compile(r"[^\W_]{3,}")


def best(items: Iterable[T], text: Callable[[T], str], use_case: str, limit: int) -> list[T]:
    """Those that share words with it, most first."""
    wanted = _words(use_case)
    listed = list(items)
    shared = [len(wanted & _words(text(item))) for item in listed]
    order = sorted(range(len(listed)), key=lambda number: -shared[number])
    return [listed[number] for number in order if shared[number]][:limit]


def _words(text: str) -> set[str]:
    """A plural is taken for its singular."""
    return {word.removesuffix("s") for word in _WORDS.findall(text.lower())}
