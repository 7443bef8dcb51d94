"""The five levels, from the many words and numbers that logs have for them."""

from typing import Any

_WORDS = {
    "trace": "debug", "verbose": "debug", "debug": "debug", "dbg": "debug",
    "info": "info", "information": "info", "notice": "info", "log": "info", "inf": "info",
    "warn": "warning", "warning": "warning", "wrn": "warning",
    "err": "error", "error": "error", "severe": "error", "eror": "error",
    "crit": "critical", "critical": "critical", "fatal": "critical", "alert": "critical",
    "emerg": "critical", "emergency": "critical", "panic": "critical",
}  # fmt: skip
WORDS = frozenset(_WORDS)
_TENS = ("debug", "debug", "info", "warning", "error", "critical")
_PRIORITIES = ("critical", "critical", "critical", "error", "warning", "info", "info", "debug")


def level_of(value: Any) -> str:
    """A level by a word, or by pino's and bunyan's numbers; as it is when it is neither."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return _TENS[int(max(10, min(value, 60))) // 10 - 1]
    word = str(value).strip().casefold()[:40] if value is not None else ""
    return _WORDS.get(word, word)


def level_of_priority(value: Any) -> str:
    """A level by syslog's numbers, 0 to 7."""
    text = str(value)
    priority = int(text) if text.isdecimal() and len(text) < 3 else 6
    return _PRIORITIES[min(7, priority)]


def level_of_status(status: int) -> str:
    """How bad an HTTP status is."""
    return "error" if status >= 500 else "warning" if status >= 400 else "info"


def is_wanted(level: str, wanted: str) -> bool:
    """Whoever wants errors wants what is worse as well."""
    return not wanted or level == wanted or (wanted == "error" and level == "critical")
