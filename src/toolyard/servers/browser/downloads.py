"""Where a download goes: an owner's own folder, under a name that is safe there."""

import re
import tempfile
from pathlib import Path

from .vault import Owner

_UNSAFE = re.compile(r"[^\w.()+ -]+")
MAX_NAME = 120
MAX_BYTES = 180


class Shelf:
    """The downloads of every owner; without a folder they last as long as the server."""

    def __init__(self, folder: Path | None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="toolyard-") if folder is None else None
        self._folder = Path(self._temporary.name) if self._temporary is not None else folder

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def place(self, owner: Owner, suggested: str) -> Path:
        """An empty file to write over, of that name or one like it."""
        folder = self._of(owner)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = safe_name(suggested)
        stem, _, suffix = name.rpartition(".")
        for number in range(1, 10_000):
            numbered = (
                name if number == 1 else f"{stem or suffix} ({number})" + (f".{suffix}" if stem else "")
            )
            try:
                (folder / numbered).touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                continue
            return folder / numbered
        raise FileExistsError(name)

    def names(self, owner: Owner) -> list[str]:
        folder = self._of(owner)
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def read(self, owner: Owner, name: str) -> bytes | None:
        """None when the owner has none of that name; a path is no name."""
        return (self._of(owner) / name).read_bytes() if name in self.names(owner) else None

    def _of(self, owner: Owner) -> Path:
        assert self._folder is not None
        readable = _UNSAFE.sub("_", "-".join(part for part in owner if part))[:40].strip(". ")
        return self._folder / f"{readable or 'local'}-{owner.mark[:12]}"


def safe_name(suggested: str) -> str:
    last = suggested.replace("\\", "/").rsplit("/", 1)[-1]
    name = _UNSAFE.sub("_", last).strip(". ")
    stem, dot, suffix = name.rpartition(".")
    if dot and len(suffix) <= 10:
        return (_short(stem, MAX_NAME - 11).rstrip(". ") or "download") + "." + suffix
    return _short(name, MAX_NAME) or "download"


def _short(name: str, most: int) -> str:
    """File systems count bytes, and have room for 255."""
    return name[:most].encode()[:MAX_BYTES].decode(errors="ignore")
