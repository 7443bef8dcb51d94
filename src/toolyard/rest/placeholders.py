"""`{names}` in paths and sentences."""

import re
from collections.abc import Iterator

from .mistakes import Keys, Mistake

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")


def placeholders(text: str) -> list[str]:
    return list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def split_path(path: str) -> list[str]:
    """What stands in the path at even places, names of parameters at odd ones."""
    return _PLACEHOLDER.split(path)


def wrong_path(path: str, keys: Keys) -> Iterator[Mistake]:
    if not path.startswith("/"):
        yield Mistake(keys, f"{path!r} must begin with '/'")
    rest = _PLACEHOLDER.sub("", path)
    if "{" in rest or "}" in rest:
        yield Mistake(keys, "has a brace without its other one")
    elif "?" in rest or "#" in rest:
        yield Mistake(keys, "has a query or a fragment", "those are parameters, or belong to 'fixed'")
    elif not _PLAIN.fullmatch(rest):
        yield Mistake(keys, "has a character that no path has", "percent-encode it")
    elif any(step in (".", "..") for step in path.split("/")):
        yield Mistake(keys, "has '.' or '..' as a step")
    if "" in placeholders(path):
        yield Mistake(keys, "{} has no name in it")
