"""Which upstream a resource's address belongs to, or the name of a tool that is not known.

Addresses stay as their upstreams gave them, since results mention them. Of two upstreams with the same
address the first mounted has it, and the other's is shown as an alias; any address of any upstream can be
had by its alias.
"""

from urllib.parse import unquote

from ..catalogue.catalogue import RESOURCES, TEMPLATES, Catalogue, Shelf
from ..catalogue.names import ALIAS, prefix_of
from ..upstream.errors import Down, Starting, UpstreamError

AGAIN_SECONDS = 5.0


def not_there(catalogue: Catalogue, name: str) -> UpstreamError | None:
    """Of a tool or prompt that is not known: that its server is not there, and why, if that is so."""
    for shelf in catalogue.shelves.values():
        if shelf.known or shelf.state == "ready" or not name.startswith(prefix_of(shelf.server)):
            continue
        lacking = f"so {name[:80]!r} is not known"
        if shelf.state == "down":
            reason = f"it is down, {lacking}: {shelf.fault}; it is tried again by itself"
            return Down(shelf.server, reason)
        how = shelf.absence.partition(": ")[2]
        reason = f"it is still starting ({how}), {lacking} yet; try again in a while"
        return Starting(shelf.server, reason, AGAIN_SECONDS)
    return None


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
