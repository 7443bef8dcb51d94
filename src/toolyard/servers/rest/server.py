"""From settings to a server: the table is read, and handed to the engine."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import fields

from ...kit import Server
from ...kit.making import WrongSettings
from ...rest import server
from ...rest.loading import load
from ...rest.mistakes import TableError
from ...rest.table import Table
from .settings import Settings


def build(settings: Settings) -> Server:
    if not settings.table:
        raise WrongSettings(
            "the setting 'table' is missing: the file that describes the API, as in table=crm.toml"
        )
    try:
        table = load(Path(settings.table).expanduser(), settings.locale)
    except TableError as error:
        raise WrongSettings(str(error)) from None
    known = {field.name for field in fields(Settings)}
    for tool, setting in _settings_of(table):
        if setting not in known:
            raise WrongSettings(
                f"{settings.table}: {tool!r} wants the setting {setting!r}, which this server lacks"
            )
    return server.build(table, settings)


def _settings_of(table: Table) -> Iterator[tuple[str, str]]:
    for name, tool in table.tools.items():
        shared = [table.shared[used] for used in tool.use]
        for parameter in (*tool.parameters.values(), *shared):
            if parameter.setting:
                yield name, parameter.setting
