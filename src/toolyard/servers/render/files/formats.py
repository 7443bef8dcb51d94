"""Parses the first line of a record: its time, level, service and message.

Reads access logs, JSON, syslog, lines with a timestamp, and systemd's journal (`journalctl -o json` and `-o
export`).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..model import LEVEL_WORDS, clean_label, level_of, level_of_priority, level_of_status

_MONTHS = {
    name: number + 1
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    )
}
_LEVEL_FIRST = r"(?:\W{0,2}[A-Za-z]{3,9}\W{1,4})?"
_ISO = re.compile(
    rf"{_LEVEL_FIRST}[\[(<\"']?(\d{{4}})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{{1,9}}))?"
    r" ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?[\])>\"']?"
)
_APACHE = re.compile(
    r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? (\d{4})\]"
)
_SYSLOG_TIME = re.compile(r"(?:<\d{1,3}>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? ")
_EPOCH = re.compile(r"\[?(\d{10})(?:\.(\d{1,9}))?\]?(?= |$)")
_ACCESS_TIME = re.compile(r"(\d{1,2})/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})")


class Clock:
    """Reads timestamps; knows the default time zone and the current year."""

    def __init__(self, zone: tzinfo | None, now: datetime) -> None:
        self._zone = zone
        self._now = now

    def at_start(self, line: str) -> tuple[datetime, int] | None:
        """Reads the timestamp at the start of a line; returns it and where it ends."""
        if line[4:5] == "-" and (found := self._iso_fast(line)):
            return found
        if match := _ISO.match(line):
            year, month, day, hour, minute, second, fraction, zone = match.groups()
            numbers = (year, month, day, hour, minute, second)
            return _with_end(self._datetime(numbers, fraction, zone), match)
        if match := _SYSLOG_TIME.match(line):
            name, day, hour, minute, second, fraction = match.groups()
            return _with_end(self._without_year(name, (day, hour, minute, second), fraction), match)
        if match := _APACHE.match(line):
            name, day, hour, minute, second, fraction, year = match.groups()
            numbers = (year, str(_MONTHS.get(name, 0)), day, hour, minute, second)
            return _with_end(self._datetime(numbers, fraction, None), match)
        if match := _EPOCH.match(line):
            return _with_end(from_number(float(match[0].strip("[]"))), match)
        return None

    def _iso_fast(self, line: str) -> tuple[datetime, int] | None:
        """Reads the most common format with `datetime.fromisoformat`, in a tenth of the time."""
        end = line.find(" ", 11)
        text = line[: end if end > 0 else 40]
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if len(text) < 19 or (moment.tzinfo is None and line[end + 1 : end + 2] in ("+", "-", "U", "Z")):
            return None  # a date alone, or a zone after a space
        moment = moment if moment.tzinfo or self._zone is None else moment.replace(tzinfo=self._zone)
        try:
            return moment.astimezone(UTC), len(text)
        except (ValueError, OverflowError, OSError):  # out of range
            return None

    def of_access(self, text: str) -> datetime | None:
        """Reads the format of access logs: 15/Nov/2026:23:04:46 +0000."""
        match = _ACCESS_TIME.fullmatch(text)
        if match is None:
            return None
        day, name, year, hour, minute, second, zone = match.groups()
        return self._datetime((year, str(_MONTHS.get(name, 0)), day, hour, minute, second), None, zone)

    def of_value(self, value: object) -> datetime | None:
        """Reads a JSON value: a text, or a number since 1970."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return from_number(value)
        if not isinstance(value, str):
            return None
        found = self.at_start(value[:80])
        if found is None and value.isdecimal() and len(value) < 20:
            return from_number(int(value))
        return found[0] if found else None

    def _datetime(self, numbers: tuple[str, ...], fraction: str | None, zone: str | None) -> datetime | None:
        year, month, day, hour, minute, second = map(int, numbers)
        micro = int((fraction or "")[:6].ljust(6, "0"))
        try:
            # 60 is a leap second; 59 is close enough.
            moment = datetime(
                year, month, day, hour, minute, min(second, 59), micro, _zone(zone) or self._zone
            )
            return moment.astimezone(UTC)  # without a zone: this machine's
        except (ValueError, OverflowError, OSError):
            return None

    def _without_year(self, name: str, rest: tuple[str, ...], fraction: str | None) -> datetime | None:
        """Takes this year, or the last one if the date would be in the future."""
        numbers = (str(_MONTHS.get(name, 0)), *rest)
        found = self._datetime((str(self._now.year), *numbers), fraction, None)
        if found is None or found > self._now + timedelta(days=1):
            return self._datetime((str(self._now.year - 1), *numbers), fraction, None)
        return found


