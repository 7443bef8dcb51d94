"""Timestamps at the beginnings of lines, in the forms that logs have."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

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
_SYSLOG = re.compile(r"(?:<\d{1,3}>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? ")
_EPOCH = re.compile(r"\[?(\d{10})(?:\.(\d{1,9}))?\]?(?= |$)")
_ACCESS = re.compile(r"(\d{1,2})/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})")


class Clock:
    """Reads timestamps. Knows the time zone of those that have none, and which year it is."""

    def __init__(self, zone: tzinfo | None, now: datetime) -> None:
        self._zone = zone
        self._now = now

    def at_start(self, line: str) -> tuple[datetime, int] | None:
        """The moment that a line begins with, and where it ends."""
        if line[4:5] == "-" and (found := self._usual(line)):
            return found
        if match := _ISO.match(line):
            year, month, day, hour, minute, second, fraction, zone = match.groups()
            numbers = (year, month, day, hour, minute, second)
            return _with_end(self._made(numbers, fraction, zone), match)
        if match := _SYSLOG.match(line):
            name, day, hour, minute, second, fraction = match.groups()
            return _with_end(self._without_year(name, (day, hour, minute, second), fraction), match)
        if match := _APACHE.match(line):
            name, day, hour, minute, second, fraction, year = match.groups()
            numbers = (year, str(_MONTHS.get(name, 0)), day, hour, minute, second)
            return _with_end(self._made(numbers, fraction, None), match)
        if match := _EPOCH.match(line):
            return _with_end(from_number(float(match[0].strip("[]"))), match)
        return None

    def _usual(self, line: str) -> tuple[datetime, int] | None:
        """What most lines have, read by Python itself in a tenth of the time."""
        end = line.find(" ", 11)
        text = line[: end if end > 0 else 40]
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if len(text) < 19 or (moment.tzinfo is None and line[end + 1 : end + 2] in ("+", "-", "U", "Z")):
            return None  # a date alone, or with its zone apart
        moment = moment if moment.tzinfo or self._zone is None else moment.replace(tzinfo=self._zone)
        try:
            return moment.astimezone(UTC), len(text)
        except (ValueError, OverflowError, OSError):  # at the ends of time
            return None

    def of_access(self, text: str) -> datetime | None:
        """As in access logs: 15/Nov/2026:23:04:46 +0000."""
        match = _ACCESS.fullmatch(text)
        if match is None:
            return None
        day, name, year, hour, minute, second, zone = match.groups()
        return self._made((year, str(_MONTHS.get(name, 0)), day, hour, minute, second), None, zone)

    def of_value(self, value: object) -> datetime | None:
        """What a field of JSON says: text, or a number since 1970."""
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

    def _made(self, numbers: tuple[str, ...], fraction: str | None, zone: str | None) -> datetime | None:
        year, month, day, hour, minute, second = map(int, numbers)
        micro = int((fraction or "")[:6].ljust(6, "0"))
        try:
            # 60 is a leap second; the one before it will do.
            moment = datetime(
                year, month, day, hour, minute, min(second, 59), micro, _zone(zone) or self._zone
            )
            return moment.astimezone(UTC)  # without a zone: this machine's
        except (ValueError, OverflowError, OSError):
            return None

    def _without_year(self, name: str, rest: tuple[str, ...], fraction: str | None) -> datetime | None:
        """Of this year, or of the last one when it would be in the future."""
        numbers = (str(_MONTHS.get(name, 0)), *rest)
        found = self._made((str(self._now.year), *numbers), fraction, None)
        if found is None or found > self._now + timedelta(days=1):
            return self._made((str(self._now.year - 1), *numbers), fraction, None)
        return found


def from_number(number: float) -> datetime | None:
    """Since 1970, in seconds, or so large that it must be milli-, micro- or nanoseconds."""
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
