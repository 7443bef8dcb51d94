"""The local workbench: sessions of callers in boxes of this machine.

Owns whose session is whose, how many there are, and when they end; a few boxes are kept warm, so that a new
session need not wait for Python to start. A session belongs to one principal: code that runs with one agent's
rights must not meet variables that another has prepared.
"""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Literal

from msgspec import Struct

from ..egress import EgressProxy
from ..wire.call import Caller
from ..workspace import Workspace, WorkspaceChange, WorkspaceError, Workspaces
from .box import Box, BoxKit
from .folder import BoxFolder, ChangedFile, DiskLimits
from .inside import confinement
from .process import BoxProcess, BrokenBoxError, CellOutput, OutputLimits, RunOutcome, Watch
from .protocol import (
    BashResult,
    CallTool,
    CellResult,
    ErrorCode,
    OnOutput,
    WorkbenchError,
    WorkbenchFile,
)

OUTPUTS = "outputs"
"""The folder in the workspace for what was printed and is too much to show."""
MAX_CODE = 1024**2
_COPY_BYTES = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_CODES: dict[str, ErrorCode] = {
    "missing": "missing",
    "not_a_file": "not_a_file",
    "not_a_folder": "missing",
    "exists": "exists",
    "too_large": "too_large",
    "full": "full",
    "too_many": "full",
    "disk_full": "full",
    "outside": "outside",
    "link": "outside",
    "bad_name": "outside",
}


class LocalLimits(Struct, frozen=True, kw_only=True):
    seconds: float = 180.0
    """The longest that a cell may run."""
    memory: int = 1024**3
    disk_bytes: int = 2 * 1024**3
    disk_files: int = 20_000
    output_bytes: int = 30_000
    output_file_bytes: int = 10 * 1024**2
    idle: float = 600.0
    """Seconds after which an unused session ends."""
    sessions: int = 8
    sessions_of_one: int = 4
    warm: int = 1
    """Boxes that are kept ready."""


_running: ContextVar[frozenset[str]] = ContextVar("running", default=frozenset())
"""The sessions whose code led to this call: code that calls a tool that runs code."""

_Base = tuple[Path, int, int]
"""The folder that a box is started with, and which one it is: it may be removed, and another made."""
Owner = tuple[str, str]
"""A principal and one of its conversations; all of them are one if they share a folder."""


class _Session:
    def __init__(
        self, id: str, owner: Owner, process: BoxProcess, home: str, workspace: Workspace, folder: BoxFolder
    ) -> None:
        self.id = id
        self.owner = owner
        self.process = process
        self.home = home
        self.workspace = workspace
        self.folder = folder
        self.lock = asyncio.Lock()
        self.used_at = time.monotonic()
        self.keep: float | None = None
        """Seconds that it stays unused, if its caller said."""
        self.cells = 0


