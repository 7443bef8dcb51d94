"""Data files as a database: which files an address means, and which views they become.

`sales.csv` is one view; `folder/` has one for each file and each folder in it; `data/*.parquet` is one view
of all these files. Links are resolved; a file outside the folder is left out.
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
"""Each is opened before it is listed, which takes some milliseconds."""
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
"""Names that a statement cannot write without quotes, or that mean system tables."""


class DataFile(Struct, frozen=True):
    """`changed` and `size` show whether it is still the same."""

    path: str
    changed: int
    size: int


class FileView(Struct, frozen=True):
    name: str
    kind: str
    origin: str
    """For people: the files it is made of."""
    files: tuple[DataFile, ...]

    @property
    def quoted(self) -> str:
        return f'"{self.name}"'

    @property
    def patterns(self) -> list[str]:
        return [_escaped(file.path) for file in self.files]

    @property
    def query(self) -> str:
        listed = ", ".join(map(literal, self.patterns))
        # Match columns by name, because files may have different ones. That opens each file for each
        # statement, so with many files the columns of the first ones count.
        option = ", union_by_name = true" if 1 < len(self.files) <= MOST_COMPARED else ""
        return f"SELECT * FROM {_READERS[self.kind]}([{listed}]{option})"


class DataFiles(Struct, frozen=True):
    root: str
    views: tuple[FileView, ...]

    @classmethod
    def find(cls, path: Path) -> "DataFiles":
        """Raises DatabaseError if there is nothing to read."""
        if path.is_dir():
            return cls(*_in_folder(path))
        if path.exists() or not _WILD.search(str(path)):
            return cls(*_alone(path))
        return cls(*_matching(path))

    def without_paths(self, text: str) -> str:
        """The text without the folder of the files, which callers must not learn."""
        return text.replace(self.root + os.sep, "")


def is_data(path: Path) -> bool:
    """Whether the path means data files; otherwise it is a DuckDB database."""
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
        raise DatabaseError(f"{path.name!r} is not a regular file", "unusable")
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
        raise DatabaseError(f"no data files in the folder {path.name!r}; {_SUFFIXES}", "unusable")
    _check_count(sum(len(files) for *_, files in made), path)
    if len(made) > MOST_TABLES:
        raise DatabaseError(
            f"the folder {path.name!r} would have {len(made)} tables; the limit is {MOST_TABLES}; hint: a "
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
    """The files of a pattern as one view. They must be in the folder before the first wildcard."""
    parts = path.parts
    fixed = next(index for index, part in enumerate(parts) if _WILD.search(part))
    root = Path(*parts[:fixed]).resolve()
    shown = str(Path(*parts[max(0, fixed - 1) :])) if fixed else str(path)
    names = sorted(glob.iglob(str(Path(*parts[fixed:])), root_dir=root, recursive=True))
    found = [(_kind(name), file) for name in names if (file := _inside(os.path.join(root, name), str(root)))]
    kinds = {kind for kind, _ in found if kind}
    if not kinds:
        raise DatabaseError(f"no data file matches {shown!r}; {_SUFFIXES}", "unusable")
    if len(kinds) > 1:
        several = " and ".join(sorted(kinds))
        raise DatabaseError(
            f"{shown!r} matches files of {several}, which do not make one table; hint: *.csv for files of "
            "one kind, or the folder for a table of each file",
            "unusable",
        )
    files = list(dict.fromkeys(file for kind, file in found if kind))  # a link and its target are one file
    _check_count(len(files), path)
    stem = _OTHERS.sub("_", _stem(_WILD.split(parts[-1])[0])).strip("_")
    name = stem or next((part for part in reversed(parts[:-1]) if not _WILD.search(part)), "") or "files"
    view = FileView(_named(name), kinds.pop(), f"{len(files)} files matching {shown!r}", tuple(files))
    return str(root), (view,)


def _with_names(made: Iterable[tuple[str, str, str, list[DataFile]]]) -> Iterator[FileView]:
    """Makes names unique: adds the kind of the files, and then a number."""
    made = list(made)
    counts = Counter(_named(name).casefold() for name, *_ in made)
    seen: set[str] = set()
    for name, kind, origin, files in made:
        own = _named(name)
        if counts[own.casefold()] > 1:
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
    """None unless it is a regular file (reading a pipe would not end) with a valid name."""
    try:
        real.encode()
        status = os.stat(real)
    except (OSError, UnicodeEncodeError):
        return None
    return DataFile(real, status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _escaped(path: str) -> str:
    """DuckDB reads a name as a pattern; a character in brackets means itself."""
    return re.sub(r"[*?\[]", lambda sign: f"[{sign[0]}]", path)


def _check_count(count: int, path: Path) -> None:
    if count > MOST_FILES:
        raise DatabaseError(
            f"there are more than {MOST_FILES} files in {path.name!r}; hint: use a pattern or a subfolder",
            "unusable",
        )
