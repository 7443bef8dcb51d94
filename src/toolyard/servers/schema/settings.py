"""The settings of the schema server."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.localization import Locale


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting has a default: with none given, the server describes the sample database."""

    locale: Locale = "en"
    """The language of names, texts and errors."""

    database: str = ""
    """The database's address, as in `postgresql://…` or `sqlite:file.db`; empty is the sample."""

    folder: str = ""
    """A folder of YAML or JSON with what people know of the tables; empty is none, or the sample's own."""

    blocked_tables: str | tuple[str, ...] = ()
    """Patterns of tables that do not exist here; a list, or a text with commas."""

    blocked_columns: str | tuple[str, ...] = ()
    """The same for columns, as `name` or `table.name`."""

    seconds: Annotated[float, Meta(gt=0, le=60)] = 3.0
    """How long the database may look for the values of a column."""

    cache_seconds: Annotated[float, Meta(ge=0, le=86400)] = 60.0
    """How long what the database has is remembered before it is looked at again."""

    listed: Annotated[int, Meta(ge=0, le=1000)] = 100
    """Up to so many tables are listed as resources, one by one; more are only reached by the template."""


def patterns(given: str | tuple[str, ...]) -> list[str]:
    """The environment and the command line have texts only."""
    parts = given.split(",") if isinstance(given, str) else given
    return [part.strip() for part in parts if part.strip()]
