"""A Chromium process that reaches the web only through a guarding proxy, for browser server and crawler.

Finds the program, starts it on first use, again after a crash, and ends it. Every context gets a proxy of its
own; a request outside any context goes nowhere. Needs the package `playwright`. Decides nothing about pages.
"""

import asyncio
import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from .egress import AddressRules, EgressProxy, Resolve, resolve

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
DEAD_PROXY = "http://127.0.0.1:9"
"""The proxy of requests outside any context: the discard port, where nothing listens."""
CLOSE_SECONDS = 10.0
CONNECTION_BYTES = 256 * 1024 * 1024
"""The default limit of one connection; it ends endless responses."""
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    # WebRTC would bypass the proxy with UDP.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
]


class ChromiumError(Exception):
    """Chromium is not there (`missing`) or did not start (`failed`, with its first line in `detail`)."""

    def __init__(self, code: Literal["missing", "failed"], detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class GuardedContext(Struct, frozen=True):
    """A context of the browser, and the proxy that all of its connections take."""

    context: "BrowserContext"
    proxy: EgressProxy

    async def close(self) -> None:
        from playwright.async_api import Error

        try:
            with contextlib.suppress(Error, TimeoutError):  # it may have ended already
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.context.close()
        finally:
            await self.proxy.close()


class Chromium:
    def __init__(self, program: str = "", sandbox: bool = True) -> None:
        """`program` is a path; empty: one on PATH, or else Playwright's own."""
        self._program = program
        self._sandbox = sandbox
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def browser(self) -> "Browser":
        """The running browser. Raises ChromiumError."""
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self._end()
                self._browser = await self._start()
            return self._browser

    async def context(
        self,
        rules: AddressRules,
        *,
        max_bytes: int = CONNECTION_BYTES,
        resolve: Resolve = resolve,
        **options: Any,
    ) -> GuardedContext:
        """Opens a context behind its own proxy. `options` are those of Playwright's `new_context`."""
        browser = await self.browser()
        proxy = EgressProxy(rules, max_bytes, resolve)
        address = await proxy.open()
        try:
            context = await browser.new_context(proxy={"server": address, "bypass": "<-loopback>"}, **options)
        except BaseException:
            await proxy.close()
            raise
        return GuardedContext(context, proxy)

    async def close(self) -> None:
        async with self._starting:
            await self._end()

    async def _start(self) -> "Browser":
        from playwright.async_api import Error, async_playwright  # 250 ms

        self._playwright = await async_playwright().start()
        program = self._program or find_on_path()
        if not program and not _exists(self._playwright.chromium.executable_path):
            await self._end()
            raise ChromiumError("missing")
        try:
            return await self._playwright.chromium.launch(
                executable_path=program,
                args=FLAGS,
                chromium_sandbox=self._sandbox and os.geteuid() != 0,
                proxy={"server": DEAD_PROXY, "bypass": "<-loopback>"},
                # Our server closes it after the cookies are saved.
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            await self._end()
            raise ChromiumError("failed", error.message.strip().splitlines()[0]) from None

    async def _end(self) -> None:
        browser, playwright = self._browser, self._playwright
        self._browser = self._playwright = None
        if browser is not None:
            from playwright.async_api import Error

            with contextlib.suppress(Error, TimeoutError):  # it may have ended already
                async with asyncio.timeout(CLOSE_SECONDS):
                    await browser.close()
        if playwright is not None:
            # Ends all processes of the driver.
            await playwright.stop()


def _exists(path: str) -> bool:
    return os.path.exists(path)


def find_on_path() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)
