"""From settings to a server with everything in it."""

from ... import __version__
from ...kit import Server
from .keeping import Keeper
from .offers import add_offers
from .settings import Settings
from .store import open_store
from .texts import texts
from .tools import Tools, add_tools


def built(settings: Settings) -> Server:
    said = texts(settings.locale)
    keeper = Keeper(open_store(settings), settings)
    # Not cached by clients: a memory that was just changed is read anew.
    server = Server(
        "memory", version=__version__, title=said.title, instructions=said.instructions, cache_ttl=0.0
    )
    server.on_close(keeper.close)
    tools = Tools(server, keeper, settings)
    add_tools(server, tools, settings)
    add_offers(server, keeper, tools, settings)
    return server
