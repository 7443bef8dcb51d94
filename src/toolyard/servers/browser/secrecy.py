"""Keeps what recipes typed out of what the server says."""

from collections.abc import Mapping
from typing import Any, cast

MIN_LENGTH = 4
"""Shorter ones (a two-letter code of a firm) would be found in every other word."""


def concealed(value: Any, secrets: Mapping[str, str]) -> Any:
    """The same plain data with the names of secrets in their places."""
    hidden = {secret: name for name, secret in secrets.items() if len(secret) >= MIN_LENGTH}
    return _without(value, hidden) if hidden else value


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
