"""Secrets do not reach the log: what looks like one is replaced, wherever it stands in a text."""

import re

_MASK = "***"
_NAMES = (
    r"[\w-]*(?:authorization|api[_-]?key|access[_-]?key|(?:access|refresh|id|auth)[_-]?token"
    r"|(?<![a-z])token|secret|passwd|password|cookie)"
)
_RULES = (
    # Bearer abc, Basic abc
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=:-]{4,}", re.I), rf"\1 {_MASK}"),
    # ('x-api-key', 'abc'), {"password": "abc"}: a quoted name, then a quoted value
    (
        re.compile(rf"""(?<=['"])({_NAMES})(['"]\s*[:=,]\s*b?)(["'])(?:\\.|(?!\3).)*\3""", re.I),
        rf"\1\2\3{_MASK}\3",
    ),
    # token=abc, X-Api-Key: abc
    (
        re.compile(
            rf"(?<![\w-])({_NAMES})(\s*[:=]\s*)(?!{re.escape(_MASK)}|(?:bearer|basic)\b)[^\s,;&'\"]+", re.I
        ),
        rf"\1\2{_MASK}",
    ),
    # https://user:password@host
    (re.compile(r"(?<=://)[^/?#@\s]+@"), f"{_MASK}@"),
)


def masked(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
