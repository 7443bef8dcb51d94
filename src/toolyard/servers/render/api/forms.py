"""The replies of Render's API, as far as they are read. What is not essential may be absent or null."""

from datetime import datetime

from msgspec import Struct


class Label(Struct):
    name: str
    value: str


class Log(Struct):
    timestamp: datetime
    message: str
    id: str = ""
    labels: list[Label] = []

    def label(self, name: str) -> str:
        return next((label.value for label in self.labels if label.name == name), "")


class LogPage(Struct, rename="camel"):
    logs: list[Log]
    has_more: bool = False
    next_start_time: str | None = None
    """As text: what it says beyond microseconds must come back to Render as it was."""
    next_end_time: str | None = None


class Details(Struct, rename="camel"):
    url: str | None = None
    region: str | None = None


class ServiceForm(Struct, rename="camel"):
    id: str
    name: str
    type: str
    owner_id: str
    slug: str | None = None
    suspended: str | None = None
    service_details: Details | None = None


class Owner(Struct):
    id: str
    name: str = ""


class Store(Struct, rename="camel"):
    """A database or a key-value instance."""

    id: str
    name: str
    owner: Owner
    status: str | None = None
    suspended: str | None = None
    region: str | None = None


class Commit(Struct):
    id: str | None = None


class Deploy(Struct, rename="camel"):
    id: str
    status: str | None = None
    commit: Commit | None = None
    finished_at: datetime | None = None
    created_at: datetime | None = None


class ServiceItem(Struct):
    service: ServiceForm
    cursor: str = ""


class PostgresItem(Struct):
    postgres: Store
    cursor: str = ""


class KeyValueItem(Struct, rename="camel"):
    key_value: Store
    cursor: str = ""


class OwnerItem(Struct):
    owner: Owner
    cursor: str = ""


class DeployItem(Struct):
    deploy: Deploy
    cursor: str = ""


class Refusal(Struct):
    message: str | None = None