def from_number(number: float) -> datetime | None:
    """Reads seconds since 1970, or larger numbers as milli-, micro- or nanoseconds."""
    try:
        for unit in (1e9, 1e6, 1e3):
            if abs(number) > 1e11 * unit / 1e3:
                number /= unit
                break
        return datetime.fromtimestamp(number, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _with_end(moment: datetime | None, match: re.Match[str]) -> tuple[datetime, int] | None:
    return (moment, match.end()) if moment else None


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


def journal_head(record: Mapping[str, Any]) -> JournalEntry | None:
    """Returns None without a time."""
    time = str(record.get(REALTIME, ""))
    moment = from_number(int(time)) if time.isdecimal() and len(time) < 20 else None
    if moment is None:
        return None
    unit = next((str(record[name]) for name in UNITS if record.get(name)), "")
    message = _text(record.get("MESSAGE"))
    return JournalEntry(
        moment,
        level_of_priority(record.get("PRIORITY", "6")),
        message,
        clean_label(unit.removesuffix(".service")),
    )


def _text(value: Any) -> str:
    """Reads a message: text, a list of byte values if it is binary, or a list if it was set twice."""
    if not isinstance(value, list):
        return "" if value is None else str(value)
    parts = cast(list[Any], value)
    if all(isinstance(part, int) and 0 <= part < 256 for part in parts):
        return bytes(parts).decode(errors="replace")
    return "\n".join(_text(part) for part in parts)


def export_entry(raw: bytes) -> JournalEntry | None:
    """Reads one entry of the export format; `raw` starts inside its first line, the cursor."""
    fields: dict[str, str] = {}
    position = raw.find(b"\n") + 1
    while 0 < position < len(raw):
        end = raw.find(b"\n", position)
        line = raw[position : end if end >= 0 else len(raw)]
        name, equals, value = line.partition(b"=")
        if not equals and end >= 0:  # a value that may contain line breaks has its length before it
            size = int.from_bytes(raw[end + 1 : end + 9], "little")
            value = raw[end + 9 : end + 9 + size]
            end += 8 + size + 1
        key = name.decode(errors="replace")
        if key in _WANTED:
            fields[key] = value.decode(errors="replace")
        position = end + 1 if end >= 0 else len(raw)
    return journal_head(fields)


_ACCESS = re.compile(r'(?:\S+ )?\S+ \S+ \S+ \[([^\]]{20,32})\] "([^"]{0,4000})" (\d{3}) (\S+)(.*)')
_SYSLOG = re.compile(r"(?:\S+ )?([\w./@-]{1,64})(?:\[\d{1,10}\])?: ")
_RFC5424 = re.compile(r"<(\d{1,3})>1 (\S+) \S+ (\S+) \S+ \S+ (?:-|\[[^\]]{0,1000}\]) ?")
# Matches any word and then looks it up: much faster than searching for each level.
_MARKED = re.compile(r"[\[:]([A-Za-z]{3,11})\]|(?:level|lvl|severity)=\"?(\w{1,12})")
_UPPER_WORD = re.compile(r"\b[A-Z]{3,11}\b")
_OPENING = re.compile(r"\W{0,3}([A-Za-z]{3,11})[:\]| ]")
UPPER_LEVELS = {word.upper(): level_of(word) for word in LEVEL_WORDS}
TRACEBACK = "Traceback (most recent call last)"
TIMES = ("timestamp", "time", "ts", "@timestamp", "datetime", "date", "asctime", "t")
MESSAGES = ("message", "msg", "event", "text", "log", "body")
LEVELS = ("level", "severity", "levelname", "lvl", "log.level", "loglevel", "severity_text")
SERVICES = ("service", "service.name", "app", "application")
DETAILS = ("exc_info", "exception", "traceback", "stack", "stack_trace", "error.stack_trace", "error")
LOOKED_AT = 200


class RecordHead(Struct):
    """The first line of a record. An empty service means that of the file."""

    at: datetime
    level: str
    type: str
    message: str
    service: str = ""


class RecordReader:
    """Recognizes first lines of records; other lines belong to the record before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._json = msgspec.json.Decoder(dict[str, Any])

    def head(self, line: str) -> RecordHead | None:
        if line.startswith("{"):
            return self._of_json(line)
        if found := self._clock.at_start(line):
            moment, end = found
            return self._of_syslog(line, moment, end) or _plain(line, moment, line[end:])
        return self._of_access(line) or self._of_rfc5424(line)

    def _of_access(self, line: str) -> RecordHead | None:
        match = _ACCESS.match(line)
        moment = self._clock.of_access(match[1]) if match else None
        if match is None or moment is None:
            return None
        status = int(match[3])
        message = f"{match[2]} {status} {match[4]}{match[5]} {line.split(' ', 1)[0]}"
        return RecordHead(moment, level_of_status(status), "request", message)

    def _of_syslog(self, line: str, moment: datetime, end: int) -> RecordHead | None:
        if (
            not line[0].isalpha() or line[3:4] != " "
        ):  # only the format that begins with a month has a program name
            return None
        match = _SYSLOG.match(line, end)
        if match is None:
            return None
        message = line[match.end() :]
        return RecordHead(moment, level_in(message), "app", message, _unit(match[1]))

    def _of_rfc5424(self, line: str) -> RecordHead | None:
        match = _RFC5424.match(line) if line.startswith("<") else None
        moment = self._clock.of_value(match[2]) if match else None
        if match is None or moment is None:
            return None
        level = level_of_priority(int(match[1]) % 8)
        return RecordHead(
            moment, level, "app", line[match.end() :], "" if match[3] == "-" else _unit(match[3])
        )

    def _of_json(self, line: str) -> RecordHead | None:
        try:
            return self._of_object(line, self._json.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError):  # also for values nested too deeply
            return None

    def _of_object(self, line: str, record: dict[str, Any]) -> RecordHead | None:
        if REALTIME in record:
            found = journal_head(record)
            return RecordHead(found.at, found.level, "app", found.message, found.service) if found else None
        moment = self._clock.of_value(_first(record, TIMES))
        if moment is None:
            return None
        message = str(_first(record, MESSAGES) or line).rstrip("\n")
        detail = _first(record, DETAILS)
        if isinstance(detail, str) and detail and detail not in message:
            message = f"{message}\n{detail}"
        status = _first(record, ("status", "status_code", "statusCode"))
        is_request = isinstance(status, int) and _first(record, ("method", "request_method")) is not None
        level = level_of(_first(record, LEVELS))
        if not level:
            level = level_of_status(cast(int, status)) if is_request else level_in(message)
        kind = record.get("type")
        known = kind if kind in ("app", "request", "build") else "request" if is_request else "app"
        service = _first(record, SERVICES)
        return RecordHead(
            moment, level, cast(str, known), message, clean_label(service) if isinstance(service, str) else ""
        )


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _plain(line: str, moment: datetime, rest: str) -> RecordHead:
    return RecordHead(moment, level_in(line), "app", rest.lstrip(" \t-|:"))


def level_in(line: str) -> str:
    """The level that a line declares, not a word in its text; info if there is none."""
    looked_at = line[:LOOKED_AT]
    for match in _UPPER_WORD.finditer(looked_at):
        if level := UPPER_LEVELS.get(match[0]):
            return level
    for match in _MARKED.finditer(looked_at):
        word = (match[1] or match[2]).casefold()
        if word in LEVEL_WORDS or match[2]:
            return level_of(word)
    match = _OPENING.match(looked_at)
    if match and match[1].casefold() in LEVEL_WORDS:
        return level_of(match[1])
    return "error" if TRACEBACK in line else "info"


def _unit(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".service")
