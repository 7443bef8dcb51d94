"""Writes the list of files into docs/concepts/architecture.md: `python scripts/file_tree.py`.

The page repeats the first sentence of each file's docstring, and `check_docs` checks that it is up to date.
Packages are in the order of the layers in pyproject.toml, the lowest first.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "toolyard"
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
MARKS = ("<!-- files: written by `python scripts/file_tree.py` -->", "<!-- end of files -->")
NAMES = 25  # width of the column of names


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")


def renewed(page: str) -> str:
    """The page with the current list of files."""
    before, found, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (found and end):
        sys.exit(f"error: {PAGE.name} has no lines {MARKS[0]!r} and {MARKS[1]!r}")
    lines = "\n".join(tree())
    return f"{before}{MARKS[0]}\n\n```text\n{lines}\n```\n\n{MARKS[1]}{after}"


def tree() -> Iterator[str]:
    for part in parts():
        folder, file = SOURCE / part, SOURCE / f"{part}.py"
        if folder.is_dir():
            yield from _folder(folder, 0)
        elif file.is_file():
            yield _line(file.name, file, 0)


def parts() -> Iterator[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = next(
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["name"] == "layers"
    )
    for layer in reversed(layers):
        yield from sorted(re.findall(r"\w+", layer))


def _folder(folder: Path, depth: int) -> Iterator[str]:
    yield _line(f"{folder.name}/", folder / "__init__.py", depth)
    for file in sorted(folder.glob("*.py")):
        if file.stem != "__init__":
            yield _line(file.name, file, depth + 1)
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _folder(inner, depth + 1)


def _line(name: str, file: Path, depth: int) -> str:
    return f"{'  ' * depth + name:<{NAMES}}{_purpose(file)}".rstrip()


def _purpose(file: Path) -> str:
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    paragraph = " ".join(said.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0]


if __name__ == "__main__":
    main()
