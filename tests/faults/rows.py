"""The rows of the fault matrix: which moods are one fault, on which kind of upstream, and what a caller sees.

All moods of a row are there at once, each an upstream of its own, in both eras where the kind has eras.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.faults.moods import MOODS

Kind = Literal["http", "stdio", "inside"]
Outcome = Literal["fails", "tells", "works", "ends"]
"""fails: with an error that names the server; tells: with one that names the tool, in the kit's own words;
works: as if nothing were; ends: one way or other."""

SHORT, LONG = 1.0, 30.0
"""A call that is to fail need not be waited for; one that is to work may take its time on a busy machine."""
CONNECT_TIMEOUT = 4.0


@dataclass(frozen=True)
class Faulty:
    """One upstream that will misbehave."""

    mood: str
    kind: Kind
    era: str
    outcome: Outcome
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def from_the_start(self) -> bool:
        """Not well at first either: a module can fail only before it is there."""
        return self.kind == "inside" and self.mood == "dead"

    @property
    def name(self) -> str:
        return f"{self.mood}-{self.era}" if self.era else self.mood.replace("-", "_")

    @property
    def is_down(self) -> bool:
        """Whether nothing at all comes from it, so that whoever looks says so. Each failed call does."""
        return self.outcome == "fails" and not MOODS[self.mood][0]

    @property
    def timeout(self) -> float:
        return self.settings.get("timeout", SHORT if self.outcome == "fails" else LONG)


@dataclass(frozen=True)
class Row:
    fault: str
    kind: Kind
    upstreams: list[Faulty]

    @property
    def callers(self) -> int:
        """How many call each upstream at a time. One is enough to keep a network busy with big results."""
        return 1 if self.fault == "hungry" else 2

    @property
    def calls(self) -> int:
        """How often each of them tries."""
        return 1 if self.fault == "hungry" else 2

    @property
    def id(self) -> str:
        return f"{self.fault}-{self.kind}"


# mood: what a caller sees, the kinds of upstream it exists on, settings
_Moods = dict[str, tuple[Outcome, tuple[Kind, ...], dict[str, Any]]]
_OUTSIDE: tuple[Kind, ...] = ("http", "stdio")
_INSIDE: tuple[Kind, ...] = ("inside",)
_EVERYWHERE: tuple[Kind, ...] = (*_OUTSIDE, *_INSIDE)
_SMALL = {"max_result": "16MiB", "timeout": 4.0}

FAULTS: dict[str, _Moods] = {
    "dead": {
        "dead": ("fails", _EVERYWHERE, {}),
        "raises": ("tells", _INSIDE, {}),
    },
    "hanging": {
        "hang": ("fails", _OUTSIDE, {}),
        "hang-list": ("works", _OUTSIDE, {}),
        "hang-call": ("fails", _EVERYWHERE, {}),
    },
    "slow": {
        "slow": ("works", _EVERYWHERE, {}),
        "drip": ("fails", _OUTSIDE, {}),
    },
    "garbage": {
        "not-json": ("fails", _OUTSIDE, {}),
        "not-rpc": ("fails", _OUTSIDE, {}),
        "wrong-id": ("fails", _OUTSIDE, {}),
        "cut": ("fails", _OUTSIDE, {}),
        "binary": ("fails", _OUTSIDE, {}),
        "html": ("fails", ("http",), {}),
        "twice": ("works", _OUTSIDE, {}),
        # An author's own mistakes are the kit's to answer.
        "no-value": ("tells", _INSIDE, {}),
        "no-text": ("works", _INSIDE, {}),
        "misfit": ("tells", _INSIDE, {}),
        "cancels": ("tells", _INSIDE, {}),
    },
    "restarting": {
        "dies": ("fails", _OUTSIDE, {}),
        "exits": ("tells", _INSIDE, {}),
        "closes": ("works", _INSIDE, {}),
    },
    "flapping": {
        "flood": ("works", _EVERYWHERE, {}),
        "endless-list": ("works", _OUTSIDE, {}),
        "huge-list": ("works", _OUTSIDE, {}),
    },
    "hungry": {
        "big": ("works", _EVERYWHERE, {}),
        "endless-reply": ("fails", _OUTSIDE, _SMALL),
        "eats": ("fails", ("stdio",), {"max_memory": "128MiB", "timeout": 4.0}),
    },
}


def _upstreams(fault: str, kind: Kind) -> list[Faulty]:
    eras = [""] if kind == "inside" else ["legacy", "modern"]
    return [
        Faulty(mood, kind, era, outcome, settings)
        for mood, (outcome, kinds, settings) in FAULTS[fault].items()
        if kind in kinds
        for era in eras
    ]


ROWS = [
    Row(fault, kind, upstreams)
    for fault in FAULTS
    for kind in _EVERYWHERE
    if (upstreams := _upstreams(fault, kind))
]


def rows_of(kind: Kind) -> list[Row]:
    return [row for row in ROWS if row.kind == kind]
