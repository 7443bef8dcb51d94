"""A caller's key: in the hands of one request, and nowhere else.

It is carried beside a call and never inside what is kept, shared or written: it has no text form but its
fingerprint, cannot be compared, copied or pickled, and JSON encoders refuse it.
"""

import re
from typing import Any, NoReturn

AUTHORIZATION = "authorization"
MAX_LENGTH = 4096
_USABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""Printable ASCII without blanks. A comma is where several headers of a name were joined into one."""


class Secret:
    __slots__ = ("_value", "fingerprint")

    def __init__(self, value: str, fingerprint: str) -> None:
        self._value: str | None = value
        self.fingerprint = fingerprint
        """A keyed hash: tells callers apart in logs, caches and sessions, and says nothing of the key."""

    def reveal(self) -> str:
        """The key itself. For the request that goes to whom it is for; do not keep it."""
        if self._value is None:
            raise RuntimeError("the request is over, and its caller's key is forgotten")
        return self._value

    def forget(self) -> None:
        """The request is over: whoever still holds this holds a fingerprint."""
        self._value = None

    def __repr__(self) -> str:
        return f"Secret({self.fingerprint[:12]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a caller's key cannot be pickled or copied")

    def __eq__(self, other: Any) -> bool:
        return self is other

    __hash__ = object.__hash__


def in_header(name: str, key: Secret) -> str:
    """The value of the header that carries a key."""
    return f"Bearer {key.reveal()}" if name.lower() == AUTHORIZATION else key.reveal()


def is_usable(value: str) -> bool:
    """Whether a key can be carried in a header, here and further on."""
    return len(value) <= MAX_LENGTH and _USABLE.fullmatch(value) is not None
