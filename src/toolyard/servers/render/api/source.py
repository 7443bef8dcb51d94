"""Render as a source of logs: the services of a query, their logs page by page, and their status."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from ..model import (
    ANY_TYPE,
    LogEntry,
    LoggedService,
    LogNotice,
    LogQuery,
    LogResult,
    LogsError,
    ReportProgress,
    ServiceStatus,
    clean_message,
    level_of,
)
from .client import CallDeadline, Datastore, DeployItem, Log, LogPage, RenderClient, ServiceForm
from .directory import ServiceDirectory, gather_bounded, service_of

LARGEST_PAGE = 100
MAX_PAGES = 50


class GroupLogs(Struct):
    """The logs of a group of services."""

    entries: list[LogEntry]
    has_more: bool
    in_time: bool = True


async def read_logs(
    client: RenderClient,
    services: Sequence[LoggedService],
    query: LogQuery,
    type: str,
    deadline: CallDeadline,
    report: ReportProgress,
) -> GroupLogs:
    """The newest entries of services that share a workspace and a region, as Render requires."""
    names = {service.id: service.name for service in services}
    what = f"logs ({', '.join(list(names.values())[:3])})"
    now = datetime.now(UTC)
    start, end = _moment(now - query.period), _moment(now)
    found: dict[str, LogEntry] = {}
    has_more = True
    for _ in range(MAX_PAGES):
        # One more on later pages, because the entry at the cut may be repeated.
        wanted = query.limit - len(found) + bool(found)
        params = _log_params(services, query, type, start, end, wanted)
        try:
            page = await client.get("/logs", params, LogPage, deadline, what)
        except LogsError:
            if found and deadline.left <= 0:
                return GroupLogs(list(found.values()), True, in_time=False)
            raise
        for number, log in enumerate(page.logs):
            # Pages are cut by time: entries with the time of the cut may be on both.
            found[log.id or f"{end} {number}"] = _entry(log, names)
        following = (page.next_start_time or start, page.next_end_time or end)
        has_more = page.has_more
        if not has_more or len(found) >= query.limit or following == (start, end):
            break
        start, end = following
        await report(len(found), query.limit, LogNotice("page", {"count": len(found)}))
    return GroupLogs(list(found.values())[: query.limit], has_more or len(found) > query.limit)


def _log_params(
    services: Sequence[LoggedService], query: LogQuery, type: str, start: str, end: str, limit: int
) -> list[tuple[str, str]]:
    params = [("ownerId", services[0].owner)]
    params += [("resource", service.id) for service in services]
    params += [("startTime", start), ("endTime", end), ("direction", "backward")]
    params += [("limit", str(min(limit, LARGEST_PAGE)))]
    conditions = (("type", type), ("level", query.level), ("text", query.text))
    return params + [(name, value) for name, value in conditions if value]


def _entry(log: Log, names: dict[str, str]) -> LogEntry:
    resource = log.label("resource")
    alone = next(iter(names.values())) if len(names) == 1 else resource
    return LogEntry(
        timestamp=log.timestamp if log.timestamp.tzinfo else log.timestamp.replace(tzinfo=UTC),
        level=level_of(log.label("level")),
        type=log.label("type"),
        service=names.get(resource, alone),
        message=clean_message(log.message),
    )


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


RECENT = LogQuery(type=ANY_TYPE, level="error", period=timedelta(minutes=15), limit=LARGEST_PAGE)
STORES = {"postgres": "/postgres", "key_value": "/key-value"}
GOOD_STORES = ("available", "maintenance_scheduled")
BAD_DEPLOYS = ("build_failed", "update_failed", "pre_deploy_failed", "canceled")


async def status_of(
    client: RenderClient, service: LoggedService, deadline: CallDeadline, explain: Callable[[LogNotice], str]
) -> ServiceStatus:
    """Raises LogsError only if the key is rejected."""
    status = ServiceStatus(
        name=service.name,
        ok=True,
        status=None,
        last_deploy=None,
        id=service.id,
        type=service.type,
        url=service.url,
    )
    requests = [
        _read_service(client, service, status, deadline),
        _count_errors(client, service, status, deadline),
    ]
    if service.type not in STORES:
        requests.append(_read_deploy(client, service, status, deadline))
    _, errors = await gather_bounded(3, requests)
    if errors:
        status.ok = False
        status.problem = " ".join(dict.fromkeys(explain(error.notice) for error in errors))
    return status


async def _read_service(
    client: RenderClient, service: LoggedService, status: ServiceStatus, deadline: CallDeadline
) -> None:
    if service.type in STORES:
        path = f"{STORES[service.type]}/{service.id}"
        store = await client.get(path, (), Datastore, deadline, service.id)
        status.status = status.deploy = store.status
        status.suspended = "suspended" in (store.suspended, store.status)
        status.ok &= store.status in (None, *GOOD_STORES)
    else:
        form = await client.get(f"/services/{service.id}", (), ServiceForm, deadline, service.id)
        now = service_of(form)
        status.suspended, status.url = now.suspended, now.url
    status.ok &= not status.suspended


async def _read_deploy(
    client: RenderClient, service: LoggedService, status: ServiceStatus, deadline: CallDeadline
) -> None:
    path, what = f"/services/{service.id}/deploys", f"deploys ({service.name})"
    items = await client.get(path, [("limit", "1")], list[DeployItem], deadline, what)
    if not items:
        return
    deploy = items[0].deploy
    status.status = status.deploy = deploy.status
    status.last_deploy = status.deployed_at = deploy.finished_at or deploy.created_at
    status.commit = deploy.commit.id if deploy.commit else None
    status.ok &= deploy.status not in BAD_DEPLOYS


async def _count_errors(
    client: RenderClient, service: LoggedService, status: ServiceStatus, deadline: CallDeadline
) -> None:
    if service.type == "static_site":  # it runs no program
        return
    page = await read_logs(client, [service], RECENT, "", deadline, _silent)
    status.errors_15min, status.errors_has_more = len(page.entries), page.has_more


async def _silent(done: float, total: float | None, notice: LogNotice) -> None:
    """Progress is reported by service."""


BOUND = 6
"""Concurrent requests."""


class RenderLogs:
    kind = "render"

    def __init__(
        self, url: str, key: str, *, owner: str, timeout: float, call_seconds: float, cache_seconds: float
    ) -> None:
        self._client = RenderClient(url, key, timeout)
        self._directory = ServiceDirectory(self._client, owner, cache_seconds)
        self._call_seconds = call_seconds

    async def logs(self, query: LogQuery, report: ReportProgress) -> LogResult:
        deadline = CallDeadline(self._call_seconds)
        wanted = query.service.strip() or "web"
        services = await self._directory.choose(wanted, deadline)
        # Only services have logs of more than one type.
        default = "" if all(service.type in STORES for service in services) else "app"
        type = query.type_or(default)
        groups = _groups(services)
        pages, errors = await gather_bounded(
            BOUND, [read_logs(self._client, group, query, type, deadline, report) for group in groups]
        )
        if errors:
            raise errors[0]
        found = LogResult(service=wanted, type=type, entries=[])
        for page in pages:
            found.entries += page.entries
            found.has_more |= page.has_more
            if not page.in_time and not found.notices:
                found.notices = [LogNotice("slow_paging", {"seconds": f"{self._call_seconds:g}"})]
        found.entries.sort(key=lambda entry: entry.timestamp, reverse=True)
        found.has_more |= len(found.entries) > query.limit
        del found.entries[query.limit :]
        return found

    async def statuses(
        self, explain: Callable[[LogNotice], str], report: ReportProgress
    ) -> list[ServiceStatus]:
        deadline = CallDeadline(self._call_seconds)
        listing = await self._directory.listing(deadline)
        done = 0

        async def ask(service: LoggedService) -> ServiceStatus:
            nonlocal done
            status = await status_of(self._client, service, deadline, explain)
            done += 1
            await report(done, len(listing.services), LogNotice("service_asked", {"name": service.name}))
            return status

        statuses, errors = await gather_bounded(BOUND, [ask(service) for service in listing.services])
        if errors:
            raise errors[0]
        return statuses + [
            ServiceStatus(
                name=str(notice.facts.get("what", "?")),
                ok=False,
                status=None,
                last_deploy=None,
                problem=explain(notice),
            )
            for notice in listing.missing
        ]

    async def names(self) -> list[str]:
        listing = await self._directory.listing(CallDeadline(self._call_seconds))
        return sorted({service.name for service in listing.services})

    async def close(self) -> None:
        await self._client.close()


def _groups(services: list[LoggedService]) -> list[list[LoggedService]]:
    """One request covers several services if they share a workspace and a region."""
    found: dict[tuple[str, str], list[LoggedService]] = {}
    for service in services:
        found.setdefault((service.owner, service.region), []).append(service)
    return list(found.values())
