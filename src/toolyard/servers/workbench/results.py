"""The results, in Composio's shapes: `data`, `error`, `successful`, with fields of our own in `data`."""

from typing import Any

from msgspec import Struct

from ...workbench import CellTable


class SessionInfo(Struct, frozen=True):
    id: str
    instructions: str


class FileMade(Struct, frozen=True):
    path: str
    size: int


class TableShown(Struct, frozen=True):
    columns: list[str]
    rows: list[list[Any]]
    total: int
    """Rows of the whole table."""


class CellData(Struct, frozen=True, kw_only=True):
    stdout: str = ""
    stderr: str = ""
    results: str = ""
    """The value of the last expression."""
    error: str | None = None
    stdout_file_path: str | None = None
    stderr_file_path: str | None = None
    session: SessionInfo
    tables: list[TableShown] = []
    images: int = 0
    """Pictures, which are in the content."""
    files: list[FileMade] = []
    """Files that the code made or changed."""
    fault: str | None = None
    variables_lost: bool = False
    box: str = ""


class BashData(Struct, frozen=True, kw_only=True):
    stdout: str = ""
    stderr: str = ""
    stdoutLines: list[str] = []
    stderrLines: list[str] = []
    exit_code: int = 0
    error: str | None = None
    stdout_file_path: str | None = None
    stderr_file_path: str | None = None
    session: SessionInfo
    fault: str | None = None
    box: str = ""


class SandboxData(Struct, frozen=True):
    sandbox_id: str
    box: str


class ExecutedData(Struct, frozen=True, kw_only=True):
    stdout: str
    stderr: str
    results: str
    error: str | None
    sandbox_id: str
    tables: list[TableShown] = []
    images: int = 0
    files: list[FileMade] = []


class TerminalData(Struct, frozen=True, kw_only=True):
    stdout: str
    stderr: str
    exit_code: int
    sandbox_id: str


class FileInfo(Struct, frozen=True, kw_only=True):
    name: str
    mimetype: str
    uri: str
    """A resource of this server."""
    size: int


class ReadData(Struct, frozen=True, kw_only=True):
    file: FileInfo
    content: str
    encoding: str
    """`utf-8`, or `base64` for a file that is not text."""


class WrittenData(Struct, frozen=True, kw_only=True):
    file_path: str
    success: bool
    size: int


class CellReply(Struct, frozen=True, kw_only=True):
    data: CellData
    error: str | None = None
    successful: bool = True


class BashReply(Struct, frozen=True, kw_only=True):
    data: BashData
    error: str | None = None
    successful: bool = True


class SandboxReply(Struct, frozen=True, kw_only=True):
    data: SandboxData
    error: str | None = None
    successful: bool = True


class ExecutedReply(Struct, frozen=True, kw_only=True):
    data: ExecutedData
    error: str | None = None
    successful: bool = True


class TerminalReply(Struct, frozen=True, kw_only=True):
    data: TerminalData
    error: str | None = None
    successful: bool = True


class ReadReply(Struct, frozen=True, kw_only=True):
    data: ReadData
    error: str | None = None
    successful: bool = True


class WrittenReply(Struct, frozen=True, kw_only=True):
    data: WrittenData
    error: str | None = None
    successful: bool = True


def tables_of(tables: list[CellTable]) -> list[TableShown]:
    return [TableShown(table.columns, table.rows, table.total) for table in tables]


def markdown(table: CellTable) -> str:
    """The table as a model reads it."""
    lines = [_row(table.columns), _row(["---"] * len(table.columns))]
    return "\n".join(lines + [_row(row) for row in table.rows])


def _row(values: list[Any]) -> str:
    cells = ("" if value is None else str(value) for value in values)
    return "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|")[:200] for cell in cells) + " |"
