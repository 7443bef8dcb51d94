"""One open page: what it is busy with, whether it still lives, and how it is made to answer again."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from .outline import Outliner

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page, Request

FETCHES = ("fetch", "xhr", "script", "stylesheet")
STOP_SECONDS = 2.0
CLOSE_SECONDS = 5.0


class Tab:
    def __init__(self, page: "Page", number: int) -> None:
        self.page = page
        self.name = f"page:{number}"
        self.gone = asyncio.Event()
        """It crashed or was closed: nothing more comes from it."""
        self.outliner = Outliner()
        self._navigating: set[Request] = set()
        self._fetching: set[Request] = set()
        self.was_left = False
        """An address was asked for and then not gone to: as with downloads."""
        self._opening = 0
        """Pages that it said it opens, before they are there."""
        self._news = asyncio.Event()
        self._cdp: asyncio.Task[CDPSession] = asyncio.create_task(self._attach())
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_done)
        page.on("requestfailed", self._on_done)
        page.on("framenavigated", self._on_navigated)
        page.on("framedetached", self.outliner.forget)

    async def _attach(self) -> "CDPSession":
        """Now and not when it is needed: a page that is stuck takes no new session."""
        session = await self.page.context.new_cdp_session(self.page)
        session.on("Page.windowOpen", self._on_opening)
        await session.send("Page.enable")  # pyright: ignore[reportUnknownMemberType]
        return session

    async def ready(self) -> None:
        await asyncio.wait({self._cdp}, timeout=STOP_SECONDS)

    def _on_opening(self, _: object) -> None:
        self._opening += 1

    def has_opened(self) -> bool:
        """A page has come that this one may have announced: whether it had."""
        announced = self._opening > 0
        self._opening -= announced
        self._news.set()
        return announced

    def _on_request(self, request: "Request") -> None:
        if request.is_navigation_request():
            if _is_whole_page(request):
                self._navigating.add(request)
        elif request.resource_type in FETCHES:
            self._fetching.add(request)

    def _on_done(self, request: "Request") -> None:
        if request in self._navigating and request.failure and "ABORTED" in request.failure:
            self.was_left = True
        self._navigating.discard(request)
        self._fetching.discard(request)
        self._news.set()

    def _on_navigated(self, frame: "Frame") -> None:
        self.outliner.forget(frame)
        if frame == self.page.main_frame:
            self._fetching.clear()
            self._navigating.clear()
        self._news.set()

    async def begun(self, seconds: float) -> None:
        """Wait for a page that another opened to have an address; some never do."""
        await self._until(lambda: self.page.url not in ("", "about:blank"), seconds)

    async def settle(self, page_seconds: float, quiet_seconds: float) -> bool:
        """Wait for what a deed set off: another page, then quiet. False when the page is not there yet."""
        # What a click starts, the page starts in a later turn of its own.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.gone.wait()
        arrived = await self._until(lambda: not self._navigating, page_seconds)
        arrived = arrived and await self.loaded("domcontentloaded", page_seconds)
        await self._until(lambda: not self._opening, quiet_seconds)
        self._opening = 0
        await self._until(lambda: not self._fetching, quiet_seconds)
        return arrived or self.gone.is_set()

    async def loaded(self, state: Literal["load", "domcontentloaded"], seconds: float) -> bool:
        from playwright.async_api import Error

        try:
            # Playwright's own limit is longer: ours also ends the wait for a page that is stuck.
            async with asyncio.timeout(seconds):
                await self.page.wait_for_load_state(state, timeout=seconds * 2000)
        except (Error, TimeoutError):
            return False
        return True

    async def _until(self, check: Callable[[], bool], seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not check() and not self.gone.is_set():
                    self._news.clear()
                    await self._news.wait()
        return check()

    async def stop_script(self) -> bool:
        """End the script that keeps the page from answering; whether it answers now."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(STOP_SECONDS):
                session = await asyncio.shield(self._cdp)
                await session.send("Runtime.terminateExecution")  # pyright: ignore[reportUnknownMemberType]
            async with asyncio.timeout(STOP_SECONDS):
                await self.page.evaluate("1")
        except (Error, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        from playwright.async_api import Error

        self._cdp.cancel()
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.page.close()
        self.lost()

    def lost(self) -> None:
        self.gone.set()
        self._news.set()
        self._cdp.cancel()


def _is_whole_page(request: "Request") -> bool:
    """Frames take their own time."""
    from playwright.async_api import Error

    try:
        return request.frame.parent_frame is None
    except Error:  # the page it is for is not there yet
        return True
