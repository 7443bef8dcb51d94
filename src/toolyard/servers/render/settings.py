"""The settings of the render server."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...kit.settings import text_list
from ...languages import Locale

RENDER = "https://api.render.com/v1"


class Settings(Struct, frozen=True, kw_only=True):
    """Reads `files` if there are any, else Render if there is a key, else a sample."""

    locale: Locale = "en"
    """The language of names, texts and errors."""
    api_key: str = ""
    """Render's API key; empty: the variable RENDER_API_KEY."""
    url: str = RENDER
    """The URL of Render's API."""
    owner: str = ""
    """Only this workspace of Render, by id or name; empty: all that the key can see."""
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    """Time limit of one request to Render, in seconds."""
    patience: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Time limit of a whole call in seconds, including waits for Render's rate limit."""
    cache_seconds: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    """How long the list of services is cached."""
    files: str | list[str] = ""
    """Log files instead of Render: paths, globs or folders, as a list or separated by commas."""
    clock: Literal["now", "newest"] = "now"
    """Where periods in files end: now, or at the newest entry (for copies of old logs)."""
    timezone: str = ""
    """IANA time zone of timestamps without one in files; empty: this machine's."""

    def __repr__(self) -> str:
        return f"Settings(locale={self.locale!r}, url={self.url!r}, files={self.files!r})"  # never the key

    @property
    def patterns(self) -> tuple[str, ...]:
        return text_list(self.files)
