"""Entries of systemd's journal, as `journalctl -o json` and `-o export` write them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from ..levels import level_of_priority
from ..wording import label
from .moments import from_number

REALTIME = "__REALTIME_TIMESTAMP"
BEGINNING = b"__CURSOR="
SEPARATOR = b"\n\n" + BEGINNING
UNITS = ("_SYSTEMD_UNIT", "UNIT", "SYSLOG_IDENTIFIER", "_COMM")
_WANTED = frozenset((REALTIME, "MESSAGE", "PRIORITY", *UNITS))


class JournalEntry(Struct):
    at: datetime
    level: str
    message: str
    service: str


def journal_head(said: Mapping[str, Any]) -> JournalEntry | None:
    """None when it has no time."""
    time = str(said.get(REALTIME, ""))
    moment = from_number(int(time)) if time.isdecimal() and len(time) < 20 else None
    if moment is None:
        return None
    unit = next((str(said[name]) for name in UNITS if said.get(name)), "")
    message = _text(said.get("MESSAGE"))
    return JournalEntry(
        moment, level_of_priority(said.get("PRIORITY", "6")), message, label(unit.removesuffix(".service"))
    )


def _text(value: Any) -> str:
    """A message that is not text comes as the numbers of its bytes; one that was given twice as a list."""
    if not isinstance(value, list):
        return "" if value is None else str(value)
    parts = cast(list[Any], value)
    if all(isinstance(part, int) and 0 <= part < 256 for part in parts):
        return bytes(parts).decode(errors="replace")
    return "\n".join(_text(part) for part in parts)


def export_entry(raw: bytes) -> JournalEntry | None:
    """One entry of the export format, from after the beginning of its first line, its cursor."""
    fields: dict[str, str] = {}
    position = raw.find(b"\n") + 1
    while 0 < position < len(raw):
        end = raw.find(b"\n", position)
        line = raw[position : end if end >= 0 else len(raw)]
        name, equals, value = line.partition(b"=")
        if not equals and end >= 0:  # what may have line ends is given by its length
            size = int.from_bytes(raw[end + 1 : end + 9], "little")
            value = raw[end + 9 : end + 9 + size]
            end += 8 + size + 1
        key = name.decode(errors="replace")
        if key in _WANTED:
            fields[key] = value.decode(errors="replace")
        position = end + 1 if end >= 0 else len(raw)
    return journal_head(fields)
