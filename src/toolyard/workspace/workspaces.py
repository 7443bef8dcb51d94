"""Which folder is whose: one workspace for each owner and conversation, below one folder.

A caller that nobody identified, in no conversation, has the folder itself, as on stdio. All others have
folders in `.toolyard` below it, which no path of a caller can name. A program that is given the folder
itself, such as a sandbox that mounts it, must hide that one. A conversation that this process itself leads,
such as the run of an agent, may have a folder elsewhere: `adopt_folder`.
"""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..config.files import state_home
from ..wire.call import Caller, Principal
from .beneath import Open
from .errors import WorkspaceError
from .names import RESERVED
from .usage import WorkspaceLimits
from .workspace import Workspace

VARIABLE = "TOOLYARD_WORKSPACE"
_OPEN = 256
"""How many workspaces are held open; each is a file handle."""


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
        self._open: OrderedDict[tuple[str, str], Workspace] = OrderedDict()

    def of(self, caller: Caller) -> Workspace:
        """Raises WorkspaceError if the folder cannot be opened."""
        key = self.key(caller)
        with self._lock:
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
            self._base = Workspace(self._folder, self._limits, open_file=self._open_file)
        if owner == Principal().owner and not thread:
            return self._base
        return Workspace.below(self._base, RESERVED, _mark(owner), _mark(thread))


def _folder(given: str) -> Path | None:
    chosen = given or os.environ.get(VARIABLE, "")
    if chosen:
        return Path(os.path.abspath(Path(chosen).expanduser()))
    home = state_home()
    return None if home is None else home / "workspaces"


def _mark(name: str) -> str:
    """A name for a folder; it tells nothing about whose it is, and no two have the same."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
