"""The folder of a run: `transcript.jsonl`, `run.json`, and beside them the files that its tools make.

Owns what is on the disk: each line of the transcript is there as soon as it happened, `run.json` is replaced
whole, one process at a time has the run. A run that was killed is read back as far as it came: a cut last
line is dropped, and a tool that was called and did not answer gets a result that says so.
"""

import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..config.files import state_home
from .limits import EndKind, RunLimits, RunStoppedError, Spending
from .messages import ChatMessage, TextPart, TokenUsage, ToolResultPart, ToolUsePart

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

TRANSCRIPT, RECORD = "transcript.jsonl", "run.json"
KEPT = frozenset({TRANSCRIPT, RECORD})
"""What tools can read and not change."""
FOLDERS = ("search_results", "work_products")
FORMAT = "toolyard.run"
INTERRUPTED = "Interrupted: the run ended before this tool answered. It may or may not have had its effect."
MAX_FILES = 1000
_REPLACING = ".toolyard-new-run"
_MASK = b"***"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")

RunStatus = EndKind | Literal["running"]


class RunFolderError(Exception):
    """The folder cannot be used for a run, or holds none."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class TranscriptLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. Exactly one of the last members is set."""

    format: str
    run: str
    time: float
    agent: str
    """The agent's id within the run."""
    name: str
    parent: str = ""
    turn: int = 0
    task: str | None = None
    """Begins an agent, or goes on with one."""
    message: ChatMessage | None = None
    result: ToolResultPart | None = None
    end: str | None = None
    """How the agent ended, and why."""


class AgentNode(Struct, omit_defaults=True):
    """An agent in the tree of a run."""

    id: str
    name: str
    model: str
    status: RunStatus = "running"
    reason: str = ""
    turns: int = 0
    tool_calls: int = 0
    usage: TokenUsage = TokenUsage()
    cost: float = 0.0
    seconds: float = 0.0
    agents: list["AgentNode"] = []


class RunFile(Struct, frozen=True):
    path: str
    size: int


class RunRecord(Struct, kw_only=True):
    """`run.json`. Counts are those of all starts together."""

    run: str
    status: RunStatus = "running"
    reason: str = ""
    hint: str = ""
    agent: str = ""
    model: str = ""
    task: str = ""
    answer: str = ""
    started: float = 0.0
    updated: float = 0.0
    starts: int = 0
    seconds: float = 0.0
    turns: int = 0
    tool_calls: int = 0
    usage: TokenUsage = TokenUsage()
    usage_is_estimated: bool = False
    cost: float | None = None
    """In US dollars; None if a price is not known."""
    result_chars: int = 0
    saved_bytes: int = 0
    limits: RunLimits = RunLimits()
    trace: str = ""
    agents: list[AgentNode] = []
    files: list[RunFile] = []

    def add(self, spent: Spending) -> None:
        """Adds what one start has used."""
        self.turns += spent.turns
        self.tool_calls += spent.tool_calls
        self.usage += spent.usage
        self.usage_is_estimated = self.usage_is_estimated or spent.is_estimated
        known = self.cost if self.starts > 1 else 0.0
        self.cost = known + spent.cost if known is not None and spent.is_priced else None
        self.seconds = round(self.seconds + spent.seconds, 3)
        self.result_chars += spent.result_chars
        self.saved_bytes += spent.saved_bytes


def runs_folder() -> Path:
    """Where runs are unless somebody says otherwise. Raises RunFolderError if this user has no home."""
    home = state_home()
    if home is None:
        raise RunFolderError(
            "there is no folder for runs: this user has no home", "--workspace DIR names one"
        )
    return home / "runs"


