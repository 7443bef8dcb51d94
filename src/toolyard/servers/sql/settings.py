"""The settings of the sql server."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...languages import Locale

Provider = Literal["anthropic", "openai"]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of names and texts."""
    database: str = ""
    """sqlite:PATH, duckdb:PATH, postgresql://… or mysql://…; empty: a small sample database.
    duckdb: also takes data files: sales.csv, a folder, data/*.parquet."""
    max_rows: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    """Maximum rows of one answer; a statement without a LIMIT gets this one."""
    max_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 4_000_000
    """Maximum size of the rows of one answer, as JSON."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """Time limit of a statement."""
    max_memory_mb: Annotated[int, Meta(ge=64, le=1_000_000)] = 1024
    """Memory limit of a statement on SQLite or DuckDB, in MiB; up to four run at once."""
    blocked_tables: str | tuple[str, ...] = ()
    """Patterns of tables to hide from callers, such as `audit_*`; a list, or a text with commas."""
    blocked_columns: str | tuple[str, ...] = ()
    """Patterns of columns that cannot be read, such as `*password*` or `people.salary`."""
    provider: Provider = "anthropic"
    """Anthropic's API, or any API with OpenAI's chat completions."""
    model: str = ""
    """The model that writes SQL; Claude Haiku 4.5 for Anthropic, required for other providers."""
    fallback_model: str = ""
    """Used when the first model fails; Claude Sonnet 4.5 for Anthropic if `model` is not set either."""
    model_url: str = ""
    """The API's URL; empty: the provider's own."""
    model_key: str = ""
    """The API key; empty: the variable ANTHROPIC_API_KEY or OPENAI_API_KEY."""
    model_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Time limit of one request to the model."""