class LocalWorkbenches:
    """Opens nothing before the first call."""

    def __init__(
        self,
        box: Box,
        kit: BoxKit,
        workspaces: Workspaces,
        limits: LocalLimits = LocalLimits(),  # noqa: B008 (frozen)
        proxy: tuple[EgressProxy, Path] | None = None,
    ) -> None:
        self.box = box
        self.limits = limits
        self._kit = kit
        self._workspaces = workspaces
        self._proxy = proxy
        self._proxy_is_open = False
        self._sessions: dict[tuple[Owner, str], _Session] = {}
        """By owner and id."""
        self._own: dict[Owner, str] = {}
        """The ids of sessions that nobody named: one for each conversation."""
        self._opening = asyncio.Lock()
        self._warm: list[tuple[_Base, asyncio.Task[BoxProcess]]] = []
        self._sweeping: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[object]] = set()
        self._closed = False

    def of(self, caller: Caller) -> "LocalWorkbench":
        """Raises WorkbenchError if this caller may not use a box that protects no files."""
        if not self.box.protects_files and caller.principal.kind != "local":
            raise WorkbenchError("denied", "this box protects no files, so only the local user may run code")
        return LocalWorkbench(self, caller)

    async def close(self) -> None:
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        sessions, self._sessions = list(self._sessions.values()), {}
        self._cool()
        await asyncio.gather(*(session.process.close() for session in sessions), *self._ending)
        if self._proxy is not None:
            await self._proxy[0].close()
        await asyncio.to_thread(self._kit.close)

    def processes(self) -> list[int]:
        """Of all sessions, not of boxes that are kept ready."""
        return [pid for session in self._sessions.values() for pid in session.process.processes()]

    async def ready(self) -> None:
        """Waits until the boxes that are kept ready have started."""
        await asyncio.gather(*(starting for _, starting in self._warm), return_exceptions=True)

    # Sessions

    def find(self, caller: Caller, id: str) -> _Session | None:
        session = self._sessions.get((self._owner(caller), id))
        return None if session is None or session.process.is_over else session

    async def session(self, caller: Caller, name: str | None) -> tuple[_Session, bool]:
        """The caller's session, locked, and whether it is new."""
        while True:
            session, is_new = await self._get_or_open(caller, name)
            if session.id in _running.get():
                raise WorkbenchError("busy", f"session {session.id!r} waits for this call", session.id)
            await session.lock.acquire()
            if not session.process.is_over:
                return session, is_new
            session.lock.release()

    async def _get_or_open(self, caller: Caller, name: str | None) -> tuple[_Session, bool]:
        binding = caller.principal.binding
        if name is not None and not _NAME.fullmatch(name):
            raise WorkbenchError("no_session", f"{name[:80]!r} cannot be the name of a session", name[:80])
        async with self._opening:
            if self._closed:
                raise WorkbenchError("unavailable", "the workbench is closing")
            owner = self._owner(caller)
            id = name or self._own.get(owner)
            known = None if id is None else self._sessions.get((owner, id))
            if known is not None and not known.process.is_over and not known.workspace.is_removed:
                return known, False
            if known is not None:
                self._drop(known)
            self._make_room(binding)
            session = await self._open(caller, id or f"wb_{secrets.token_hex(8)}")
            self._sessions[owner, session.id] = session
            if name is None:
                self._own[owner] = session.id
            if self._sweeping is None or self._sweeping.done():
                self._sweeping = asyncio.create_task(self._sweep())
            return session, True

    async def _open(self, caller: Caller, id: str) -> _Session:
        workspace = await asyncio.to_thread(self._workspace_of, caller)
        disk = DiskLimits(bytes=self.limits.disk_bytes, files=self.limits.disk_files)
        folder = BoxFolder(workspace, disk, self.box.uid, is_path_open=not self.box.has_processes_of_its_own)
        try:
            with _errors(str(workspace.root)):
                await asyncio.to_thread(folder.hand_over)
            information = await asyncio.to_thread(workspace.base.stat)
        except OSError as error:
            raise WorkbenchError("unavailable", f"its folder is not there: {error}") from None
        process = await self._take_warm((workspace.base, information.st_dev, information.st_ino))
        try:
            home = await process.claim(workspace.base, workspace.root)
        except BrokenBoxError as error:
            await process.close()
            raise WorkbenchError("unavailable", f"the box was not confined: {error.reason}") from None
        except BaseException:
            await process.close()
            raise
        return _Session(id, self._owner(caller), process, home, workspace, folder)

    def _owner(self, caller: Caller) -> Owner:
        return caller.principal.binding, self._workspaces.key(caller)[1]

    def _workspace_of(self, caller: Caller) -> Workspace:
        try:
            return self._workspaces.shown_to_code(caller)
        except WorkspaceError as error:
            raise WorkbenchError("unavailable", str(error), error.path) from None

    def workspace_of(self, caller: Caller, session: str | None) -> tuple[Workspace, str]:
        """Where the files of a session are, and the folder as code sees it; without starting a box."""
        found = self.find(caller, session) if session else None
        if found is None and session is None:
            found = self.find(caller, self._own.get(self._owner(caller), ""))
        if found is not None:
            return found.workspace, found.home
        workspace = self._workspace_of(caller)
        return workspace, confinement.HOME if self.box.name == "bubblewrap" else str(workspace.root)

    def _make_room(self, binding: str) -> None:
        for key in [key for key, session in self._sessions.items() if session.process.is_over]:
            self._drop(self._sessions[key])
        own = [session for (owner, _), session in self._sessions.items() if owner[0] == binding]
        crowd = own if len(own) >= self.limits.sessions_of_one else list(self._sessions.values())
        if crowd is not own and len(crowd) < self.limits.sessions:
            return
        idle = [session for session in crowd if not session.lock.locked()]
        if not idle:
            raise WorkbenchError("too_many", f"{len(crowd)} sessions are running code")
        self._drop(min(idle, key=lambda session: session.used_at))

    def _drop(self, session: _Session) -> None:
        self._sessions.pop((session.owner, session.id), None)
        self._end(session.process.close())

    def drop_if_over(self, session: _Session) -> None:
        session.used_at = time.monotonic()
        if session.process.is_over:
            self._drop(session)

    async def _sweep(self) -> None:
        """Ends idle sessions, and then the boxes that are kept warm."""
        used_at = time.monotonic()
        while self._sessions or self._warm:
            ends = [session.used_at + self._idle_of(session) for session in self._sessions.values()]
            used_at = max([used_at, *(session.used_at for session in self._sessions.values())])
            until = min(ends, default=used_at + self.limits.idle)
            await asyncio.sleep(max(0.01, until - time.monotonic()))
            async with self._opening:
                for session in list(self._sessions.values()):
                    if session.lock.locked():
                        session.used_at = time.monotonic()
                    elif session.used_at + self._idle_of(session) <= time.monotonic():
                        self._drop(session)
                if not self._sessions and used_at + self.limits.idle <= time.monotonic():
                    self._cool()

    def _idle_of(self, session: _Session) -> float:
        return self.limits.idle if session.keep is None else session.keep

    # Warm boxes

    async def _take_warm(self, base: _Base) -> BoxProcess:
        if self._proxy is not None and not self._proxy_is_open:
            await self._proxy[0].open_at(self._proxy[1])
            if self.box.uid is not None:
                os.chown(self._proxy[1], self.box.uid, self.box.uid)
            self._proxy_is_open = True
        warm = next((one for one in self._warm if one[0] == base), None)
        if warm is None:
            self._cool()  # the next box is for this folder too
            starting = asyncio.create_task(self._started(base[0]))
        else:
            self._warm.remove(warm)
            starting = warm[1]
        try:
            process = await starting
            if process.is_over:  # somebody ended it meanwhile
                await process.close()
                process = await self._started(base[0])
        except BrokenBoxError as error:
            raise WorkbenchError("unavailable", f"the box cannot be started: {error.reason}") from None
        finally:
            self._warm_up(base)
        return process

    def _warm_up(self, base: _Base) -> None:
        while len(self._warm) < self.limits.warm and not self._closed:
            self._warm.append((base, asyncio.create_task(self._started(base[0]))))

    async def _started(self, base: Path) -> BoxProcess:
        process = BoxProcess(self.box, base)
        await process.start()
        return process

    def _cool(self) -> None:
        """Ends the boxes that are kept warm."""
        warm, self._warm = self._warm, []
        for _, starting in warm:
            self._end(_close(starting))

    def _end(self, closing: Coroutine[Any, Any, object]) -> None:
        ending = asyncio.create_task(closing)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


