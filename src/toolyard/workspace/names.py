"""The names that files may have in a workspace, and how a caller's path becomes a relative one.

Owns the rules for text. Where a path leads on the disk is the business of `beneath`.
"""

import unicodedata
from collections.abc import Sequence

from .errors import WorkspaceError

RESERVED = ".toolyard"
"""Begins the names that belong to workspaces themselves, such as those of unfinished files."""
MAX_PATH_BYTES = 2048
MAX_NAME_BYTES = 255
MAX_DEPTH = 32

# Control characters, lone surrogates (a name that is not UTF-8), line and paragraph separators.
_UNSEEN = ("Cc", "Cs", "Zl", "Zp")
# They turn the direction of text, so that `gpj.exe` is read as `exe.jpg`.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def parts_of(path: str, roots: Sequence[str]) -> list[str]:
    """The names on the way to a file; none for the workspace itself.

    Takes a relative path, or an absolute one below one of `roots`. `..` is resolved as text, which is right
    because links are never followed. Raises WorkspaceError.
    """
    if not path or not path.strip():
        raise WorkspaceError("bad_name", path, detail="empty")
    if len(path) > MAX_PATH_BYTES or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise WorkspaceError("bad_name", path, detail="long")
    if "://" in path:
        raise WorkspaceError("bad_name", path, detail="address")
    if path == "~" or path.startswith("~/"):
        raise WorkspaceError("outside", path)
    parts: list[str] = []
    for part in _below(path, roots).split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts:
                raise WorkspaceError("outside", path)
            parts.pop()
            continue
        unfit = unfit_name(part)
        if unfit is not None:
            raise WorkspaceError("bad_name", path, detail=unfit)
        parts.append(part)
    if len(parts) > MAX_DEPTH:
        raise WorkspaceError("bad_name", path, detail="deep")
    return parts


def unfit_name(name: str) -> str | None:
    """Why a file cannot have this name, as a key of the details of WorkspaceError; None if it can."""
    if name.isascii():
        if "\\" in name:
            return "backslash"
        if not name.isprintable():
            return "control"
    else:
        if any(unicodedata.category(character) in _UNSEEN for character in name):
            return "control"
        if not _TURNING.isdisjoint(name):
            return "control"
        if "\\" in name:
            return "backslash"
        plain = unicodedata.normalize("NFKC", name[:MAX_NAME_BYTES])
        if plain in (".", "..") or "/" in plain or "\\" in plain:
            return "look_alike"
    if len(name.encode()) > MAX_NAME_BYTES:
        return "long"
    # Without regard to case, because the disks of macOS have none.
    if name.casefold().startswith(RESERVED):
        return "reserved"
    return None


def _below(path: str, roots: Sequence[str]) -> str:
    """The part of an absolute path below one of the roots; a relative path as it is."""
    if not path.startswith("/"):
        return path
    for root in roots:
        if path == root:
            return "."
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    raise WorkspaceError("outside", path)
