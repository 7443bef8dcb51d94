"""Builds the server from its settings, and chooses the source of logs."""

import os
from datetime import UTC, tzinfo

from ..._version import __version__
from ...kit import Server
from ...kit.loader import SettingsError
from .model import LogSource
from .sample import SampleLogs
from .settings import Settings
from .texts import INSTRUCTIONS
from .tools import add_tools

KEY_VARIABLE = "RENDER_API_KEY"


def build(settings: Settings) -> Server:
    source = _source(settings)
    server = Server(
        "render",
        version=__version__,
        locale=settings.locale,
        title="Render",
        instructions=INSTRUCTIONS[settings.locale],
    )
    add_tools(server, source, settings.locale)
    server.on_close(source.close, reopens=True)
    return server


def _source(settings: Settings) -> LogSource:
    """Files come first: they are configured, while a key may just be in the environment."""
    key = (settings.api_key or os.environ.get(KEY_VARIABLE, "")).strip()
    if settings.patterns:
        from .files import FileLogs  # other sources do not need gzip and tempfile

        return FileLogs(
            settings.patterns,
            clock=settings.clock,
            zone=_zone(settings.timezone),
            call_seconds=settings.patience,
        )
    if not key:
        return SampleLogs()
    from .api import RenderLogs

    return RenderLogs(
        settings.url,
        key,
        owner=settings.owner,
        timeout=settings.timeout,
        call_seconds=settings.patience,
        cache_seconds=settings.cache_seconds,
    )


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    if name == "UTC":  # needs no time zone database, which small containers lack
        return UTC
    from zoneinfo import ZoneInfo  # 2 ms of CPU, only with this setting

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise SettingsError(f"field 'timezone': no time zone {name!r} on this machine") from None
