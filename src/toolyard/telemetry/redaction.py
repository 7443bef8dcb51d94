"""Redaction: replaces secrets in a text before it reaches a log, a trace or a recording.

`redact` knows them by the words around them and by their form; a `Redactor` also by their values and, in
JSON, by the keys they stand under.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlsplit

from ..config.models import Composio, Config, Http, InProcess, Stdio
from ..config.references import secrets_in

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


MIN_SECRET = 6
"""A shorter value is no secret that can be told from other words."""
_ESCAPED = re.compile(rf"""(?<=\\")({_NAME})(\\+"\s*:\s*\\+")(?:[^\\"]|\\+[^"\\])*""", re.I)
"""A name and its value in JSON that is a string of other JSON."""


class Redactor:
    """Replaces known secrets by value, and others by `redact`'s rules."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._values = _pattern(secrets)

    def text(self, text: str, more: Iterable[str] = ()) -> str:
        """`more` are secrets that belong to this text only."""
        for pattern in (self._values, _pattern(more)):
            if pattern is not None:
                text = pattern.sub(_MASK, text)
        return _ESCAPED.sub(rf"\1\2{_MASK}", redact(text)) if text else text

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
        return _MASK if is_secret and not isinstance(item, bool) else self.json(item)


def _pattern(secrets: Iterable[str]) -> "re.Pattern[str] | None":
    """Matches each value, also as JSON and as part of a URL; the longest first, as one may hold another."""
    forms = {
        form
        for secret in secrets
        if len(secret) >= MIN_SECRET
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    }
    forms |= {quote(form, safe="") for form in forms}
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))


def configured_secrets(config: Config) -> list[str]:
    """The secrets that a configuration holds, filled in from variables or written there."""
    found = [config.state.key, *config.store.options.values()]
    found += [part for url in (config.state.url, config.audit.url, config.store.url) for part in _in_url(url)]
    found += [issuer.client_secret for issuer in config.auth.issuers]
    if config.auth.server is not None:
        found += [config.auth.server.client_secret, *(client.secret for client in config.auth.server.clients)]
    for server in config.servers:
        where = server.where
        if isinstance(where, Http):
            # "Bearer abc": the scheme is no secret, and what follows may appear without it.
            found += [value.split(" ", 1)[-1] for value in where.headers.values()]
            found += _in_url(where.url)
        elif isinstance(where, Stdio):
            found += [value for name, value in where.env.items() if _SECRET_NAME.fullmatch(name)]
        elif isinstance(where, Composio):
            found.append(where.api_key)
        else:
            found += _in_options(where)
    found += secrets_in(config)
    return [secret for secret in found if len(secret) >= MIN_SECRET]


def _in_url(url: str) -> list[str]:
    parts = urlsplit(url)
    return [parts.password or "", *(value for _, value in parse_qsl(parts.query))]


def _in_options(where: InProcess) -> list[str]:
    options = where.options.items()
    return [value for name, value in options if isinstance(value, str) and _SECRET_NAME.fullmatch(name)]
