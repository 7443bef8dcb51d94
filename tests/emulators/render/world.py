"""What the emulated Render has: the things themselves, in the form in which the API shows them."""

import itertools
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
SECOND = 1_000_000_000
BORN = "2026-01-05T08:00:00.123456Z"


def moment(nanoseconds: int) -> str:
    """RFC 3339 to the nanosecond, as Render writes it."""
    whole, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def nanoseconds(text: str) -> int:
    """The other way round; ValueError when it is no such moment."""
    head, _, rest = text.replace("+00:00", "Z").removesuffix("Z").partition(".")
    if not text.endswith(("Z", "+00:00")) or (rest and not rest.isdigit()):
        raise ValueError(f"invalid timestamp {text!r}")
    whole = datetime.strptime(head, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return int(whole.timestamp()) * SECOND + int(rest.ljust(9, "0")[:9] or 0)


@dataclass
class Log:
    at: int
    resource: str
    message: str
    labels: dict[str, str]
    id: str

    @property
    def shown(self) -> Json:
        labels = {"resource": self.resource, "instance": f"{self.resource}-x7k2p", **self.labels}
        return {
            "id": self.id,
            "timestamp": moment(self.at),
            "message": self.message,
            "labels": [{"name": name, "value": value} for name, value in labels.items()],
        }


@dataclass
class World:
    owners: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    postgres: dict[str, Json] = field(default_factory=dict)
    key_values: dict[str, Json] = field(default_factory=dict)
    deploys: dict[str, list[Json]] = field(default_factory=dict)
    logs: list[Log] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self.owner("tea-shop", "Shop Team")

    def owner(self, id: str, name: str) -> str:
        self.owners[id] = {"id": id, "name": name, "email": f"{id}@example.com", "type": "team"}
        return id

    def service(self, name: str, type: str = "web_service", **more: Any) -> str:
        """A service with one deploy; `deploy` (its state), `suspended`, `owner`, `region` may be told."""
        id = f"srv-{next(self._ids):020d}"
        suspended = more.get("suspended", False)
        self.services[id] = {
            "id": id,
            "name": name,
            "slug": f"{name}-x1",
            "type": type,
            "ownerId": more.get("owner", "tea-shop"),
            "repo": f"https://git.example/{name}",
            "branch": "main",
            "rootDir": "",
            "autoDeploy": "yes",
            "notifyOnFail": "default",
            "suspended": "suspended" if suspended else "not_suspended",
            "suspenders": ["user"] if suspended else [],
            "dashboardUrl": f"https://dashboard.example/{id}",
            "createdAt": BORN,
            "updatedAt": BORN,
            "serviceDetails": _details(name, type, more.get("region", "frankfurt")),
        }
        self.deploys[id] = [self._deploy(more.get("deploy", "live"))]
        return id

    def _deploy(self, status: str) -> Json:
        commit = {"id": "3f1c9ab", "message": "Prices with cents", "createdAt": BORN}
        times = dict.fromkeys(("createdAt", "startedAt", "updatedAt", "finishedAt"), BORN)
        id = f"dep-{next(self._ids):020d}"
        return {"id": id, "status": status, "trigger": "new_commit", "commit": commit, **times}

    def database(self, name: str, status: str = "available") -> str:
        id = f"dpg-{next(self._ids):020d}-a"
        self.postgres[id] = self._store(id, name, status) | {
            "databaseName": name.replace("-", "_"),
            "databaseUser": "shop",
            "highAvailabilityEnabled": False,
            "plan": "pro_4gb",
            "readReplicas": [],
            "role": "primary",
            "version": "16",
            "suspended": "suspended" if status == "suspended" else "not_suspended",
            "suspenders": [],
            "diskAutoscalingEnabled": False,
            "connectionPool": "disabled",
        }
        return id

    def key_value(self, name: str, status: str = "available") -> str:
        id = f"red-{next(self._ids):020d}"
        more = {"plan": "starter", "options": {"maxmemoryPolicy": "allkeys_lru"}, "version": "8.1.0"}
        self.key_values[id] = self._store(id, name, status) | more
        return id

    def _store(self, id: str, name: str, status: str) -> Json:
        return {
            "id": id,
            "name": name,
            "owner": self.owners["tea-shop"],
            "status": status,
            "region": "frankfurt",
            "ipAllowList": [],
            "dashboardUrl": f"https://dashboard.example/{id}",
            "createdAt": BORN,
            "updatedAt": BORN,
        }

    def log(
        self,
        resource: str,
        message: str,
        *,
        ago: float = 0,
        level: str = "info",
        type: str = "app",
        **more: str,
    ) -> Log:
        """One entry, so many seconds before now."""
        made = Log(
            time.time_ns() - int(ago * SECOND),
            resource,
            message,
            {"level": level, "type": type, **more},
            f"log-{next(self._ids):06d}",
        )
        self.logs.append(made)
        return made

    def resource(self, id: str) -> Json | None:
        return self.services.get(id) or self.postgres.get(id) or self.key_values.get(id)


def _details(name: str, type: str, region: str) -> Json:
    if type == "static_site":
        url = f"https://{name}.example"
        return {"buildCommand": "make", "publishPath": "dist", "url": url, "buildPlan": "starter"}
    running = {
        "env": "python",
        "envSpecificDetails": {"buildCommand": "make", "startCommand": "run"},
        "numInstances": 1,
        "plan": "pro",
        "region": region,
        "runtime": "python",
        "buildPlan": "starter",
    }
    if type == "web_service":
        return {**running, "healthCheckPath": "/health", "openPorts": [], "url": f"https://{name}.example"}
    return running
