"""Builds the documentation as a site, into build/site: `make site`.

Owns how the Markdown of the repository becomes pages: which file is which page, where links lead, and the
navigation, which is the list in docs/README.md. How it looks is in site.toml, the rest is Zensical's.
Fails on a link that leads nowhere, and on anything that a browser would fetch from elsewhere.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import tomlkit
from check_docs import CODE_SPAN, FENCE, HEADING, LINK, ROOT, documentation, read_page

STAGE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
CONTENTS = "docs/README.md"
BRANCH = "blob/main"
ALONE = "---\nhide:\n  - navigation\n---\n\n"
"""Above pages that are in no section: they have the room of the list beside it."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMPLAINT = re.compile(r"(?:Warning|Error): (?P<what>.+)\n\s*╭─\[ (?P<place>\S+)")
LIST_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
FETCHED = {"link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}
"""Tags that make a browser fetch something, with the attribute that says what."""
UNFETCHED = ("alternate", "canonical", "next", "prev")
"""Kinds of `link` that only name a page."""

Navigation = list["str | dict[str, str | Navigation]"]


def main() -> int:
    zensical = ROOT / sys.argv[1]
    started = time.monotonic()
    settings = tomlkit.parse((ROOT / "scripts" / "site.toml").read_text("utf-8")).unwrap()
    sources = [path.relative_to(ROOT).as_posix() for path in documentation()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stage(sources, project["urls"]["Source"])
    settings["project"]["nav"] = [
        {"Home": page_of("README.md")},
        *navigation(),
        {"All pages": page_of(CONTENTS)},
    ]
    (STAGE / "zensical.toml").write_text(tomlkit.dumps(settings), "utf-8")
    built = subprocess.run(
        [zensical, "build", "--clean", "--strict"],
        cwd=STAGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if built.returncode:
        print("\n".join(complaints(built.stdout)))
        return built.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(STAGE / "site", SITE)
    problems = list(broken(SITE))
    print("\n".join(problems), end="\n" if problems else "")
    count = len(list(SITE.rglob("*.html")))
    print(f"{count} pages in build/site, {time.monotonic() - started:.1f} s")
    print("look at it: python -m http.server --directory build/site")
    return 1 if problems else 0


def complaints(printed: str) -> list[str]:
    """What Zensical found and where; its drawings of whole paragraphs are left out."""
    plain = COLOUR.sub("", printed)
    found = [f"{match['place']}: {match['what']}" for match in COMPLAINT.finditer(plain)]
    return found or plain.splitlines()


def page_of(source: str) -> str:
    """Where a file of the repository stands in the site."""
    if source == "README.md":
        return "index.md"
    if source == CONTENTS:
        return "contents.md"
    page = PurePosixPath(source.removeprefix("docs/"))
    if "/" not in source:
        return page.name.lower()
    return str(page.with_name("index.md") if page.name == "README.md" else page)


def stage(sources: list[str], repository: str) -> None:
    """Writes the pages and pictures into build/site-source, with links that hold there."""
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = {source: page_of(source) for source in sources}
    for source, page in pages.items():
        target = STAGE / "pages" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(translated(source, pages, repository)) + "\n"
        target.write_text(ALONE + text if source in ("README.md", CONTENTS) else text, "utf-8")
    shutil.copy(ROOT / "scripts" / "site.css", STAGE / "pages")
    shutil.copytree(ROOT / "docs" / "images", STAGE / "pages" / "images")


def translated(source: str, pages: dict[str, str], repository: str) -> Iterator[str]:
    """The lines of a page, with links changed and with what Python-Markdown reads otherwise than GitHub."""
    prose = {number for number, _ in read_page(ROOT / source).prose}
    before = ""
    for number, line in enumerate((ROOT / source).read_text("utf-8").splitlines(), start=1):
        if number not in prose:
            fence = FENCE.match(line)
            yield f"{fence['indent']}{fence['mark']}{fence['info'].split(' ')[0]}" if fence else line
            before = ""
            continue
        # A list that follows a paragraph at once is a list to GitHub only.
        if LIST_ITEM.match(line) and before.strip() and not LIST_ITEM.match(before) and before[0] not in " #":
            yield ""
        yield moved(line, source, pages, repository)
        before = line


def moved(line: str, source: str, pages: dict[str, str], repository: str) -> str:
    masked = CODE_SPAN.sub(lambda span: "\0" * len(span[0]), line)
    parts, end = [], 0
    for link in LINK.finditer(masked):
        group = "angled" if link["angled"] else "plain"
        parts += [line[end : link.start(group)], target_of(link[group] or "", source, pages, repository)]
        end = link.end(group)
    return "".join([*parts, line[end:]])


def target_of(target: str, source: str, pages: dict[str, str], repository: str) -> str:
    url = urlsplit(target)
    if url.scheme or url.netloc or not url.path:
        return target
    file = Path(os.path.normpath((ROOT / source).parent / unquote(url.path))).relative_to(ROOT).as_posix()
    anchor = f"#{url.fragment}" if url.fragment else ""
    if file in pages or file.startswith("docs/images/"):
        place = pages.get(file) or file.removeprefix("docs/")
        return os.path.relpath(place, PurePosixPath(pages[source]).parent) + anchor
    return f"{repository}/{BRANCH}/{file}{anchor}"


def navigation() -> Navigation:
    """The list of pages in docs/README.md: a section for each heading, in the order that stands there."""
    found: Navigation = []
    levels: dict[int, Navigation] = {1: found}
    for _, line in read_page(ROOT / CONTENTS).prose:
        if heading := HEADING.match(line):
            depth = len(line) - len(line.lstrip("#"))
            inner: Navigation = []
            if depth > 1:
                levels[depth - 1].append({heading["text"]: inner})
                levels = {level: levels[level] for level in range(1, depth)} | {depth: inner}
        elif line.startswith("- ") and (link := LINK.search(line)):
            title = line[3 : link.start()].strip("`")
            file = os.path.normpath(PurePosixPath(CONTENTS).parent / urlsplit(link["plain"]).path)
            if not (ROOT / file).is_file():
                sys.exit(f"error: {CONTENTS} lists '{file}', which does not exist")
            levels[max(levels)].append({title: page_of(file)})
    return found


class Html(HTMLParser):
    """What a built page links to, what it fetches, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := said.get(name)))
        if tag == "a" and (target := said.get("href")):
            self.links.add(target)
        if (
            tag in FETCHED
            and (target := said.get(FETCHED[tag]))
            and said.get("rel") not in ("canonical", "alternate")
        ):
            self.fetched.add(target)


def broken(site: Path) -> Iterator[str]:
    pages = {path: Html(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        if path.name == "404.html":  # its links start at the root of a server
            continue
        for target in sorted(page.fetched):
            if urlsplit(target).netloc:
                yield f"{name}: a browser would fetch '{target}'"
        for target in sorted(page.links | page.fetched):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = Path(os.path.normpath(path.parent / unquote(url.path))) if url.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{name}: '{target}' does not exist"
            elif url.fragment and file in pages and unquote(url.fragment) not in pages[file].anchors:
                yield f"{name}: '{target}' has no such heading"


if __name__ == "__main__":
    sys.exit(main())
