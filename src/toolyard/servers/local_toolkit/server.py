"""Builds the server from its settings. Each group of tools is added by one function of its own module."""

from ..._version import __version__
from ...kit import Server
from ...workspace import Workspaces
from .crawling import add_crawling_tools
from .files import add_file_tools
from .research import add_research_tools
from .resources import add_file_resources
from .settings import Settings
from .texts import message
from .workbench import add_workbench_tools


def build(settings: Settings) -> Server:
    """Opens nothing before the first call."""
    locale = settings.locale
    # Clients must not cache: a changed file is read again.
    server = Server(
        "local_toolkit",
        version=__version__,
        locale=settings.locale,
        title=message(locale, "title"),
        instructions=message(locale, "instructions"),
        cache_ttl=0.0,
    )
    workspaces = Workspaces(settings.workspace, shared=settings.shared, limits=settings.limits)
    add_file_tools(server, workspaces, settings)
    add_research_tools(server, workspaces, settings)
    add_crawling_tools(server, workspaces, settings)
    add_file_resources(server, workspaces, settings)
    add_workbench_tools(server, workspaces, settings)
    return server
