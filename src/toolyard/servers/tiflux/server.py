"""From settings to a server."""

from pathlib import Path

from ...kit import Server
from ...rest.loading import load
from ...rest.server import build as build_rest
from .settings import Settings
from .steps import steps

TABLE = Path(__file__).with_name("tiflux.toml")


def build(settings: Settings) -> Server:
    return build_rest(load(TABLE, settings.locale), settings, prepare=steps(settings.locale))
