"""One workspace: a folder whose files are read and written only through a handle of that folder.

Owns the operations on files: what a name leads to, writes that happen whole or not at all, and the limits.
A write goes into an unfinished file beside its target, which is then renamed over it. So a reader sees the
old content or the new one, also if this process is killed; unfinished files that remain are swept before the
next write. Nothing is synced to the disk: a power cut may lose what was written last.

Symbolic links are never followed, wherever they lead. A hard link cannot be told from the file itself and is
read like any file; a write replaces the name, and leaves the content that the link shares alone. Only regular
files are opened.
"""

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
import sys
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from msgspec import Struct

from .beneath import FOLDER, O_CLOEXEC, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, SUPPORTED, Open, open_beneath
from .errors import WorkspaceError, workspace_error
from .names import RESERVED, parts_of, unfit_name
from .usage import ChangeListener, FolderUsage, WorkspaceChange, WorkspaceLimits, usage_of

if sys.platform != "win32":
    import fcntl

_READ = os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_CLOEXEC
_UNFINISHED = f"{RESERVED}-new-"
_COPY_BYTES = 1024 * 1024
_BUFFER_BYTES = 256 * 1024
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

EntryKind = Literal["file", "folder", "other"]


class WorkspaceEntry(Struct, frozen=True):
    """A file or a folder. `other` is what cannot be used: a link, a device, a FIFO, a socket."""

    name: str
    path: str
    """Relative to the workspace."""
    kind: EntryKind
    size: int
    """In bytes; 0 for a folder."""
    modified: float
    """Seconds since 1970."""


Entries = list[WorkspaceEntry]
"""Named here, since `list` is a method of a workspace."""


