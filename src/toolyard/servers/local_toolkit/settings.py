"""The settings of the local_toolkit server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from ...config.files import state_home
from ...kit.settings import text_list
from ...languages import Locale
from ...workspace import WorkspaceLimits

if TYPE_CHECKING:
    from ...crawler.crawler import CrawlLimits

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    workspace: str = ""
    """The folder of the workspaces; empty: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder."""
    shared: bool = False
    """Whether all conversations of an owner have the same files."""
    max_bytes: Size = 4 * 1024**3
    """Maximum size of all files of a workspace."""
    max_files: Count = 20_000
    """Maximum number of files and folders of a workspace."""
    max_file_bytes: Size = 1024**3
    """Maximum size of a file that is written."""
    read_bytes: Size = 40_000
    """How much of a file is read at once; the rest is read on from there. A reply has the text twice, and a
    gateway passes up to 100,000 bytes of it unchanged."""
    resource_bytes: Annotated[int, Meta(ge=1000, le=64 * 1024**2)] = 4 * 1024**2
    """Maximum size of a file that is sent as a resource at once; a larger one is read by ranges."""
    image_bytes: Size = 4_000_000
    """Maximum size of a picture that is shown; a larger one is only described."""
    list_limit: Count = 1_000
    """Maximum number of entries of a folder in one list."""
    workbench: Literal["auto", "local", "composio"] = "auto"
    """Where `workbench_upload` puts files: `composio`, `local`, or `auto`: Composio if there is a key."""
    composio_api_key: str = ""
    """Composio's API key; empty: the variable COMPOSIO_API_KEY."""
    composio_url: str = ""
    """The URL of Composio's API; empty: the variable COMPOSIO_BASE_URL, else Composio's own."""
    composio_user: str = ""
    """The user at Composio; `{user}`, `{tenant}`, `{agent}` and `{thread}` are the caller's. Empty: that of
    the configuration's Composio, else `{user}`."""
    composio_default_user: str = ""
    """Who a caller is that is not known. Empty: that of the configuration's Composio, else the variable
    DEFAULT_USER_ID, else `local`."""
    transfer_bytes: Size = 100_000_000
    """Maximum size of a file that goes to a workbench or comes from one."""
    allow: str | tuple[str, ...] = ()
    """Private hosts and networks that a crawl or a transfer may reach: `intra.example:8080`,
    `*.intra.example`, `10.1.0.0/16`; a list, or a text with commas."""
    robots: bool = True
    """Whether a crawl obeys robots.txt."""
    user_agent: str = ""
    """How a crawl introduces itself; empty: as Toolyard."""
    max_urls: Annotated[int, Meta(ge=1, le=5_000)] = 500
    """Maximum number of addresses of one crawl."""
    crawl_timeout: Seconds = 300.0
    """Seconds for a whole crawl."""
    page_timeout: Seconds = 30.0
    """Seconds for one page, without its wait for a turn."""
    page_bytes: Size = 10 * 1024**2
    """Maximum size of a page, as it comes and as it becomes when decompressed."""
    connections: Count = 16
    """Requests of a crawl at a time, to all hosts."""
    host_connections: Count = 4
    """Requests of a crawl at a time to one host."""
    host_delay: Annotated[float, Meta(ge=0, le=3600)] = 0.25
    """Seconds between the starts of two requests to one host; robots.txt may ask for more."""
    render: bool = True
    """Whether pages made by scripts are opened in Chromium; needs the extra `browser`."""
    chromium: str = ""
    """Path of the Chromium program; empty: one on PATH, or else Playwright's own."""
    sandbox: bool = True
    """Chromium's sandbox. Always off for root; turn it off only if the kernel forbids it."""
    crawl_cache: str = ""
    """The folder of fetched pages, with a folder for each owner; empty: `crawl` in the state folder."""
    crawl_cache_bytes: Annotated[int, Meta(ge=0)] = 64 * 1024**2
    """Maximum size of the fetched pages of one owner; 0: none are kept."""

    def __repr__(self) -> str:
        return f"Settings(workspace={self.workspace!r}, workbench={self.workbench!r})"  # never the key

    @property
    def allowed(self) -> tuple[str, ...]:
        return text_list(self.allow)

    @property
    def crawl_limits(self) -> "CrawlLimits":
        from ...crawler.crawler import CrawlLimits  # 60 ms beside aiohttp

        return CrawlLimits(
            concurrency=self.connections,
            per_host=self.host_connections,
            delay=self.host_delay,
            robots=self.robots,
            page_timeout=self.page_timeout,
            timeout=self.crawl_timeout,
            max_bytes=self.page_bytes,
            cache_bytes=self.crawl_cache_bytes,
            render=self.render,
        )

    @property
    def crawl_cache_folder(self) -> Path | None:
        if self.crawl_cache:
            return Path(self.crawl_cache).expanduser()
        home = state_home()
        return None if home is None else home / "crawl"

    @property
    def limits(self) -> WorkspaceLimits:
        return WorkspaceLimits(
            max_bytes=self.max_bytes, max_files=self.max_files, max_file_bytes=self.max_file_bytes
        )
