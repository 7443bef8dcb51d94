"""How one service of Render is: three questions, each of which may fail by itself."""

from collections.abc import Callable
from datetime import timedelta

from ..entries import ANY_TYPE, LogsError, Notice, Query, Status
from ..naming import Service
from . import logs
from .client import Client, Deadline
from .directory import service_of
from .forms import DeployItem, ServiceForm, Store
from .together import together

RECENT = Query(type=ANY_TYPE, level="error", period=timedelta(minutes=15), limit=logs.LARGEST_PAGE)
STORES = {"postgres": "/postgres", "key_value": "/key-value"}
GOOD_STORES = ("available", "maintenance_scheduled")
BAD_DEPLOYS = ("build_failed", "update_failed", "pre_deploy_failed", "canceled")


async def status_of(
    client: Client, service: Service, deadline: Deadline, say: Callable[[Notice], str]
) -> Status:
    """LogsError only when the key is not accepted at all."""
    status = Status(name=service.name, ok=True, id=service.id, type=service.type, url=service.url)
    questions = [_look(client, service, status, deadline), _count(client, service, status, deadline)]
    if service.type not in STORES:
        questions.append(_deploy(client, service, status, deadline))
    problems: list[str] = []
    for answer in await together(3, questions):
        if isinstance(answer, LogsError):
            if answer.notice.kind == "unauthorized":
                raise answer
            problems.append(say(answer.notice))
    if problems:
        status.ok = False
        status.problem = " ".join(dict.fromkeys(problems))
    return status


async def _look(client: Client, service: Service, status: Status, deadline: Deadline) -> None:
    if service.type in STORES:
        path = f"{STORES[service.type]}/{service.id}"
        store = await client.get(path, (), Store, deadline, service.id)
        status.deploy = store.status
        status.suspended = "suspended" in (store.suspended, store.status)
        status.ok &= store.status in (None, *GOOD_STORES)
    else:
        form = await client.get(f"/services/{service.id}", (), ServiceForm, deadline, service.id)
        now = service_of(form)
        status.suspended, status.url = now.suspended, now.url
    status.ok &= not status.suspended


async def _deploy(client: Client, service: Service, status: Status, deadline: Deadline) -> None:
    path, what = f"/services/{service.id}/deploys", f"deploys ({service.name})"
    items = await client.get(path, [("limit", "1")], list[DeployItem], deadline, what)
    if not items:
        return
    deploy = items[0].deploy
    status.deploy = deploy.status
    status.deployed_at = deploy.finished_at or deploy.created_at
    status.commit = deploy.commit.id if deploy.commit else None
    status.ok &= deploy.status not in BAD_DEPLOYS


async def _count(client: Client, service: Service, status: Status, deadline: Deadline) -> None:
    if service.type == "static_site":  # nothing of theirs runs
        return
    page = await logs.read(client, [service], RECENT, "", deadline, _silent)
    status.errors_15min, status.errors_has_more = len(page.entries), page.has_more


async def _silent(done: float, total: float | None, notice: Notice) -> None:
    """How far is told by service."""
