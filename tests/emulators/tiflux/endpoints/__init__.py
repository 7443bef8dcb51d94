"""Every endpoint of the API that is known, by area."""

from . import clients, communications, desks, entities, people, tickets
from .endpoint import Endpoint

ENDPOINTS: list[Endpoint] = [
    *tickets.ENDPOINTS,
    *communications.ENDPOINTS,
    *clients.ENDPOINTS,
    *desks.ENDPOINTS,
    *people.ENDPOINTS,
    *entities.ENDPOINTS,
]

__all__ = ["ENDPOINTS", "Endpoint"]
