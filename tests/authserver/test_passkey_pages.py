"""Passkeys in Chromium with its virtual authenticator: made by a link, and used to let a client in."""

import html
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Page, async_playwright

from tests.authserver.test_pages import SHAPES, picture
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
from toolyard.chromium import find_on_path

WORDS = {
    "en-US": ("Create a passkey", "No passkey was created", "Your passkey is saved", "Use a passkey"),
    "pt-BR": (
        "Criar uma chave de acesso",
        "Nenhuma chave de acesso foi criada",
        "Sua chave de acesso foi salva",
        "Usar uma chave de acesso",
    ),
}


class Device:
    """A browser whose authenticator a test controls."""

    def __init__(self, page: Page, cdp: CDPSession, id: str) -> None:
        self.page, self._cdp, self._id = page, cdp, id
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))

    @classmethod
    async def of(cls, context: BrowserContext) -> "Device":
        page = await context.new_page()
        cdp = await context.new_cdp_session(page)
        await cdp.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made: Any = await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        return cls(page, cdp, made["authenticatorId"])

    async def recognizes_its_user(self, is_so: bool) -> None:
        values = {"authenticatorId": self._id, "isUserVerified": is_so}
        await self._cdp.send("WebAuthn.setUserVerified", values)

    async def credentials(self) -> list[dict[str, Any]]:
        found: Any = await self._cdp.send("WebAuthn.getCredentials", {"authenticatorId": self._id})
        return found["credentials"]

    async def sign_in(self, client: HandMadeClient) -> None:
        await self.page.goto(client.url())
        await self.page.click("#passkey button")


async def link_for(yard: LoginYard, name: str) -> str:
    return f"{yard.base}/oauth/enrol?ticket={await yard.users.open_enrolment(name)}"


@needs("chromium")
async def test_a_passkey_is_made_by_a_link_and_lets_a_client_in(tmp_path: Path):
    async with (
        login_yard(tmp_path, host="localhost") as yard,
        ListeningProgram() as program,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=find_on_path(), args=["--no-sandbox"])
        for shape, size in SHAPES.items():
            for language, words in WORDS.items():
                user, looks = f"user-{shape}-{language}", "dark" if shape == "narrow" else "light"
                await yard.users.add(user, None)
                context = await browser.new_context(locale=language, viewport=size, color_scheme=looks)  # pyright: ignore[reportArgumentType]
                device = await Device.of(context)
                client = await registered(yard, [program.redirect])
                await check_whole_way(yard, device, program, client, user, f"{shape}-{language}", words)
                await context.close()
        await browser.close()


async def check_whole_way(
    yard: LoginYard,
    device: Device,
    program: ListeningProgram,
    client: HandMadeClient,
    user: str,
    name: str,
    words: tuple[str, ...],
) -> None:
    heading, cancelled, saved, use = words
    page = device.page
    await page.goto(await link_for(yard, user))
    assert await page.text_content("h1") == heading
    assert not await page.is_visible("[data-without]")
    await picture(page, f"enrol-{name}")
    # The device does not recognize its user, then it does.
    await device.recognizes_its_user(False)
    await page.click("#passkey button")
    await page.wait_for_selector("[role=alert]:visible")
    assert cancelled in (await page.text_content("[role=alert]:visible") or "")
    await picture(page, f"enrol-cancelled-{name}")
    assert not (await yard.users.get(user)).passkeys
    await device.recognizes_its_user(True)
    await page.fill("input[name=name]", "my laptop")
    await page.press("input[name=name]", "Enter")
    await page.wait_for_selector(f"h1:has-text('{saved}')")
    await picture(page, f"enrolled-{name}")
    (passkey,) = (await yard.users.get(user)).passkeys
    assert (passkey.name, passkey.host) == ("my laptop", "localhost")
    (kept,) = await device.credentials()
    assert kept["isResidentCredential"]

    await page.goto(client.url())
    assert await page.text_content("#passkey button") == use
    await picture(page, f"sign-in-passkey-{name}")
    await page.click("#passkey button")
    await page.wait_for_selector("dl")
    assert user in (await page.text_content("main") or "")
    await picture(page, f"consent-passkey-{name}")
    await page.click("button[value=allow]")
    await page.wait_for_url(f"{program.redirect}**")
    status, tokens = await client.redeem(await program.code())
    assert status == 200, tokens
    assert (await yard.call(tokens["access_token"])).status == 200
    assert not [text for text in device.said if "Content Security Policy" in text], device.said

    await page.goto(f"{yard.base}/oauth/enrol?ticket=tye_gone")
    await picture(page, f"link-gone-{name}")


@needs("chromium")
async def test_a_second_passkey_and_its_removal(tmp_path: Path):
    async with login_yard(tmp_path, host="localhost") as yard, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_on_path(), args=["--no-sandbox"])
        client = await registered(yard)
        devices = [await Device.of(await browser.new_context(locale="en-US")) for _ in range(2)]
        for device in devices:
            await device.page.goto(await link_for(yard, NAME))
            await device.page.click("#passkey button")
            await device.page.wait_for_selector("h1:has-text('saved')")
            await device.sign_in(client)
            await device.page.wait_for_selector("dl")
        first, second = devices
        # A device that has one is told so, and the link stays good for another device.
        link = await link_for(yard, NAME)
        await first.page.goto(link)
        await first.page.click("#passkey button")
        await first.page.wait_for_selector("[role=alert]:visible")
        assert "has a passkey for anna already" in (await first.page.text_content("main") or "")
        # The first is removed: the other still works, and so does the password.
        known = (await yard.users.get(NAME)).passkeys
        assert len(known) == 2
        await yard.users.remove_passkey(NAME, known[0].id)
        await first.sign_in(client)
        await first.page.wait_for_selector("[role=alert]:visible")
        assert "not accepted" in (await first.page.text_content("[role=alert]:visible") or "")
        await picture(first.page, "passkey-wrong")
        await first.page.fill("input[name=user]", NAME)
        await first.page.fill("input[name=password]", PASSWORD)
        await first.page.click("button.main")
        await first.page.wait_for_selector("dl")
        await second.sign_in(client)
        await second.page.wait_for_selector("dl")
        # Without scripts there is the password, and the link says what is missing.
        plain = await (await browser.new_context(java_script_enabled=False, locale="en-US")).new_page()
        await plain.goto(client.url())
        assert not await plain.is_visible("#passkey")
        assert await plain.is_visible("input[name=password]")
        await plain.goto(link)
        assert await plain.is_visible("text=This browser cannot create passkeys")
        assert not await plain.is_visible("#passkey")
        # At a number there are none, and the page says where.
        port = yard.client.port
        await first.page.goto(client.url().replace("localhost", "127.0.0.1"))
        assert f"http://localhost:{port}" in (await first.page.text_content(".note") or "")
        await first.page.set_viewport_size({"width": 375, "height": 740})
        await picture(first.page, "sign-in-number")
        await check_frames(second.page, [client.url(), link])
        await browser.close()


async def check_frames(page: Page, urls: list[str]) -> None:
    """Another site shows none of our pages in a frame: neither consent nor a link."""
    async with ListeningProgram() as harmless, ListeningProgram() as site:
        for url in (harmless.redirect, *urls):
            site.page = f'<iframe src="{html.escape(url)}"></iframe>'
            await page.goto(site.redirect)
            (frame,) = page.frames[1:]
            shown = await frame.evaluate("location.href")
            assert shown == url if url == harmless.redirect else shown.startswith("chrome-error:")
