"""Records as text, which says a column's name once: as CSV, or as a plain table."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .cutting import fitting, size_of
from .tokens import estimated

Records = Sequence[dict[str, Any]]

# What would end a cell or a row of a plain table, as it is written in Markdown and in programs.
_ESCAPES = str.maketrans({"|": r"\|", "\n": r"\n", "\r": r"\r", "\\": r"\\"})


def compacted(records: Records, form: str, room: int) -> tuple[dict[str, Any], int]:
    """In the form asked for, and how many are whole; by `auto` in the form that shows most of them, and of
    those the cheapest."""
    plain = fitting(records, room)
    best: dict[str, Any] = {"preview": plain}
    shown = len(plain) if plain == records[: len(plain)] else 0
    cost = (-len(plain), estimated(msgspec.json.encode(plain).decode())) if form == "auto" else (1, 0)
    for name, make in FORMS.items():
        text, count = _longest(records, make, room)
        if form in ("auto", name) and count and (-count, estimated(text)) < cost:
            best, cost, shown = {"preview": text, "preview_format": name}, (-count, estimated(text)), count
    return best, shown


def _longest(records: Records, make: Callable[[Records], str], room: int) -> tuple[str, int]:
    """With as many of them as there is room for."""
    for count in range(len(records), 0, -1):
        text = make(records[:count])
        if size_of(text) <= room:
            return text, count
    return "", 0


def _names(records: Records) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _as_csv(records: Records) -> str:
    names = _names(records)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_cell(record.get(name)) for name in names] for record in records])
    return out.getvalue().removesuffix("\n")


def _as_table(records: Records) -> str:
    names = _names(records)
    rows = [names, *([_cell(record.get(name)) for name in names] for record in records)]
    return "\n".join(" | ".join(cell.translate(_ESCAPES) for cell in row) for row in rows)


FORMS: dict[str, Callable[[Records], str]] = {"csv": _as_csv, "table": _as_table}