class Workspace:
    """Every path is relative, or absolute and inside. Methods block, and raise WorkspaceError."""

    def __init__(
        self,
        root: str | Path,
        limits: WorkspaceLimits = WorkspaceLimits(),  # noqa: B008 (frozen)
        *,
        open_file: Open | None = None,
        kept: frozenset[str] = frozenset(),
        is_setting: bool = False,
    ) -> None:
        """Makes the folder if it is missing. Links on the way to it are the operator's, and are followed.

        `open_file` is how files below a folder are opened: by default, the best way that the system has.
        `kept` are names at the top that can be read and not changed. `is_setting`: the root is the setting
        `workspace` itself, so that another folder there would have other paths inside.
        """
        self._kept = kept
        self._is_setting = is_setting
        given = Path(os.path.abspath(Path(root).expanduser()))
        try:
            given.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(given, os.O_RDONLY | O_CLOEXEC | getattr(os, "O_DIRECTORY", 0))
            resolved = given.resolve()
        except OSError as error:
            raise _not_opened(error, given) from None
        self._prepare(handle, resolved, limits, open_file or open_beneath())
        self.base = self.root
        """The folder in which it was opened, with others beside it; itself, if it stands alone."""
        self._roots = tuple(dict.fromkeys((str(resolved), str(given))))

    @classmethod
    def below(cls, parent: "Workspace", *names: str) -> "Workspace":
        """The workspace in a folder of another one, made if it is missing. The names are not a caller's."""
        found = cls.__new__(cls)
        found._kept = frozenset[str]()
        found._is_setting = False
        with _errors("/".join(names)):
            handle = parent._make_folders(names, _make_folder)
        found._prepare(handle, parent.root.joinpath(*names), parent._limits, parent._open)
        found.base = parent.root
        found._roots = (str(found.root),)
        return found

    def _prepare(self, handle: int, root: Path, limits: WorkspaceLimits, open_file: Open) -> None:
        self.root = root
        # Not closed while a thread may still use it: the number would soon be another file's.
        weakref.finalize(self, os.close, handle)
        if not SUPPORTED:
            raise WorkspaceError("no_folder", str(root), detail="unsupported")
        self._handle = handle
        self._limits = limits
        self._open = open_file
        identity = os.fstat(handle)
        self._usage: FolderUsage = usage_of(identity.st_dev, identity.st_ino)

    @property
    def limits(self) -> WorkspaceLimits:
        return self._limits

    @property
    def is_removed(self) -> bool:
        """Whether somebody removed the folder."""
        return os.fstat(self._handle).st_nlink == 0

    def relative(self, path: str) -> str:
        """`a/b.txt`, or `.` for the workspace itself."""
        return "/".join(self._parts(path)) or "."

    def absolute(self, path: str) -> str:
        """For sentences; whoever opens it by this name may be led elsewhere."""
        return str(self.root.joinpath(*self._parts(path)))

    def open_read(self, path: str) -> BinaryIO:
        """Opens a regular file; never waits for a FIFO or a device."""
        parts = self._parts(path)
        with _errors(path):
            if not parts:
                raise WorkspaceError("not_a_file", path)
            self._check_kind(parts, path)
            handle = self._open(self._handle, parts, _READ, 0)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise WorkspaceError("not_a_file", path)
                os.set_blocking(handle, True)
                return os.fdopen(handle, "rb")
            except BaseException:
                os.close(handle)
                raise

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """A whole file, or up to `size` bytes from `start` on."""
        most = self._limits.max_read_bytes
        with self.open_read(path) as file, _errors(path):
            length = os.fstat(file.fileno()).st_size
            wanted = max(0, length - start) if size is None else size
            if wanted > most:
                raise WorkspaceError("too_large", path, limit=most)
            file.seek(start)
            # A file that grows meanwhile, or does not know its size, is not read for ever.
            return file.read(wanted if size is not None or length else most)

    def stat(self, path: str) -> WorkspaceEntry:
        parts = self._parts(path)
        with _errors(path):
            if not parts:
                return _entry("", ".", os.fstat(self._handle))
            with self._folder(parts[:-1]) as folder:
                found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        return _entry(parts[-1], "/".join(parts), found)

    @contextmanager
    def open_folder(self, path: str = ".") -> Generator[int]:
        """A handle of a folder, for programs and system calls that take one."""
        parts = self._parts(path)
        with _errors(path):
            handle = self._open(self._handle, parts, FOLDER, 0)
        try:
            yield handle
        finally:
            os.close(handle)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there; raises WorkspaceError for a path that is not allowed."""
        try:
            return self.stat(path).kind != "other"
        except WorkspaceError as error:
            if error.code in ("missing", "not_a_folder"):
                return False
            raise

    def list(self, path: str = ".", limit: int | None = None) -> Entries:
        """The entries of a folder, by name; with a limit, at most so many, whichever the disk has first."""
        parts = self._parts(path)
        with _errors(path):
            return self._list(parts, limit)

    def walk(self, path: str = ".") -> Iterator[WorkspaceEntry]:
        """Every file and folder below a folder, a folder before what is in it, by name."""
        waiting = list(reversed(self.list(path)))
        while waiting:
            entry = waiting.pop()
            yield entry
            if entry.kind == "folder":
                # It may be gone meanwhile, or have become a link.
                with contextlib.suppress(WorkspaceError), _errors(entry.path):
                    waiting.extend(reversed(self._list(entry.path.split("/"), None)))

    @contextmanager
    def create(self, path: str) -> Generator[BinaryIO]:
        """A file that takes its name when the block ends without an error, and is removed otherwise.

        Makes the folders on the way and replaces a file of that name.
        """
        parts = self._target(path)
        with _errors(path):
            folder = self._make_folders(parts[:-1], self._make_counted)
        try:
            files = 0 if self._is_replaced(folder, parts[-1], path) else 1
            growth = _Growth(self._usage, self._limits, self._measure, path, files)
            with growth, self._unfinished(folder, path) as (name, handle):
                raw = _GrowingFile(handle, growth)
                file = io.BufferedRandom(raw, _BUFFER_BYTES)
                try:
                    yield cast(BinaryIO, file)
                    file.close()
                except BaseException:
                    raw.give_up()
                    file.close()
                    raise
                with _errors(path):
                    growth.reach(os.fstat(handle).st_size)  # a child process may have written as well
                    change = _finish(folder, name, parts, growth)
        finally:
            os.close(folder)
        self._usage.publish(change)

    def write(self, path: str, data: bytes) -> WorkspaceEntry:
        if len(data) > self._limits.max_file_bytes:
            raise WorkspaceError("too_large", path, limit=self._limits.max_file_bytes)
        with self.create(path) as file:
            file.write(data)
        return self.stat(path)

    def take(self, source: int | Path, path: str) -> WorkspaceEntry:
        """Brings in a finished file: moves the one at a path, or copies the one behind a handle.

        The path is a tool's own, such as one in its scratch folder. A link there is not followed.
        """
        if isinstance(source, int):
            with self.create(path) as file:
                _copy(source, file)
            return self.stat(path)
        try:
            handle = os.open(source, _READ)
        except OSError as error:
            raise workspace_error(error, source.name) from None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise WorkspaceError("not_a_file", source.name)
            if not self._move(source, handle, path):
                with self.create(path) as file:
                    _copy(handle, file)
                source.unlink(missing_ok=True)
        finally:
            os.close(handle)
        return self.stat(path)

    def make_folder(self, path: str) -> WorkspaceEntry:
        """Makes a folder and those above it, if they are missing."""
        parts = self._parts(path)
        with _errors(path):
            os.close(self._make_folders(parts, self._make_counted))
        return self.stat(path)

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with everything in it."""
        parts = self._target(path)
        with _errors(path):
            entry = self.stat(path)
            with self._folder(parts[:-1]) as folder:
                if entry.kind == "folder":
                    shutil.rmtree(parts[-1], dir_fd=folder)
                else:
                    os.unlink(parts[-1], dir_fd=folder)
        # Not subtracted here: what counted too much is noticed before a write is refused.
        self._usage.publish(WorkspaceChange("/".join(parts), "removed"))

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Calls a function after each change through a workspace of this folder in this process.

        It is called in the thread that made the change. Returns a function that ends it.
        """
        return self._usage.subscribe(listener)

    # Names.

    def _parts(self, path: str) -> Sequence[str]:
        try:
            return parts_of(path, self._roots)
        except WorkspaceError as error:
            if error.code == "outside" and path.startswith("/") and self._is_setting:
                error.wider = _folder_above(path)
            raise

    def _target(self, path: str) -> Sequence[str]:
        parts = self._parts(path)
        if not parts:
            raise WorkspaceError("not_a_file", path)
        # Without regard to case, because the disks of macOS have none.
        if parts[0].casefold() in self._kept:
            raise WorkspaceError("bad_name", path, detail="kept")
        return parts

    # Folders.

    @contextmanager
    def _folder(self, parts: Sequence[str]) -> Generator[int]:
        handle = self._open(self._handle, parts, FOLDER, 0)
        try:
            yield handle
        finally:
            os.close(handle)

    def _make_folders(self, parts: Sequence[str], make: Callable[[int, str], None]) -> int:
        """Opens a folder, and makes it and those above it if they are missing."""
        with contextlib.suppress(FileNotFoundError):
            return self._open(self._handle, parts, FOLDER, 0)
        held = os.dup(self._handle)
        try:
            for part in parts:
                try:
                    following = self._open(held, (part,), FOLDER, 0)
                except FileNotFoundError:
                    make(held, part)
                    following = self._open(held, (part,), FOLDER, 0)
                os.close(held)
                held = following
        except BaseException:
            os.close(held)
            raise
        return held

    def _make_counted(self, parent: int, name: str) -> None:
        self._usage.reserve(name, 0, 1, self._limits, self._measure)
        try:
            self._usage.commit(0, 1, lambda: _make_folder(parent, name))
        except OSError:
            self._usage.release(0, 1)
            raise

    def _list(self, parts: Sequence[str], limit: int | None) -> Entries:
        found: list[WorkspaceEntry] = []
        above = "/".join(parts) + "/" if parts else ""
        with self._folder(parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if limit is not None and len(found) >= limit:
                    break
                if unfit_name(entry.name) is None:
                    with contextlib.suppress(FileNotFoundError):
                        information = entry.stat(follow_symlinks=False)
                        found.append(_entry(entry.name, above + entry.name, information))
        return sorted(found, key=lambda entry: entry.name)

    def _measure(self) -> tuple[int, int]:
        """Counts bytes and files, and sweeps what killed processes left unfinished."""
        size = files = 0
        waiting: list[list[str]] = [[]]
        while waiting:
            parts = waiting.pop()
            with contextlib.suppress(OSError), self._folder(parts) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(_UNFINISHED):
                        _sweep(folder, entry.name)
                    elif entry.is_dir(follow_symlinks=False):
                        files += 1
                        waiting.append([*parts, entry.name])
                    else:
                        files += 1
                        with contextlib.suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_size
        return size, files

    # Files.

    def _check_kind(self, parts: Sequence[str], path: str) -> None:
        """Refuses devices before they are opened, since opening one may do something."""
        with self._folder(parts[:-1]) as folder:
            mode = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise WorkspaceError("link", path)
        if not stat.S_ISREG(mode):
            raise WorkspaceError("not_a_file", path)

    def _is_replaced(self, folder: int, name: str, path: str) -> bool:
        """Whether there is a file to replace; refuses anything else. A rename follows no link in any case."""
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        except OSError as error:
            raise workspace_error(error, path) from None
        if stat.S_ISLNK(mode):
            raise WorkspaceError("link", path)
        if not stat.S_ISREG(mode):
            raise WorkspaceError("not_a_file", path)
        return True

    @contextmanager
    def _unfinished(self, folder: int, path: str) -> Generator[tuple[str, int]]:
        """A locked file that is removed at the end, unless it got another name."""
        with _errors(path):
            name, handle = _new_file(folder)
        try:
            yield name, handle
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            os.close(handle)

    def _move(self, source: Path, handle: int, path: str) -> bool:
        """Moves a file in if it is on the same disk."""
        parts = self._target(path)
        information = os.fstat(handle)
        if information.st_nlink != 1:
            return False
        with _errors(path):
            folder = self._make_folders(parts[:-1], self._make_counted)
        name = _UNFINISHED + secrets.token_hex(8)
        try:
            files = 0 if self._is_replaced(folder, parts[-1], path) else 1
            growth = _Growth(self._usage, self._limits, self._measure, path, files)
            with growth, _errors(path):
                growth.reach(information.st_size)
                _lock(handle)  # or it would be swept
                try:
                    os.rename(source, name, dst_dir_fd=folder)
                except OSError as error:
                    if error.errno == errno.EXDEV:
                        return False
                    raise
                try:
                    moved = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if (moved.st_dev, moved.st_ino) != (information.st_dev, information.st_ino):
                        raise WorkspaceError("link", source.name)
                    os.fchmod(handle, 0o600)
                    change = _finish(folder, name, parts, growth)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
        self._usage.publish(change)
        return True


class _Growth:
    """The room reserved for a file while it is written; a context that gives it back."""

    def __init__(
        self,
        usage: FolderUsage,
        limits: WorkspaceLimits,
        measure: Callable[[], tuple[int, int]],
        path: str,
        files: int,
    ) -> None:
        self._usage = usage
        self._limits = limits
        self._measure = measure
        self._path = path
        self._files = files
        self.size = 0

    def __enter__(self) -> None:
        self._usage.reserve(self._path, 0, self._files, self._limits, self._measure)

    def __exit__(self, *_: object) -> None:
        self._usage.release(self.size, self._files)

    def reach(self, size: int) -> None:
        """Reserves room up to this size."""
        if size <= self.size:
            return
        if size > self._limits.max_file_bytes:
            raise WorkspaceError("too_large", self._path, limit=self._limits.max_file_bytes)
        self._usage.reserve(self._path, size - self.size, 0, self._limits, self._measure)
        self.size = size

    def commit(self, rename: Callable[[], int | None]) -> int | None:
        """Counts the file as one that is there; returns the size of the one that it replaced."""
        replaced = self._usage.commit(self.size, self._files, rename)
        self.size = self._files = 0
        return replaced

    def failed(self, error: OSError) -> WorkspaceError:
        return workspace_error(error, self._path)


class _GrowingFile(io.FileIO):
    """A file that reserves the room it needs before it is written. Leaves its handle open."""

    def __init__(self, handle: int, growth: _Growth) -> None:
        super().__init__(handle, "r+b", closefd=False)
        self._growth = growth
        self._given_up = False

    def give_up(self) -> None:
        """Drops what is written from now on, such as what is still buffered."""
        self._given_up = True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._given_up:
            return memoryview(data).nbytes
        self._growth.reach(self.tell() + memoryview(data).nbytes)
        try:
            return super().write(data)
        except OSError as error:
            raise self._growth.failed(error) from None

    def truncate(self, size: int | None = None) -> int:
        self._growth.reach(self.tell() if size is None else size)
        try:
            return super().truncate(size)
        except OSError as error:
            raise self._growth.failed(error) from None


@contextmanager
def _errors(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise workspace_error(error, path) from None


def _not_opened(error: OSError, root: Path) -> WorkspaceError:
    return WorkspaceError("no_folder", str(root), detail=error.strerror or type(error).__name__)


def _folder_above(path: str) -> str:
    """The folder that an absolute path is in, to be told; empty if it has none, or a name that is unfit."""
    normal = os.path.normpath(path)
    folder = os.path.dirname(normal).lstrip("/") or normal.lstrip("/")
    is_fit = folder and all(unfit_name(name) is None for name in folder.split("/"))
    return f"/{folder}" if is_fit else ""


def _entry(name: str, path: str, found: os.stat_result) -> WorkspaceEntry:
    kind: EntryKind = "other"
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    return WorkspaceEntry(name, path, kind, found.st_size if kind == "file" else 0, found.st_mtime)


def _make_folder(parent: int, name: str) -> None:
    with contextlib.suppress(FileExistsError):  # another thread was faster
        os.mkdir(name, 0o700, dir_fd=parent)


def _finish(folder: int, name: str, parts: Sequence[str], growth: _Growth) -> WorkspaceChange:
    """Gives a finished file its name."""

    def rename() -> int | None:
        replaced = _size_of(folder, parts[-1])
        os.replace(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        return replaced

    kind = "created" if growth.commit(rename) is None else "updated"
    return WorkspaceChange("/".join(parts), kind)


def _size_of(folder: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:
        return None


def _new_file(folder: int) -> tuple[str, int]:
    """Makes an unfinished file. Its lock shows that its process lives; without one, it is swept."""
    while True:
        name = _UNFINISHED + secrets.token_hex(8)
        handle = os.open(name, _NEW, 0o600, dir_fd=folder)
        try:
            _lock(handle)
            if os.fstat(handle).st_nlink:  # else another process swept it before the lock
                return name, handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # a disk without locks: nobody can sweep there either
            raise


def _sweep(folder: int, name: str) -> None:
    """Removes an unfinished file that no process is writing."""
    with contextlib.suppress(OSError):
        handle = os.open(name, _READ, dir_fd=folder)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
        finally:
            os.close(handle)


def _copy(source: int, file: BinaryIO) -> None:
    at = 0
    while data := os.pread(source, _COPY_BYTES, at):
        file.write(data)
        at += len(data)
