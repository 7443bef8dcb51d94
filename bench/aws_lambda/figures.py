"""Takes the figures. Rounds are interleaved, so that drift of the machine affects all subjects alike.

Replies are checked outside the timed part. Our function and the bare client request the same tickets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.aws_lambda.api import mark_of
from bench.aws_lambda.built import HOME, LOGS, Built, Pythons
from bench.aws_lambda.events import check, get_ticket
from bench.aws_lambda.subjects import BARE, HERE, Warm, start, warm
from bench.connection import WrongReply
from bench.load import ERAS, Era

Progress = Callable[[str], None]
Rounds = dict[str, list[float]]

KEY = "bench-key-of-one-tenant"
WARMUP = 300
TENANTS, REQUESTS = 50, 1000


@dataclass(slots=True)
class Found:
    """CPU seconds by subject, one figure per round."""

    starts: Rounds = field(default_factory=dict[str, list[float]])
    calls: Rounds = field(default_factory=dict[str, list[float]])
    tenants: float = 0.0
    """CPU seconds for one of the interleaved requests."""
    checked: int = 0


def starts(built: Built, pythons: Pythons, env: Mapping[str, str], rounds: int, progress: Progress) -> Rounds:
    """Cold starts. `plain` is without the variables that overwrite freed memory."""
    event = HOME / "event.json"
    event.write_text(json.dumps(get_ticket(1, KEY, "modern")), encoding="utf-8")
    given = [str(built.folder), str(event)]
    found: Rounds = {"sdk": [], "deployed": [], "deployed first": [], "plain": [], "plain first": []}
    for turn in range(rounds + 1):
        progress(f"starts: round {turn} of {rounds}" if turn else "starts: warming up")
        taken = {"sdk": start(pythons.sdk, "mcp", {}, ["-I"]).ready}
        for name, more in {"deployed": {**env, **built.variables}, "plain": env}.items():
            ours = start(pythons.sdk, "function", more, BARE, given)
            check(ours.reply, 1, KEY)
            taken |= {name: ours.ready, f"{name} first": ours.first}
        for name, seconds in taken.items():
            if turn:  # the first turn fills the page cache
                found[name].append(seconds)
    return found


def calls(
    built: Built,
    pythons: Pythons,
    env: Mapping[str, str],
    *,
    per_round: int,
    rounds: int,
    peer_calls: int,
    progress: Progress,
) -> Rounds:
    """CPU seconds per call of warm functions: "modern", "legacy", "bare" and "peer"."""
    found: Rounds = {name: [] for name in (*ERAS, "plain", "bare", "bare plain", "peer")}
    deployed = {**env, **built.variables}
    with ExitStack() as stack:

        def begin(name: str, module: str, variables: Mapping[str, str]) -> Warm:
            log = LOGS / f"lambda-{name}.log"
            return stack.enter_context(warm(pythons.sdk, built.folder, module, variables, log))

        ours, plain = begin("ours", "function", deployed), begin("plain", "function", env)
        bare, bare_plain = begin("bare", "bare", deployed), begin("bare-plain", "bare", env)
        peer = _peer(stack, pythons.peer, env)
        progress("calls: warming up")
        for number in range(2):
            for era in ERAS:
                _ours(ours, era, range(WARMUP * number, WARMUP * (number + 1)))
            _ours(plain, "modern", range(WARMUP))
            _bare(bare, range(WARMUP))
            _bare(bare_plain, range(WARMUP))
        for turn in range(rounds):
            progress(f"calls: round {turn + 1} of {rounds}")
            numbers = range(10_000 + turn * per_round, 10_000 + (turn + 1) * per_round)
            for era in ERAS:
                found[era].append(_ours(ours, era, numbers))
            found["bare"].append(_bare(bare, numbers))
            found["plain"].append(_ours(plain, "modern", numbers))
            found["bare plain"].append(_bare(bare_plain, numbers))
            if peer:
                found["peer"].append(_ours(peer, "legacy", numbers[:peer_calls]))
    return found


def _peer(stack: ExitStack, python: Path | None, env: Mapping[str, str]) -> Warm | None:
    if python is None:
        return None
    variables = {**env, "TIFLUX_API_KEY": KEY, "LOG_LEVEL": "WARNING"}
    log = LOGS / "lambda-peer.log"
    return stack.enter_context(warm(python, HERE / "peer", "function", variables, log, ["-E", "-s"]))


def _ours(function: Warm, era: Era, numbers: range) -> float:
    spent = function.cost([get_ticket(number, KEY, era) for number in numbers])
    for number, reply in zip(numbers, spent.replies, strict=True):
        check(reply, number, KEY)
    return spent.total / len(numbers)


def _bare(client: Warm, numbers: range) -> float:
    spent = client.cost([{"number": number, "key": KEY} for number in numbers])
    for number, reply in zip(numbers, spent.replies, strict=True):
        title = json.loads(reply["body"])["title"]
        if reply["status"] != 200 or title != f"Ticket {number} of {mark_of(KEY)}":
            raise WrongReply(f"ticket {number} by the client alone: {reply}")
    return spent.total / len(numbers)


def tenants(built: Built, pythons: Pythons, env: Mapping[str, str], progress: Progress) -> tuple[float, int]:
    """Many tenants at one warm instance, in random order; counts the replies with the right tenant's data."""
    progress(f"tenants: {REQUESTS} requests of {TENANTS}")
    keys = [f"bench-key-of-tenant-{number}" for number in range(TENANTS)]
    asked: list[tuple[int, str, Era]] = [
        (number, keys[number % TENANTS], ERAS[number // TENANTS % 2]) for number in range(REQUESTS)
    ]
    random.Random(7).shuffle(asked)
    variables = {**env, **built.variables}
    with warm(pythons.sdk, built.folder, "function", variables, LOGS / "lambda-tenants.log") as function:
        spent = function.cost([get_ticket(number, key, era) for number, key, era in asked])
    for (number, key, _), reply in zip(asked, spent.replies, strict=True):
        check(reply, number, key)
    return spent.total / REQUESTS, len(asked)
