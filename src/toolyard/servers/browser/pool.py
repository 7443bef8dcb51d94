"""All open browser sessions, one for each thread of an owner, and the Chromium process they share.

Starts the browser on first use, limits the number of sessions, closes idle ones and ends the browser with the
last.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ...kit import Context, ToolError
from .proxy import AddressRules, EgressProxy
from .session import BrowserSession
from .settings import Settings
from .storage import BrowserOwner, DownloadFolder, StateVault, StorageState
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright


PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
NOWHERE = "http://127.0.0.1:9"
"""The way out of whatever belongs to no context: the discard port, where nobody is."""
CLOSE_SECONDS = 10.0
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    # WebRTC would speak UDP past the door.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
]


class BrowserProcess:
    def __init__(self, settings: Settings, said: BrowserTexts) -> None:
        self._settings = settings
        self._said = said
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def browser(self) -> "Browser":
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self._end()
                self._browser = await self._start()
            return self._browser

    async def close(self) -> None:
        async with self._starting:
            await self._end()

    async def _start(self) -> "Browser":
        from playwright.async_api import Error, async_playwright  # 250 ms

        self._playwright = await async_playwright().start()
        program = self._settings.chromium or found_on_path()
        if not program and not _exists(self._playwright.chromium.executable_path):
            await self._end()
            raise ToolError(self._said.no_chromium)
        try:
            return await self._playwright.chromium.launch(
                executable_path=program,
                args=FLAGS,
                chromium_sandbox=self._settings.sandbox and os.geteuid() != 0,
                proxy={"server": NOWHERE, "bypass": "<-loopback>"},
                # Our server closes it in its own time, after the cookies are saved.
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            await self._end()
            raise ToolError(self._said.not_started.format(error.message.strip().splitlines()[0])) from None

    async def _end(self) -> None:
        browser, playwright = self._browser, self._playwright
        self._browser = self._playwright = None
        if browser is not None:
            from playwright.async_api import Error

            with contextlib.suppress(Error, TimeoutError):  # it may have ended before us
                async with asyncio.timeout(CLOSE_SECONDS):
                    await browser.close()
        if playwright is not None:
            # With the driver ends whatever it still runs.
            await playwright.stop()


def _exists(path: str) -> bool:
    return os.path.exists(path)


def found_on_path() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


logger = logging.getLogger("toolyard.servers.browser")

CONNECTION_BYTES = 256 * 1024 * 1024
"""What one connection may bring at least: endless answers end here."""


class BrowserPool:
    def __init__(self, settings: Settings, rules: AddressRules, said: BrowserTexts) -> None:
        self._settings = settings
        self._rules = rules
        self._said = said
        self._engine = BrowserProcess(settings, said)
        self._vault = StateVault(settings.memory_folder, settings.key)
        self.shelf = DownloadFolder(settings.downloads_folder)
        self._open: dict[tuple[BrowserOwner, str], BrowserSession] = {}
        self._opening = asyncio.Lock()
        self._used_at = 0.0
        self._lost: set[tuple[BrowserOwner, str]] = set()
        """Whose browser ended under them: they are told."""
        self._sweeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def of(self, ctx: Context) -> AsyncGenerator[BrowserSession]:
        """The caller's own, for one call."""
        visit = await self._taken((owner_of(ctx), ctx.caller.thread), ctx)
        try:
            yield visit
        finally:
            visit.used_at = self._used_at = time.monotonic()
            try:
                await self._after(visit)
            finally:
                visit.lock.release()

    async def close_one(self, ctx: Context) -> bool:
        visit = self._open.pop((owner_of(ctx), ctx.caller.thread), None)
        if visit is None:
            return False
        async with visit.lock:
            await visit.close(self._vault)
        return True

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        visits, self._open = [*self._open.values()], {}
        try:
            await asyncio.gather(*(visit.close(self._vault) for visit in visits))
        finally:
            await self._engine.close()
            self.shelf.close()

    async def _after(self, visit: BrowserSession) -> None:
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):  # it ended meanwhile; the next call says so
            if not visit.is_over:
                await visit.remember(self._vault)

    async def _taken(self, key: tuple[BrowserOwner, str], ctx: Context) -> BrowserSession:
        while True:
            visit = await self._found(key, ctx)
            await visit.lock.acquire()
            if not visit.is_over:  # it may have ended while another call had it
                return visit
            visit.lock.release()

    async def _found(self, key: tuple[BrowserOwner, str], ctx: Context) -> BrowserSession:
        async with self._opening:
            visit = self._open.get(key)
            if visit is not None and visit.is_over:
                self._lost.add(key)
                await self._drop(key)
                visit = None
            if visit is None:
                await self._make_room()
                if not self._engine.is_running:
                    await ctx.report_progress(0, message=self._said.starting)
                visit = self._open[key] = await self._opened(key[0])
            if key in self._lost:
                self._lost.discard(key)
                visit.happenings.add("restarted", self._said.restarted)
            visit.used_at = self._used_at = time.monotonic()
            if self._sweeping is None or self._sweeping.done():
                self._sweeping = asyncio.create_task(self._sweep())
            return visit

    async def _opened(self, owner: BrowserOwner) -> BrowserSession:
        browser = await self._engine.browser()
        memory = self._vault.load(owner)
        door = EgressProxy(self._rules, max(CONNECTION_BYTES, self._settings.download_bytes * 2))
        address = await door.open()
        try:
            context = await self._context(browser, address, memory)
        except BaseException:
            await door.close()
            raise
        return BrowserSession(owner, context, door, memory, self._settings, self._said)

    async def _context(self, browser: "Browser", address: str, memory: StorageState) -> "BrowserContext":
        from playwright.async_api import Error

        options: dict[str, Any] = {
            "proxy": {"server": address, "bypass": "<-loopback>"},
            "viewport": {"width": self._settings.width, "height": self._settings.height},
            "accept_downloads": True,
        }
        try:
            context = await browser.new_context(storage_state=memory, **options)  # pyright: ignore[reportArgumentType] (its own shape)
        except Error:
            logger.warning("the browser did not take the cookies that were kept; it starts without")
            context = await browser.new_context(**options)
        context.set_default_timeout(self._settings.action_timeout * 1000)
        return context

    async def _make_room(self) -> None:
        for key in [key for key, visit in self._open.items() if visit.is_over]:
            self._lost.add(key)
            await self._drop(key)
        if len(self._open) < self._settings.max_contexts:
            return
        idle = [(visit.used_at, key) for key, visit in self._open.items() if not visit.lock.locked()]
        if not idle:
            raise ToolError(self._said.full.format(self._settings.max_contexts))
        await self._drop(min(idle)[1])

    async def _drop(self, key: tuple[BrowserOwner, str]) -> None:
        await self._open.pop(key).close(self._vault)

    async def _sweep(self) -> None:
        """Until nothing is left to close."""
        while self._open or self._engine.is_running:
            oldest = min((visit.used_at for visit in self._open.values()), default=self._used_at)
            await asyncio.sleep(max(0.01, oldest + self._settings.idle - time.monotonic()))
            async with self._opening:
                await self._close_idle(time.monotonic() - self._settings.idle)

    async def _close_idle(self, since: float) -> None:
        for key, visit in [*self._open.items()]:
            if visit.used_at <= since and not visit.lock.locked():
                await self._drop(key)
            elif visit.lock.locked():
                visit.used_at = time.monotonic()
        if not self._open and self._used_at <= since:
            await self._engine.close()


def owner_of(ctx: Context) -> BrowserOwner:
    return BrowserOwner(ctx.caller.tenant, ctx.caller.agent)