async def _close(starting: asyncio.Task[BoxProcess]) -> None:
    starting.cancel()  # of no effect if it has started
    [started] = await asyncio.gather(starting, return_exceptions=True)
    if isinstance(started, BoxProcess):
        await started.close()


class LocalWorkbench:
    """One caller's workbench in this machine."""

    def __init__(self, benches: LocalWorkbenches, caller: Caller) -> None:
        self._benches = benches
        self._caller = caller

    @property
    def box(self) -> Box:
        return self._benches.box

    async def open(self, *, keep: float | None = None) -> str:
        """A new session of its own; returns its id. It ends after `keep` seconds without use."""
        session, _ = await self._benches.session(self._caller, f"sb_{secrets.token_hex(8)}")
        session.keep = keep
        session.lock.release()
        return session.id

    def has(self, session: str) -> bool:
        return self._benches.find(self._caller, session) is not None

    def keep(self, session: str, seconds: float) -> None:
        found = self._benches.find(self._caller, session)
        if found is not None:
            found.keep = seconds

    async def run(
        self,
        code: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        call_tool: CallTool | None = None,
    ) -> CellResult:
        held, is_new, outcome, changed = await self._run(
            "python", code, session, timeout, on_output, call_tool
        )
        files = [WorkbenchFile(f"{held.home}/{file.path}", file.size) for file in changed]
        stdout_file, stderr_file = await self._save(held, outcome)
        return CellResult(
            session_id=held.id,
            stdout=outcome.stdout.text(),
            stderr=outcome.stderr.text(),
            value=outcome.value,
            tables=outcome.tables,
            images=outcome.images,
            files=files,
            error=outcome.error,
            fault=outcome.fault,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
            is_new=is_new,
            variables_lost=outcome.is_over,
        )

    async def bash(
        self,
        command: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> BashResult:
        held, is_new, outcome, _ = await self._run("bash", command, session, timeout, on_output, None)
        stdout_file, stderr_file = await self._save(held, outcome)
        return BashResult(
            session_id=held.id,
            stdout=outcome.stdout.text(),
            stderr=outcome.stderr.text(),
            exit_code=outcome.exit_code,
            error=outcome.error,
            fault=outcome.fault,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
            is_new=is_new,
            variables_lost=outcome.is_over,
        )

    async def _run(
        self,
        kind: Literal["python", "bash"],
        code: str,
        session: str | None,
        seconds: float | None,
        on_output: OnOutput | None,
        call_tool: CallTool | None,
    ) -> tuple[_Session, bool, RunOutcome, list[ChangedFile]]:
        limits = self._benches.limits
        if len(code.encode(errors="surrogatepass")) > MAX_CODE or "\0" in code:
            raise WorkbenchError("invalid", f"code may have at most {MAX_CODE} bytes, and no null character")
        held, is_new = await self._benches.session(self._caller, session)
        running = _running.set(_running.get() | {held.id})
        given = _HandedOver(held)
        try:
            held.cells += 1
            with _errors(str(held.workspace.root)):
                before = await asyncio.to_thread(held.folder.prepare)
            outcome = await held.process.run(
                kind,
                code,
                seconds=min(seconds or limits.seconds, limits.seconds),
                output=OutputLimits(shown=limits.output_bytes, kept=limits.output_file_bytes),
                watch=Watch(limits.memory, lambda: held.folder.excess(before, held.process.processes())),
                on_output=on_output,
                call_tool=None if call_tool is None else given.after(call_tool),
            )
            after = await asyncio.to_thread(held.folder.measure)
            return held, is_new, outcome, after.changed_since(before)
        finally:
            given.close()
            _running.reset(running)
            self._benches.drop_if_over(held)
            held.lock.release()

    async def _save(self, held: _Session, outcome: RunOutcome) -> tuple[str | None, str | None]:
        names = [f"{OUTPUTS}/{held.id}-{held.cells}-{name}.txt" for name in ("stdout", "stderr")]
        streams = (outcome.stdout, outcome.stderr)
        found = [
            await asyncio.to_thread(_saved, held, output, name)
            for output, name in zip(streams, names, strict=True)
        ]
        return found[0], found[1]

    # Files

    async def read_file(
        self, path: str, into: BinaryIO, *, session: str | None = None, max_bytes: int | None = None
    ) -> WorkbenchFile:
        def copy() -> WorkbenchFile:
            workspace, home = self._benches.workspace_of(self._caller, session)
            relative = _relative(path, home)
            with _errors(path), workspace.open_read(relative) as file:
                size = os.fstat(file.fileno()).st_size
                if max_bytes is not None and size > max_bytes:
                    raise WorkbenchError(
                        "too_large", f"{path!r} has {size} bytes, more than {max_bytes}", path
                    )
                shutil.copyfileobj(file, into, _COPY_BYTES)
                return WorkbenchFile(f"{home}/{workspace.relative(relative)}", size)

        return await asyncio.to_thread(copy)

    async def write_file(
        self, path: str, source: BinaryIO, *, session: str | None = None, overwrite: bool = True
    ) -> WorkbenchFile:
        def copy() -> WorkbenchFile:
            workspace, home = self._benches.workspace_of(self._caller, session)
            relative = _relative(path, home)
            with _errors(path):
                if not overwrite:
                    with contextlib.suppress(WorkspaceError):
                        workspace.stat(relative)
                        raise WorkbenchError("exists", f"{path!r} exists already", path)
                with workspace.create(relative) as file:
                    shutil.copyfileobj(source, file, _COPY_BYTES)
                entry = workspace.stat(relative)
            return WorkbenchFile(f"{home}/{workspace.relative(relative)}", entry.size)

        return await asyncio.to_thread(copy)


class _HandedOver:
    """Files that tools write while a cell runs belong to its user too, before the cell hears of them."""

    def __init__(self, held: _Session) -> None:
        self._folder = held.folder
        self._is_changed = False
        self.close = held.workspace.subscribe(self._on_change)

    def _on_change(self, _: WorkspaceChange) -> None:
        self._is_changed = True

    def after(self, call_tool: CallTool) -> CallTool:
        async def call(name: str, arguments: dict[str, Any]) -> Any:
            try:
                return await call_tool(name, arguments)
            finally:
                if self._is_changed:
                    self._is_changed = False
                    await asyncio.to_thread(self._folder.hand_over)

        return call


def _relative(path: str, home: str) -> str:
    """A path of the box as one of the workspace."""
    for root in (home, confinement.HOME):
        if path == root or path.startswith(root + "/"):
            return path[len(root) + 1 :] or "."
    return path


class _errors(contextlib.AbstractContextManager[None]):
    """Raises the errors of a workspace as those of the workbench."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WorkspaceError):
            code = _CODES.get(error.code, "denied")
            raise WorkbenchError(code, str(error), self._path) from None


def _saved(held: _Session, output: CellOutput, name: str) -> str | None:
    """Puts all that a cell printed into the workspace, if it is more than is shown."""
    try:
        if output.file is None:
            return None
        output.file.seek(0)
        with contextlib.suppress(WorkspaceError):
            with held.workspace.create(name) as file:
                shutil.copyfileobj(output.file, file, _COPY_BYTES)
            return f"{held.home}/{name}"
        return None
    finally:
        output.close()
