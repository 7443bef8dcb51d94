"""The settings of the schema server."""

from typing import Annotated

from msgspec import Meta, Struct

from ...languages import Locale


class Settings(Struct, frozen=True, kw_only=True):
    """Without any settings the server describes the sample database."""

    locale: Locale = "en"
    """The language of names, texts and errors."""

    database: str = ""
    """The database's URL, such as `postgresql://…` or `sqlite:file.db`; empty: the sample."""

    folder: str = ""
    """A folder with notes on the tables, in YAML or JSON; empty: none, or the sample's."""

    blocked_tables: str | tuple[str, ...] = ()
    """Patterns of tables to hide; a list, or a text with commas."""

    blocked_columns: str | tuple[str, ...] = ()
    """The same for columns, as `name` or `table.name`."""

    seconds: Annotated[float, Meta(gt=0, le=60)] = 3.0
    """Time limit for listing the values of a column."""

    cache_seconds: Annotated[float, Meta(ge=0, le=86400)] = 60.0
    """How long the list of tables is cached."""

    listed: Annotated[int, Meta(ge=0, le=1000)] = 100
    """Up to this many tables are listed as resources; more are reached by the template only."""
