"""Redaction: replaces secrets in a text before it reaches a log, a trace or a recording.

`redact` knows them by the words around them and by their form; a `Redactor` also by their values and, in
JSON, by the keys they stand under.
"""

import re
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, cast

from ..wire.secrets import HIDDEN, NO_SECRETS, KnownSecrets

_NAME = (
    r"[\w-]*(?:authorization|api[_-]?key|access[_-]?key|(?<![a-z])token|(?:access|refresh|id|auth)token"
    r"|secret|passwd|password|cookie)"
)
_SECRET_NAME = re.compile(_NAME, re.I)
_RULES = (
    # Bearer abc, and Basic when what follows looks encoded: "Basic tools" are no secret
    (re.compile(r"\b(bearer)\s+[\w.~+/=:-]{4,}", re.I), rf"\1 {HIDDEN}"),
    (re.compile(r"\b([Bb]asic)\s+(?=[a-z+/]*[A-Z0-9=])[\w+/=]{6,}"), rf"\1 {HIDDEN}"),
    # ('x-api-key', 'abc'), {"password": "abc"}: a quoted name, then a quoted value, ended or cut off.
    # Each character of it fits one alternative only, or a hostile text would take for ever.
    (
        re.compile(rf"""(?<=['"])({_NAME})(['"]\s*[:=,]\s*b?)(["'])(?:[^\\"']|\\.|(?!\3)["'])*""", re.I),
        rf"\1\2\3{HIDDEN}",
    ),
    # token=abc, Authorization: Basic abc
    (
        re.compile(rf"""(?<![\w-])({_NAME})(\s*[:=]\s*)(?:(?:bearer|basic)\s+)?[^\s,;&'"]+""", re.I),
        rf"\1\2{HIDDEN}",
    ),
    # ty_k3j2h1g0f9e8_…: an API key of a gateway; its id is not secret
    (re.compile(r"\b(ty_[0-9a-z]{12}_)[0-9A-Za-z]+"), rf"\1{HIDDEN}"),
    # tyg_…: a grant
    (re.compile(r"\b(tyg_)[\w-]+"), rf"\1{HIDDEN}"),
    # https://user:password@host
    (re.compile(r"(?<=://)[^/?#@\s]+@"), f"{HIDDEN}@"),
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
    return HIDDEN if _SECRET_NAME.fullmatch(name) else redact(value)


_ESCAPED = re.compile(rf"""(?<=\\")({_NAME})(\\+"\s*:\s*\\+")(?:[^\\"]|\\+[^"\\])*""", re.I)
"""A name and its value in JSON that is a string of other JSON."""


call_secrets: ContextVar[KnownSecrets] = ContextVar("call_secrets", default=NO_SECRETS)
"""What the server of the running call was given: no line of the log repeats it."""


class Redactor:
    """Replaces known secrets by value, and others by `redact`'s rules."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = KnownSecrets(secrets)

    def text(self, text: str, more: Iterable[str] = ()) -> str:
        """`more` are secrets that belong to this text only."""
        for known in (self._known, KnownSecrets(more)):
            if known.values:
                text = known.clean_text(text)
        return _ESCAPED.sub(rf"\1\2{HIDDEN}", redact(text)) if text else text

    def json(self, value: Any) -> Any:
        """A copy of a JSON value: strings as `text`, and what stands under the name of a secret masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in cast(list[Any], value)]
        if isinstance(value, dict):
            members = cast(dict[str, Any], value)
            return {name: self._member(name, item) for name, item in members.items()}
        return value

    def _member(self, name: str, item: Any) -> Any:
        is_secret = _SECRET_NAME.fullmatch(name) is not None and isinstance(item, str | int | float)
        return HIDDEN if is_secret and not isinstance(item, bool) else self.json(item)
