"""Looking for bytes in another process's memory, as somebody would who got hold of it."""

from collections.abc import Iterable
from pathlib import Path

_PIECE = 16 * 1024 * 1024


def found_in(pid: int, wanted: Iterable[bytes]) -> set[bytes]:
    """Those of the wanted bytes that are somewhere in what the process can read."""
    missing = set(wanted)
    overlap = max(map(len, missing)) - 1
    found: set[bytes] = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end in _regions(pid):
            before = b""
            for at in range(start, end, _PIECE):
                try:
                    memory.seek(at)
                    piece = before + memory.read(min(_PIECE, end - at))
                except OSError:
                    break  # a region of the kernel's, which nobody can read
                found |= {text for text in missing - found if text in piece}
                before = piece[-overlap:]
    return found


def _regions(pid: int) -> list[tuple[int, int]]:
    regions: list[tuple[int, int]] = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        where, rights, *_ = line.split()
        if rights.startswith("r"):
            start, end = where.split("-")
            regions.append((int(start, 16), int(end, 16)))
    return regions
