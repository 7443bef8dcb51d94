"""What one line of a file can be: more of a session, a whole one, a title for another one, or nothing."""

from __future__ import annotations

from msgspec import Struct

from ..model import Session


class More(Struct, frozen=True):
    """What is to be added to a session."""

    session: Session


class Whole(Struct, frozen=True):
    """A session as it is now; what was known of it before is out of date."""

    session: Session


class Titled(Struct, frozen=True):
    """A title for the session that has a certain message."""

    message: str
    title: str


class Nothing(Struct, frozen=True):
    """A line that is known, and has nothing that is kept."""


Part = More | Whole | Titled | Nothing


class Unknown(Exception):
    """The line is in none of the forms that are read here."""
