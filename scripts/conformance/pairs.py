"""Which upstreams are compared, and what a loss is: a check that passes directly and not on another way,
through the gateway or as a function of AWS Lambda.

Every side of a pair is a job: it starts its servers, runs both sets one after the other and stops them. Jobs
run side by side, because most of a set's time is waiting.
"""

import contextlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .apart import ON_WAY, Apart
from .processes import stop_all
from .servers import NotStarted, everything_server, function_url, gateway, gateway_with_keys, python_of
from .suite import BAD, DID_NOT_RUN, HOME, REVISIONS, Check, Result, Scenario, Suite, say

MORE_TRIES = 2


@dataclass(frozen=True)
class Upstream:
    """An everything-server and whether its every check has to pass, also directly."""

    name: str
    module: str
    strict: bool = False

    @property
    def slug(self) -> str:
        return f"{self.name.replace(' ', '-')}-directly"


KIT = Upstream("kit", "tests.everything", strict=True)
SDK2 = Upstream("mcp 2.3", "tests.everything_sdk2")
IN_CALLS = Upstream("mcp 2.3 asking in calls", "tests.everything_sdk2.in_calls")
IN_ROUNDS = Upstream("mcp 2.3 asking in rounds", "tests.everything_sdk2.in_rounds")
"""Most servers ask in one era only; what they cannot do directly, nobody loses."""
SDK1 = Upstream("mcp 1.x", "tests.everything_sdk1")


@dataclass(frozen=True)
class Pair:
    """An upstream and the way on which it is reached."""

    upstream: Upstream
    way: str

    @property
    def name(self) -> str:
        return f"{self.upstream.name} {WAYS[self.way]}"

    @property
    def slug(self) -> str:
        return self.name.lower().replace(" ", "-")

    @property
    def apart(self) -> tuple[Apart, ...]:
        return ON_WAY.get(self.way, ())


WAYS = {
    "http": "over http",
    "keys": "with keys",
    "stdio": "over stdio",
    "process": "in process",
    "lambda": "on Lambda",
    "lambda-stream": "streamed by Lambda",
}

PAIRS = (
    Pair(KIT, "http"),
    Pair(KIT, "keys"),
    Pair(KIT, "stdio"),
    Pair(KIT, "process"),
    Pair(KIT, "lambda"),
    Pair(KIT, "lambda-stream"),
    Pair(SDK2, "http"),
    Pair(SDK2, "stdio"),
    Pair(IN_CALLS, "http"),
    Pair(IN_CALLS, "stdio"),
    Pair(IN_ROUNDS, "http"),
    Pair(IN_ROUNDS, "stdio"),
    Pair(SDK1, "http"),
    Pair(SDK1, "stdio"),
)


@dataclass(frozen=True)
class Difference:
    """A check whose verdict is not the same on both sides; `message` is what the worse side says."""

    scenario: str
    check: str
    message: str


@dataclass(frozen=True)
class Comparison:
    """One set, directly and on another way."""

    pair: str
    strict: bool
    direct: Result
    through: Result
    lost: list[Difference]
    gained: list[Difference]
    apart: list[Difference]
    known: tuple[Apart, ...] = ()
    """What does not apply on that way."""
    unsteady: tuple[str, ...] = ()
    """Scenarios in which something was lost at first, and not when they were run again."""

    @property
    def lost_in(self) -> list[str]:
        """The scenarios."""
        return sorted({difference.scenario for difference in self.lost})

    @property
    def bad(self) -> list[tuple[Scenario, Check]]:
        """What failed or warned on the way, without what does not apply there."""
        return [
            (scenario, check)
            for scenario in self.through.scenarios
            for check in scenario.checks
            if check.status in BAD
            and not any(one.covers(scenario.name, check.id, [check]) for one in self.known)
        ]

    @property
    def stale(self) -> list[Apart]:
        """What is said not to apply, and was not seen to fail."""
        ran = {scenario.name for scenario in self.through.scenarios}
        missed = {(found.scenario, found.message) for found in self.apart}
        return [one for one in self.known if one.scenario in ran and (one.scenario, one.reason) not in missed]

    @property
    def passed(self) -> bool:
        strictly = self.direct.passed and not self.bad and not self.stale
        return not self.lost and (not self.strict or strictly)


def compare(
    pair: str, strict: bool, direct: Result, through: Result, known: tuple[Apart, ...] = ()
) -> Comparison:
    before, after = by_check(direct.scenarios), by_check(through.scenarios)
    lost: list[Difference] = []
    gained: list[Difference] = []
    apart: list[Difference] = []
    for key in sorted({*before, *after}):
        passed, passes = successes(before[key]), successes(after[key])
        excuse = next((one for one in known if one.covers(*key, after[key])), None)
        if passes < passed and excuse is not None:
            apart.append(Difference(*key, excuse.reason))
        elif passes < passed:
            # A scenario that stops early says why in a check of its own.
            found = after[key] or [check for at in after if at[0] == key[0] for check in after[at]]
            lost.extend([Difference(*key, reason(found))] * (passed - passes))
        else:
            gained.extend([Difference(*key, reason(before[key]))] * (passes - passed))
    return Comparison(pair, strict, direct, through, lost, gained, apart, known)


