"""Checks that the documentation is true; part of `make check`.

Owns eleven promises: links lead somewhere, Python examples compile, examples marked `python run` run, the
reference covers every command and every public name of the kit and the client, the architecture has every
file of the package, the contents list every page, the README is short, the changelog has the package's
version, the vocabulary names only modules and classes that exist, a public class name is defined in one
module only, and no tracked file names a path that exists on one machine only. It does not judge prose. The
package itself must be importable, to know what there is to document.
"""

import ast
import html
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import file_tree
import house

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = "docs/reference"
CONTENTS = "docs/README.md"
TOP_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
README_WORDS = 900
"""More is not read. What does not fit has a page in docs/."""
VOCABULARY = "docs/concepts/vocabulary.md"
SHARED_NAMES = {
    "Settings": "every bundled server has its own; `toolyard.servers.NAME.Settings` is a public name",
}
"""Class names that more than one module may define, and why."""
EXAMPLE_TIMEOUT_S = 60

FENCE = re.compile(r"^(?P<indent>\s*(?:>\s*)*)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(?P<text>.+?)\s*#*\s*$")
CODE_SPAN = re.compile(r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)(?!`)")
LINK = re.compile(
    r"\]\(\s*(?:<(?P<angled>[^>]*)>|(?P<plain>[^\s()]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+[\"'(][^)]*)?\s*\)"
)
LINK_DEFINITION = re.compile(r"^ {0,3}\[(?!\^)[^\]]+\]:\s*<?(?P<target>[^\s>]+)")
HTML_LINK = re.compile(
    r"<(?:a|img|source|video)\b[^>]*?\b(?:href|src|srcset)=[\"'](?P<target>[^\"'\s]+)", re.I
)
HTML_ANCHOR = re.compile(r"<[a-z0-9]+\b[^>]*?\b(?:id|name)=[\"'](?P<anchor>[^\"']+)", re.I)

REGISTRY = re.compile(
    r"pypi\.org/simple|files\.pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|npm\.pkg\.github\.com",
    re.I,
)
# `user`, `you` and the like are placeholders in the examples of the protocol.
HOME = re.compile(
    r"(?<![\w.])(?:/home|/Users|[A-Z]:\\+Users)[/\\]+(?!(?:user|username|you|me|name|alice|bob)\b)\w[\w.-]*[/\\]"
)
ROOT_HOME = re.compile(r"(?<![\w./])/root/\.?\w")


@dataclass(frozen=True)
class Problem:
    """A fault in the documentation; `line` is 0 if something is missing."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


@dataclass
class Block:
    """A fenced block; `line` is the number of its first line of code."""

    info: str
    line: int
    lines: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class Page:
    """A Markdown file, split into prose and fenced blocks."""

    path: str
    prose: list[tuple[int, str]]
    blocks: list[Block]

    @property
    def anchors(self) -> set[str]:
        found: set[str] = set()
        for _, line in self.prose:
            found.update(match["anchor"] for match in HTML_ANCHOR.finditer(line))
            if heading := HEADING.match(line):
                found.add(unused(slug(heading["text"]), found))
        return found

    @property
    def code(self) -> str:
        """All code spans and blocks: a reference mentions names there."""
        spans = [match["code"] for _, line in self.prose for match in CODE_SPAN.finditer(line)]
        return "\n".join(spans + [block.code for block in self.blocks])


def main() -> int:
    pages = {page.path: page for page in map(read_page, documentation())}
    package = house.now()
    problems = [
        *missing_pages(pages),
        *broken_links(pages),
        *broken_examples(pages),
        *undocumented(pages),
        *long_readme(),
        *unlisted(pages),
        *stale_version(pages),
        *stale_files(),
        *unknown_words(pages[VOCABULARY], package),
        *shared_class_names(package),
        *private_places(),
    ]
    for problem in sorted(problems, key=lambda problem: (problem.path, problem.line)):
        print(problem)
    if problems:
        print(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the documentation")
    print(f"README.md has {readme_words()} words, of at most {README_WORDS}")
    return 1 if problems else 0


def documentation() -> list[Path]:
    top = [ROOT / name for name in TOP_PAGES]
    return [path for path in top if path.is_file()] + sorted((ROOT / "docs").rglob("*.md"))


def read_page(path: Path) -> Page:
    page = Page(path.relative_to(ROOT).as_posix(), [], [])
    mark, indent, block = "", "", None
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if block is None and fence:
            mark, indent = fence["mark"], fence["indent"]
            block = Block(fence["info"].strip(), number + 1)
            page.blocks.append(block)
        elif block is None:
            page.prose.append((number, line))
        elif fence and fence["mark"].startswith(mark) and not fence["info"].strip():
            block = None
        else:
            block.lines.append(line.removeprefix(indent) if line.strip() else "")
    return page


def missing_pages(pages: dict[str, Page]) -> Iterator[Problem]:
    for name in TOP_PAGES:
        if name not in pages:
            yield Problem(name, 0, "this page does not exist")


def broken_links(pages: dict[str, Page]) -> Iterator[Problem]:
    for page in pages.values():
        for number, line in page.prose:
            for target in link_targets(line):
                if reason := why_broken(target, page, pages):
                    yield Problem(page.path, number, f"link to '{target}' {reason}")


def link_targets(line: str) -> Iterator[str]:
    line = CODE_SPAN.sub(lambda span: " " * len(span[0]), line)
    for match in LINK.finditer(line):
        yield html.unescape(match["angled"] or match["plain"] or "")
    for pattern in (LINK_DEFINITION, HTML_LINK):
        for match in pattern.finditer(line):
            yield html.unescape(match["target"])


def why_broken(target: str, page: Page, pages: dict[str, Page]) -> str | None:
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return None
    path = unquote(url.path)
    base = ROOT if path.startswith("/") else (ROOT / page.path).parent
    file = (base / path.lstrip("/")).resolve() if path else ROOT / page.path
    if not target:
        return "is empty"
    if not file.is_relative_to(ROOT):
        return "leaves the repository"
    if not file.exists():
        return "does not exist"
    # Only anchors of our pages are known; `code.py#L3` depends on the host.
    linked = pages.get(file.relative_to(ROOT).as_posix())
    if url.fragment and linked and unquote(url.fragment) not in linked.anchors:
        return f"does not exist: no heading '#{url.fragment}' in {linked.path}"
    return None


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>]+>", "", text) if "`" not in text else text
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def unused(anchor: str, taken: set[str]) -> str:
    """GitHub numbers the anchors of equal headings."""
    if anchor not in taken:
        return anchor
    return next(name for n in range(1, len(taken) + 2) if (name := f"{anchor}-{n}") not in taken)


def broken_examples(pages: dict[str, Page]) -> Iterator[Problem]:
    for page in pages.values():
        for block in page.blocks:
            language, *words = block.info.split() or [""]
            if language not in ("python", "py"):
                continue
            if problem := syntax_problem(page, block) or ("run" in words and failed_run(page, block)):
                yield problem


def syntax_problem(page: Page, block: Block) -> Problem | None:
    try:
        compile(block.code, page.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        offset = (getattr(error, "lineno", None) or 1) - 1
        reason = getattr(error, "msg", None) or str(error)
        return Problem(page.path, block.line + offset, f"this example does not compile: {reason}")
    return None


def failed_run(page: Page, block: Block) -> Problem | None:
    """Runs the example as a reader would: as a file in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        example = Path(folder, "example.py")
        example.write_text(block.code, "utf-8")
        try:
            done = subprocess.run(
                [sys.executable, example.name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=EXAMPLE_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return Problem(page.path, block.line, f"this example ran longer than {EXAMPLE_TIMEOUT_S} s")
    if done.returncode == 0:
        return None
    said = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
    return Problem(page.path, block.line, f"this example exited with {done.returncode}: {said[-1]}")


def undocumented(pages: dict[str, Page]) -> Iterator[Problem]:
    code = "\n".join(page.code for path, page in pages.items() if path.startswith(f"{REFERENCE}/"))
    try:
        expected = [("command", words) for words in commands()]
        expected += [("kit's", name) for name in public_names("toolyard.kit")]
        expected += [("client's", name) for name in public_names("toolyard.client")]
    except (ImportError, AttributeError) as error:
        hint = "run `make docs`, which installs the package first"
        yield Problem("src/toolyard", 0, f"cannot tell what there is to document: {error} (hint: {hint})")
        return
    for kind, name in expected:
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code):
            yield Problem(REFERENCE, 0, f"the {kind} `{name}` is in no page of the reference")


def commands() -> list[str]:
    """Every command that `toolyard --help` and its groups show, as it is typed."""
    import click

    def walk(command: click.Command, words: str) -> Iterator[str]:
        yield words
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if child and not child.hidden:
                    yield from walk(child, f"{words} {name}")

    return list(walk(importlib.import_module("toolyard.cli").main, "toolyard"))


def public_names(module: str) -> list[str]:
    return sorted(importlib.import_module(module).__all__)


def readme_words() -> int:
    return len((ROOT / "README.md").read_text("utf-8").split())


def long_readme() -> Iterator[Problem]:
    if (words := readme_words()) > README_WORDS:
        yield Problem("README.md", 0, f"has {words} words, at most {README_WORDS}; move some to docs/")


def unlisted(pages: dict[str, Page]) -> Iterator[Problem]:
    """The contents list every page; the navigation of the site is made from that list."""
    contents = pages[CONTENTS]
    targets = {urlsplit(target).path for _, line in contents.prose for target in link_targets(line)}
    listed = {(ROOT / CONTENTS).parent.joinpath(target).resolve() for target in targets}
    for path in pages:
        if path != CONTENTS and (ROOT / path).resolve() not in listed:
            yield Problem(path, 0, f"this page is not listed in {CONTENTS}")


def stale_version(pages: dict[str, Page]) -> Iterator[Problem]:
    """The version of the package is in the changelog, and is the one that gets repairs."""
    version = importlib.import_module("toolyard").__version__
    minor = ".".join(version.split(".")[:2])
    for path, text in (("CHANGELOG.md", f"## [{version}] - "), ("SECURITY.md", f"| {minor}.x | yes |")):
        if path in pages and not any(line.startswith(text) for _, line in pages[path].prose):
            yield Problem(path, 0, f"has no line '{text}', and the package's version is {version}")


def stale_files() -> Iterator[Problem]:
    page = file_tree.PAGE.read_text("utf-8")
    if file_tree.renewed(page) != page:
        name = file_tree.PAGE.relative_to(ROOT).as_posix()
        yield Problem(name, 0, "its list of files is not up to date; run python scripts/file_tree.py")


def unknown_words(page: Page, package: house.House) -> Iterator[Problem]:
    """In the last cell of a row, a name belongs to the file before it, or to any file."""
    modules = {name: set(defined_names(tree)) for name, tree in package.trees.items()}
    anywhere = set[str]().union(*modules.values())
    for number, line in page.prose:
        cell = line.rstrip(" |").rpartition(" | ")[2] if line.startswith("| ") else ""
        names = anywhere
        for span in CODE_SPAN.finditer(cell):
            word = span["code"]
            if not word.endswith((".py", "/")):
                if word not in names:
                    where = "the package" if names is anywhere else "the file before it"
                    yield Problem(page.path, number, f"`{word}` is not defined in {where}")
                continue
            module = word.removesuffix(".py").rstrip("/").replace("/", ".")
            if module not in modules:
                yield Problem(page.path, number, f"`{word}` does not exist in src/toolyard")
            names = modules.get(module, anywhere)


def defined_names(tree: ast.Module) -> Iterator[str]:
    """The top-level names of a module, and the members of its classes as `Class.name`."""
    for node in tree.body:
        yield from bound_names(node)
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for member in node.body for name in bound_names(member))


def bound_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case _:
            return []


def shared_class_names(package: house.House) -> Iterator[Problem]:
    for name, modules in package.shared_names().items():
        if name not in SHARED_NAMES:
            path = f"src/toolyard/{modules[-1].replace('.', '/')}.py"
            yield Problem(path, 0, f"the class `{name}` is defined in {' and '.join(modules)}: rename one")


def private_places() -> Iterator[Problem]:
    for path in tracked_files():
        try:
            text = (ROOT / path).read_text("utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if registry := REGISTRY.search(line):
                yield Problem(
                    path, number, f"names the package registry '{registry[0]}'; give name and version"
                )
            if place := machine_path(line):
                yield Problem(path, number, f"names '{place}', which exists on one machine only")


def tracked_files() -> list[str]:
    """The files that git tracks or would track: new files are checked before they are added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        sys.exit(
            f"error: git does not list the files: {listed.stderr.strip()}\nhint: run it in a git checkout"
        )
    return sorted(set(listed.stdout.split("\0")) - {""})


def machine_path(line: str) -> str | None:
    for pattern in (HOME, ROOT_HOME):
        if match := pattern.search(line):
            return match[0]
    # A checkout directly below the root, such as `/app` in a container, could be prose.
    checkout = str(ROOT)
    return checkout if checkout.count("/") > 1 and checkout in line else None


if __name__ == "__main__":
    sys.exit(main())
