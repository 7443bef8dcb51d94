"""A person in front of a real Chromium: opens addresses, presses the gateway's button, logs in, agrees."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from toolyard.chromium import find_on_path

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Person:
    def __init__(self, browser: Browser, **context: Any) -> None:
        self._browser = browser
        self._context = context
        self.said: list[str] = []
        """What Chromium had to complain about on our pages."""

    async def log_in(self, address: str, name: str = "ana", code: str = "") -> str:
        """From a link to the end of the login there; the heading of the last page.

        `code` is what a program shows that wants to be let in from another device.
        """
        context = await self._browser.new_context(**self._context)
        page = await context.new_page()
        page.on("console", lambda message: self.said.append(message.text))
        await page.route("https://fonts.googleapis.com/**", lambda route: route.abort())
        try:
            await page.goto(address)
            if code:
                await page.fill("input[name=user_code]", code)
            return await self._walk(page, name)
        finally:
            await context.close()

    async def _walk(self, page: Page, name: str) -> str:
        for _ in range(8):
            if await page.locator("input[name=login]").count():
                await page.fill("input[name=login]", name)
                await page.fill("input[name=password]", "any")
            button = page.locator("button:not([name=abort]):visible")
            if not await button.count():
                return await page.locator("h1").inner_text()
            async with page.expect_navigation():
                await button.first.click()
        raise AssertionError(f"more pages than a person would read; the last is {page.url}")


@asynccontextmanager
async def a_person(**context: Any) -> AsyncIterator[Person]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_on_path(), args=FLAGS)
        try:
            yield Person(browser, **context)
        finally:
            await browser.close()
