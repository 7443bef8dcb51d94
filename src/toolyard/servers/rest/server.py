"""Builds a server from its settings: loads the table for `toolyard.rest`."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import fields

from ...kit import Server
from ...kit.loader import SettingsError
from ...rest import server
from ...rest.definition.loader import load
from ...rest.definition.model import ApiDefinition, DefinitionError
from ...rest.server import RestSettings


class Settings(RestSettings, frozen=True, kw_only=True):
    table: str = ""
    """Path of the table."""


def build(settings: Settings) -> Server:
    if not settings.table:
        raise SettingsError(
            "the setting 'table' is missing; it names the file that describes the API, as in table=crm.toml"
        )
    try:
        table = load(Path(settings.table).expanduser(), settings.locale)
    except DefinitionError as error:
        raise SettingsError(str(error)) from None
    known = {field.name for field in fields(Settings)}
    for tool, setting in _settings_of(table):
        if setting not in known:
            raise SettingsError(
                f"{settings.table}: {tool!r} needs the setting {setting!r}, which this server does not have"
            )
    return server.build(table, settings)


def _settings_of(table: ApiDefinition) -> Iterator[tuple[str, str]]:
    for name, tool in table.tools.items():
        shared = [table.shared[used] for used in tool.use]
        for parameter in (*tool.parameters.values(), *shared):
            if parameter.setting:
                yield name, parameter.setting
