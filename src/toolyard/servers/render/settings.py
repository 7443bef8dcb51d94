"""The settings of the render server."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...kit.localization import Locale

RENDER = "https://api.render.com/v1"


class Settings(Struct, frozen=True, kw_only=True):
    """With `files`, those are read; else with a key, Render is asked; else there is a sample."""

    locale: Locale = "en"
    """The language of names, texts and errors."""
    api_key: str = ""
    """Render's API key; without it, the variable RENDER_API_KEY is looked at."""
    url: str = RENDER
    """Where Render's API is."""
    owner: str = ""
    """Only this workspace of Render, by id or name; empty: all that the key can see."""
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    """Seconds for one request to Render."""
    patience: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Seconds for a whole call, waiting for Render's rate limit included."""
    cache_seconds: Annotated[float, Meta(ge=0, le=3600)] = 60.0
    """How long the list of services may be remembered."""
    files: str | list[str] = ""
    """Log files instead of Render: paths, globs or folders, as a list or separated by commas."""
    clock: Literal["now", "newest"] = "now"
    """From when periods of time in files count back: now, or the newest entry (for copies of old logs)."""
    timezone: str = ""
    """IANA name of the time zone of files' timestamps that have none; empty: this machine's."""

    def __repr__(self) -> str:
        return f"Settings(locale={self.locale!r}, url={self.url!r}, files={self.files!r})"  # never the key

    @property
    def patterns(self) -> list[str]:
        """What `files` names, one by one."""
        given = self.files.split(",") if isinstance(self.files, str) else self.files
        return [name.strip() for name in given if name.strip()]
