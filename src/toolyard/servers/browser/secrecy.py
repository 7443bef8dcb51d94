"""Keeps what recipes typed out of what the server says."""

import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus

MIN_LENGTH = 4
"""Shorter ones (a two-letter code of a firm) would be found in every other word."""


def concealed(value: Any, secrets: Mapping[str, str]) -> Any:
    """The same plain data with the names of secrets in their places."""
    spelt = {
        way: name for name, secret in secrets.items() if len(secret) >= MIN_LENGTH for way in _ways(secret)
    }
    # The longest first: a password may begin with the name of its user.
    hidden = {way: spelt[way] for way in sorted(spelt, key=len, reverse=True)}
    return _without(value, hidden) if hidden else value


def _ways(secret: str) -> set[str]:
    """How it may be written: as it is, in an address (a form that was sent by GET), in JSON, on one line."""
    quoted = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        " ".join(secret.split()),
        *quoted,
    }


def _without(value: Any, hidden: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for secret, name in hidden.items():
            value = value.replace(secret, f"[{name}]")
        return value
    if isinstance(value, list):
        return [_without(item, hidden) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {_without(name, hidden): _without(item, hidden) for name, item in members.items()}
    return value
