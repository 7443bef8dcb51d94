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
from .timesheet import REPORT, report_of

Id = Annotated[int, Meta(ge=0)]


class Settings(RestSettings, frozen=True, kw_only=True):
    """Variables such as TIFLUX_DEFAULT_DESK_ID mean the same as in TiFlux's own MCP server."""

    base_url: str = field(default="", name="api_base_url")
    """The URL of TiFlux's API; empty: that of the table."""
    verbosity: Verbosity = field(default="rich", name="mcp_verbosity")
    """How much of each record to show."""
    default_client_id: Id = 0
    """Default client of new tickets; 0: none."""
    default_desk_id: Id = 0
    """Default desk of new tickets."""
    default_priority_id: Id = 0
    """Default priority of new tickets."""
    default_catalog_item_id: Id = 0
    """Default catalogue item of new tickets."""


TABLE = Path(__file__).with_name("tiflux.toml")


def build(settings: Settings) -> Server:
    table = load(TABLE, settings.locale)
    return build_rest(table, settings, prepare=steps(settings.locale), finish={REPORT: report_of})
