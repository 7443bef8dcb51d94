"""The pages, clicked in Chromium: wide and narrow, in both languages, from a client and back to it."""

import os
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from tests.authserver.yard import (
    NAME,
    PASSWORD,
    HandMadeClient,
    ListeningProgram,
    LoginYard,
    login_yard,
    registered,
)
from tests.programs import needs
from toolyard.authserver.pages import language_of
from toolyard.chromium import find_on_path

SHAPES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 360, "height": 740}}
WORDS = {
    "en-US": ("Sign in", "do not match", "Allow Claude Code?", "a program on this computer"),
    "pt-BR": ("Entrar", "não conferem", "Permitir Claude Code?", "um programa neste computador"),
}
PICTURES = os.environ.get("TOOLYARD_TEST_PICTURES", "")
"""A folder in which to leave pictures of all pages, for people to look at."""


async def picture(page: Page, name: str) -> None:
    """Nothing is cut off, and nothing was refused by the page's own policy."""
    overflow = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0, f"{name} is {overflow} pixels too wide"
    weight = await page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize")
    assert weight == "25px", "the style of the page was not applied"
    if PICTURES:
        await page.screenshot(path=f"{PICTURES}/{name}.png", full_page=True)


@needs("chromium")
async def test_a_person_logs_in_with_a_browser(tmp_path: Path):
    id = "https://claude.ai/oauth/claude-code-client-metadata"
    async with login_yard(tmp_path) as yard, ListeningProgram() as program, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_on_path(), args=["--no-sandbox"])
        for shape, size in SHAPES.items():
            for language, (sign_in, wrong, allow, where) in WORDS.items():
                context = await browser.new_context(locale=language, viewport=size)  # pyright: ignore[reportArgumentType]
                page = await context.new_page()
                said: list[str] = []
                page.on("console", lambda message, said=said: said.append(message.text))
                client = HandMadeClient(yard, {"client_id": id}, program.redirect)
                await page.goto(client.url())
                assert await page.text_content("h1") == sign_in
                await picture(page, f"sign-in-{shape}-{language}")
                await page.fill("input[name=user]", NAME)
                await page.fill("input[name=password]", "not the password")
                await page.press("input[name=password]", "Enter")
                await page.wait_for_selector("[role=alert]")
                assert wrong in (await page.text_content("[role=alert]") or "")
                await picture(page, f"wrong-{shape}-{language}")
                await page.fill("input[name=password]", PASSWORD)
                await page.click("button.main")
                await page.wait_for_selector("dl")
                assert await page.text_content("h1") == allow
                assert where in (await page.text_content("dd.where") or "")
                await picture(page, f"consent-{shape}-{language}")
                await page.click("button[value=allow]")
                await page.wait_for_url(f"{program.redirect}**")
                assert (await client.redeem(await program.code()))[0] == 200
                await page.goto(client.url(redirect_uri="https://evil.example/"))
                await picture(page, f"problem-{shape}-{language}")
                assert not [text for text in said if "Content Security Policy" in text], said
                await context.close()
        await check_hostile_name(yard, await browser.new_page())
        await browser.close()


async def check_hostile_name(yard: LoginYard, page: Page) -> None:
    name = "<img src=x onerror=alert(1)> " + "W" * 200
    client = await registered(yard, ["cursor://x/cb"], client_name=name)
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.goto(client.url())
    assert await page.query_selector("img") is None
    await page.fill("input[name=user]", NAME)
    await page.fill("input[name=password]", PASSWORD)
    await page.click("button.main")
    await page.wait_for_selector("dl")
    assert await page.query_selector("img") is None
    await picture(page, "hostile-narrow")


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("en-GB,en;q=0.9,pt;q=0.8", "en"),
        ("de, pt;q=0.5, en;q=0.4", "pt"),
        ("de", "en"),
        ("pt;q=0, en;q=0", "en"),
        ("pt;q=nonsense", "en"),
        ("*", "en"),
        ("," * 1000, "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_prefers(accepted: str, language: str):
    assert language_of(accepted) == language
