"""What comes back: the structure, and the same to be read."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from ...kit import ToolResult
from .texts import Texts

SHOWN_ROWS = 20
LONGEST_CELL = 120


class Answer(Struct, kw_only=True):
    success: bool
    columns: list[str]
    rows: list[list[Any]]
    """Values in the order of the columns."""
    row_count: int
    truncated: bool = False
    """Whether there may be more rows than these."""
    sql: str = ""
    """The statement as it ran, with its limit."""
    original_sql: str = ""
    """The statement as it was given, or first written."""
    tables_used: list[str] = []
    elapsed_ms: int = 0
    question: str | UnsetType = UNSET
    warning: str | UnsetType = UNSET
    steps: list[str] | UnsetType = UNSET
    """Of a question: what was done, and how long each took."""


def as_result(answer: Answer, texts: Texts) -> ToolResult:
    return ToolResult(content=[readable(answer, texts)], structured=answer)


def readable(answer: Answer, texts: Texts) -> str:
    count = texts.whole(answer.row_count)
    head = (texts.one_row if answer.row_count == 1 else texts.rows).format(
        count=count, ms=texts.whole(answer.elapsed_ms)
    )
    parts = [head, f"```sql\n{answer.sql}\n```"]
    if answer.warning is not UNSET:
        parts.append(f"> {answer.warning}")
    if answer.rows:
        parts.append(_table(answer, texts))
    more = answer.row_count - SHOWN_ROWS
    if more > 0:
        parts.append(texts.more.format(count=texts.whole(more)))
    if answer.tables_used:
        parts.append(texts.tables_used.format(tables=", ".join(answer.tables_used)))
    return "\n\n".join(parts)


def _table(answer: Answer, texts: Texts) -> str:
    lines = [_line([_cell(name, texts) for name in answer.columns]), "|" + "---|" * len(answer.columns)]
    lines += [_line([_cell(value, texts) for value in row]) for row in answer.rows[:SHOWN_ROWS]]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any, texts: Texts) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return texts.yes if value else texts.no
    if isinstance(value, float):
        return texts.number(value)
    # What is in a cell must not end it, nor begin a row of its own.
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|")
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
