"""Which files of a folder are read, and in which order: what comes later wins."""

from collections.abc import Iterable
from pathlib import Path

from .knowledge import Knowledge, NotesError
from .parts import read
from .reading import knowledge_in

MOST_FILES = 2000
MOST_BYTES = 32 * 1024 * 1024

# From the general to the particular; YAML is by hand, and has the last word.
_ORDER = (
    "catalog.json",
    "tables/*.json",
    "schema.json",
    "relationships.json",
    "overlays/*.json",
    "*.yaml",
    "*.yml",
    "tables/*.yaml",
    "tables/*.yml",
)


def read_folder(folder: Path) -> Knowledge:
    """Raises NotesError, with the file and the line, for what cannot be used."""
    if not folder.is_dir():
        raise NotesError(f"{str(folder)!r} is not a folder")
    files = [path for pattern in _ORDER for path in sorted(folder.glob(pattern)) if path.is_file()]
    _check_amount(files, folder)
    found = Knowledge()
    for path in files:
        shown = path.relative_to(folder).as_posix()
        found.add(knowledge_in(read(path, shown), strict=path.suffix != ".json"))
    return found


def _check_amount(files: Iterable[Path], folder: Path) -> None:
    sizes = [path.stat().st_size for path in files]
    if len(sizes) > MOST_FILES:
        raise NotesError(f"{str(folder)!r} has over {MOST_FILES} files of notes")
    if sum(sizes) > MOST_BYTES:
        raise NotesError(f"the notes in {str(folder)!r} are over {MOST_BYTES >> 20} MiB")