def new_run_id(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def find_run(name: str, runs: Path) -> Path:
    """The folder of a run by its path, its id, the beginning of its id, or `last`. Raises RunFolderError."""
    if os.sep in name or (Path(name) / TRANSCRIPT).is_file():
        return Path(name).expanduser()
    known = [record.run for record in list_runs(runs)]
    if name == "last" and known:
        return runs / known[0]
    found = [run for run in known if run == name] or [run for run in known if run.startswith(name)]
    if len(found) != 1 or not name:
        what = "no run" if not found else f"{len(found)} runs"
        raise RunFolderError(f"{what} {name!r} in {runs}", "`toolyard agent --runs` lists them")
    return runs / found[0]


def list_runs(runs: Path) -> list[RunRecord]:
    """The runs in a folder, the latest first. One that nobody leads any more and that did not end is
    `interrupted`."""
    found: list[RunRecord] = []
    try:
        names = sorted((entry.name for entry in os.scandir(runs) if entry.is_dir()), reverse=True)
    except OSError:
        return []
    for name in names:
        record = _read_record(runs / name)
        if record is not None:
            if record.status == "running" and not _is_led(runs / name):
                record.status, record.reason = "interrupted", "its process ended"
            found.append(record)
    return found


class RunFolder:
    """One run on the disk, open in this process. Methods raise RunStoppedError if the disk does not take it.

    `secrets` are values that are replaced wherever they would be written. `now` tells the time of each line.
    """

    def __init__(
        self, path: Path, handle: int, record: RunRecord, secrets: Sequence[str], now: Callable[[], float]
    ) -> None:
        self.path = path
        self.record = record
        self._handle = handle
        # As JSON spells them: a quote or a backslash within is escaped.
        self._secrets = [msgspec.json.encode(secret)[1:-1] for secret in secrets if len(secret) >= 8]
        self._now = now
        self._names: dict[str, tuple[str, str]] = {}

    @classmethod
    def create(
        cls,
        path: Path | None = None,
        *,
        run: str = "",
        secrets: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> "RunFolder":
        """Makes the folder: the one that is named, or one below `runs_folder`. Raises RunFolderError."""
        run = run or new_run_id(now())
        if _ID.fullmatch(run) is None:
            raise RunFolderError(f"{run[:80]!r} cannot be the name of a run")
        path = (runs_folder() / run if path is None else path.expanduser()).absolute()
        if (path / TRANSCRIPT).exists():
            raise RunFolderError(f"{path} holds a run already", f"go on with it: --resume {path}")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in FOLDERS:
                (path / name).mkdir(mode=0o700, exist_ok=True)
            handle = _open(path)
        except OSError as error:
            raise RunFolderError(*_explained(error, path)) from None
        moment = round(now(), 3)
        folder = cls(path, handle, RunRecord(run=run, started=moment, updated=moment), secrets, now)
        return folder._begun()

    @classmethod
    def open(
        cls, path: Path, *, secrets: Sequence[str] = (), now: Callable[[], float] = time.time
    ) -> "RunFolder":
        """Opens a run to go on with it. Raises RunFolderError."""
        path = path.absolute()
        if not (path / TRANSCRIPT).is_file():
            raise RunFolderError(f"{path} holds no run", "`toolyard agent --runs` lists them")
        try:
            handle = _open(path)
        except OSError as error:
            raise RunFolderError(*_explained(error, path)) from None
        try:
            _drop_cut_line(handle)
            lines = list(_read_lines(handle, path))
            record = _read_record(path) or _rebuilt(lines, path)
        except (OSError, RunFolderError) as error:
            os.close(handle)
            if isinstance(error, RunFolderError):
                raise
            raise RunFolderError(*_explained(error, path)) from None
        folder = cls(path, handle, record, secrets, now)
        for line in lines:
            folder._names[line.agent] = (line.name, line.parent)
        return folder._begun()

    def _begun(self) -> "RunFolder":
        try:
            self.save()
        except RunStoppedError as error:
            self.close()
            raise RunFolderError(error.reason, error.hint) from None
        return self

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    # The transcript

    def begin(self, agent: str, name: str, parent: str, task: str) -> None:
        self._names[agent] = (name, parent)
        self._write(agent, 0, task=task)

    def message(self, agent: str, turn: int, message: ChatMessage) -> None:
        self._write(agent, turn, message=message)

    def result(self, agent: str, turn: int, result: ToolResultPart) -> None:
        self._write(agent, turn, result=result)

    def end(self, agent: str, turn: int, kind: str, reason: str) -> None:
        self._write(agent, turn, end=f"{kind}: {reason}" if reason else kind)

    def _write(self, agent: str, turn: int, **what: Any) -> None:
        name, parent = self._names[agent]
        moment = round(self._now(), 3)
        line = TranscriptLine(
            format=FORMAT,
            run=self.record.run,
            time=moment,
            agent=agent,
            name=name,
            parent=parent,
            turn=turn,
            **what,
        )
        try:
            if os.fstat(self._handle).st_nlink == 0:
                raise RunStoppedError("workspace_error", f"{self.path / TRANSCRIPT} was removed")
            _append(self._handle, self._masked(msgspec.json.encode(line)) + b"\n")
        except OSError as error:
            raise RunStoppedError("workspace_error", *_explained(error, self.path / TRANSCRIPT)) from None

    def conversation(self, agent: str) -> list[ChatMessage]:
        """What an agent has said and heard so far, every tool use with a result."""
        return conversation_of([line for line in self._lines() if line.agent == agent])

    def last_turn(self, agent: str) -> int:
        return max((line.turn for line in self._lines() if line.agent == agent), default=0)

    def _lines(self) -> Iterator[TranscriptLine]:
        try:
            yield from _read_lines(self._handle, self.path)
        except (OSError, RunFolderError) as error:
            raise RunStoppedError("workspace_error", str(error)) from None

    def children(self, agent: str) -> int:
        """How many sub-agents an agent had before."""
        return sum(1 for _, parent in self._names.values() if parent == agent)

    # run.json

    def save(self, spent: Spending | None = None) -> None:
        """Writes `run.json`; in the middle of a start with what that has used so far."""
        self.record.updated = round(self._now(), 3)
        record = self.record
        if spent is not None:
            record = copy(record)
            record.add(spent)
        target, replacing = self.path / RECORD, self.path / _REPLACING
        data = self._masked(msgspec.json.format(msgspec.json.encode(record), indent=2))
        try:
            handle = os.open(replacing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write_all(handle, data + b"\n")
            finally:
                os.close(handle)
            os.replace(replacing, target)
        except OSError as error:
            raise RunStoppedError("workspace_error", *_explained(error, target)) from None

    def list_files(self) -> list[RunFile]:
        """The files that tools made, by path."""
        found: list[RunFile] = []
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith(".toolyard"))
            for name in sorted(names):
                path = Path(folder, name)
                relative = str(path.relative_to(self.path))
                if relative not in KEPT and not name.startswith(".toolyard") and len(found) < MAX_FILES:
                    try:
                        # A name need not be UTF-8, and JSON has to be.
                        shown = os.fsencode(relative).decode(errors="replace")
                        found.append(RunFile(shown, path.lstat().st_size))
                    except OSError:  # gone meanwhile
                        continue
        return found

    def _masked(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, _MASK)
        return data


def conversation_of(lines: Sequence[TranscriptLine]) -> list[ChatMessage]:
    """The messages of one agent's lines. Results that are missing are filled in as interrupted."""
    messages: list[ChatMessage] = []
    open_uses: list[str] = []
    results: dict[str, ToolResultPart] = {}

    def close_uses() -> None:
        if open_uses:
            lost = (TextPart(INTERRUPTED),)
            parts = tuple(results.get(id) or ToolResultPart(id, lost, is_error=True) for id in open_uses)
            messages.append(ChatMessage("user", parts))
            open_uses.clear()
            results.clear()

    for line in lines:
        if line.result is not None:
            results[line.result.id] = line.result
        elif line.message is not None:
            close_uses()
            messages.append(line.message)
            open_uses.extend(part.id for part in line.message.parts if isinstance(part, ToolUsePart))
    close_uses()
    return messages


def _open(path: Path) -> int:
    """Opens the transcript to append, and holds the run; OSError if another process has it."""
    handle = os.open(path / TRANSCRIPT, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_led(path: Path) -> bool:
    """Whether a process has the run."""
    try:
        os.close(_open(path))
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    return False


def _drop_cut_line(handle: int) -> None:
    """Removes what a killed process wrote of its last line."""
    data = _read_all(handle)
    if data and not data.endswith(b"\n"):
        os.ftruncate(handle, data.rfind(b"\n") + 1)


def _read_all(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _read_lines(handle: int, path: Path) -> Iterator[TranscriptLine]:
    """Raises RunFolderError for a line that is damaged; a cut last one is left out."""
    lines = _read_all(handle).split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield _decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RunFolderError(
                f"{path / TRANSCRIPT}, line {number}: {error}", "repair or remove the line, and try again"
            ) from None


_decode_line = msgspec.json.Decoder(TranscriptLine).decode


def _read_record(path: Path) -> RunRecord | None:
    try:
        return msgspec.json.decode((path / RECORD).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _rebuilt(lines: Sequence[TranscriptLine], path: Path) -> RunRecord:
    """For a `run.json` that is missing or damaged."""
    if not lines:
        return RunRecord(run=path.name, started=round(time.time(), 3))
    first = lines[0]
    return RunRecord(run=first.run, agent=first.name, task=first.task or "", started=first.time, starts=1)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _append(handle: int, data: bytes) -> None:
    """All of it or nothing: half a line would spoil the next one, which may find room again."""
    before = os.fstat(handle).st_size
    try:
        _write_all(handle, data)
    except OSError:
        os.ftruncate(handle, before)
        raise


def _explained(error: OSError, path: Path) -> tuple[str, str]:
    """A sentence and what to do about it."""
    if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
        return f"another process works on the run {path.name!r}", "wait for its end, or stop it"
    hints = {
        errno.ENOSPC: "make room on the disk, then go on with --resume",
        errno.EDQUOT: "make room on the disk, then go on with --resume",
        errno.EROFS: "--workspace DIR names another folder",
        errno.EACCES: "--workspace DIR names another folder",
    }
    reason = error.strerror or type(error).__name__
    return f"cannot write {path}: {reason[:1].lower()}{reason[1:]}", hints.get(error.errno or 0, "")
