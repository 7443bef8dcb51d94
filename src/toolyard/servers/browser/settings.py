"""The settings of the browser server, and the folders derived from them."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...config.files import state_home
from ...kit.localization import Locale
from .recipes import Recipe

Positive = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    chromium: str = ""
    """The browser's program; empty looks for one on PATH, then for Playwright's own."""
    sandbox: bool = True
    """Chromium's own sandbox. Root never has it; others turn it off only where the kernel forbids it."""
    allow: str | tuple[str, ...] = ()
    """Hosts and networks that are not public and may be reached all the same: `intra.example:8080`,
    `*.intra.example`, `10.1.0.0/16`; in one text separated by commas."""
    recipes: str | dict[str, Recipe] = {}
    """Tools made of steps, by their names, or the path of a TOML file that has them under `recipes`."""
    folder: str = ""
    """Where cookies are kept, encrypted; empty is Toolyard's state folder."""
    key: str = ""
    """What they are encrypted with; empty makes a key of its own in that folder."""
    downloads: str = ""
    """Where downloads go, in a folder for each owner; empty is `downloads` in that folder."""
    idle: Positive = 600.0
    """Seconds after which a context that nobody used is closed, and then the browser."""
    max_contexts: Count = 8
    """Contexts at a time. The one not used for longest makes room for another."""
    max_pages: Count = 8
    """Pages of one context at a time; a page that opens more sees them closed."""
    timeout: Positive = 30.0
    """Seconds for a page to come."""
    action_timeout: Positive = 10.0
    """Seconds for an element to be there and take a click, for a script, for a snapshot."""
    settle: Positive = 2.0
    """Seconds at most to wait, after something was done, until the page is quiet."""
    snapshot_chars: Size = 20_000
    """The longest snapshot."""
    content_chars: Size = 20_000
    """The longest text that is read at once, and the longest value of a script."""
    image_bytes: Size = 1_500_000
    """The largest screenshot; one that is larger is compressed, then cut."""
    download_bytes: Size = 100 * 1024 * 1024
    """The largest download that is kept."""
    dialogs: Literal["dismiss", "accept"] = "dismiss"
    """How a page's dialogs are answered."""
    width: Annotated[int, Meta(ge=200, le=4000)] = 1280
    """Of the window, in pixels."""
    height: Annotated[int, Meta(ge=200, le=4000)] = 720
    """Of the window, in pixels."""

    @property
    def allowed(self) -> list[str]:
        given = self.allow.split(",") if isinstance(self.allow, str) else self.allow
        return [text.strip() for text in given if text.strip()]

    @property
    def memory_folder(self) -> Path | None:
        if self.folder:
            return Path(self.folder).expanduser()
        home = state_home()
        return None if home is None else home / "browser"

    @property
    def downloads_folder(self) -> Path | None:
        if self.downloads:
            return Path(self.downloads).expanduser()
        folder = self.memory_folder
        return None if folder is None else folder / "downloads"
