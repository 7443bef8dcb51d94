"""The settings of the browser server, and the folders derived from them."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...config.files import state_home
from ...kit.settings import text_list
from ...languages import Locale
from .recipes import Recipe

Positive = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    chromium: str = ""
    """Path of the Chromium program; empty: one on PATH, or else Playwright's own."""
    sandbox: bool = True
    """Chromium's sandbox. Always off for root; turn it off only if the kernel forbids it."""
    allow: str | tuple[str, ...] = ()
    """Private hosts and networks that may be reached: `intra.example:8080`, `*.intra.example`,
    `10.1.0.0/16`; a list, or a text with commas."""
    recipes: str | dict[str, Recipe] = {}
    """Recipes by tool name, or the path of a TOML file that has them under `recipes`."""
    folder: str = ""
    """The folder of the encrypted cookies; empty: Toolyard's state folder."""
    key: str = ""
    """The encryption key of the cookies; empty: a new key in that folder."""
    downloads: str = ""
    """The folder of downloads, with a folder for each owner; empty: `downloads` in `folder`."""
    idle: Positive = 600.0
    """Seconds after which an unused context is closed, and then the browser."""
    max_contexts: Count = 8
    """Maximum number of contexts; a new one closes the least recently used."""
    max_pages: Count = 8
    """Maximum number of pages of a context; further popups are closed."""
    timeout: Positive = 30.0
    """Seconds to wait for a page."""
    action_timeout: Positive = 10.0
    """Seconds to wait for an element, a click, a script or a snapshot."""
    settle: Positive = 2.0
    """Maximum seconds to wait after an action until the page is quiet."""
    snapshot_chars: Size = 20_000
    """Maximum length of a snapshot."""
    content_chars: Size = 20_000
    """Maximum length of a text that is read at once, and of a script's value."""
    image_bytes: Size = 1_500_000
    """Maximum size of a screenshot; a larger one is compressed, then cut."""
    download_bytes: Size = 100 * 1024 * 1024
    """Maximum size of a download."""
    dialogs: Literal["dismiss", "accept"] = "dismiss"
    """How a page's dialogs are answered."""
    width: Annotated[int, Meta(ge=200, le=4000)] = 1280
    """Width of the window, in pixels."""
    height: Annotated[int, Meta(ge=200, le=4000)] = 720
    """Height of the window, in pixels."""

    @property
    def allowed(self) -> tuple[str, ...]:
        return text_list(self.allow)

    @property
    def state_folder(self) -> Path | None:
        if self.folder:
            return Path(self.folder).expanduser()
        home = state_home()
        return None if home is None else home / "browser"

    @property
    def downloads_folder(self) -> Path | None:
        if self.downloads:
            return Path(self.downloads).expanduser()
        folder = self.state_folder
        return None if folder is None else folder / "downloads"
