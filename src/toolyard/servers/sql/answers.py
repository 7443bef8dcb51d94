"""What comes back: the structure, and the same to be read."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ...kit import ToolResult
from .texts import Texts

SHOWN_ROWS = 20
LONGEST_CELL = 120


class Answer(Struct, kw_only=True):
    """Rows of a database, and how they were found."""

    success: bool
    columns: list[str]
    rows: Annotated[
        Raw,
        Meta(
            description="Values in the order of the columns",
            extra_json_schema={"type": "array", "items": {"type": "array"}},
        ),
    ]
    """JSON already, so that many of them are not looked at once more on their way out."""
    row_count: int
    truncated: Annotated[bool, Meta(description="Whether there are more rows than these")] = False
    sql: Annotated[str, Meta(description="The statement as it ran, with its limit")] = ""
    original_sql: Annotated[str, Meta(description="The statement as given, or as first written")] = ""
    tables_used: list[str] = []
    elapsed_ms: int = 0
    question: str | UnsetType = UNSET
    warning: str | UnsetType = UNSET
    steps: Annotated[list[str], Meta(description="What was done for a question")] | UnsetType = UNSET


class Reply(Struct, frozen=True):
    answer: Answer
    rows: list[list[Any]]
    """The first of the answer, for the text."""


def as_result(reply: Reply, texts: Texts) -> ToolResult:
    return ToolResult(content=[_readable(reply.answer, reply.rows, texts)], structured=reply.answer)


def _readable(answer: Answer, rows: list[list[Any]], texts: Texts) -> str:
    count = texts.whole(answer.row_count)
    head = (texts.one_row if answer.row_count == 1 else texts.rows).format(
        count=count, ms=texts.whole(answer.elapsed_ms)
    )
    parts = [head, f"```sql\n{answer.sql}\n```"]
    if answer.warning is not UNSET:
        parts.append(f"> {answer.warning}")
    if rows:
        parts.append(_table(answer.columns, rows, texts))
    more = answer.row_count - SHOWN_ROWS
    if more > 0:
        parts.append(texts.more.format(count=texts.whole(more)))
    if answer.tables_used:
        parts.append(texts.tables_used.format(tables=", ".join(answer.tables_used)))
    return "\n\n".join(parts)


def _table(columns: list[str], rows: list[list[Any]], texts: Texts) -> str:
    lines = [_line([_cell(name, texts) for name in columns]), "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(_line([_cell(value, texts) for value in row]) for row in rows)])


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
