"""What access rules cost: `python -m bench.access`. CPU time of this process, the best of several rounds.

The yard has 10,000 tools on 40 servers. The rules: one for each of 20 agents, and three for ours with
every form of a pattern, so that the name of each tool has to be looked at.
"""

import time
from collections.abc import Callable

from toolyard.catalogue.catalogue import CatalogueEntry
from toolyard.catalogue.items import TOOLS, UpstreamItem
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.policy.access import AccessPolicy
from toolyard.wire.call import Grant, Principal, Right

SERVERS, EACH = 40, 250
ROUNDS = 9
ENTRIES = [
    CatalogueEntry(
        f"server{server}", "", "", UpstreamItem(f"tool_{number}", b"}", reads=(True, False, None)[number % 3])
    )
    for server in range(SERVERS)
    for number in range(EACH)
]
OTHERS = tuple(AccessRule(who=(f"agent{number}",), allow=(f"server{number}",)) for number in range(20))
SIMPLE = (
    *OTHERS,
    AccessRule(who=("ours",), allow=("*/*:read", "server1", "server2/tool_7"), deny=("server3/delete_*",)),
)
EVERY_NAME = (
    *OTHERS,
    AccessRule(
        who=("ours",),
        allow=("server1", "server2/tool_*", "server3/*:read", "*/*_5", "*/*_6*"),
        deny=("server1/tool_1*", "*/TOOL_99*", "server5"),
        confirm=("*/*:write",),
    ),
    AccessRule(who=("ours",), allow=tuple(f"server6/tool_{number}" for number in range(100))),
    AccessRule(deny=("*/delete_*", "*/*secret*"), allow=("server9",)),
)
CONDITION = (AccessRule(allow=("*",), when="args.amount < 100 && 'staff' in groups"),)
OURS = Principal(agent="ours")
GRANTED = Principal(agent="ours", grant=Grant("g", ("g",), (Right(("*",), ("server7/tool_1*",)),), 9e9))
STAFF = Principal(agent="ours", groups=frozenset({"staff"}))


def seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def policy(rules: tuple[AccessRule, ...]) -> AccessPolicy:
    return AccessPolicy(AccessConfig(rules=rules, default="deny"))


def listing(rules: tuple[AccessRule, ...], principal: Principal) -> float:
    """Milliseconds for the first list of a principal."""
    return min(_first_list(policy(rules), principal) for _ in range(ROUNDS)) * 1e3


def _first_list(fresh: AccessPolicy, principal: Principal) -> float:
    return seconds(lambda: fresh.rights(principal).visible(TOOLS, ENTRIES))


def deciding(rules: tuple[AccessRule, ...]) -> tuple[float, float]:
    """Microseconds for a decision, the first time and later."""
    rights = policy(rules).rights(OURS)

    def decide() -> None:
        for entry in ENTRIES:
            rights.decide(TOOLS, entry.server, entry.item.own, entry.item.reads)

    first = seconds(decide)
    return first / len(ENTRIES) * 1e6, min(seconds(decide) for _ in range(ROUNDS)) / len(ENTRIES) * 1e6


def resolving() -> float:
    """Microseconds for a condition on two arguments of a call."""
    rules = policy(CONDITION)
    decision = rules.rights(STAFF).decide(TOOLS, "server1", "tool_1", None)
    args = {"amount": 12, "to": "ada", "body": "x" * 1000}

    def resolve() -> None:
        for _ in range(2000):
            rules.resolve(decision, STAFF, "server1", "tool_1", args)

    return min(seconds(resolve) for _ in range(ROUNDS)) / 2000 * 1e6


def main() -> None:
    print(f"first list of {len(ENTRIES):,} tools, simple rules     {listing(SIMPLE, OURS):8.1f} ms")
    print(f"first list, every name looked at           {listing(EVERY_NAME, OURS):8.1f} ms")
    print(f"the same with a grant                      {listing(EVERY_NAME, GRANTED):8.1f} ms")
    first, later = deciding(EVERY_NAME)
    print(f"a decision, the first time                 {first:8.2f} µs")
    print(f"a decision, later                          {later:8.2f} µs")
    print(f"a condition                                {resolving():8.1f} µs")


if __name__ == "__main__":
    main()
