"""The browser's process: found, started when first needed, started again when it has ended, and ended."""

import asyncio
import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from ...kit import ToolError
from .settings import Settings
from .texts import Texts

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

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


class Engine:
    def __init__(self, settings: Settings, said: Texts) -> None:
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
