"""What counts as lost: a test that passes over plain HTTP, and not through the gateway.

All tests are run through the gateway; only those that fail there are run over HTTP without it, and as they
are, which says whether they could be lost at all. What is lost and has no cause is run through again, alone,
twice at most: a busy machine may not have the fractions of a second that a test gives a server.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .sources import Sources, say
from .suites import FASTMCP, Outcome, Suite, run

MORE_TRIES = 2


MERGED = {
    "all": "the view of every server's tools, by their full names",
    "search": "the view of a few tools that find the others, which are called by their full names",
}
MERGED_PARTS = ("tests/client/", "tests/prompts/", "tests/resources/", "tests/tools/")
"""The tests of FastMCP that are about what such views show and do."""


@dataclass(frozen=True)
class Comparison:
    """One set on its three ways. `lost` are tests with the last line of what each said."""

    name: str
    what: str
    direct: int | None
    """How many pass as they are, of those that can be put on another way; None if nobody looked."""
    http: int
    through: Mapping[str, Outcome]
    lost: Mapping[str, str]
    unsteady: Collection[str] = field(default=())
    """Lost at first, and not when run again."""


Known = Callable[[str], bool]
"""Whether there is a cause for the loss of what has this name, which begins with its set's."""


def compare(suite: Suite, sources: Sources, quick: bool, toolyard: str, known: Known) -> Comparison:
    files = suite.quick if quick else suite.files(sources.folders[suite.package])
    say(f"{suite.title}: {len(files)} files with tests")
    return judge(suite, sources, files, toolyard, known, quick=quick)


def compare_views(bare: Comparison, sources: Sources, toolyard: str, known: Known) -> Iterator[Comparison]:
    """What passes through a bare view, through those of every server; what lists no tools also through
    the one that lists others.
    """
    part = [name for name in bare.through if name.startswith(MERGED_PARTS)]
    for view in MERGED:
        say(f"{FASTMCP.title}: {len(part)} in the view {view}")
        found = judge(FASTMCP, sources, part, toolyard, known, view)
        yield found
        part = [test.id for test in found.through.values() if not test.lists]


def judge(
    suite: Suite,
    sources: Sources,
    selection: Collection[str],
    toolyard: str,
    known: Known,
    view: str = "bare",
    *,
    quick: bool = False,
) -> Comparison:
    name, what = (view, MERGED[view]) if view in MERGED else (suite.name, f"{suite.title}, {suite.of}")
    through = run(suite, "through", sources, selection, view=view, toolyard=toolyard)
    arrived = {test.id: test for test in through.values() if test.passed and test.laid}
    failed = [test.id for test in through.values() if not test.passed and test.outcome != "skipped"]
    if quick:  # what is known to be lost is not looked at again
        failed = [test for test in failed if not known(f"{name} {test}")]
    direct = None
    if view in MERGED:  # all pass through a bare view
        passing = failed
    else:
        passing = passed(suite, "http", sources, failed)
        if not quick:
            direct = len(arrived) + len(passed(suite, "direct", sources, failed))
    lost = {test: last_line(through[test]) for test in passing}
    http = len(arrived) + len(lost)
    unsteady: list[str] = []
    for _ in range(MORE_TRIES):
        unknown = [test for test in lost if not known(f"{name} {test}")]
        if not unknown:
            break
        again = run(suite, "through", sources, unknown, view=view, workers=1, toolyard=toolyard)
        better = {test.id: test for test in again.values() if test.passed}
        unsteady += better
        arrived |= better
        lost = {test: text for test, text in lost.items() if test not in better}
    return Comparison(name, what, direct, http, arrived, lost, tuple(unsteady))


def passed(suite: Suite, way: str, sources: Sources, selection: Collection[str]) -> list[str]:
    """Which of these pass this way, and connect somebody."""
    if not selection:
        return []
    say(f"{suite.title}: {len(selection)} {way}")
    found = run(suite, way, sources, selection)
    return [test.id for test in found.values() if test.passed and test.laid]


def last_line(test: Outcome | None) -> str:
    if test is None:
        return "it did not come to an end"
    lines = [line.strip() for line in test.text.splitlines() if line.strip(" |+-")]
    return lines[-1][:300] if lines else test.outcome
