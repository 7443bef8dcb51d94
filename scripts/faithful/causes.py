"""Why something is lost: a small table, kept honest.

Each loss has to have a cause, and each cause a loss; an entry that explains nothing any more has to go.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("causes.toml")
KINDS = ("ours", "inherent", "theirs")


class CausesError(Exception):
    """The table itself is wrong."""


@dataclass(frozen=True)
class Cause:
    """`tests` are patterns with `*`; each names its set and what is in it: `sdk tests/…::test_x[*`."""

    kind: str
    why: str
    tests: tuple[str, ...]
    sometimes: bool = False
    """Not lost in every run."""

    def covers(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.tests)


def matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def read(text: str) -> list[Cause]:
    found: list[Cause] = []
    for entry in tomllib.loads(text).get("cause", []):
        cause = Cause(entry["kind"], entry["why"], tuple(entry["tests"]), entry.get("sometimes", False))
        if cause.kind not in KINDS:
            raise CausesError(f"{cause.why!r}: {cause.kind!r} is none of {', '.join(KINDS)}")
        if not re.fullmatch(r"[A-Z`].+\.", cause.why, re.S):
            raise CausesError(f"{cause.why!r} is not a sentence")
        found.append(cause)
    return found


@dataclass(frozen=True)
class Explained:
    """`of` has for each loss its cause; `stale` are patterns that no loss fits."""

    of: Mapping[str, Cause]
    unexplained: tuple[str, ...]
    stale: tuple[str, ...]


def explain(lost: Mapping[str, str], causes: list[Cause], ran: set[str]) -> Explained:
    """`lost` is by the name of the set and the test; `ran` are the sets that ran as a whole."""
    of = {name: cause for name in lost for cause in reversed(causes) if cause.covers(name)}
    stale = [
        pattern
        for cause in causes
        if not cause.sometimes
        for pattern in cause.tests
        if pattern.partition(" ")[0] in ran and not any(matches(pattern, name) for name in lost)
    ]
    return Explained(of, tuple(name for name in lost if name not in of), tuple(stale))
