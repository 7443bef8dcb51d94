"""What the soak counts: every request, its one answer, and what was wrong."""

import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
GRACE_S = 10.0
"""How long after an upstream is up again an error from it still counts as explained."""
KEPT = 20


@dataclass
class Ledger:
    sent: int = 0
    answered: int = 0
    cancelled: int = 0
    doubled: int = 0
    unanswered: int = 0
    rounds: int = 0
    """Questions that came while a call ran, and were answered."""
    progress: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    complaints: Counter[str] = field(default_factory=Counter[str])
    examples: list[str] = field(default_factory=list[str])
    tokens: dict[str, bool] = field(default_factory=dict[str, bool])
    """What was asked for that must not be done twice, and whether the answer said that it was done."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list[float]))
    _down: dict[str, float] = field(default_factory=dict[str, float])
    _trouble: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list[tuple[float, float]])
    )

    # Upstreams

    def killed(self, upstream: str) -> None:
        self.kills[upstream] += 1
        self._down.setdefault(upstream, time.monotonic())

    def back(self, upstream: str) -> None:
        since = self._down.pop(upstream, time.monotonic())
        self._trouble[upstream].append((since, time.monotonic() + GRACE_S))

    def _in_trouble(self, upstream: str, since: float) -> bool:
        """Whether an upstream was away at some moment from `since` until now."""
        return upstream in self._down or any(end >= since for _, end in self._trouble[upstream][-5:])

    # Calls

    def answers(self, id: Any, messages: list[Message], what: str) -> Message | None:
        """The one answer to a request among the messages that came for it."""
        answers = [message for message in messages if "method" not in message]
        if any(answer.get("id") != id for answer in answers):
            self.complain("answer to somebody else", f"{what}: {id} got {answers}")
        if not answers:
            self.unanswered += 1
            self.complain("no answer", what)
            return None
        if len(answers) > 1:
            self.doubled += 1
            self.complain("answered twice", f"{what}: {answers}")
        self.answered += 1
        return answers[0]

    def failed(self, upstream: str, since: float, what: str, reason: str) -> None:
        """An error is an answer too; without a reason that we know of, it is one too many."""
        self.errors[f"{upstream}: {reason}"] += 1
        if not self._in_trouble(upstream, since):
            self.complain("error without a kill", f"{upstream}: {what}: {reason}")

    def took(self, what: str, seconds: float) -> None:
        self.seconds[what].append(seconds)

    def complain(self, kind: str, example: str) -> None:
        self.complaints[kind] += 1
        if len(self.examples) < KEPT:
            self.examples.append(f"{kind}: {example}"[:600])

    def check_tokens(self, done: list[str]) -> None:
        """What upstreams noted, held against what was asked for and what was answered."""
        for token, times in Counter(done).items():
            if times > 1:
                self.complain("done twice", token)
            if token not in self.tokens:
                self.complain("done without being asked for", token)
        for token in self.tokens.keys() - set(done):
            if self.tokens[token]:
                self.complain("said to be done and not done", token)

    # Afterwards

    def latencies(self) -> dict[str, dict[str, float]]:
        return {what: _summary(seconds) for what, seconds in sorted(self.seconds.items())}


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "count": len(ordered),
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
        "max_ms": round(ordered[-1] * 1000, 2),
    }
