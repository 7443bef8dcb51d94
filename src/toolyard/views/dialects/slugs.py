"""Tool slugs, as other systems call tools, and our full names; both are taken, and each reply uses one.

A slug is a remote's own name of a tool (`GMAIL_SEND_EMAIL`). A tool of a server of ours has no slug but its
full name.
"""

from collections.abc import Iterable

from ...catalogue.catalogue import TOOLS
from ...catalogue.lending import borrower
from ...catalogue.names import shown_name
from ...wire.call import Call
from ..meta.desk import Desk

PREFIX = "mcp__"


def full_name(desk: Desk, slug: str) -> str:
    """Where a slug leads; one that leads nowhere stays as it is, for the desk to say so."""
    if slug.startswith(PREFIX):
        return slug
    remotes = desk.supplies.remotes()
    bare = [
        entry.name
        for server, shelf in desk.supplies.yard.catalogue.shelves.items()
        if server not in remotes and (entry := shelf.find(TOOLS, slug)) is not None
    ]
    if len(bare) == 1:  # of two servers that have it, neither is meant more than the other
        return bare[0]
    return next((shown_name(server, slug) for server in remotes), slug)


class Slugs:
    """The way back: what full names are called in one reply. A name that was given is used as it came."""

    def __init__(self, desk: Desk, call: Call, given: Iterable[str] = ()) -> None:
        self._given = {full_name(desk, slug): slug for slug in given}
        self._catalogue = desk.supplies.yard.catalogue
        self._remotes = desk.supplies.remotes()
        self._whose = borrower(call)

    def of(self, full: str) -> str:
        if full in self._given:
            return self._given[full]
        entry = self._catalogue.find(TOOLS, full) or self._catalogue.lent(full, self._whose)
        return entry.item.own if entry is not None and entry.server in self._remotes else full
