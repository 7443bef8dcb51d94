"""Data files as a database: which files an address means, and the view that each of them becomes.

`sales.csv` is one view, `folder/` one for each file in it and for each folder in it, `data/*.parquet` one of
all these files. Files are named by where they really are: what a link in a folder leads out to is left out.
"""

import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from ..model import DatabaseError

MOST_FILES = 10_000
MOST_COMPARED = 100
MOST_TABLES = 1_000
"""Each is looked into before it is listed, which takes some milliseconds."""
_KINDS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".tab": "CSV",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".parquet": "Parquet",
    ".pq": "Parquet",
}
_COMPRESSED = (".gz", ".zst")
_READERS = {"CSV": "read_csv", "JSON": "read_json", "Parquet": "read_parquet"}
_SUFFIXES = "hint: .csv, .tsv, .json, .jsonl, .ndjson and .parquet are read; .csv.gz and .json.gz too"
_WILD = re.compile(r"[*?\[]")
_OTHERS = re.compile(r"\W+")
_TAKEN = re.compile(r"(duckdb|pg|sqlite|pragma)_.*|which_secret|information_schema|\d.*", re.IGNORECASE)
"""Names that a statement cannot say, or that mean the tables of the system."""


class DataFile(Struct, frozen=True):
    """`changed` and `size` tell whether it is still the same."""

    path: str
    changed: int
    size: int


class FileView(Struct, frozen=True):
    name: str
    kind: str
    origin: str
    """For people: what it is made of."""
    files: tuple[DataFile, ...]

    @property
    def quoted(self) -> str:
        return f'"{self.name}"'

    @property
    def patterns(self) -> list[str]:
        return [_escaped(file.path) for file in self.files]

    @property
    def question(self) -> str:
        listed = ", ".join(map(literal, self.patterns))
        # Columns of files that do not all have the same are found by their names. That looks into each file
        # for each statement, so of many files the first ones speak for all.
        option = ", union_by_name = true" if 1 < len(self.files) <= MOST_COMPARED else ""
        return f"SELECT * FROM {_READERS[self.kind]}([{listed}]{option})"


class DataFiles(Struct, frozen=True):
    root: str
    views: tuple[FileView, ...]

    @classmethod
    def found(cls, path: Path) -> "DataFiles":
        """DatabaseError where there is nothing to read."""
        if path.is_dir():
            return cls(*_in_folder(path))
        if path.exists() or not _WILD.search(str(path)):
            return cls(*_alone(path))
        return cls(*_matching(path))

    def without_paths(self, said: str) -> str:
        """Where the files are on this machine is nobody's business."""
        return said.replace(self.root + os.sep, "")


def is_data(path: Path) -> bool:
    """Whether an address means data files; else it is a file of DuckDB's own."""
    return (
        path.is_dir() or _kind(path.name) is not None or (not path.exists() and bool(_WILD.search(str(path))))
    )


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _alone(path: Path) -> tuple[str, tuple[FileView, ...]]:
    if not path.exists():
        raise DatabaseError(f"there is no file {path.name!r}", "unusable")
    real = path.resolve()
    file = _file(str(real))
    if file is None:
        raise DatabaseError(f"{path.name!r} is no ordinary file", "unusable")
    kind = _kind(path.name)
    assert kind is not None
    view = FileView(_named(_stem(path.name)), kind, f"The file {path.name!r}", (file,))
    return str(real.parent), (view,)


def _in_folder(path: Path) -> tuple[str, tuple[FileView, ...]]:
    root = path.resolve()
    made: list[tuple[str, str, str, list[DataFile]]] = []
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir(follow_symlinks=False):
            below = _files_below(entry.path, str(root))
            for kind in sorted({kind for kind, _ in below}):
                files = [file for its, file in below if its == kind]
                origin = f"{len(files)} {kind} files in the folder {entry.name!r}"
                made.append((entry.name, kind, origin, files))
        elif (kind := _kind(entry.name)) and (file := _inside(entry.path, str(root))):
            made.append((_stem(entry.name), kind, f"The file {entry.name!r}", [file]))
    if not made:
        raise DatabaseError(
            f"there is no file with data in the folder {path.name!r}; {_SUFFIXES}", "unusable"
        )
    _check_count(sum(len(files) for *_, files in made), path)
    if len(made) > MOST_TABLES:
        raise DatabaseError(
            f"the folder {path.name!r} would have {len(made)} tables, and {MOST_TABLES} are read; hint: a "
            f"pattern, such as {path.name}/*.csv, makes one table of many files",
            "unusable",
        )
    return str(root), tuple(_with_names(made))


