"""The workbench as servers see it: code and files in a place of the caller's own, here or at a vendor.

Owns the interface and the shapes of results. Servers make the sentences for the model, in their language.
"""

from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO, Literal, Protocol

from msgspec import Struct

from ..wire.call import Caller

Fault = Literal["exception", "interrupted", "timeout", "output", "memory", "disk", "ended"]
"""Why a cell failed. `exception`: its own. `output`, `memory`, `disk`: it passed that limit. `ended`: its
process is gone; after the others it may be too, and then `variables_lost` is set."""

ErrorCode = Literal[
    "missing",  # no such file
    "not_a_file",
    "exists",  # a file is there, and overwriting was not asked for
    "outside",  # the path leaves the place where files may be
    "denied",
    "too_large",
    "full",  # no space left
    "no_session",  # unknown, ended, or another caller's
    "too_many",  # sessions, and all of them are busy
    "busy",  # the session runs the very code that asks
    "unavailable",  # the workbench cannot be reached or started
    "invalid",  # the vendor or the box answered something unexpected
]

OnOutput = Callable[[Literal["stdout", "stderr"], str], Awaitable[None]]
"""Receives what code prints, while it runs."""

CallTool = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Calls a tool of the caller by name. Returns plain JSON; raises `ToolRefusedError` with what went wrong."""


class WorkbenchError(Exception):
    """The workbench could not do what was asked. Code that fails is no error but a result."""

    def __init__(self, code: ErrorCode, message: str, subject: str = "") -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.subject = subject
        """The path or the session that it is about."""


class ToolRefusedError(Exception):
    """A tool that code called was refused or failed; the code sees the message."""


class CellTable(Struct, frozen=True):
    """A table that a cell showed. `rows` are the first of `total`."""

    columns: list[str]
    rows: list[list[Any]]
    total: int
    name: str = ""


class CellImage(Struct, frozen=True):
    data: bytes
    mime_type: str
    path: str = ""
    """The file in the workbench that has it too, if there is one."""


class WorkbenchFile(Struct, frozen=True):
    path: str
    """As code in the workbench sees it: absolute."""
    size: int


class CellResult(Struct, frozen=True):
    """How a cell ended."""

    session_id: str
    stdout: str = ""
    stderr: str = ""
    value: str = ""
    """The repr of the last expression; empty if it is None or there is none."""
    tables: list[CellTable] = []
    images: list[CellImage] = []
    files: list[WorkbenchFile] = []
    """Files that the cell made or changed."""
    error: str | None = None
    """What the model should read: the traceback, or why the process ended."""
    fault: Fault | None = None
    stdout_file: str | None = None
    """The file in the workbench with all that was printed, if `stdout` was cut."""
    stderr_file: str | None = None
    is_new: bool = False
    """The session began with this cell: no variables of earlier cells."""
    variables_lost: bool = False
    """The session ended with this cell; the next one begins anew."""


class BashResult(Struct, frozen=True):
    session_id: str
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    """As the shell has it: 128 and the signal's number if a signal ended it."""
    error: str | None = None
    """Why it did not run to its end."""
    fault: Fault | None = None
    stdout_file: str | None = None
    stderr_file: str | None = None
    is_new: bool = False
    variables_lost: bool = False


class Workbench(Protocol):
    """One caller's workbench. `session` names one of the caller's sessions; None: the conversation's own.

    What another caller calls by the same name is another session.
    """

    async def run(
        self,
        code: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        call_tool: CallTool | None = None,
    ) -> CellResult:
        """Runs Python. Variables live on in the session. If cancelled, interrupts the code."""
        ...

    async def bash(
        self,
        command: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> BashResult: ...

    async def read_file(
        self, path: str, into: BinaryIO, *, session: str | None = None, max_bytes: int | None = None
    ) -> WorkbenchFile:
        """Copies a file of the workbench into a local file that is open for writing."""
        ...

    async def write_file(
        self, path: str, source: BinaryIO, *, session: str | None = None, overwrite: bool = True
    ) -> WorkbenchFile:
        """Copies a local file that is open for reading into the workbench, as a whole or not at all."""
        ...


class Workbenches(Protocol):
    """All workbenches of one server."""

    def of(self, caller: Caller) -> Workbench: ...

    async def close(self) -> None:
        """Ends every session."""
        ...
