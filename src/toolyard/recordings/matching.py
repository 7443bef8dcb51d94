"""Compares calls: the key under which equal ones are found, how alike two are, and what differs.

`_meta` and who asks make no difference, nor the order of members, nor whether 1 is written 1.0. A secret that
was removed equals any text.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Any, cast

import msgspec
from msgspec import Raw

from .secrets import ANY_SECRET, SecretRemover, without_numbers

VOLATILE = ("_meta",)
MAX_SHOWN = 60
MAX_DIFFERENCES = 5
_LONG = 2000
"""Of longer texts only the beginnings are compared for likeness."""


def comparable(value: Any) -> Any:
    """A decoded value in the form in which equal ones are equal."""
    if isinstance(value, dict):
        return {
            without_numbers(key): comparable(item)
            for key, item in cast(dict[str, Any], value).items()
            if key not in VOLATILE
        }
    if isinstance(value, list):
        return [comparable(item) for item in cast(list[Any], value)]
    if isinstance(value, str):
        return without_numbers(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


_SESSION = re.compile(r"\blocal-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")


def steady(value: Any) -> Any:
    """A decoded value in which all moments are the same, and all ids of local sessions.

    A gateway tells models of both, such as when a result expires; they are others in every run.
    """
    if isinstance(value, dict):
        return {key: steady(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [steady(item) for item in cast(list[Any], value)]
    return _SESSION.sub("<session>", _TIME.sub("<time>", value)) if isinstance(value, str) else value


class ResultIds:
    """Makes the ids of stored results: the nth of a tool is the same in a recording and in its replay."""

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._counts: dict[str, int] = {}

    def __call__(self, tool: str) -> str:
        number = self._counts[tool] = self._counts.get(tool, 0) + 1
        return blake2b(f"{self._salt}/{number}/{tool}".encode(), digest_size=16).hexdigest()


def key_of(*parts: Any) -> bytes:
    """A digest; equal for equal parts."""
    return blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=16).digest()


class ComparableParams:
    """The params of a call: decoded, without secrets, and their key."""

    __slots__ = ("has_secrets", "key", "value")

    def __init__(
        self, server: str, method: str, params: bytes | Raw, secrets: SecretRemover | None = None
    ) -> None:
        decoded = msgspec.json.decode(params)
        self.value = comparable(decoded if secrets is None else secrets.json(decoded))
        self.key = key_of(server, method, self.value)
        self.has_secrets = ANY_SECRET.encode() in msgspec.json.encode(self.value)


def fits(recorded: Any, given: Any) -> bool:
    """Whether two comparable values are equal, if a removed secret may have been any text."""
    if isinstance(recorded, str):
        if not isinstance(given, str):
            return recorded == ANY_SECRET and isinstance(given, int | float)
        if ANY_SECRET not in recorded:
            return recorded == given
        return re.fullmatch(".+".join(map(re.escape, recorded.split(ANY_SECRET))), given, re.S) is not None
    if isinstance(recorded, dict) and isinstance(given, dict):
        one, other = cast(dict[str, Any], recorded), cast(dict[str, Any], given)
        return one.keys() == other.keys() and all(fits(one[key], other[key]) for key in one)
    if isinstance(recorded, list) and isinstance(given, list):
        items, others = cast(list[Any], recorded), cast(list[Any], given)
        return len(items) == len(others) and all(map(fits, items, others))
    return isinstance(recorded, bool) == isinstance(given, bool) and recorded == given


def likeness(one: Any, other: Any) -> float:
    """From 0 to 1: how much of the members, at any depth, two values share."""
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast(dict[str, Any], one), cast(dict[str, Any], other)
        keys = ours.keys() | theirs.keys()
        if not keys:
            return 1.0
        shared = sum(likeness(ours[key], theirs[key]) for key in ours.keys() & theirs.keys())
        return shared / len(keys)
    if isinstance(one, list) and isinstance(other, list):
        items, others = cast(list[Any], one), cast(list[Any], other)
        longest = max(len(items), len(others))
        return sum(map(likeness, items, others)) / longest if longest else 1.0
    if isinstance(one, str) and isinstance(other, str):
        if fits(one, other):
            return 1.0
        return SequenceMatcher(None, one[:_LONG], other[:_LONG], autojunk=False).ratio()
    return 1.0 if one == other and isinstance(one, bool) == isinstance(other, bool) else 0.0


def differences(
    one: Any, other: Any, path: str = "", words: tuple[str, str] = ("is", "recorded")
) -> Iterator[str]:
    """Sentences about what is different in `other`: `city is 'Rome', recorded 'Paris'`.

    `words` say which is which; the second one is about `one`.
    """
    now, before = words
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast(dict[str, Any], one), cast(dict[str, Any], other)
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            inner = f"{path}.{key}" if path else key
            if key not in theirs:
                yield f"{inner} {now} missing, {before} {shown(ours[key])}"
            elif key not in ours:
                yield f"{inner} {now} {shown(theirs[key])}, {before} missing"
            else:
                yield from differences(ours[key], theirs[key], inner, words)
    elif isinstance(one, list) and isinstance(other, list):
        items, others = cast(list[Any], one), cast(list[Any], other)
        for number, (mine, theirs) in enumerate(zip(items, others, strict=False)):
            yield from differences(mine, theirs, f"{path}[{number}]", words)
        if len(items) != len(others):
            yield f"{path or 'the list'} {now} {len(others)} items long, {before} {len(items)}"
    elif not fits(one, other):
        start = _shared(one, other)
        yield f"{path or 'it'} {now} {shown(other, start)}, {before} {shown(one, start)}"


def _shared(one: Any, other: Any) -> int:
    """How many characters to skip, so that two long texts are shown from shortly before they differ."""
    if not (isinstance(one, str) and isinstance(other, str)) or max(len(one), len(other)) <= MAX_SHOWN:
        return 0
    same = next(
        (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )
    return max(0, same - MAX_SHOWN // 3)


def shown(value: Any, start: int = 0) -> str:
    """A value as JSON, or a text from a place on; cut where it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = ("…" if start else "") + text[start:]
    if len(text) > MAX_SHOWN:
        text = text[: MAX_SHOWN - 1] + "…"
    return repr(text) if isinstance(value, str) else text


def listed(found: Iterator[str]) -> str:
    """The first differences, in one sentence."""
    first = [difference for _, difference in zip(range(MAX_DIFFERENCES + 1), found, strict=False)]
    return "; ".join(first[:MAX_DIFFERENCES]) + ("; and more" if len(first) > MAX_DIFFERENCES else "")
