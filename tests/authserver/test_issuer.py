"""In front of an issuer: its users sign in there (`oidc-provider`), and our clients get tokens of ours."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp
import pytest
import pytest_asyncio

from tests.authserver.yard import Browser, HandMadeClient, Page, login_yard, registered
from tests.callers.oidc import OidcProvider, oidc_provider
from toolyard.authserver.issuer import IssuerLoginError, IssuerSignIn
from toolyard.config import ConfigError
from toolyard.config.caller_tables import auth as read_auth
from toolyard.config.callers import LoginServerConfig
from toolyard.wire.seal import Sealer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as found:
        yield found


async def as_client_of(provider: OidcProvider, redirect: str, **changed: Any) -> LoginServerConfig:
    """Registers a gateway at the issuer, as its operator would."""
    body = {
        "redirect_uris": [redirect],
        "application_type": "native",
        "id_token_signed_response_alg": "ES256",
        "token_endpoint_auth_method": changed.pop("method", "client_secret_basic"),
    }
    async with aiohttp.ClientSession() as http, http.post(f"{provider.url}/reg", json=body) as answer:
        found = await answer.json()
        assert answer.status == 201, found
    return LoginServerConfig(
        issuer=provider.url,
        client_id=found["client_id"],
        client_secret=found.get("client_secret", ""),
        issuer_scopes=("openid",),
        **changed,
    )


async def sign_in_at_issuer(browser: Browser, page: Page, name: str) -> Page:
    """Both forms of the issuer, and back to us."""
    for _ in range(10):
        target = page.location
        if target is None:
            page = await browser.submit(page, login=name, password="any")
            continue
        page = await browser.get(urljoin(page.url, target))
        if "/oauth/" in page.url and page.location is None:
            return page
    raise AssertionError("more pages than a person would read")


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_a_user_of_the_issuer_becomes_our_caller(provider: OidcProvider, tmp_path: Path, method: str):
    # A native client may come back to any port of this machine.
    config = await as_client_of(provider, "http://127.0.0.1/oauth/idp", method=method, tenant="acme")
    async with login_yard(tmp_path, config) as yard, Browser() as browser:
        client = await registered(yard)
        page = await sign_in_at_issuer(browser, await browser.get(client.url()), "ben")
        assert "ben" in page.text
        code = (await browser.submit(page, decision="allow")).sent()["code"]
        status, tokens = await client.redeem(code)
        assert status == 200, tokens
        authenticator: Any = yard.gateway.callers.setting.authenticator
        principal = await authenticator.verify(tokens["access_token"], yard.resource)
        assert (principal.subject, principal.issuer, principal.tenant) == ("ben", provider.url, "acme")
        assert (await client.refresh(tokens["refresh_token"]))[0] == 200
        # Signed in already, and asked again for another client; a password of ours counts for nothing.
        assert 'value="allow"' in (await browser.get((await registered(yard)).url())).text
        async with browser.http.post(f"{yard.base}/oauth/login", data={"flow": "x"}) as answer:
            assert answer.status == 404


async def test_an_answer_of_another_flow_or_browser_does_not_count(provider: OidcProvider, tmp_path: Path):
    config = await as_client_of(provider, "http://127.0.0.1/oauth/idp")
    async with login_yard(tmp_path, config) as yard, Browser() as mine, Browser() as theirs:
        client = await registered(yard)
        begun = await mine.get(client.url())
        assert begun.location
        state = parse_qs(urlsplit(begun.location).query)["state"][0]
        await theirs.get(client.url())
        back = f"{yard.base}/oauth/idp"
        stolen = f"{back}?{urlencode({'code': 'x', 'state': state, 'iss': provider.url})}"
        assert (await theirs.get(stolen)).status == 400  # another browser's
        assert (await mine.get(stolen)).status == 502  # the issuer does not know this code
        for values in (
            {"code": "x", "state": state[:-3] + "AAA", "iss": provider.url},
            {"code": "x", "iss": provider.url},
        ):
            assert (await mine.get(f"{back}?{urlencode(values)}")).status == 400
        for iss in ({}, {"iss": "https://evil.example"}, {"iss": provider.url + "/"}):
            assert (await mine.get(f"{back}?{urlencode({'code': 'x', 'state': state, **iss})}")).status == 502
        refused = {"error": "access_denied", "state": state, "iss": provider.url}
        page = await mine.get(f"{back}?{urlencode(refused)}")
        assert page.sent()["error"] == "access_denied"


async def test_only_members_of_the_groups_get_in(provider: OidcProvider, tmp_path: Path):
    config = await as_client_of(provider, "http://127.0.0.1/oauth/idp", groups=("staff",))
    async with login_yard(tmp_path, config) as yard, Browser() as browser:
        client = await registered(yard)
        page = await sign_in_at_issuer(browser, await browser.get(client.url()), "ben")
        assert page.status == 403
        assert "Ask its operator" in page.text
        assert await browser.get(client.url()) is not None


async def test_an_issuer_that_is_down_or_another_one_is_said_so(provider: OidcProvider, tmp_path: Path):
    gone = LoginServerConfig(issuer="http://127.0.0.1:9", client_id="x")
    async with login_yard(tmp_path, gone) as yard, Browser() as browser:
        client: HandMadeClient = await registered(yard)
        assert (await browser.get(client.url())).status == 502
    lying = IssuerSignIn(
        LoginServerConfig(issuer=provider.url.replace("127.0.0.1", "localhost"), client_id="x"),
        Sealer(b"0123456789abcdef"),
    )
    with pytest.raises(IssuerLoginError, match="another issuer"):
        await lying.address("state", "secret", "http://127.0.0.1/oauth/idp")
    await lying.close()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"issuer": "https://idp.example"}, "no 'client_id'"),
        ({"client_id": "x"}, "no 'issuer'"),
        ({"groups": ["x"]}, "no 'issuer'"),
        (
            {"issuer": "https://idp.example", "client_id": "x", "claims": {"color": "x"}},
            "unknown part 'color'",
        ),
        ({"clients": [{"id": "x"}]}, "no 'redirect_uris'"),
        ({"colour": 1}, "colour"),
        ({"access_ttl": 0}, "access_ttl"),
    ],
)
async def test_a_mistake_in_the_table_is_named(table: dict[str, Any], why: str):
    with pytest.raises(ConfigError, match=why):
        read_auth({"auth": {"server": table}}, Path("toolyard.toml"), {})
    assert read_auth({"auth": {"server": {}}}, Path("toolyard.toml"), {}).server == LoginServerConfig()