def _files_below(folder: str, root: str) -> list[tuple[str, DataFile]]:
    found: list[tuple[str, DataFile]] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            hidden = name.startswith((".", "_"))
            kind = None if hidden else _kind(name)
            file = _inside(os.path.join(where, name), root) if kind else None
            if kind and file:
                found.append((kind, file))
        if len(found) > MOST_FILES:
            break
    return found


def _matching(path: Path) -> tuple[str, tuple[FileView, ...]]:
    """The files of a pattern as one view; what has no wildcard in it is the folder they may be in."""
    parts = path.parts
    fixed = next(place for place, part in enumerate(parts) if _WILD.search(part))
    root = Path(*parts[:fixed]).resolve()
    shown = str(Path(*parts[max(0, fixed - 1) :])) if fixed else str(path)
    names = sorted(glob.iglob(str(Path(*parts[fixed:])), root_dir=root, recursive=True))
    found = [(_kind(name), file) for name in names if (file := _inside(os.path.join(root, name), str(root)))]
    kinds = {kind for kind, _ in found if kind}
    if not kinds:
        raise DatabaseError(f"no file with data matches {shown!r}; {_SUFFIXES}", "unusable")
    if len(kinds) > 1:
        several = " and ".join(sorted(kinds))
        raise DatabaseError(
            f"{shown!r} matches files of {several}, which do not make one table; hint: *.csv for those of "
            "one kind, or the folder for a table of each file",
            "unusable",
        )
    files = list(dict.fromkeys(file for kind, file in found if kind))  # a link and what it leads to are one
    _check_count(len(files), path)
    stem = _OTHERS.sub("_", _stem(_WILD.split(parts[-1])[0])).strip("_")
    name = stem or next((part for part in reversed(parts[:-1]) if not _WILD.search(part)), "") or "files"
    view = FileView(_named(name), kinds.pop(), f"{len(files)} files matching {shown!r}", tuple(files))
    return str(root), (view,)


def _with_names(made: Iterable[tuple[str, str, str, list[DataFile]]]) -> Iterator[FileView]:
    """Two of one name get the kind of their files added, and then a number."""
    made = list(made)
    twice = Counter(_named(name).casefold() for name, *_ in made)
    seen: set[str] = set()
    for name, kind, origin, files in made:
        own = _named(name)
        if twice[own.casefold()] > 1:
            own = f"{own}_{kind.lower()}"
        number, numbered = 1, own
        while numbered.casefold() in seen:
            number += 1
            numbered = f"{own}_{number}"
        seen.add(numbered.casefold())
        yield FileView(numbered, kind, origin, tuple(files))


def _named(text: str) -> str:
    """Letters, digits and underscores, so that most statements need no quotes."""
    name = _OTHERS.sub("_", text).strip("_") or "data"
    return f"_{name}" if _TAKEN.fullmatch(name) else name


def _kind(name: str) -> str | None:
    root, suffix = os.path.splitext(name.lower())
    if suffix in _COMPRESSED:
        kind = _KINDS.get(os.path.splitext(root)[1])
        return kind if kind != "Parquet" else None
    return _KINDS.get(suffix)


def _stem(name: str) -> str:
    root, suffix = os.path.splitext(name)
    return os.path.splitext(root)[0] if suffix.lower() in _COMPRESSED else root


def _inside(path: str, root: str) -> DataFile | None:
    real = os.path.realpath(path)
    return _file(real) if real.startswith(os.path.join(root, "")) else None


def _file(real: str) -> DataFile | None:
    """None for what is no ordinary file (reading a pipe would not end), or has a name that no text holds."""
    try:
        real.encode()
        seen = os.stat(real)
    except (OSError, UnicodeEncodeError):
        return None
    return DataFile(real, seen.st_mtime_ns, seen.st_size) if stat.S_ISREG(seen.st_mode) else None


def _escaped(path: str) -> str:
    """DuckDB takes a name for a pattern; a sign in brackets means itself."""
    return re.sub(r"[*?\[]", lambda sign: f"[{sign[0]}]", path)


def _check_count(count: int, path: Path) -> None:
    if count > MOST_FILES:
        raise DatabaseError(
            f"there are more than {MOST_FILES} files in {path.name!r}; hint: name a part of them", "unusable"
        )
