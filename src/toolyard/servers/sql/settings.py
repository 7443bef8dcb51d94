"""The settings of the sql server."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...kit.localization import Locale

Provider = Literal["anthropic", "openai"]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of names and texts."""
    database: str = ""
    """sqlite:PATH, duckdb:PATH, postgresql://… or mysql://…; nothing: a small sample that comes with it.
    After duckdb: also data files: sales.csv, a folder, data/*.parquet."""
    max_rows: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    """Rows of one answer; a statement without a limit gets this one."""
    max_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 4_000_000
    """How big the rows of one answer may be."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """How long a statement may run."""
    max_memory_mb: Annotated[int, Meta(ge=64, le=1_000_000)] = 1024
    """MiB that a statement on SQLite or DuckDB may take; up to four run at once."""
    blocked_tables: str | tuple[str, ...] = ()
    """Patterns of tables that do not exist for whoever asks, such as `audit_*`; as text, with commas."""
    blocked_columns: str | tuple[str, ...] = ()
    """Patterns of columns that nobody may read, such as `*password*` or `people.salary`."""
    provider: Provider = "anthropic"
    """Who has the model: Anthropic's API, or any that speaks OpenAI's chat completions."""
    model: str = ""
    """The model that writes SQL; Claude Haiku 4.5 with Anthropic, with others it must be named."""
    fallback_model: str = ""
    """Asked when the first fails; Claude Sonnet 4.5 with Anthropic when `model` is not set either."""
    model_url: str = ""
    """Where the API is; the provider's own address when empty."""
    model_key: str = ""
    """Its key; else the variable ANTHROPIC_API_KEY or OPENAI_API_KEY."""
    model_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """How long one answer of the model may take."""


def patterns(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """A text with commas is what a command line and an environment variable can hold."""
    listed = given.split(",") if isinstance(given, str) else given
    return tuple(pattern for one in listed if (pattern := one.strip()))
