"""`toolyard login`: with a browser elsewhere, with a code on another device, and what can go wrong."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio

from tests.callers.oidc import OidcProvider, sign_in
from tests.connections.person import a_person
from tests.connections.program import Machine, read_until
from tests.connections.yard import Guarded, guarded
from tests.programs import needs
from tests.stores import free_port
from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.authorization import DeviceAuthorization, Discovery, authorize_device
from toolyard.connections.oauth.errors import ConsentDeniedError
from toolyard.connections.oauth.fetching import GuardedFetcher
from toolyard.connections.oauth.metadata import Challenge
from toolyard.connections.oauth.tokens import ProcessSecrets, TokenRecord

pytestmark = pytest.mark.asyncio(loop_scope="module")

REDIRECT = "http://127.0.0.1:8976/callback"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


@pytest.fixture
def machine(upstream: Guarded, tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.file.write_text(f'[servers.guarded]\nurl = "{upstream.url}"\n')
    return found


async def begun(machine: Machine, *words: str) -> tuple[asyncio.subprocess.Process, str]:
    """A login that waits for an address, and where its user has to go."""
    login = await machine.start("login", "guarded", *words)
    said = await read_until(login.stderr, "Paste its address")
    return login, said.split()[said.split().index("in:") + 1]


async def test_a_login_on_a_machine_without_a_browser(machine: Machine):
    status, said = await machine.run("list")
    assert (status, "toolyard login guarded" in said) == (3, True), said

    login, page = await begun(machine)
    answer = urlencode(await sign_in(page, "ana", REDIRECT))
    other = urlencode({"code": "x", "state": "of another login"})
    pasted = ["", "hello", "http://[", f"{REDIRECT}?{other}", f"{REDIRECT}?{answer}"]
    out, err = await login.communicate("".join(f"{line}\n" for line in pasted).encode())
    assert login.returncode == 0, err.decode()
    assert "logged in to guarded" in out.decode()
    assert err.decode().count("this is not the address that a login ends at") == 3
    assert err.decode().count("this is the answer to another login") == 1
    assert 'auth = "oauth"' in machine.file.read_text()

    status, said = await machine.run("call", "mcp__guarded__whoami")
    assert (status, "ana" in said) == (0, True), said
    assert await machine.run("logout", "guarded") == (0, "logged out of guarded\n")
    status, said = await machine.run("logout", "guarded")
    assert (status, "not logged in" in said) == (2, True), said


async def test_a_refusal_is_pasted_and_nothing_of_it_is_repeated(machine: Machine):
    login, page = await begun(machine)
    (state,) = re.findall(r"[?&]state=([^&]+)", page)
    (issuer,) = re.findall(r"^(http://[^/]+)/", page)
    refused = urlencode({"error": "access_denied", "error_description": "<b>", "state": state, "iss": issuer})
    _, err = await login.communicate(f"{REDIRECT}?{refused}\n".encode())
    assert (login.returncode, "did not grant access (access_denied)" in err.decode()) == (2, True)
    assert "<b>" not in err.decode()
    assert "auth" not in machine.file.read_text()


async def test_nothing_is_pasted(machine: Machine):
    login, _ = await begun(machine)
    _, err = await login.communicate(b"")
    assert (login.returncode, "no address was pasted" in err.decode()) == (2, True)


async def test_ctrl_c_ends_a_login_that_waits_for_a_line(machine: Machine):
    login, _ = await begun(machine)
    login.send_signal(signal.SIGINT)
    assert await login.wait() == 130
    assert login.stderr is not None
    assert "Traceback" not in (await login.stderr.read()).decode()


async def test_a_browser_that_does_not_come_back_and_a_port_that_is_taken(machine: Machine):
    port = str(free_port())
    first = await machine.start("login", "guarded", "--port", port, **machine.browser)
    page = await machine.opened()
    status, said = await machine.run("login", "guarded", "--port", port, **machine.browser)
    assert (status, f"port {port} of this machine cannot be used" in said, "--port" in said) == (
        2,
        True,
        True,
    )
    redirect = f"http://127.0.0.1:{port}/callback"
    answer = await sign_in(page, "ana", redirect)
    async with aiohttp.ClientSession() as browser:
        async with browser.get(redirect, params={**answer, "state": "another"}) as shown:
            assert (shown.status, "not valid any more" in await shown.text()) == (400, True)
        async with browser.get(redirect, params=answer, headers={"Accept-Language": "pt-BR"}) as shown:
            assert "Você entrou em guarded" in await shown.text()
    assert await first.wait() == 0

    words = ("--port", str(free_port()), "--wait", "0.01")
    status, said = await machine.run("login", "guarded", *words, **machine.browser)
    assert (status, "the browser did not come back within 0.01 s" in said) == (2, True), said


async def test_a_code_is_waited_for_as_long_as_asked(machine: Machine):
    status, said = await machine.run("login", "guarded", "--device", "--wait", "0.01")
    assert (status, "the code was not entered within 0.01 s" in said) == (2, True), said


@needs("chromium")
async def test_a_login_with_a_code_on_another_device(machine: Machine):
    login = await machine.start("login", "guarded", "--device")
    said = await read_until(login.stderr, "or open ")
    (page,) = re.findall(r"Open (\S+) and enter the code", said)
    (code,) = re.findall(r"\n  (\S+)\n", said)
    async with a_person() as person:
        assert await person.log_in(page, "ana", code) == "Sign-in Success"
    out, err = await login.communicate()
    assert (login.returncode, "logged in to guarded" in out.decode()) == (0, True), err.decode()
    status, said = await machine.run("call", "mcp__guarded__whoami")
    assert (status, "ana" in said) == (0, True), said


class Device:
    """A device flow whose waiting is the test's: each pause runs the next step instead."""

    def __init__(self, upstream: Guarded) -> None:
        self._upstream = upstream
        self.pauses: list[float] = []
        self.now = 1000.0
        self.shown: DeviceAuthorization | None = None

    async def run(self, *steps: str) -> TokenRecord:
        left = list(steps)

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            self.now += seconds
            assert self.shown is not None
            step = left.pop(0) if left else ""
            if step:
                await answer_device(self._upstream.provider, self.shown, step)

        def show(found: DeviceAuthorization) -> None:
            self.shown = found

        fetcher = GuardedFetcher([self._upstream.url])
        settings = OAuthAuth()
        try:
            return await authorize_device(
                fetcher,
                settings,
                ProcessSecrets(),
                await Discovery(fetcher, self._upstream.url, settings).find(Challenge()),
                Challenge(),
                server="guarded",
                server_url=self._upstream.url,
                tenant="local",
                redirect=REDIRECT,
                show=show,
                sleep=sleep,
                clock=lambda: self.now,
            )
        finally:
            await fetcher.close()


