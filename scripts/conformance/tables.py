"""What came out: a table on the terminal, each difference in words, and build/conformance.json."""

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from .clients import ClientResult
from .pairs import Comparison, Difference
from .suite import BAD, PACKAGE, ROOT, VERSION, Check, Result, Scenario

REPORT = ROOT / "build" / "conformance.json"


def show_clients(found: list[ClientResult]) -> None:
    """Our client against the suite's servers."""
    if not found:
        return
    header = ("client", "set", "scenarios", "passed", "failed", "expected", "apart")
    rows = [
        (
            "toolyard.Client",
            one.result.revision,
            str(len(one.result.scenarios)),
            str(one.passes),
            str(one.fails),
            "-" if one.expected is None else str(one.expected),
            str(len(one.apart)),
        )
        for one in found
    ]
    print()
    for one in found:
        show_bad(f"client, {one.result.revision}", one.result)
    show_table(header, rows, [one.passed for one in found])
    for reason in dict.fromkeys(reason for one in found for reason in one.apart.values()):
        names = dict.fromkeys(name for one in found for name, why in one.apart.items() if why == reason)
        print(f"\napart: {reason}: {len(names)} scenarios, such as {', '.join(list(names)[:3])}")


def show_comparisons(comparisons: list[Comparison]) -> None:
    if not comparisons:
        return
    header = ("upstream", "set", "directly", "through", "lost", "gained", "apart")
    rows = [
        (
            comparison.pair,
            comparison.direct.revision,
            score(comparison.direct),
            f"{comparison.through.counts['SUCCESS']} / {len(comparison.bad)}",
            *(str(len(found)) for found in (comparison.lost, comparison.gained, comparison.apart)),
        )
        for comparison in comparisons
    ]
    for comparison in comparisons:
        where = f"{comparison.pair}, {comparison.direct.revision}"
        show_differences(f"lost: {where}", comparison.lost)
        if comparison.strict:
            lost = {(found.scenario, found.check) for found in comparison.lost}
            show_bad(f"{where}, directly", comparison.direct)
            show_checks(f"{where}, through", comparison.bad, lost)
            for one in comparison.stale:
                print(f"stale: {where}: {one.scenario}: it passes, and is listed as {one.reason!r}")
    show_table(header, rows, [comparison.passed for comparison in comparisons])
    print("\ndirectly and through: passed / failed or warned; apart: passed directly, does not apply there")
    show_apart(comparisons)


def show_apart(comparisons: list[Comparison]) -> None:
    """Which checks do not apply on a way, so that nobody takes them for passed."""
    for reason in dict.fromkeys(found.message for comparison in comparisons for found in comparison.apart):
        having = [one for one in comparisons if any(found.message == reason for found in one.apart)]
        found = [found for comparison in having for found in comparison.apart if found.message == reason]
        print(f"\napart: {reason}: {'; '.join(dict.fromkeys(one.pair for one in having))}")
        for scenario in dict.fromkeys(one.scenario for one in found):
            checks = dict.fromkeys(one.check for one in found if one.scenario == scenario)
            print(f"  {scenario}: {', '.join(checks)}")
    for comparison in comparisons:
        for scenario in comparison.unsteady:
            print(
                f"unsteady: {comparison.pair}, {comparison.direct.revision}: {scenario}: "
                "something was lost at first, nothing when it was run again"
            )


def score(result: Result) -> str:
    return f"{result.counts['SUCCESS']} / {sum(result.counts[status] for status in BAD)}"


def show_differences(title: str, differences: Iterable[Difference]) -> None:
    together: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for difference in differences:
        together[difference.scenario, difference.message].append(difference.check)
    for (scenario, message), checks in together.items():
        print(f"{title}: {scenario}: {', '.join(checks)}\n  {message}\n")


def show_bad(title: str, result: Result) -> None:
    found = [(scenario, check) for scenario in result.scenarios for check in scenario.checks]
    show_checks(title, [(scenario, check) for scenario, check in found if check.status in BAD])


def show_checks(
    title: str, found: Iterable[tuple[Scenario, Check]], told: Collection[tuple[str, str]] = ()
) -> None:
    for scenario, check in found:
        if (scenario.name, check.id) not in told:
            print(f"{check.status.lower()}: {title}: {scenario.name}: {check.id}")
            print(f"  {check.description}\n  {check.message}\n")


def show_result(result: Result) -> None:
    """One server alone, scenario by scenario."""
    header = ("scenario", "passed", "failed", "warnings", "skipped", "info", "scored")
    rows = [
        (scenario.name, *map(str, scenario.counts.values()), "yes" if scenario.scored else "no")
        for scenario in result.scenarios
    ]
    show_table(header, rows, [scenario.passed for scenario in result.scenarios])
    print()
    show_bad(result.revision, result)
    print(
        f"{result.revision}: {result.counts['SUCCESS']} passed, {result.counts['FAILURE']} failed\n",
        flush=True,
    )


def show_table(header: tuple[str, ...], rows: list[tuple[str, ...]], passed: list[bool]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for index, name in enumerate(header):
            table.add_column(name, justify="right" if index else "left")
        for row, good in zip(rows, passed, strict=True):
            table.add_row(*row, style=None if good else "red")
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for name, *cells in (header, *rows):
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([name.ljust(widths[0]), *aligned]))


def write_report(
    only: list[str], pairs: list[Comparison], alone: list[Result], clients: Collection[ClientResult] = ()
) -> None:
    report = {
        "suite": {"package": PACKAGE, "version": VERSION},
        "only": only,
        "pairs": [
            {
                "upstream": comparison.pair,
                "set": comparison.direct.revision,
                "passed": comparison.passed,
                "direct": counted(comparison.direct),
                "through": counted(comparison.through),
                "lost": listed(comparison.lost),
                "gained": listed(comparison.gained),
                "apart": listed(comparison.apart),
                "unsteady": list(comparison.unsteady),
            }
            for comparison in pairs
        ],
        "clients": [
            {
                "set": one.result.revision,
                "passed": one.passed,
                "expected": one.expected,
                "apart": one.apart,
            }
            | counted(one.result)
            for one in clients
        ],
        "alone": [{"set": result.revision, "passed": result.passed} | counted(result) for result in alone],
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def counted(result: Result) -> dict[str, Any]:
    scenarios = {
        scenario.name: {"scored": scenario.scored, "checks": scenario.counts} for scenario in result.scenarios
    }
    return {"checks": result.counts, "scenarios": scenarios}


def listed(differences: list[Difference]) -> list[dict[str, str]]:
    return [
        {"scenario": found.scenario, "check": found.check, "message": found.message} for found in differences
    ]
