"""`python -m scripts.conformance`: every pair, or one server that is running already."""

import argparse
import contextlib
import signal
import sys
import time

from .authorization import run_authorization
from .clients import run_clients
from .pairs import PAIRS, compare, run_pairs, run_side
from .suite import REVISIONS, Suite, fail, say
from .tables import show_clients, show_comparisons, show_result, write_report

JOBS = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make conformance",
        description="Run the MCP conformance suite, directly and through the gateway.",
    )
    slugs = [pair.slug for pair in PAIRS]
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="may be given again")
    parser.add_argument("--pair", action="append", choices=slugs, help="may be given again; all without it")
    parser.add_argument("--client", action="store_true", help="our client alone, and no server")
    parser.add_argument("--authorization", action="store_true", help="our authorization server alone")
    parser.add_argument("--url", help="a server that is running already, instead of the pairs")
    parser.add_argument("--through-url", metavar="URL", help="compare --url with this one")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"servers tried at a time ({JOBS})")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    # A plain SIGTERM would leave the servers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    suite = Suite()
    known = {
        name for sets in (suite.sets, suite.client_sets) for required in sets.values() for name in required
    }
    if unknown := set(options.only) - known:
        fail(f"no scenario {', '.join(map(repr, sorted(unknown)))}", f"there are {', '.join(sorted(known))}")
    if options.through_url and not options.url:
        fail("--through-url is compared with --url, which is missing", "give both")
    if options.url:
        run_given(suite, options)
    else:
        run_all(suite, options)


def run_all(suite: Suite, options: argparse.Namespace) -> None:
    started = time.monotonic()
    one = options.authorization or options.client or options.pair or options.only
    servers = [run_authorization(suite)] if options.authorization or not one else []
    has_clients = not options.pair and not options.authorization
    clients = run_clients(suite, options.only, options.jobs) if has_clients else []
    pairs = [pair for pair in PAIRS if not options.pair or pair.slug in options.pair]
    has_pairs = not options.client and not options.authorization
    comparisons = run_pairs(suite, pairs, options.only, options.jobs) if has_pairs else []
    show_comparisons(comparisons)
    show_clients(clients)
    for result in servers:
        show_result(result)
    write_report(options.only, comparisons, servers, clients)
    say(f"{time.monotonic() - started:.0f} s")
    bad = [f"{found.pair} ({found.direct.revision})" for found in comparisons if not found.passed]
    bad += [f"client ({found.result.revision})" for found in clients if not found.passed]
    bad += ["the authorization server" for found in servers if not found.passed]
    if bad:
        fail(f"something is lost or failed: {', '.join(bad)}", "each check is described above the table")


def run_given(suite: Suite, options: argparse.Namespace) -> None:
    """One server, or two that are compared; started by somebody else."""
    urls = {"url": options.url, "through-url": options.through_url}
    found = {
        name: run_side(suite, name, lambda _, url=url: contextlib.nullcontext(url), options.only)
        for name, url in urls.items()
        if url
    }
    if options.through_url:
        comparisons = [
            compare("the two URLs", False, found["url"][revision], found["through-url"][revision])
            for revision in REVISIONS
        ]
        show_comparisons(comparisons)
        write_report(options.only, comparisons, [])
        failed = not all(comparison.passed for comparison in comparisons)
    else:
        results = [result for result in found["url"].values() if result.scenarios]
        for result in results:
            show_result(result)
        write_report(options.only, [], results)
        failed = not all(result.passed for result in results)
    if failed:
        fail("not every check passed", "warnings count too; each is described above")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
