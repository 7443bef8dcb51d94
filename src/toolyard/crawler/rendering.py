"""Pages that scripts make: opened in the guarded Chromium, one context for each, and read as HTML.

Loads no pictures, films or fonts. Starts the browser for the first such page, and ends it when idle.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec import Struct

from ..chromium import Chromium, ChromiumError
from ..egress import AddressRules, Resolve
from .outcomes import CrawlError

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

IDLE_SECONDS = 60.0
TEXT_SECONDS = 5.0
"""Seconds to wait for a text to appear,"""
QUIET_SECONDS = 2.0
"""and then for the network to be quiet."""
CLOSE_SECONDS = 5.0
_HAS_TEXT = "() => document.body && document.body.innerText.trim().length > 200"
_LEFT_OUT = frozenset({"image", "media", "font"})


class RenderedPage(Struct, frozen=True):
    url: str
    status: int
    html: str


class Renderer:
    def __init__(
        self,
        chromium: Chromium,
        rules: AddressRules,
        resolve: Resolve,
        *,
        user_agent: str,
        pages: int,
        max_bytes: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`pages` are open at a time."""
        self._chromium = chromium
        self._rules = rules
        self._resolve = resolve
        self._user_agent = user_agent
        self._max_bytes = max_bytes
        self._slots = asyncio.Semaphore(pages)
        self._open = 0
        self._idle_seconds = idle_seconds
        self._resting: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def render(self, url: str, seconds: float) -> RenderedPage:
        """Raises CrawlError, also if there is no browser (`javascript`)."""
        async with self._slots:
            self._open += 1
            if self._resting is not None:
                self._resting.cancel()
            try:
                return await self._render(url, seconds)
            finally:
                self._open -= 1
                if not self._open:
                    loop = asyncio.get_running_loop()
                    self._resting = loop.call_later(self._idle_seconds, self._rest)

    async def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._chromium.close()

    def _rest(self) -> None:
        task = asyncio.ensure_future(self._chromium.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _render(self, url: str, seconds: float) -> RenderedPage:
        try:
            guarded = await self._chromium.context(
                self._rules,
                max_bytes=self._max_bytes * 4,
                resolve=self._resolve,
                user_agent=self._user_agent,
                accept_downloads=False,
                service_workers="block",
            )
        except ChromiumError as error:
            raise CrawlError("javascript", error.detail or error.code) from None
        except ModuleNotFoundError:
            raise CrawlError("javascript", "playwright") from None
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(seconds):
                await guarded.context.route("**/*", _without_pictures)
                page = await guarded.context.new_page()
                page.on("popup", _close)
                found = await self._read(page, url, seconds)
                if not found.url.startswith(("http://", "https://")):
                    # The browser's own error page: a script led to an address that failed or was refused.
                    refused = [one for one in guarded.proxy.take_failures() if one.kind == "refused"]
                    raise CrawlError("private", refused[0].host) if refused else CrawlError("broken", url)
                return found
        except TimeoutError:
            raise CrawlError("timeout", f"{seconds:g}") from None
        except Error as error:
            for failure in guarded.proxy.take_failures():
                if failure.kind == "refused":
                    raise CrawlError("private", failure.host) from None
            if "Timeout" in error.message:
                raise CrawlError("timeout", f"{seconds:g}") from None
            raise CrawlError("broken", error.message.partition("\n")[0][:200]) from None
        finally:
            # Also when cancelled: the browser must not go on with the page.
            await asyncio.shield(guarded.close())

    async def _read(self, page: "Page", url: str, seconds: float) -> RenderedPage:
        from playwright.async_api import Error

        response = await page.goto(url, wait_until="domcontentloaded", timeout=seconds * 1000)
        with contextlib.suppress(Error):  # there may never be one
            await page.wait_for_function(_HAS_TEXT, timeout=TEXT_SECONDS * 1000)
        with contextlib.suppress(Error):
            await page.wait_for_load_state("networkidle", timeout=QUIET_SECONDS * 1000)
        html = await page.content()
        if len(html) > self._max_bytes:
            raise CrawlError("too_large", self._max_bytes)
        return RenderedPage(page.url, response.status if response is not None else 200, html)


async def _without_pictures(route: "Route") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):  # the page may be closed meanwhile
        if route.request.resource_type in _LEFT_OUT:
            await route.abort()
        else:
            await route.continue_()


async def _close(page: "Page") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await page.close()
