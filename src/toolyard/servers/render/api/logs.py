"""Logs of Render, page by page."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from ..entries import Entry, LogsError, Notice, Query, Tell
from ..levels import level_of
from ..naming import Service
from ..wording import shown
from .client import Client, Deadline
from .forms import Log, LogPage

LARGEST_PAGE = 100
MOST_PAGES = 50


class Page(Struct):
    """What a group of services had."""

    entries: list[Entry]
    has_more: bool
    in_time: bool = True


async def read(
    client: Client, services: Sequence[Service], query: Query, type: str, deadline: Deadline, tell: Tell
) -> Page:
    """The newest entries of services that share a workspace and a region, as Render wants it."""
    names = {service.id: service.name for service in services}
    what = f"logs ({', '.join(list(names.values())[:3])})"
    now = datetime.now(UTC)
    start, end = _moment(now - query.period), _moment(now)
    found: dict[str, Entry] = {}
    has_more = True
    for _ in range(MOST_PAGES):
        # One more on later pages: the entry at the cut may come again.
        wanted = query.limit - len(found) + bool(found)
        asked = _asked(services, query, type, start, end, wanted)
        try:
            page = await client.get("/logs", asked, LogPage, deadline, what)
        except LogsError:
            if found and deadline.left <= 0:
                return Page(list(found.values()), True, in_time=False)
            raise
        for number, log in enumerate(page.logs):
            # Pages are cut by time: what has the moment of the cut may be on both.
            found[log.id or f"{end} {number}"] = _entry(log, names)
        following = (page.next_start_time or start, page.next_end_time or end)
        has_more = page.has_more
        if not has_more or len(found) >= query.limit or following == (start, end):
            break
        start, end = following
        await tell(len(found), query.limit, Notice("page", {"count": len(found)}))
    return Page(list(found.values())[: query.limit], has_more or len(found) > query.limit)


def _asked(
    services: Sequence[Service], query: Query, type: str, start: str, end: str, limit: int
) -> list[tuple[str, str]]:
    asked = [("ownerId", services[0].owner)]
    asked += [("resource", service.id) for service in services]
    asked += [("startTime", start), ("endTime", end), ("direction", "backward")]
    asked += [("limit", str(min(limit, LARGEST_PAGE)))]
    wanted = (("type", type), ("level", query.level), ("text", query.text))
    return asked + [(name, value) for name, value in wanted if value]


def _entry(log: Log, names: dict[str, str]) -> Entry:
    resource = log.label("resource")
    alone = next(iter(names.values())) if len(names) == 1 else resource
    return Entry(
        timestamp=log.timestamp if log.timestamp.tzinfo else log.timestamp.replace(tzinfo=UTC),
        level=level_of(log.label("level")),
        type=log.label("type"),
        service=names.get(resource, alone),
        message=shown(log.message),
    )


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
