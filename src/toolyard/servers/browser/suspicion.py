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


def reads_like_orders(text: str) -> bool:
    return _ORDERS.search(text) is not None
