"""Which services somebody means: by id, by name, by kind; suggestions when it is none."""

from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from .entries import LogsError

MOST_NAMES = 20
ALL = ("all", "todos", "*")
KINDS = {
    "web": "web_service",
    "worker": "background_worker",
    "private": "private_service",
    "cron": "cron_job",
    "static": "static_site",
    "postgres": "postgres",
    "redis": "key_value",
}


class Service(Struct, frozen=True, kw_only=True):
    """Something that has logs."""

    id: str
    name: str
    type: str = ""
    slug: str = ""
    owner: str = ""
    region: str = ""
    suspended: bool | None = None
    url: str | None = None


def chosen(wanted: str, services: Sequence[Service]) -> list[Service]:
    """Those that are meant, one at least; LogsError `unknown_service` or `no_such_kind`."""
    name = wanted.strip()
    folded = name.casefold()
    if folded in ALL:
        return _some(list(services), name)
    for found in (
        [service for service in services if service.id == name],
        [service for service in services if folded in (service.name.casefold(), service.slug.casefold())],
    ):
        if found:
            return found
    kind = KINDS.get(folded, folded)
    if kind in KINDS.values():
        return _some([service for service in services if service.type == kind], name, services)
    raise unknown(name, services)


def _some(found: list[Service], name: str, among: Sequence[Service] = ()) -> list[Service]:
    if not found:
        raise LogsError("no_such_kind", name=name, names=_listed([service.name for service in among]))
    return found


def unknown(name: str, services: Sequence[Service]) -> LogsError:
    names = sorted({service.name for service in services})
    folded = name.casefold()
    near = [known for known in names if folded and folded in known.casefold()]
    near += [known for known in get_close_matches(name, names, 5, 0.6) if known not in near]
    kind = "unknown_service_near" if near else "unknown_service"
    return LogsError(kind, name=name[:100], near=_listed(near[:5]), names=_listed(names))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return f"{shown}, …" if len(names) > MOST_NAMES else shown or "-"
