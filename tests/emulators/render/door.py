"""The endpoints: who asks, what for, and the reply."""

import fnmatch
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from .world import SECOND, Json, Log, World, moment, nanoseconds

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LISTS = ("cursor", "limit", "name")
TIMES = ("createdBefore", "createdAfter", "updatedBefore", "updatedAfter")
SERVICES = (
    *LISTS,
    *TIMES,
    "type",
    "environmentId",
    "env",
    "region",
    "suspended",
    "ownerId",
    "includePreviews",
)
STORES = (*LISTS, *TIMES, "region", "suspended", "ownerId", "environmentId", "includeReplicas")
DEPLOYS = (*LISTS, *TIMES, "status", "finishedBefore", "finishedAfter")
LABELS = ("instance", "host", "statusCode", "method", "path", "level", "type", "task", "taskRun")
LOGS = ("ownerId", "resource", "startTime", "endTime", "direction", "text", "limit", *LABELS)
LARGEST_PAGE = 100


class Refusal(Exception):
    """A reply that is no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Door:
    def __init__(self, world: World) -> None:
        self.world = world
        self.page = LARGEST_PAGE
        """How many logs come at most, whatever the limit: the real one scans so far and no further."""
        self.overlapping = False
        """Whether a page of logs begins with the last one of the page before."""

    def routes(self) -> list[web.RouteDef]:
        known: list[tuple[str, Handler]] = [
            ("/owners", self.owners),
            ("/services", self.services),
            ("/services/{id}", self.service),
            ("/services/{id}/deploys", self.deploys),
            ("/postgres", self.postgres),
            ("/postgres/{id}", self.one_postgres),
            ("/key-value", self.key_values),
            ("/key-value/{id}", self.key_value),
            ("/logs", self.logs),
        ]
        return [web.get("/v1" + path, handler) for path, handler in known]

    async def owners(self, request: web.Request) -> web.Response:
        return _page(request, self.world.owners.values(), "owner", (*LISTS, "email"))

    async def services(self, request: web.Request) -> web.Response:
        return _page(request, self.world.services.values(), "service", SERVICES)

    async def service(self, request: web.Request) -> web.Response:
        return web.json_response(_one(self.world.services, request.match_info["id"]))

    async def deploys(self, request: web.Request) -> web.Response:
        return _page(request, _one(self.world.deploys, request.match_info["id"]), "deploy", DEPLOYS)

    async def postgres(self, request: web.Request) -> web.Response:
        return _page(request, self.world.postgres.values(), "postgres", STORES)

    async def one_postgres(self, request: web.Request) -> web.Response:
        return web.json_response(_one(self.world.postgres, request.match_info["id"]))

    async def key_values(self, request: web.Request) -> web.Response:
        return _page(request, self.world.key_values.values(), "keyValue", STORES)

    async def key_value(self, request: web.Request) -> web.Response:
        return web.json_response(_one(self.world.key_values, request.match_info["id"]))

    async def logs(self, request: web.Request) -> web.Response:
        query = request.query
        _known(query, LOGS)
        self._check_resources(query)
        end = _moment(query, "endTime", time.time_ns())
        start = _moment(query, "startTime", end - 3600 * SECOND)
        direction = query.get("direction", "backward")
        if direction not in ("backward", "forward"):
            raise Refusal(400, f"invalid direction {direction!r}")
        backward = direction == "backward"
        fitting = [log for log in self.world.logs if start <= log.at <= end and _fits(log, query)]
        fitting.sort(key=lambda log: log.at, reverse=backward)
        page = fitting[: min(_limit(query), self.page)]
        more = len(fitting) > len(page)
        if more:
            edge = page[-1].at
            step = 0 if self.overlapping else 1
            start, end = (start, edge - step) if backward else (edge + step, end)
        times = {"nextStartTime": moment(start), "nextEndTime": moment(end)}
        return web.json_response({"hasMore": more, **times, "logs": [log.shown for log in page]})

    def _check_resources(self, query: MultiMapping[str]) -> None:
        owner, ids = query.get("ownerId", ""), query.getall("resource", [])
        if not owner or not ids:
            raise Refusal(400, "ownerId and resource are required")
        regions: set[str] = set()
        for id in ids:
            found = self.world.resource(id)
            if found is None or owner != (found.get("ownerId") or found.get("owner", {}).get("id")):
                raise Refusal(404, f"not found: {id}")
            regions.add(found.get("region") or found["serviceDetails"].get("region", ""))
        if len(regions) > 1:
            raise Refusal(400, "all resources must be in the same region")


def _fits(log: Log, query: MultiMapping[str]) -> bool:
    if log.resource not in query.getall("resource"):
        return False
    for name in LABELS:
        wanted = query.getall(name, [])
        if wanted and not any(fnmatch.fnmatch(log.labels.get(name, ""), pattern) for pattern in wanted):
            return False
    texts = query.getall("text", [])
    return not texts or any(fnmatch.fnmatch(log.message.lower(), f"*{text.lower()}*") for text in texts)


def _one(things: dict[str, Any], id: str) -> Any:
    if id not in things:
        raise Refusal(404, f"not found: {id}")
    return things[id]


def _page(request: web.Request, things: Iterable[Json], name: str, known: tuple[str, ...]) -> web.Response:
    """A page of a list. The cursor of an item says: what comes after it."""
    query = request.query
    _known(query, known)
    owners, names = query.getall("ownerId", []), query.getall("name", [])
    fitting = [
        thing
        for thing in things
        if (not owners or (thing.get("ownerId") or thing["owner"]["id"]) in owners)
        and (not names or thing["name"] in names)
    ]
    ids = [thing["id"] for thing in fitting]
    begin = 0
    if cursor := query.get("cursor"):
        if not cursor.startswith("after-") or cursor.removeprefix("after-") not in ids:
            raise Refusal(400, f"invalid cursor {cursor!r}")
        begin = ids.index(cursor.removeprefix("after-")) + 1
    page = fitting[begin : begin + _limit(query)]
    return web.json_response([{"cursor": f"after-{thing['id']}", name: thing} for thing in page])


def _limit(query: MultiMapping[str]) -> int:
    text = query.get("limit", "20")
    if not text.isdigit() or not 1 <= int(text) <= LARGEST_PAGE:
        raise Refusal(400, f"invalid limit {text!r}")
    return int(text)


def _known(query: MultiMapping[str], known: tuple[str, ...]) -> None:
    strange = sorted(set(query) - set(known))
    if strange:
        raise Refusal(400, f"unknown parameter {strange[0]!r}")


def _moment(query: MultiMapping[str], name: str, default: int) -> int:
    try:
        return nanoseconds(query[name]) if name in query else default
    except ValueError as error:
        raise Refusal(400, str(error)) from None
