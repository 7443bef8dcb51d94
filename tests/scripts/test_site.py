"""The site has every page of the repository, and its links lead where they lead on GitHub."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "docs/guides/search.md": "guides/search.md",
}
REPOSITORY = "https://example.com/toolyard"


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(SCRIPTS))  # as when it is run: it imports its neighbours
    try:
        yield runpy.run_path(str(SCRIPTS / "build_site.py"))
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        ("docs/guides/search.md", "[home](../../README.md#a)", "[home](../index.md#a)"),
        ("docs/guides/search.md", "[all](../README.md)", "[all](../contents.md)"),
        ("README.md", "[search](docs/guides/search.md)", "[search](guides/search.md)"),
        ("README.md", "![a picture](docs/images/a.svg)", "![a picture](images/a.svg)"),
        ("README.md", "[code](src/x.py) and [code](LICENSE)", "[code]({0}/src/x.py) and [code]({0}/LICENSE)"),
        ("README.md", "`[no](link)`, [`a`](https://a.example), [b](#c)", None),
    ],
)
def test_a_link_leads_to_the_page_or_to_the_repository(
    script: dict[str, Any], source: str, line: str, expected: str | None
):
    moved = script["moved"](line, source, PAGES, REPOSITORY)
    assert moved == (expected or line).format(f"{REPOSITORY}/blob/main")


def test_the_navigation_has_every_page_once(script: dict[str, Any]):
    def pages(part: Any) -> Iterator[str]:
        for entry in part:
            for inside in entry.values():
                yield from [inside] if isinstance(inside, str) else pages(inside)

    found = [*pages(script["navigation"]())]
    assert len(found) == len(set(found))
    sources = {path.relative_to(SCRIPTS.parent).as_posix() for path in script["documentation"]()}
    assert {script["page_of"](source) for source in sources - {"README.md", "docs/README.md"}} == set(found)


def test_what_a_browser_would_fetch_from_elsewhere_is_found_and_so_is_a_broken_link(
    script: dict[str, Any], tmp_path: Path
):
    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    (tmp_path / "index.html").write_text(
        '<script src="https://cdn.example/a.js"></script><img src="none.png">'
        '<a href="other.html#here">good</a><a href="other.html#gone">bad</a><a href="https://a.example">out</a>'
    )
    assert list(script["broken"](tmp_path)) == [
        "index.html: a browser would fetch 'https://cdn.example/a.js'",
        "index.html: 'none.png' does not exist",
        "index.html: 'other.html#gone' has no such heading",
    ]
