"""The files of a crawl as text: a page with YAML front matter, and the overview of a research folder.

A page cannot forge front matter: values are quoted, and its own text comes after it. Writes nothing to disk.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from .outcomes import CrawledPage

FOLDER = "search_results"
OVERVIEW = "research_overview.md"
MAX_LINKS = 50
_FIELD = re.compile(r"^([a-z_]+): (.*)$")


class PageEntry(Struct, frozen=True):
    """A saved page in the overview."""

    file: str
    title: str
    source: str
    date: str
    author: str
    language: str
    word_count: int
    description: str


class OverviewTexts(Struct, frozen=True):
    title: str = "Research overview"
    summary: str = "{pages} pages, {words} words."
    failed: str = "Not read"
    words: str = "{} words"


def file_name(url: str) -> str:
    """The seed's name: the first twelve digits of the MD5 of the address."""
    digest = hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()
    return f"crawl_{digest[:12]}.md"


def page_file(
    page: CrawledPage, retrieved: str, *, links_heading: str = "Links", **more: str | int | bool
) -> str:
    """`retrieved` is the moment of the crawl, as ISO text; `more` are further fields of the front matter."""
    fields: dict[str, str | int | bool] = {
        "title": page.title,
        "source": page.url,
        "final_url": page.final_url if page.final_url != page.url else "",
        "date": page.date,
        "author": page.author,
        "description": page.description,
        "site": page.site,
        "language": page.language,
        "word_count": page.word_count,
        "type": page.kind,
        "retrieved": retrieved,
        "rendered": page.rendered,
        "truncated": page.is_cut,
        **more,
    }
    required = ("title", "source", "date", "description", "word_count")
    lines = [f"{name}: {_yaml(value)}" for name, value in fields.items() if value or name in required]
    parts = ["---", *lines, "---", "", page.markdown]
    if page.links:
        shown = list(page.links.items())[:MAX_LINKS]
        parts += ["", f"## {links_heading}", "", *(f"- {text or url}: <{url}>" for url, text in shown)]
    return "\n".join(parts) + "\n"


def entry_of(file: str, content: str) -> PageEntry | None:
    """Reads the front matter that `page_file` wrote; None if there is none."""
    lines = content.splitlines()
    if not lines or lines[0] != "---":
        return None
    said: dict[str, object] = {}
    for line in lines[1:40]:
        if line == "---":
            break
        if found := _FIELD.match(line):
            try:
                said[found[1]] = json.loads(found[2])
            except ValueError:
                said[found[1]] = found[2]
    else:
        return None
    words = said.get("word_count")

    def text(name: str) -> str:
        value = said.get(name)
        return value if isinstance(value, str) else ""

    return PageEntry(
        file,
        text("title"),
        text("source"),
        text("date"),
        text("author"),
        text("language"),
        words if isinstance(words, int) else 0,
        text("description"),
    )


def overview(entries: Iterable[PageEntry], errors: Mapping[str, str], texts: OverviewTexts) -> str:
    """`errors` are sentences by address."""
    listed = sorted(entries, key=lambda one: (-one.word_count, one.file))
    words = sum(one.word_count for one in listed)
    lines = [f"# {texts.title}", "", texts.summary.format(pages=len(listed), words=words), ""]
    for number, one in enumerate(listed, 1):
        facts = [one.date, one.author, one.language, texts.words.format(one.word_count)]
        lines += [
            f"{number}. **{_flat(one.title) or one.file}** (`{one.file}`)",
            f"   {_flat(one.source)}",
            f"   {' · '.join(_flat(fact) for fact in facts if fact)}",
            *([f"   {_flat(one.description)}"] if one.description else []),
        ]
    if errors:
        lines += [
            "",
            f"## {texts.failed}",
            "",
            *(f"- {_flat(url)}: {error}" for url, error in errors.items()),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _yaml(value: str | int | bool) -> str:
    """JSON is YAML: quoted, on one line, no tags and no references."""
    return (
        json.dumps(value, ensure_ascii=False)
        .replace("\u2028", " ")
        .replace("\u2029", " ")
        .replace("\x85", " ")
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
