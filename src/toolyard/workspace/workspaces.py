"""Which folder is whose: one workspace for each owner and conversation, none of which lies below another.

A caller that nobody identified, in no conversation, has the folder itself, as on stdio. All others have
folders in one beside it, `.toolyard-NAME`. So a program that is given a whole workspace, such as a box that
mounts it, has nobody else's. A conversation that this process itself leads, such as the run of an agent, may
have a folder elsewhere: `adopt_folder`.
"""

import contextlib
import errno
import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..config.files import state_home
from ..wire.call import Caller, Principal
from .beneath import FOLDER, O_CLOEXEC, O_NOFOLLOW, Open
from .errors import WorkspaceError
from .names import RESERVED
from .usage import WorkspaceLimits
from .workspace import Workspace

VARIABLE = "TOOLYARD_WORKSPACE"
_OPEN = 256
"""How many workspaces are held open; each is a file handle."""
_MARK = re.compile(r"[0-9a-f]{32}")
_MOVED = f"{RESERVED}-moved"
"""In the folder of the others: what older versions kept for them elsewhere is here."""


_adopted: dict[tuple[str, str], tuple[Path, frozenset[str]]] = {}


@contextmanager
def adopt_folder(
    owner: str, thread: str, folder: Path, kept: frozenset[str] = frozenset()
) -> Generator[None]:
    """Gives one conversation a folder of its own in all servers of this process, however they are set up.

    `kept` are names at its top that callers can read and not change.
    """
    _adopted[owner, thread] = (folder, kept)
    try:
        yield
    finally:
        _adopted.pop((owner, thread), None)


class Workspaces:
    """Opens nothing before the first call. Servers with the same folder have the same workspaces."""

    def __init__(
        self,
        folder: str = "",
        *,
        shared: bool = False,
        limits: WorkspaceLimits = WorkspaceLimits(),  # noqa: B008 (frozen)
        open_file: Open | None = None,
    ) -> None:
        """Without a folder: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder.

        `shared` gives an owner one workspace for all conversations.
        """
        self._folder = _folder(folder)
        self._shared = shared
        self._limits = limits
        self._open_file = open_file
        self._lock = threading.Lock()
        self._base: Workspace | None = None
        self._others: Workspace | None = None
        self._all_moved = False
        """In which all have their workspaces but the caller that has `_base`."""
        self._open: OrderedDict[tuple[str, str], Workspace] = OrderedDict()

    def of(self, caller: Caller) -> Workspace:
        """Raises WorkspaceError if the folder cannot be opened."""
        key = self.key(caller)
        with self._lock:
            return self._found(key)

    def shown_to_code(self, caller: Caller) -> Workspace:
        """As `of`, for a program that sees all that is in the folder.

        Raises WorkspaceError also if the files of other callers may be there.
        """
        key = self.key(caller)
        with self._lock:
            found = self._found(key)
            if found.base != found.root:
                return found
            refused = None
            if found is self._base:
                try:
                    self._open_others(found)  # what is moved is moved before code can add to it
                except WorkspaceError as error:
                    refused = error
            # What lies there after the move is of code that made it, and nobody else's.
            if not self._all_moved and _has_older_folders(found):
                beside = str(_beside(found.root))
                raise refused or WorkspaceError("others", str(found.root / RESERVED), detail=beside)
            return found

    def _found(self, key: tuple[str, str]) -> Workspace:
        found = self._open.get(key)
        if found is None or found.is_removed:
            found = self._open[key] = self._opened(*key)
        self._open.move_to_end(key)
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return found

    def key(self, caller: Caller) -> tuple[str, str]:
        """The same for callers that have the same workspace, and for no others."""
        is_shared = self._shared and (caller.owner, caller.thread) not in _adopted
        return caller.owner, "" if is_shared else caller.thread

    def _opened(self, owner: str, thread: str) -> Workspace:
        if (adopted := _adopted.get((owner, thread))) is not None:
            folder, kept = adopted
            return Workspace(folder, self._limits, open_file=self._open_file, kept=kept)
        if self._base is None or self._base.is_removed:
            if self._folder is None:
                raise WorkspaceError("no_folder", "", detail="unset")
            self._base = Workspace(self._folder, self._limits, open_file=self._open_file, is_setting=True)
        if owner == Principal().owner and not thread:
            return self._base
        return Workspace.below(self._open_others(self._base), _mark(owner), _mark(thread))

    def _open_others(self, base: Workspace) -> Workspace:
        """Opens the folder of all others, made if it is missing."""
        if self._others is not None and self._all_moved and not self._others.is_removed:
            return self._others
        place = _beside(base.root)
        try:
            parent = Workspace(place.parent, self._limits, open_file=self._open_file)
            with base.open_folder() as own, parent.open_folder() as above:
                # Else they would be on another disk than the operator chose, or in no folder at all.
                if place == base.root or os.fstat(own).st_dev != os.fstat(above).st_dev:
                    raise WorkspaceError("no_place", str(place), detail="mounted")
                others = Workspace.below(parent, place.name)
                with others.open_folder() as into:
                    if not _is_ours(os.fstat(into), os.fstat(above)):
                        raise WorkspaceError("no_place", str(place), detail="stranger")
                    self._all_moved = _move_older_folders(own, into)
        except (WorkspaceError, OSError) as error:
            if isinstance(error, WorkspaceError) and error.code == "no_place":
                raise
            detail = error.detail if isinstance(error, WorkspaceError) else error.strerror
            raise WorkspaceError("no_place", str(place), detail=detail or str(error)) from None
        self._others = others
        return others


