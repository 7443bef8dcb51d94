"""Every endpoint of the API that is known, by area."""

from . import (
    catalogs,
    chats,
    clients,
    communications,
    desks,
    entities,
    equipments,
    knowledge,
    people,
    reports,
    requestors,
    tickets,
    work,
)
from .endpoint import Endpoint

AREAS = (
    tickets,
    communications,
    work,
    clients,
    requestors,
    people,
    desks,
    catalogs,
    entities,
    chats,
    knowledge,
    equipments,
    reports,
)
ENDPOINTS: list[Endpoint] = [endpoint for area in AREAS for endpoint in area.ENDPOINTS]

__all__ = ["ENDPOINTS", "Endpoint"]
