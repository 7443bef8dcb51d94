"""The settings of the youtube server."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.settings import text_list
from ...languages import Locale

Seconds = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1, le=10_000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    workspace: str = ""
    """The folder of the workspaces; empty: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder."""
    shared: bool = False
    """One workspace for all conversations of an owner."""
    allow: str | tuple[str, ...] = ()
    """Private hosts and networks that may be reached: `media.example:8080`, `10.1.0.0/16`; a list, or a text
    with commas."""
    ffmpeg: str = ""
    """Path of ffmpeg; empty: the one on PATH, or of the package imageio-ffmpeg."""
    cookies: str = ""
    """A cookies file in Netscape's format, for sites that want a login. Every caller uses it."""
    max_bytes: Annotated[int, Meta(ge=1024)] = 1024**3
    """Maximum size of what one call downloads."""
    max_items: Count = 50
    """Maximum number of items of a playlist in one call."""
    max_memory: Annotated[int, Meta(ge=64 * 1024**2)] = 1024**3
    """Maximum memory of yt-dlp, beyond what it needs to start."""
    timeout: Seconds = 3600.0
    """Seconds that one call may take."""
    socket_timeout: Seconds = 20.0
    """Seconds that a site may be silent."""
    downloads: Annotated[int, Meta(ge=1, le=64)] = 4
    """Maximum number of downloads at the same time; others wait."""
    transcript_chars: Annotated[int, Meta(ge=1000)] = 20_000
    """Maximum length of a transcript in a result; the file has all of it."""

    @property
    def allowed(self) -> tuple[str, ...]:
        return text_list(self.allow)
