"""Redaction: replaces what looks like a secret in a text before it reaches a log."""

import re

_MASK = "***"
_NAME = (
    r"[\w-]*(?:authorization|api[_-]?key|access[_-]?key|(?<![a-z])token|(?:access|refresh|id|auth)token"
    r"|secret|passwd|password|cookie)"
)
_SECRET_NAME = re.compile(_NAME, re.I)
_RULES = (
    # Bearer abc, and Basic when what follows looks encoded: "Basic tools" are no secret
    (re.compile(r"\b(bearer)\s+[\w.~+/=:-]{4,}", re.I), rf"\1 {_MASK}"),
    (re.compile(r"\b([Bb]asic)\s+(?=[a-z+/]*[A-Z0-9=])[\w+/=]{6,}"), rf"\1 {_MASK}"),
    # ('x-api-key', 'abc'), {"password": "abc"}: a quoted name, then a quoted value, ended or cut off.
    # Each character of it fits one alternative only, or a hostile text would take for ever.
    (
        re.compile(rf"""(?<=['"])({_NAME})(['"]\s*[:=,]\s*b?)(["'])(?:[^\\"']|\\.|(?!\3)["'])*""", re.I),
        rf"\1\2\3{_MASK}",
    ),
    # token=abc, Authorization: Basic abc
    (
        re.compile(rf"""(?<![\w-])({_NAME})(\s*[:=]\s*)(?:(?:bearer|basic)\s+)?[^\s,;&'"]+""", re.I),
        rf"\1\2{_MASK}",
    ),
    # ty_k3j2h1g0f9e8_…: an API key of a gateway; its id is not secret
    (re.compile(r"\b(ty_[0-9a-z]{12}_)[0-9A-Za-z]+"), rf"\1{_MASK}"),
    # tyg_…: a grant
    (re.compile(r"\b(tyg_)[\w-]+"), rf"\1{_MASK}"),
    # https://user:password@host
    (re.compile(r"(?<=://)[^/?#@\s]+@"), f"{_MASK}@"),
)


# No rule fits a text without any of these: one look at most fields of a line, and not one for each rule.
_SUSPECT = re.compile(r"""[\s:=,'"]|tyg?_""")


def redact(text: str) -> str:
    if _SUSPECT.search(text) is None:
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_field(name: str, value: str) -> str:
    """A value that stands alone is known by the name of its field."""
    return _MASK if _SECRET_NAME.fullmatch(name) else redact(value)
