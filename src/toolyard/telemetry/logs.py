"""Logs to standard error, as text or as JSON lines, with the fields of the request they belong to.

Fields come from the request under way (`requests.current`) and from `extra`. Secrets are masked and line
breaks from outside escaped at the one place where a record becomes a line.
"""

import logging
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from ..wire.text import clean
from .redaction import call_secrets, redact, redact_field
from .requests import current, request_fields

Kind = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_encode = msgspec.json.Encoder().encode
_PLAIN = (int, float, type(None))
_MOST = 8192
"""Characters of a message or a field."""

# What a record has by itself; the rest came by `extra`. uvicorn adds a coloured copy of the message.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
_CONTROLS = {code: ascii(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_IN_TRACEBACK = {code: shown for code, shown in _CONTROLS.items() if code not in (ord("\n"), ord("\t"))}


def setup(kind: Kind = "text", level: Level = "info") -> None:
    """Take over the process's logs, uvicorn's too (give `uvicorn.Config` a `log_config=None`)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Debugging Toolyard does not mean debugging asyncio and every library.
    root.setLevel(max(chosen, logging.INFO))
    logging.getLogger("toolyard").setLevel(chosen)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def write_json_line(name: str, message: str, fields: Mapping[str, object]) -> None:
    """A line of JSON at level info, of texts that were cut already, with no record and no handlers.

    Those take 60 µs of CPU for a line, this 15: the difference is a tenth of a whole call on Lambda.
    """
    line: dict[str, object] = {"ts": _moment(time.time()), "level": "info", "logger": name}
    line["message"] = redact(clean(message))
    for field, value in fields.items():
        line[field] = redact(clean(value)) if isinstance(value, str) else value
    sys.stderr.write(_encode(line).decode() + "\n")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    request = current.get()
    fields = {} if request is None else request_fields(request)
    fields.update((name, value) for name, value in record.__dict__.items() if name not in _OWN)
    return {name: _safe(name, value) for name, value in fields.items()}


def _safe(name: str, value: object) -> object:
    return value if isinstance(value, _PLAIN) else redact_field(name, _clipped(str(value)))


def _clipped(text: str, most: int = _MOST) -> str:
    """Bounded: whoever fills the log, an upstream's standard error say, must not hold the event loop.

    The secrets of the running call are taken out first: half of one would be known by nothing.
    """
    known = call_secrets.get()
    text = clean(known.clean_text(text) if known.values else text)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more)"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return None
    return redact(_clipped(formatter.formatException(record.exc_info), 4 * _MOST))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(_clipped(record.getMessage())),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value)
        if traceback := _traceback(self, record):
            line["exception"] = traceback
        return _encode(line).decode()


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = redact(_clipped(record.getMessage())).translate(_CONTROLS)
        line = f"{_moment(record.created)} {record.levelname} {record.name}: {message}"
        for name, value in _fields(record).items():
            line += f" {name}={_shown(value)}"
        if traceback := _traceback(self, record):
            # Indented, so that no text inside it can pass for a line of ours.
            line += "\n    " + traceback.translate(_IN_TRACEBACK).replace("\n", "\n    ")
        return line


def _shown(value: object) -> str:
    """As it is when it is one word, else quoted."""
    text = str(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    return _encode(text).decode().translate(_CONTROLS)
