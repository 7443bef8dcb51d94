"""Which upstream a resource's address belongs to.

Addresses stay as their upstreams gave them, since results mention them. Of two upstreams with the same
address the first mounted has it; any address of any upstream can also be had as
`toolyard://<server>/<address, percent-encoded>`.
"""

from functools import lru_cache
from urllib.parse import quote, unquote

from ..catalogue.catalogue import RESOURCES, TEMPLATES, Catalogue, Shelf
from ..kit.template import Template

SCHEME = "toolyard://"


def alias(server: str, uri: str) -> str:
    return f"{SCHEME}{quote(server, safe='')}/{quote(uri, safe='')}"


def servers_for(catalogue: Catalogue, uri: str) -> tuple[list[str], str]:
    """The upstreams to ask, likeliest first, and what to ask them for."""
    if uri.startswith(SCHEME):
        server, _, rest = uri.removeprefix(SCHEME).partition("/")
        if unquote(server) in catalogue.shelves:
            return [unquote(server)], unquote(rest)
    entry = catalogue.find(RESOURCES, uri) or catalogue.find(TEMPLATES, uri)
    if entry is not None:
        return [entry.server], uri
    matching = [e.server for e in catalogue.all(TEMPLATES) if _matches(e.item.own, uri)]
    if matching:
        return list(dict.fromkeys(matching)), uri
    # A tool's result may mention what no list does.
    able = [shelf for shelf in catalogue.shelves.values() if "resources" in shelf.identity.capabilities]
    near = [shelf.server for shelf in able if _has_scheme(shelf, uri.partition(":")[0])]
    return list(dict.fromkeys([*near, *(shelf.server for shelf in able)])), uri


def is_offered(shelf: Shelf, uri: str) -> bool:
    """Whether an upstream lists an address, or has a template that it may be of."""
    templates = [entry.item.own for entry in shelf.entries[TEMPLATES.name]]
    return (
        shelf.find(RESOURCES, uri) is not None
        or any(_matches(template, uri) for template in templates)
        # Of a form that we do not know: it may well be one of these.
        or any(_template(template) is None for template in templates)
    )


def _has_scheme(shelf: Shelf, scheme: str) -> bool:
    start = f"{scheme}:"
    entries = (*shelf.entries[RESOURCES.name], *shelf.entries[TEMPLATES.name])
    return any(entry.item.own.startswith(start) for entry in entries)


@lru_cache(maxsize=4096)
def _template(uri: str) -> Template | None:
    try:
        return Template(uri)
    except ValueError:
        return None  # of a form that we do not know; its upstream is asked last, with the others


def _matches(template: str, uri: str) -> bool:
    known = _template(template)
    return known is not None and known.match(uri) is not None
