"""Whether a text of a page reads like orders to a model. A warning beside the text, never a filter of it."""

import re

_ORDERS = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override)\b .{0,40} \b(?:instructions?|prompts?|rules|directives)\b
    | \b(?:ignore|ignorar|desconsidere|esque[cç]a)\b .{0,40} \b(?:instru[cç](?:ões|ão|oes|ao)|regras)\b
    | \b(?:you\s+are\s+now|from\s+now\s+on\s+you|new\s+system\s+prompt|system\s+prompt\s*:)
    | \b(?:você\s+agora\s+é|a\s+partir\s+de\s+agora\s+você)
    | </?(?:system|assistant|instructions?|tool_result)>
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


_CLUES = (
    "instru",
    "prompt",
    "rules",
    "directives",
    "regras",
    "you",
    "voc",
    "system>",
    "assistant>",
    "tool_result>",
)
"""One of these is in all of them; to look for a word is much cheaper than for a pattern."""


def reads_like_orders(text: str) -> bool:
    lowered = text.lower()
    if not any(clue in lowered for clue in _CLUES):
        return False
    return _ORDERS.search(text) is not None
