"""What the key can see at Render: services, databases, key-value instances; remembered for a while."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from ..entries import LogsError, Notice
from ..naming import Service, chosen
from .client import Client, Deadline
from .forms import KeyValueItem, OwnerItem, PostgresItem, ServiceForm, ServiceItem, Store
from .together import together

PAGE = 100
MOST_PAGES = 100


class _Item(Protocol):
    cursor: str


I = TypeVar("I", bound=_Item)  # noqa: E741


class Listing(Struct, frozen=True):
    """All that could be listed, and why anything is missing."""

    services: list[Service]
    missing: list[Notice]
    at: float


class Directory:
    def __init__(self, client: Client, owner: str, cache_seconds: float) -> None:
        self._client = client
        self._owner = owner
        self._owner_id: str | None = None
        self._cache_seconds = cache_seconds
        self._listing: Listing | None = None
        self._lock = asyncio.Lock()

    async def chosen(self, wanted: str, deadline: Deadline) -> list[Service]:
        """The services that somebody means. A name that is unknown may be that of a new one."""
        known = self._listing
        listing = await self.listing(deadline)
        try:
            return chosen(wanted, listing.services)
        except LogsError:
            if listing is known:
                listing = await self.listing(deadline, fresh=True)
        try:
            return chosen(wanted, listing.services)
        except LogsError:
            if listing.missing:  # it may well be among those
                missing = listing.missing[0]
                raise LogsError(missing.kind, **missing.facts) from None
            raise

    async def listing(self, deadline: Deadline, fresh: bool = False) -> Listing:
        async with self._lock:
            known = self._listing
            if known is None or fresh or known.missing or time.monotonic() - known.at >= self._cache_seconds:
                known = self._listing = await self._list(deadline)
            return known

    async def _list(self, deadline: Deadline) -> Listing:
        query = [("ownerId", await self._workspace(deadline))] if self._owner else []
        parts = await together(
            3,
            [
                self._services(query, deadline),
                self._postgres(query, deadline),
                self._key_values(query, deadline),
            ],
        )
        found: list[Service] = []
        missing: list[Notice] = []
        for part in parts:
            if isinstance(part, LogsError):
                if part.notice.kind == "unauthorized":
                    raise part
                missing.append(part.notice)
            else:
                found += part
        if len(missing) == len(parts):
            raise LogsError(missing[0].kind, **missing[0].facts)
        return Listing(found, missing, time.monotonic())

    async def _workspace(self, deadline: Deadline) -> str:
        """The id of the workspace that was set, by id or name."""
        if self._owner_id is None:
            owners = [item.owner for item in await self._pages("/owners", [], OwnerItem, deadline, "owners")]
            wanted = self._owner.casefold()
            ids = [owner.id for owner in owners if wanted in (owner.id.casefold(), owner.name.casefold())]
            if not ids:
                names = ", ".join(repr(owner.name or owner.id) for owner in owners[:20]) or "-"
                raise LogsError("unknown_owner", name=self._owner, names=names)
            self._owner_id = ids[0]
        return self._owner_id

    async def _services(self, query: list[tuple[str, str]], deadline: Deadline) -> list[Service]:
        items = await self._pages("/services", query, ServiceItem, deadline, "services")
        return [service_of(item.service) for item in items]

    async def _postgres(self, query: list[tuple[str, str]], deadline: Deadline) -> list[Service]:
        items = await self._pages("/postgres", query, PostgresItem, deadline, "postgres")
        return [_store(item.postgres, "postgres") for item in items]

    async def _key_values(self, query: list[tuple[str, str]], deadline: Deadline) -> list[Service]:
        items = await self._pages("/key-value", query, KeyValueItem, deadline, "key-value")
        return [_store(item.key_value, "key_value") for item in items]

    async def _pages(
        self, path: str, query: Sequence[tuple[str, str]], form: type[I], deadline: Deadline, what: str
    ) -> list[I]:
        found: list[I] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            more = [("cursor", cursor)] if cursor else []
            asked = [*query, ("limit", str(PAGE)), *more]
            page: list[I] = await self._client.get(path, asked, list[form], deadline, what)
            found += page
            if len(page) < PAGE or page[-1].cursor in ("", cursor):
                break
            cursor = page[-1].cursor
        return found


def service_of(form: ServiceForm) -> Service:
    details = form.service_details
    return Service(
        id=form.id,
        name=form.name,
        type=form.type,
        slug=form.slug or "",
        owner=form.owner_id,
        region=(details.region if details else None) or "",
        suspended=form.suspended == "suspended",
        url=details.url if details else None,
    )


def _store(form: Store, kind: str) -> Service:
    return Service(
        id=form.id,
        name=form.name,
        type=kind,
        owner=form.owner.id,
        region=form.region or "",
        suspended="suspended" in (form.suspended, form.status),
    )
