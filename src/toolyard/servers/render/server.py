"""From settings to a server: which source is meant."""

import os

from ... import __version__
from ...kit import Server
from .api import Render
from .entries import Source
from .faces import INSTRUCTIONS
from .sample import Sample
from .settings import Settings
from .tools import declare

KEY_VARIABLE = "RENDER_API_KEY"


def build(settings: Settings) -> Server:
    source = _source(settings)
    server = Server(
        "render",
        version=__version__,
        title="Render",
        instructions=INSTRUCTIONS[settings.locale],
    )
    declare(server, source, settings.locale)
    server.on_close(source.close)
    return server


def _source(settings: Settings) -> Source:
    """Files were asked for by name; a key may just be in the environment."""
    key = settings.api_key or os.environ.get(KEY_VARIABLE, "")
    if not key:
        return Sample()
    return Render(
        settings.url,
        key,
        owner=settings.owner,
        timeout=settings.timeout,
        patience=settings.patience,
        cache_seconds=settings.cache_seconds,
    )
