"""Render as a source of logs: which services are asked, and how their answers come together."""

from collections.abc import Callable

from ..entries import Found, LogsError, Notice, Query, Status, Tell
from ..naming import Service
from . import logs
from .client import Client, Deadline
from .directory import Directory
from .status import STORES, status_of
from .together import together

BOUND = 6
"""Services that are asked at the same time."""


class Render:
    kind = "render"

    def __init__(
        self, url: str, key: str, *, owner: str, timeout: float, patience: float, cache_seconds: float
    ) -> None:
        self._client = Client(url, key, timeout)
        self._directory = Directory(self._client, owner, cache_seconds)
        self._patience = patience

    async def logs(self, query: Query, tell: Tell) -> Found:
        deadline = Deadline(self._patience)
        wanted = query.service.strip() or "web"
        services = await self._directory.chosen(wanted, deadline)
        # Only services have logs of more than one type.
        default = "" if all(service.type in STORES for service in services) else "app"
        type = query.type_or(default)
        groups = _groups(services)
        pages = await together(
            BOUND, [logs.read(self._client, group, query, type, deadline, tell) for group in groups]
        )
        found = Found(service=wanted, type=type, entries=[])
        for page in pages:
            if isinstance(page, LogsError):
                raise page
            found.entries += page.entries
            found.has_more |= page.has_more
            if not page.in_time and not found.notices:
                found.notices = [Notice("slow_paging", {"seconds": f"{self._patience:g}"})]
        found.entries.sort(key=lambda entry: entry.timestamp, reverse=True)
        found.has_more |= len(found.entries) > query.limit
        del found.entries[query.limit :]
        return found

    async def statuses(self, say: Callable[[Notice], str], tell: Tell) -> list[Status]:
        deadline = Deadline(self._patience)
        listing = await self._directory.listing(deadline)
        done = 0

        async def ask(service: Service) -> Status:
            nonlocal done
            status = await status_of(self._client, service, deadline, say)
            done += 1
            await tell(done, len(listing.services), Notice("service_asked", {"name": service.name}))
            return status

        answers = await together(BOUND, [ask(service) for service in listing.services])
        found: list[Status] = []
        for answer in answers:
            if isinstance(answer, LogsError):  # only what is everybody's trouble comes so far
                raise answer
            found.append(answer)
        return found + [
            Status(name=str(notice.facts.get("what", "?")), ok=False, problem=say(notice))
            for notice in listing.missing
        ]

    async def names(self) -> list[str]:
        listing = await self._directory.listing(Deadline(self._patience))
        return sorted({service.name for service in listing.services})

    async def close(self) -> None:
        await self._client.close()


def _groups(services: list[Service]) -> list[list[Service]]:
    """Render answers for several services at once when they share a workspace and a region."""
    found: dict[tuple[str, str], list[Service]] = {}
    for service in services:
        found.setdefault((service.owner, service.region), []).append(service)
    return list(found.values())
