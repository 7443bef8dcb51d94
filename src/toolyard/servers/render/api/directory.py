"""The services, databases and key-value instances that the key can see at Render, cached for a while."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ..model import LoggedService, LogNotice, LogsError, choose_services
from .client import (
    CallDeadline,
    Datastore,
    KeyValueItem,
    OwnerItem,
    PostgresItem,
    RenderClient,
    ServiceForm,
    ServiceItem,
)

T = TypeVar("T")


async def gather_bounded(
    bound: int, requests: Sequence[Coroutine[Any, Any, T]]
) -> tuple[list[T], list[LogsError]]:
    """Runs requests concurrently; returns results and errors in order. Raises if the key is rejected."""
    semaphore = asyncio.Semaphore(bound)
    errors: dict[int, LogsError] = {}

    async def run(number: int, request: Coroutine[Any, Any, T]) -> list[T]:
        async with semaphore:
            try:
                return [await request]
            except LogsError as error:
                errors[number] = error
                return []

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(number, request)) for number, request in enumerate(requests)]
    ordered = [errors[number] for number in sorted(errors)]
    for error in ordered:
        if error.notice.kind == "unauthorized":
            raise error
    return [result for task in tasks for result in task.result()], ordered


PAGE = 100
MAX_PAGES = 100


class _Item(Protocol):
    cursor: str


I = TypeVar("I", bound=_Item)  # noqa: E741


class ServiceListing(Struct, frozen=True):
    """The listed services, and why any are missing."""

    services: list[LoggedService]
    missing: list[LogNotice]
    at: float


class ServiceDirectory:
    def __init__(self, client: RenderClient, owner: str, cache_seconds: float) -> None:
        self._client = client
        self._owner = owner
        self._owner_id: str | None = None
        self._cache_seconds = cache_seconds
        self._listing: ServiceListing | None = None
        self._lock = asyncio.Lock()

    async def choose(self, wanted: str, deadline: CallDeadline) -> list[LoggedService]:
        """Returns the services that a name means. Lists them again for an unknown name, which may be new."""
        known = self._listing
        listing = await self.listing(deadline)
        try:
            return choose_services(wanted, listing.services)
        except LogsError:
            if listing is known:
                listing = await self.listing(deadline, fresh=True)
        try:
            return choose_services(wanted, listing.services)
        except LogsError:
            if listing.missing:  # it may be among these
                missing = listing.missing[0]
                raise LogsError(missing.kind, **missing.facts) from None
            raise

    async def listing(self, deadline: CallDeadline, fresh: bool = False) -> ServiceListing:
        async with self._lock:
            known = self._listing
            if known is None or fresh or known.missing or time.monotonic() - known.at >= self._cache_seconds:
                known = self._listing = await self._list(deadline)
            return known

    async def _list(self, deadline: CallDeadline) -> ServiceListing:
        query = [("ownerId", await self._workspace(deadline))] if self._owner else []
        lists, errors = await gather_bounded(
            3,
            [
                self._services(query, deadline),
                self._postgres(query, deadline),
                self._key_values(query, deadline),
            ],
        )
        if not lists:
            raise errors[0]
        services = [service for one in lists for service in one]
        return ServiceListing(services, [error.notice for error in errors], time.monotonic())

    async def _workspace(self, deadline: CallDeadline) -> str:
        """The id of the configured workspace."""
        if self._owner_id is None:
            owners = [item.owner for item in await self._pages("/owners", [], OwnerItem, deadline, "owners")]
            wanted = self._owner.casefold()
            ids = [owner.id for owner in owners if wanted in (owner.id.casefold(), owner.name.casefold())]
            if not ids:
                names = ", ".join(repr(owner.name or owner.id) for owner in owners[:20]) or "-"
                raise LogsError("unknown_owner", name=self._owner, names=names)
            self._owner_id = ids[0]
        return self._owner_id

    async def _services(self, query: list[tuple[str, str]], deadline: CallDeadline) -> list[LoggedService]:
        items = await self._pages("/services", query, ServiceItem, deadline, "services")
        return [service_of(item.service) for item in items]

    async def _postgres(self, query: list[tuple[str, str]], deadline: CallDeadline) -> list[LoggedService]:
        items = await self._pages("/postgres", query, PostgresItem, deadline, "postgres")
        return [_store(item.postgres, "postgres") for item in items]

    async def _key_values(self, query: list[tuple[str, str]], deadline: CallDeadline) -> list[LoggedService]:
        items = await self._pages("/key-value", query, KeyValueItem, deadline, "key-value")
        return [_store(item.key_value, "key_value") for item in items]

    async def _pages(
        self, path: str, query: Sequence[tuple[str, str]], form: type[I], deadline: CallDeadline, what: str
    ) -> list[I]:
        found: list[I] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            more = [("cursor", cursor)] if cursor else []
            params = [*query, ("limit", str(PAGE)), *more]
            page: list[I] = await self._client.get(path, params, list[form], deadline, what)
            found += page
            if len(page) < PAGE or page[-1].cursor in ("", cursor):
                break
            cursor = page[-1].cursor
        return found


def service_of(form: ServiceForm) -> LoggedService:
    details = form.service_details
    return LoggedService(
        id=form.id,
        name=form.name,
        type=form.type,
        slug=form.slug or "",
        owner=form.owner_id,
        region=(details.region if details else None) or "",
        suspended=form.suspended == "suspended",
        url=details.url if details else None,
    )


def _store(form: Datastore, kind: str) -> LoggedService:
    return LoggedService(
        id=form.id,
        name=form.name,
        type=kind,
        owner=form.owner.id,
        region=form.region or "",
        suspended="suspended" in (form.suspended, form.status),
    )
