"""What a server offers: its lists, read to the end."""

from typing import Any, cast

from ..wire.errors import METHOD_NOT_FOUND, McpError
from .client import Client
from .failure import Failure

MAX_PAGES = 1000

# The list's name in its result, the method that gives it, the capability that promises it, and what
# names one of its items.
LISTS = (
    ("tools", "tools/list", "tools", "name"),
    ("resources", "resources/list", "resources", "uri"),
    ("resourceTemplates", "resources/templates/list", "resources", "uriTemplate"),
    ("prompts", "prompts/list", "prompts", "name"),
)

Offers = dict[str, list[dict[str, Any]]]


def offers_of(client: Client) -> Offers:
    promised = client.about.capabilities
    return {
        name: _items(client, method, name, key) if capability in promised else []
        for name, method, capability, key in LISTS
    }


def tools_of(client: Client) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in _items(client, "tools/list", "tools", "name")}


def _items(client: Client, method: str, name: str, key: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        try:
            page = client.request(method, params)
        except McpError as error:
            if error.code == METHOD_NOT_FOUND:
                return items
            raise
        items += _usable(page.get(name), key, method)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return items
        params = {"cursor": cursor}
    raise Failure(f"the server's answer to {method!r} has no end", f"it was left after {MAX_PAGES} pages")


def _usable(found: Any, key: str, method: str) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        raise Failure(f"the server's answer to {method!r} is not a list")
    items = [cast(dict[str, Any], item) for item in cast(list[Any], found) if isinstance(item, dict)]
    return [item for item in items if isinstance(item.get(key), str)]
