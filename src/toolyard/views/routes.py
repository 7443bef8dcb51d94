"""Which upstream a resource's address belongs to.

Addresses stay as their upstreams gave them, since results mention them. Of two upstreams with the same
address the first mounted has it, and the other's is shown as an alias; any address of any upstream can be
had by its alias.
"""

from urllib.parse import unquote

from ..catalogue.catalogue import RESOURCES, TEMPLATES, Catalogue, Shelf
from ..catalogue.names import ALIAS


def servers_for(catalogue: Catalogue, uri: str) -> tuple[list[str], str]:
    """The upstreams to ask, likeliest first, and what to ask them for."""
    if uri.startswith(ALIAS):
        server, _, rest = uri.removeprefix(ALIAS).partition("/")
        if unquote(server) in catalogue.shelves:
            return [unquote(server)], unquote(rest)
    entry = catalogue.find(RESOURCES, uri) or catalogue.find(TEMPLATES, uri)
    if entry is not None:
        return [entry.server], uri
    shelves = catalogue.shelves.values()
    matching = [shelf.server for shelf in shelves if shelf.templates.match(uri) is not None]
    if matching:
        return matching, uri
    # A tool's result may mention what no list does. Only those who have such addresses are asked: an address
    # may say more than a stranger should read.
    near = [shelf.server for shelf in shelves if shelf.has_scheme(uri)]
    able = [shelf.server for shelf in shelves if "resources" in shelf.identity.capabilities]
    return near or (able if len(able) == 1 else []), uri


def is_offered(shelf: Shelf, uri: str) -> bool:
    """Whether an upstream lists an address, or has a template that it may be of."""
    return shelf.find(RESOURCES, uri) is not None or shelf.templates.match(uri) is not None
