"""Errors in a configuration. No message quotes the value of a header, a variable or an address.

ConfigError                 a file cannot be used; names the file and the place, and says what to do
ConfigValueError            a value is invalid for its key; the caller adds the key and the file
└── UnusableEntryError      the machine lacks something, such as a variable; the file itself may be fine
"""

from collections.abc import Iterable


class ConfigError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigValueError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnusableEntryError(ConfigValueError):
    pass


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint such as `did you mean 'timeout'?`; None if no known name is similar."""
    from difflib import get_close_matches  # 1 to 6 ms of CPU, and only for mistakes

    found = get_close_matches(name, list(known), 1, 0.6)
    return f"did you mean {found[0]!r}?" if found else None


def nearest_or_all(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return nearest(name, known) or f"known: {', '.join(known)}"
