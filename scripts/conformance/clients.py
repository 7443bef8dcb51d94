"""The other leg of the suite: our client against the scenarios' own servers, in both revisions' sets.

The suite starts `client.py` once for each scenario. Scenarios that are not about what the client does are
named in `apart`, with the reason; everything else has to pass, and as many checks as are written down here.
"""

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .apart import NOT_OURS
from .processes import stop_all
from .suite import BAD, HOME, REVISIONS, Result, Scenario, Suite, say

COMMAND = shlex.join([sys.executable, "-m", "scripts.conformance.client"])
EXPECTED = {"2025-11-25": 20, "2026-07-28": 64}
"""How many checks pass: a scenario that stopped looking at something would otherwise go unnoticed.

Without those about authorization, which count every request of a connection: of them, all scenarios pass.
"""
AUTH = "auth/"
AUTH_SCENARIOS = {"2025-11-25": 20, "2026-07-28": 31}


@dataclass(frozen=True)
class ClientResult:
    """What came out for one revision's set; `apart` are the scenarios that were left out, with the reason."""

    result: Result
    apart: dict[str, str]
    expected: int | None
    """None where only some scenarios were run."""

    @property
    def passes(self) -> int:
        return self.result.counts["SUCCESS"]

    @property
    def fails(self) -> int:
        return sum(self.result.counts[status] for status in BAD)

    @property
    def passed(self) -> bool:
        if self.fails or self.expected is None:
            return not self.fails
        others = [one for one in self.result.scenarios if not one.name.startswith(AUTH)]
        about_auth = len(self.result.scenarios) - len(others)
        looked_at = sum(one.counts["SUCCESS"] for one in others)
        return looked_at == self.expected and about_auth == AUTH_SCENARIOS[self.result.revision]


def run_clients(suite: Suite, only: list[str], jobs: int) -> list[ClientResult]:
    folder = HOME / "runs" / "client"
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            found = [run_set(suite, pool, revision, only, folder) for revision in REVISIONS]
        except BaseException:
            stop_all()
            raise
    say("client: done")
    return [result for result in found if result.result.scenarios]


def run_set(
    suite: Suite, pool: ThreadPoolExecutor, revision: str, only: list[str], folder: Path
) -> ClientResult:
    required = suite.client_sets[revision]
    apart = {name: reason for name in required for reason in [reason_apart(name)] if reason}
    wanted = {name: scored for name, scored in required.items() if name not in apart}
    wanted = {name: scored for name, scored in wanted.items() if not only or name in only}
    running = {
        name: pool.submit(suite.run_client, COMMAND, name, revision, folder / revision) for name in wanted
    }
    scenarios = [Scenario(name, wanted[name], running[name].result()) for name in wanted]
    return ClientResult(Result(revision, scenarios), apart, None if only else EXPECTED[revision])


def reason_apart(scenario: str) -> str | None:
    return next((reason for prefix, reason in NOT_OURS.items() if scenario.startswith(prefix)), None)
