"""A statement that is not run: why, and where in its text."""

from typing import NamedTuple


class Place(NamedTuple):
    line: int
    column: int


class Refused(Exception):
    """`reason` is for people, and quotes what it is about; `place` counts from 1."""

    def __init__(self, reason: str, place: Place | None = None) -> None:
        super().__init__(f"{reason} (line {place.line}, column {place.column})" if place else reason)
        self.reason = reason
        self.place = place
