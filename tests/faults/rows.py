"""The rows of the fault matrix: which moods are one fault, on which kind of upstream, and what a caller sees.

All moods of a row are there at once, each an upstream of its own, in both eras where the kind has eras.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.faults.moods import MOODS

Kind = Literal["http", "stdio", "inside"]
Outcome = Literal["fails", "works", "ends"]
"""fails: with an error that names the server; works: as if nothing were; ends: in time, one way or other."""

TIMEOUT = 1.0
CONNECT_TIMEOUT = 1.0


@dataclass(frozen=True)
class Faulty:
    """One upstream that will misbehave."""

    mood: str
    kind: Kind
    era: str
    outcome: Outcome
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.mood}-{self.era}" if self.era else self.mood.replace("-", "_")

    @property
    def is_down(self) -> bool:
        """Whether nothing at all comes from it, so that whoever looks says so. Each failed call does."""
        return self.outcome == "fails" and not MOODS[self.mood][0]

    @property
    def timeout(self) -> float:
        return self.settings.get("timeout", TIMEOUT)


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
    def id(self) -> str:
        return f"{self.fault}-{self.kind}"


# mood: what a caller sees, the kinds of upstream it exists on, settings
_Moods = dict[str, tuple[Outcome, tuple[Kind, ...], dict[str, Any]]]
_OUTSIDE: tuple[Kind, ...] = ("http", "stdio")
_EVERYWHERE: tuple[Kind, ...] = ("http", "stdio", "inside")
_PATIENT = {"timeout": 4.0}
_SMALL = {"max_result": "16MiB", "timeout": 4.0}

FAULTS: dict[str, _Moods] = {
    "dead": {"dead": ("fails", _OUTSIDE, {})},
    "hanging": {
        "hang": ("fails", _OUTSIDE, {}),
        "hang-list": ("works", _OUTSIDE, {}),
        "hang-call": ("fails", _EVERYWHERE, {}),
    },
    "slow": {
        "slow": ("works", _EVERYWHERE, _PATIENT),
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
    },
    "restarting": {
        "dies": ("fails", _OUTSIDE, {}),
    },
    "flapping": {
        "flood": ("works", _EVERYWHERE, {}),
        "endless-list": ("works", _OUTSIDE, {}),
        "huge-list": ("works", _OUTSIDE, _PATIENT),
    },
    "hungry": {
        # Not inside: what a server in the process takes is the gateway's own memory and time.
        "big": ("works", _OUTSIDE, {"timeout": 20.0}),
        "endless-reply": ("fails", _OUTSIDE, _SMALL),
        "eats": ("fails", ("stdio",), {"max_memory": "128MiB", "timeout": 4.0}),
    },
}
# An author's own mistakes are the kit's to answer, and nobody else's calls suffer.
_INSIDE: dict[str, _Moods] = {
    "garbage": {mood: ("ends", ("inside",), {}) for mood in ("not-json", "not-rpc", "cut", "binary", "html")}
}


def _upstreams(fault: str, kind: Kind) -> list[Faulty]:
    moods = _INSIDE.get(fault, FAULTS[fault]) if kind == "inside" else FAULTS[fault]
    eras = [""] if kind == "inside" else ["legacy", "modern"]
    return [
        Faulty(mood, kind, era, outcome, settings)
        for mood, (outcome, kinds, settings) in moods.items()
        if kind in kinds
        for era in eras
    ]


ROWS = [
    Row(fault, kind, upstreams)
    for fault in FAULTS
    for kind in _EVERYWHERE
    if (upstreams := _upstreams(fault, kind))
]
