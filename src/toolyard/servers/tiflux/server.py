"""Builds the server from its settings, by option or by a variable such as TIFLUX_API_KEY."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from ...kit import Server
from ...rest.definition.loader import load
from ...rest.response.result import Verbosity
from ...rest.server import RestSettings
from ...rest.server import build as build_rest
from .steps import steps
from .timesheet import REPORT, summed

Id = Annotated[int, Meta(ge=0)]


class Settings(RestSettings, frozen=True, kw_only=True):
    """The variables of TiFlux's own MCP server, TIFLUX_DEFAULT_DESK_ID and the like, mean the same here."""

    base_url: str = field(default="", name="api_base_url")
    """Where TiFlux's API is; empty: as the table says."""
    verbosity: Verbosity = field(default="rich", name="mcp_verbosity")
    """How much of each record is shown."""
    default_client_id: Id = 0
    """The client of new tickets for which none is named; 0: it must be named."""
    default_desk_id: Id = 0
    """Their desk."""
    default_priority_id: Id = 0
    """Their priority."""
    default_catalog_item_id: Id = 0
    """Their item of the services catalogue."""


TABLE = Path(__file__).with_name("tiflux.toml")


def build(settings: Settings) -> Server:
    table = load(TABLE, settings.locale)
    return build_rest(table, settings, prepare=steps(settings.locale), finish={REPORT: summed})
