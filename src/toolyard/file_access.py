"""Whether files and folders of ours can be used, and in plain words why not: who owns what, and what to do.

Owns the words and the trial; whoever keeps something in a file decides what follows.
"""

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

TRIED_BYTES = 16 * 1024
"""What is written as a trial: a full disk may still have room for a name."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileFault(NamedTuple):
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"{self.reason}; hint: {self.hint}"


def try_writing(folder: Path) -> None:
    """Write a little into a folder, or into what is there of its path, and remove it.

    Raises OSError with the folder as its `filename`.
    """
    place = folder
    while is_missing(place):
        place = place.parent
    path = place / f".toolyard-{os.urandom(8).hex()}"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            path.unlink()  # first, so that a process that is killed here leaves nothing
            if os.write(handle, bytes(TRIED_BYTES)) != TRIED_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
    except OSError as error:
        error.filename = str(folder)
        raise


def is_missing(path: Path) -> bool:
    """False also if it cannot be seen: whoever opens it is told why."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def explain(error: OSError, path: Path) -> FileFault:
    """Why a path cannot be used, and what to do."""
    path = Path(os.path.abspath(path))
    if error.errno in _NO_ROOM:
        return FileFault(f"the disk of {str(path)!r} is full", "free some space")
    if error.errno == errno.EROFS:
        return FileFault(f"{str(path)!r} is on a read-only file system", "choose another place")
    if error.errno in (errno.EACCES, errno.EPERM) and (found := refusal(path)) is not None:
        return found
    return FileFault(f"{str(path)!r}: {error.strerror or error}", "choose another place")


def refusal(path: Path) -> FileFault | None:
    """Who keeps this user from reading and writing a path; None if nobody does."""
    if os.name != "posix":
        return None
    place, missing = _refusing(path)
    if place is None:
        return None
    found, user = os.stat(place), current_user()
    shown, quoted = repr(str(place)), shlex.quote(str(place))
    if found.st_uid == os.geteuid():
        mode = stat.S_IMODE(found.st_mode)
        return FileFault(f"the mode of {shown} is {mode:04o}", f"chmod u+rwX {quoted}")
    owner = _name(found.st_uid)
    whose = f"{shown} belongs to {owner}, and this user is {user}"
    if missing is not None:
        make = f"install -d -m 700 -o {user} {shlex.quote(str(missing))}"
        return FileFault(f"{str(missing)!r} cannot be made: {whose}", f"as {owner}: {make}")
    give = f"chown -R {user} {quoted}"
    if place != path:
        give = f"if it is Toolyard's alone: {give}; else choose another place"
    return FileFault(whose, give)


def current_user() -> str:
    return _name(os.geteuid()) if os.name == "posix" else ""


def _refusing(path: Path) -> tuple[Path | None, Path | None]:
    """What of a path refuses, and the folder that cannot be made there, if there is one missing."""
    before = Path(path.anchor)
    for part in (*reversed(path.parents), path):
        try:
            os.stat(part)
        except PermissionError:
            return before, None
        except OSError:
            return _unless(os.W_OK | os.X_OK, before), None if part == path else part
        before = part
    if path.is_dir():
        return _unless(os.R_OK | os.W_OK | os.X_OK, path), None
    # A file is replaced by a new one in its folder, so both are needed.
    return _unless(os.R_OK | os.W_OK, path) or _unless(os.W_OK | os.X_OK, path.parent), None


def _unless(wanted: int, path: Path) -> Path | None:
    return None if os.access(path, wanted) else path


def _name(user: int) -> str:
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # no such user in a container
        return str(user)