def by_check(scenarios: Iterable[Scenario]) -> defaultdict[tuple[str, str], list[Check]]:
    """A scenario may look at one requirement several times, under one id."""
    found: defaultdict[tuple[str, str], list[Check]] = defaultdict(list)
    for scenario in scenarios:
        for check in scenario.checks:
            found[scenario.name, check.id].append(check)
    return found


def successes(checks: list[Check]) -> int:
    return Counter(check.status for check in checks)["SUCCESS"]


def reason(checks: list[Check]) -> str:
    worse = [check for check in checks if check.status in (*BAD, "SKIPPED")]
    if not worse:
        return "the suite did not come to this check"
    return "; ".join(dict.fromkeys(f"{check.status}: {check.message}" for check in worse))


@contextlib.contextmanager
def on_its_way(pair: Pair, folder: Path) -> Generator[str]:
    """The upstream as a client reaches it on the pair's way; yields the URL."""
    module = pair.upstream.module
    if pair.way.startswith("lambda"):
        with function_url(mounted_object(module, folder), folder, pair.way == "lambda-stream") as url:
            yield url
        return
    with contextlib.ExitStack() as stack:
        match pair.way:
            case "http" | "keys":
                url = stack.enter_context(everything_server(module, folder))
                mounted = f'url = "{url}"'
            case "stdio":
                arguments = ["-W", "ignore", "-m", module, "--stdio"]
                mounted = f"command = {json.dumps(python_of(module))}\nargs = {json.dumps(arguments)}"
            case _:
                mounted = f'module = "{mounted_object(module, folder)}"'
        way = gateway_with_keys if pair.way == "keys" else gateway
        yield stack.enter_context(way(mounted, folder))


def mounted_object(module: str, folder: Path) -> str:
    """The server is built by a function, and what is mounted is an object."""
    source = f"from {module}.server import everything\nserver = everything()\n"
    (folder / "mounted.py").write_text(source, "utf-8")
    return "mounted:server"


Side = Callable[[Path], contextlib.AbstractContextManager[str]]


def run_side(suite: Suite, name: str, side: Side, only: list[str]) -> dict[str, Result]:
    """Both sets against one side. A side that does not start fails every scenario of its sets."""
    folder = HOME / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with side(folder) as url:
            found = {revision: suite.run(url, revision, only, folder) for revision in REVISIONS}
        say(f"{name}: done")
        return found
    except NotStarted as error:
        print(f"error: {name}: {error}", file=sys.stderr, flush=True)
        missing = Check(DID_NOT_RUN, "FAILURE", "The server starts", str(error).splitlines()[0])
        return {
            revision: Result(
                revision,
                [
                    Scenario(scenario, scored, [missing])
                    for scenario, scored in suite.sets[revision].items()
                    if not only or scenario in only
                ],
            )
            for revision in REVISIONS
        }


def run_pairs(suite: Suite, pairs: Iterable[Pair], only: list[str], jobs: int) -> list[Comparison]:
    pairs = list(pairs)
    sides: dict[Upstream | Pair, Side] = {
        pair.upstream: partial(everything_server, pair.upstream.module) for pair in pairs
    }
    sides |= {pair: partial(on_its_way, pair) for pair in pairs}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = {key: pool.submit(run_side, suite, key.slug, side, only) for key, side in sides.items()}
            found = {key: future.result() for key, future in futures.items()}
        except BaseException:
            # The pool waits for its threads, and they wait for their children.
            stop_all()
            raise
    return [comparison for pair in pairs for comparison in compare_pair(suite, pair, found)]


def compare_pair(
    suite: Suite, pair: Pair, found: Mapping[Upstream | Pair, dict[str, Result]]
) -> list[Comparison]:
    """Both sets. Where something is lost, its scenarios are run again, alone: a busy machine may not have the
    fractions of a second that the suite gives a server here and there. What is lost every time is lost.
    """
    return [
        compare_set(suite, pair, found[pair.upstream][revision], through)
        for revision, through in found[pair].items()
        if through.scenarios
    ]


def compare_set(suite: Suite, pair: Pair, direct: Result, through: Result) -> Comparison:
    comparison = compare(pair.name, pair.upstream.strict, direct, through, pair.apart)
    at_first = comparison.lost_in
    for _ in range(MORE_TRIES):
        if not comparison.lost:
            break
        say(f"{pair.name}, {direct.revision}: once more: {', '.join(comparison.lost_in)}")
        side = partial(on_its_way, pair)
        again = run_side(suite, f"{pair.slug}-again", side, comparison.lost_in)
        through = replaced(through, again[direct.revision])
        comparison = compare(pair.name, pair.upstream.strict, direct, through, pair.apart)
    unsteady = tuple(scenario for scenario in at_first if scenario not in comparison.lost_in)
    return replace(comparison, unsteady=unsteady)


def replaced(result: Result, again: Result) -> Result:
    newer = {scenario.name: scenario for scenario in again.scenarios}
    return Result(result.revision, [newer.get(scenario.name, scenario) for scenario in result.scenarios])