def _beside(root: Path) -> Path:
    return root.with_name(f"{RESERVED}-{root.name}") if root.name else root


def _is_ours(found: os.stat_result, above: os.stat_result) -> bool:
    """Whether a folder was made by somebody who may read and change what is in it anyway."""
    is_open_to_others = bool(above.st_mode & 0o022)
    return not is_open_to_others or found.st_uid in (os.geteuid(), 0, above.st_uid)


@contextmanager
def _older(base: int) -> Generator[tuple[int, list[str]]]:
    """Where older versions kept the folders of all other owners: below the workspace that is open here."""
    try:
        handle = os.open(RESERVED, FOLDER, dir_fd=base)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        yield -1, []
        return
    try:
        with os.scandir(handle) as entries:
            # Beside other things: a project keeps its agents there.
            names = [
                entry.name
                for entry in entries
                if _MARK.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        yield handle, names
    finally:
        os.close(handle)


def _has_older_folders(workspace: Workspace) -> bool:
    try:
        with workspace.open_folder() as handle, _older(handle) as (_, names):
            return bool(names)
    except OSError:
        return True


def _move_older_folders(base: int, into: int) -> bool:
    """Moves them once, since code in a box may make some later. A move that was cut short is finished.

    Returns whether all are moved: an owner who has one in either place keeps both until somebody decides.
    """
    with contextlib.suppress(FileNotFoundError):
        os.stat(_MOVED, dir_fd=into, follow_symlinks=False)
        return True
    has_moved_all = True
    with _older(base) as (older, names):
        for name in names:
            try:
                os.rename(name, name, src_dir_fd=older, dst_dir_fd=into)
            except FileNotFoundError:  # another process is moving them too
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                has_moved_all = False
    if not has_moved_all:
        return False
    os.close(os.open(_MOVED, os.O_WRONLY | os.O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600, dir_fd=into))
    with contextlib.suppress(OSError):  # it is not there, or has something else in it
        os.rmdir(RESERVED, dir_fd=base)
    return True


def _folder(given: str) -> Path | None:
    chosen = given or os.environ.get(VARIABLE, "")
    if chosen:
        return Path(os.path.abspath(Path(chosen).expanduser()))
    home = state_home()
    return None if home is None else home / "workspaces"


def _mark(name: str) -> str:
    """A name for a folder; it tells nothing about whose it is, and no two have the same."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
