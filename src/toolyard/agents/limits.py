"""Hard limits of a run, and the count of what it has used of them.

All agents of a run share one `Spending`. Crossing a limit stops the run before its next turn, so that what
was begun is finished and the conversation stays whole. Time is the exception: it ends whatever runs.
"""

import time
from typing import Literal

from msgspec import Struct

from .messages import TokenUsage

EndKind = Literal[
    "done",
    "limit",
    "loop",
    "empty",
    "cut",
    "refusal",
    "model_error",
    "gateway_error",
    "workspace_error",
    "interrupted",
]
"""How an agent ended. `cut`: a reply was as long as a reply may be, again and again."""


class RunLimits(Struct, frozen=True, kw_only=True):
    """What one start of a run may use, all its agents together; None: as much as it likes."""

    turns: int | None = 100
    tool_calls: int | None = 500
    tokens: int | None = None
    """Input and output of every request, tokens from the prompt cache included."""
    cost: float | None = None
    """In US dollars."""
    seconds: float | None = 3600.0
    depth: int = 2
    """How deep sub-agents may delegate: 1 lets only the main agent do it."""
    reply_tokens: int = 16_384
    """The longest reply that the model is asked for."""
    context_tokens: int | None = None
    """How much of the conversation is sent at most; None: what the model takes."""


class RunStoppedError(Exception):
    """The agent ends now. `kind` is how, `reason` a sentence for people."""

    def __init__(self, kind: EndKind, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.kind: EndKind = kind
        self.reason = reason
        self.hint = hint


class Spending(Struct):
    """What a run has used so far. Nothing here awaits, so tasks of one loop share it safely."""

    limits: RunLimits
    turns: int = 0
    tool_calls: int = 0
    usage: TokenUsage = TokenUsage()
    cost: float = 0.0
    is_priced: bool = True
    """False as soon as one reply had no price: then `cost` is less than it was."""
    is_estimated: bool = False
    started: float = 0.0
    result_chars: int = 0
    """Characters of tool results that went to the models."""
    saved_bytes: int = 0
    """Bytes that the gateway kept out of results, as far as results say so."""

    @property
    def tokens(self) -> int:
        return self.usage.input + self.usage.output

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started if self.started else 0.0

    def charge(self, usage: TokenUsage, cost: float | None, is_estimated: bool = False) -> None:
        self.usage += usage
        self.cost += cost or 0.0
        self.is_priced = self.is_priced and cost is not None
        self.is_estimated = self.is_estimated or is_estimated

    def take_tool_call(self) -> bool:
        """Counts a call; False if it is one too many, and not counted."""
        if self.limits.tool_calls is not None and self.tool_calls >= self.limits.tool_calls:
            return False
        self.tool_calls += 1
        return True

    def check(self) -> None:
        """Raises RunStoppedError if another turn would cross a limit."""
        limits = self.limits
        if limits.turns is not None and self.turns >= limits.turns:
            raise _over("turns", f"{limits.turns} turns", "--max-turns")
        if limits.tool_calls is not None and self.tool_calls >= limits.tool_calls:
            raise _over("tool calls", f"{limits.tool_calls} tool calls", "--max-tool-calls")
        if limits.tokens is not None and self.tokens >= limits.tokens:
            raise _over("tokens", f"{limits.tokens:,} tokens, {self.tokens:,} are used", "--max-tokens")
        if limits.cost is None:
            return
        if not self.is_priced:
            raise RunStoppedError(
                "limit",
                "the limit of cost cannot be kept: the price of the model is not known",
                "name it in TOOLYARD_PRICES, or leave out --max-cost",
            )
        if self.cost >= limits.cost:
            raise _over("cost", f"${limits.cost:g}, ${self.cost:.4f} are spent", "--max-cost")


def _over(what: str, limit: str, option: str) -> RunStoppedError:
    return RunStoppedError("limit", f"limit of {what}: {limit}", f"go on with --resume, or raise {option}")


def over_time(seconds: float) -> RunStoppedError:
    return _over("time", f"{seconds:g} seconds", "--max-time")
