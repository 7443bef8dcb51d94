"""From the first line of a record to what it says: access logs, JSON, syslog, and lines with a timestamp."""

import re
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..levels import WORDS, level_of, level_of_priority, level_of_status
from ..wording import label
from .journal import REALTIME, journal_head
from .moments import Clock

_ACCESS = re.compile(r'(?:\S+ )?\S+ \S+ \S+ \[([^\]]{20,32})\] "([^"]{0,4000})" (\d{3}) (\S+)(.*)')
_SYSLOG = re.compile(r"(?:\S+ )?([\w./@-]{1,64})(?:\[\d{1,10}\])?: ")
_RFC5424 = re.compile(r"<(\d{1,3})>1 (\S+) \S+ (\S+) \S+ \S+ (?:-|\[[^\]]{0,1000}\]) ?")
# Any word, and then a look into the table: far quicker than to look for each of its words everywhere.
_MARKED = re.compile(r"[\[:]([A-Za-z]{3,11})\]|(?:level|lvl|severity)=\"?(\w{1,12})")
_SHOUTED = re.compile(r"\b[A-Z]{3,11}\b")
_OPENING = re.compile(r"\W{0,3}([A-Za-z]{3,11})[:\]| ]")
SHOUTED = {word.upper(): level_of(word) for word in WORDS}
TRACEBACK = "Traceback (most recent call last)"
TIMES = ("timestamp", "time", "ts", "@timestamp", "datetime", "date", "asctime", "t")
MESSAGES = ("message", "msg", "event", "text", "log", "body")
LEVELS = ("level", "severity", "levelname", "lvl", "log.level", "loglevel", "severity_text")
SERVICES = ("service", "service.name", "app", "application")
DETAILS = ("exc_info", "exception", "traceback", "stack", "stack_trace", "error.stack_trace", "error")
LOOKED_AT = 200


class Head(Struct):
    """The beginning of a record. Without a service it is that of its file."""

    at: datetime
    level: str
    type: str
    message: str
    service: str = ""


class Reader:
    """Tells beginnings of records from lines that belong to the one before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._json = msgspec.json.Decoder(dict[str, Any])

    def head(self, line: str) -> Head | None:
        if line.startswith("{"):
            return self._of_json(line)
        if found := self._clock.at_start(line):
            moment, end = found
            return self._of_syslog(line, moment, end) or _plain(line, moment, line[end:])
        return self._of_access(line) or self._of_rfc5424(line)

    def _of_access(self, line: str) -> Head | None:
        match = _ACCESS.match(line)
        moment = self._clock.of_access(match[1]) if match else None
        if match is None or moment is None:
            return None
        status = int(match[3])
        message = f"{match[2]} {status} {match[4]}{match[5]} {line.split(' ', 1)[0]}"
        return Head(moment, level_of_status(status), "request", message)

    def _of_syslog(self, line: str, moment: datetime, end: int) -> Head | None:
        if not line[0].isalpha() or line[3:4] != " ":  # only the form that begins with a month has a program
            return None
        match = _SYSLOG.match(line, end)
        if match is None:
            return None
        message = line[match.end() :]
        return Head(moment, level_in(message), "app", message, _unit(match[1]))

    def _of_rfc5424(self, line: str) -> Head | None:
        match = _RFC5424.match(line) if line.startswith("<") else None
        moment = self._clock.of_value(match[2]) if match else None
        if match is None or moment is None:
            return None
        level = level_of_priority(int(match[1]) % 8)
        return Head(moment, level, "app", line[match.end() :], "" if match[3] == "-" else _unit(match[3]))

    def _of_json(self, line: str) -> Head | None:
        try:
            return self._of_object(line, self._json.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError):  # also what is nested too deep to be spelt
            return None

    def _of_object(self, line: str, said: dict[str, Any]) -> Head | None:
        if REALTIME in said:
            found = journal_head(said)
            return Head(found.at, found.level, "app", found.message, found.service) if found else None
        moment = self._clock.of_value(_first(said, TIMES))
        if moment is None:
            return None
        message = str(_first(said, MESSAGES) or line).rstrip("\n")
        detail = _first(said, DETAILS)
        if isinstance(detail, str) and detail and detail not in message:
            message = f"{message}\n{detail}"
        status = _first(said, ("status", "status_code", "statusCode"))
        is_request = isinstance(status, int) and _first(said, ("method", "request_method")) is not None
        level = level_of(_first(said, LEVELS))
        if not level:
            level = level_of_status(cast(int, status)) if is_request else level_in(message)
        kind = said.get("type")
        known = kind if kind in ("app", "request", "build") else "request" if is_request else "app"
        service = _first(said, SERVICES)
        return Head(
            moment, level, cast(str, known), message, label(service) if isinstance(service, str) else ""
        )


def _first(said: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((said[name] for name in names if said.get(name) is not None), None)


def _plain(line: str, moment: datetime, rest: str) -> Head:
    return Head(moment, level_in(line), "app", rest.lstrip(" \t-|:"))


def level_in(line: str) -> str:
    """The level that a line names, not one that it talks about; none is as good as info."""
    looked_at = line[:LOOKED_AT]
    for match in _SHOUTED.finditer(looked_at):
        if level := SHOUTED.get(match[0]):
            return level
    for match in _MARKED.finditer(looked_at):
        word = (match[1] or match[2]).casefold()
        if word in WORDS or match[2]:
            return level_of(word)
    match = _OPENING.match(looked_at)
    if match and match[1].casefold() in WORDS:
        return level_of(match[1])
    return "error" if TRACEBACK in line else "info"


def _unit(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".service")
