"""Counts how the source is divided into modules: `make house`.

Modules, their length, small modules with one importer, class names that mean two things, and import cycles
(imports inside functions included), now and at an earlier commit. `--write` puts the table into
docs/concepts/architecture.md. A guide for readers, not a gate.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
BEFORE = "4e47c5a"
"""The last commit before modules were joined."""
SMALL = 60
START, END = "<!-- house -->\n", "<!-- end of house -->"


class House:
    """The package, as sources by the module's dotted name."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = {_dotted(path): text for path, text in sources.items()}
        self._packages = {_dotted(path) for path in sources if path.endswith("__init__.py")}
        self.trees = {name: ast.parse(text) for name, text in self.sources.items()}
        self.imports = {name: set(self._imported(name)) - {name} for name in self.sources}

    def _imported(self, name: str) -> Iterator[str]:
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.ImportFrom):
                base = self._base(name, node)
                for alias in node.names if base is not None else ():
                    whole = f"{base}.{alias.name}" if base else alias.name
                    found = whole if whole in self.sources else base
                    if found is not None and found in self.sources:
                        yield found

    def _base(self, name: str, node: ast.ImportFrom) -> str | None:
        if not node.level:
            first, _, rest = (node.module or "").partition(".")
            return rest if first == "toolyard" else None
        parts = name.split(".") if name else []
        if name not in self._packages:
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *(node.module or "").split(".")]).strip(".")

    def lengths(self) -> list[int]:
        """The lengths of modules; an `__init__.py` counts if it has more than a docstring."""
        return [
            len(text.splitlines())
            for name, text in self.sources.items()
            if name not in self._packages or len(self.trees[name].body) > 1
        ]

    def small_with_one_importer(self) -> list[str]:
        importers: dict[str, set[str]] = defaultdict(set)
        for name, imported in self.imports.items():
            for other in imported:
                importers[other].add(name)
        return sorted(
            name
            for name, text in self.sources.items()
            if name not in self._packages and len(importers[name]) == 1 and len(text.splitlines()) < SMALL
        )

    def shared_names(self) -> dict[str, list[str]]:
        """Public class names that are defined in more than one module."""
        found: dict[str, list[str]] = defaultdict(list)
        for module, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(module)
        return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, directly or through others."""
        order: list[str] = []
        seen: set[str] = set()
        for start in self.imports:
            self._visit(start, self.imports, seen, order)
        backwards: dict[str, set[str]] = {name: set() for name in self.imports}
        for name, imported in self.imports.items():
            for other in imported:
                backwards[other].add(name)
        seen.clear()
        groups: list[list[str]] = []
        for start in reversed(order):
            group: list[str] = []
            self._visit(start, backwards, seen, group)
            if len(group) > 1:
                groups.append(sorted(group))
        return groups

    @staticmethod
    def _visit(start: str, edges: Mapping[str, set[str]], seen: set[str], order: list[str]) -> None:
        stack = [(start, iter(edges[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            name, rest = stack[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    stack.append((other, iter(edges[other])))
                    break
            else:
                stack.pop()
                order.append(name)


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("__init__").rstrip("/").replace("/", ".")


def now() -> House:
    source = ROOT / "src" / "toolyard"
    return House({str(path.relative_to(source)): path.read_text() for path in sorted(source.rglob("*.py"))})


def at(commit: str) -> House | None:
    """The package at a commit; None without the history, as in a source distribution."""
    done = subprocess.run(
        ["git", "archive", "--format=tar", commit, "src/toolyard"], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode:
        return None
    sources: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                sources[member.name.removeprefix("src/toolyard/")] = content.read().decode()
    return House(sources)


def figures(house: House) -> dict[str, int]:
    lengths = house.lengths()
    return {
        "modules": len(lengths),
        "lines": sum(lengths),
        "median length of a module": int(median(lengths)),
        f"modules with one importer and under {SMALL} lines": len(house.small_with_one_importer()),
        "class names that mean two things": len(house.shared_names()),
        "import cycles, deferred imports included": len(house.cycles()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="make house", description=__doc__.splitlines()[0])
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="what to compare with")
    parser.add_argument("--names", action="store_true", help="also name the modules, classes and cycles")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    options = parser.parse_args()
    house, old = now(), at(options.before)
    console = Console()
    if options.names:
        for name in house.small_with_one_importer():
            console.print(f"small, one importer: {name}", markup=False)
        for name, modules in house.shared_names().items():
            console.print(f"two things: {name} in {', '.join(modules)}", markup=False)
        for group in house.cycles():
            console.print(f"cycle: {', '.join(group)}", markup=False)
    today = figures(house)
    before = {} if old is None else figures(old)
    table = Table("", *([f"before ({options.before})"] if before else []), "now")
    rows = [(what, *([f"{before[what]:,}"] if before else []), f"{count:,}") for what, count in today.items()]
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if options.write and before:
        page = PAGE.read_text()
        head, _, rest = page.partition(START)
        _, _, tail = rest.partition(END)
        lines = ["| | before | now |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
        PAGE.write_text(head + START + "\n".join(lines) + "\n" + END + tail)


if __name__ == "__main__":
    main()
