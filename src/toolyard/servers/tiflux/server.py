"""From settings to a server."""

from pathlib import Path

from ...kit import Server
from ...rest.loading import load
from ...rest.server import build as build_rest
from .settings import Settings
from .steps import steps
from .timesheet import REPORT, summed

TABLE = Path(__file__).with_name("tiflux.toml")


def build(settings: Settings) -> Server:
    table = load(TABLE, settings.locale)
    return build_rest(table, settings, prepare=steps(settings.locale), finish={REPORT: summed})