_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.S)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


async def answer_device(provider: OidcProvider, shown: DeviceAuthorization, step: str) -> None:
    """`deny`: the person opens the page with the code in it, and says no."""
    assert step == "deny"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(shown.complete_address) as page:
            found = _FORM.search(await page.text())
        assert found
        form = {**dict(_HIDDEN.findall(found[2])), "user_code": shown.user_code}
        async with browser.post(found[1], data=form) as page:
            found = _FORM.search(await page.text())
        assert found
        form = {**dict(_HIDDEN.findall(found[2])), "user_code": shown.user_code, "abort": "yes"}
        async with browser.post(found[1], data=form) as page:
            assert page.status == 200


async def test_a_device_that_says_no(upstream: Guarded):
    with pytest.raises(ConsentDeniedError, match="denied on the other device"):
        await Device(upstream).run("", "deny")


async def test_a_code_that_nobody_enters(upstream: Guarded):
    device = Device(upstream)
    with pytest.raises(ConsentDeniedError, match="nobody entered the code in time"):
        await device.run()
    assert 1000.0 < device.now < 3000.0


async def test_an_issuer_that_is_asked_too_often_is_asked_less(upstream: Guarded):
    await upstream.provider.tell("slow 2")
    device = Device(upstream)
    with pytest.raises(ConsentDeniedError, match="denied"):
        await device.run("", "", "", "deny")
    assert device.pauses == [5.0, 10.0, 15.0, 15.0]
