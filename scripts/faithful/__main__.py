"""`python -m scripts.faithful`: others' tests and programs through the gateway, and the page of it."""

import argparse
import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from .causes import FILE, CausesError, Explained, explain
from .causes import read as read_causes
from .comparison import MERGED, Comparison, Known, compare, compare_views
from .page import PAGE, Figures, Lost, Row, write
from .programs import programs
from .raw import ERAS, Spoken, compare_programs
from .sources import ROOT, Sources, fail, newest, pinned, say
from .suites import FASTMCP, SUITES

RAW = "raw"
SETS = (*(suite.name for suite in SUITES), RAW)
QUICK_PROGRAMS = 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faithful", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=SETS, default=[], help="may be given again; all without it"
    )
    parser.add_argument("--quick", action="store_true", help="a part of each set; writes nothing")
    parser.add_argument("--newest", action="store_true", help="the newest versions of theirs; writes nothing")
    parser.add_argument(
        "--toolyard",
        default=sys.executable,
        metavar="PYTHON",
        help="of another checkout, whose gateway is tried",
    )
    return parser.parse_args()


def main() -> None:
    options = arguments()
    # A plain SIGTERM would leave the gateways behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        causes = read_causes(FILE.read_text("utf-8"))
    except CausesError as error:
        fail(str(error), "scripts/faithful/causes.toml")
    started, which = time.monotonic(), source()
    sources = newest() if options.newest else pinned()
    names = options.only or SETS

    def known(name: str) -> bool:
        return any(cause.covers(name) for cause in causes)

    compared = list(compare_suites(sources, names, options.quick, options.toolyard, known))
    spoken = speak(sources, options.quick, options.toolyard) if RAW in names else []
    lost = {f"{one.name} {name}": text for one in compared for name, text in one.lost.items()}
    lost |= {
        f"{RAW} {one.era} {one.program} {request}": text
        for one in spoken
        for request, text in one.different.items()
    }
    ran = set() if options.quick or options.newest else {*names, *(MERGED if FASTMCP.name in names else ())}
    explained = explain(lost, causes, ran)
    rows = [*(row(one, which) for one in compared), *raw_rows(spoken, which)]
    show(rows, lost, explained, compared)
    say(f"{time.monotonic() - started:.0f} s")
    if explained.unexplained:
        where = "the newest version" if options.newest else str(FILE.relative_to(ROOT))
        fail(f"{len(explained.unexplained)} lost without a cause", f"repair it, or say why in {where}")
    if explained.stale:
        fail("causes that explain nothing: " + ", ".join(explained.stale), "take them out of causes.toml")
    if not options.quick and not options.newest and options.toolyard == sys.executable:
        write(Figures(sources.versions, rows, causes_of(explained)))
        say(f"wrote {PAGE.relative_to(ROOT)}")


def compare_suites(
    sources: Sources, names: Collection[str], quick: bool, toolyard: str, known: Known
) -> Iterator[Comparison]:
    for suite in SUITES:
        if suite.name in names:
            found = compare(suite, sources, quick, toolyard, known)
            yield found
            if suite is FASTMCP and not quick:
                yield from compare_views(found, sources, toolyard, known)


def speak(sources: Sources, quick: bool, toolyard: str) -> list[Spoken]:
    chosen = programs(sources)
    if quick:  # the servers of others than FastMCP and the SDK say some things when they like
        chosen = [one for one in chosen if one.name.startswith(("fastmcp/", "sdk/"))][::QUICK_PROGRAMS]
    say(f"{len(chosen)} programs in raw JSON-RPC")
    found = asyncio.run(compare_programs(chosen, toolyard))
    silent = {program.name for program in chosen} - {spoken.program for spoken in found}
    if silent:
        fail(f"these do not start: {', '.join(sorted(silent))}", "start one by hand to see why")
    return found


def source() -> str:
    """The gateway that is tried: the day, and git's name for what `src` was at the last commit."""
    tree = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD:src"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return f"{datetime.now(UTC):%d %B %Y}, `src` {tree.stdout.strip()}"


def row(compared: Comparison, which: str) -> Row:
    arrived = len(compared.through)
    return Row(compared.name, compared.what, compared.direct, compared.http, arrived, which)


def raw_rows(spoken: Collection[Spoken], which: str) -> list[Row]:
    rows: list[Row] = []
    asked_of = len({one.program for one in spoken})
    for era, revision in ERAS.items():
        found = [one for one in spoken if one.era == era]
        asked = sum(one.requests for one in found)
        if found:
            what = f"requests to those of {asked_of} programs that speak {revision}"
            lost = sum(len(one.different) for one in found)
            rows.append(Row(f"{RAW} {era}", what, None, asked, asked - lost, which))
    return rows


def set_of(name: str) -> str:
    """The row of the table that a lost test or request belongs to."""
    first, second, *_ = name.split(" ")
    return f"{first} {second}" if first == RAW else first


def causes_of(explained: Explained) -> list[Lost]:
    counted: dict[tuple[str, str], Counter[str]] = {}
    for name, cause in explained.of.items():
        counted.setdefault((cause.kind, cause.why), Counter())[set_of(name)] += 1
    return [Lost(kind, why, dict(counts)) for (kind, why), counts in counted.items()]


def show(
    rows: Iterable[Row], lost: dict[str, str], explained: Explained, compared: Iterable[Comparison]
) -> None:
    for name in explained.unexplained:
        print(f"lost: {name}\n  {lost[name]}")
    for one in compared:
        for name in one.unsteady:
            print(f"unsteady: {one.name} {name}: lost at first, not when it was run again")
    for one in causes_of(explained):
        print(f"{one.kind}: {sum(one.counts.values())}: {one.why}")
    for one in rows:
        direct = "" if one.direct is None else f"{one.direct} directly, "
        print(
            f"{one.name}: {direct}{one.before} before, {one.through} through, {one.before - one.through} lost"
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
