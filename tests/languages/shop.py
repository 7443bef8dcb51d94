"""A small server in either language."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from toolyard.edge.request import CallerKeys
from toolyard.kit import Server
from toolyard.languages import Locale


class Settings(Struct, frozen=True):
    locale: Locale = "en"


def build(settings: Settings) -> Server:
    server = Server("shop", locale=settings.locale)

    @server.tool(read_only=True)
    def opening_hours(day: Annotated[int, Meta(ge=1, le=7)]) -> str:
        """When the shop is open on a day of the week."""
        return f"{day}: 9-18"

    @server.tool(read_only=True)
    def list_orders() -> list[dict[str, Any]]:
        """All orders of the shop."""
        return [{"id": at, "state": "open" if at % 3 else "done"} for at in range(500)]

    return server


def keyed() -> Server:
    """It wants a key of each caller."""
    server = Server("keyed", locale="pt", caller_keys=CallerKeys(("x-shop-key", "authorization")))

    @server.tool
    def greet(name: str) -> str:
        return name

    return server
