"""Attacks on a login: nothing is saved, nobody gets another's account, and the page repeats nothing."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio

from tests.connections.yard import Guarded, a_browser, config_of, connect, guarded, replica
from toolyard.app.gateway import Gateway
from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.authorization import PendingAuthorization, read_answer
from toolyard.connections.oauth.errors import ConsentDeniedError, UntrustedAuthorityError
from toolyard.connections.oauth.fetching import GuardedFetcher
from toolyard.connections.oauth.metadata import read_challenge, speaks_for
from toolyard.connections.oauth.token_endpoint import ClientIdentity
from toolyard.connections.oauth.tokens import TokenRecord
from toolyard.wire.call import Principal

ME = Principal()
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


def pending(**changes: Any) -> PendingAuthorization:
    values: dict[str, Any] = {
        "state": "the state",
        "verifier": "v",
        "url": "https://as.example/authorize",
        "redirect": "http://127.0.0.1:1/callback",
        "server_url": "https://mcp.example/mcp",
        "issuer": "https://as.example",
        "token_endpoint": "https://as.example/token",
        "revocation_endpoint": "",
        "sends_issuer": True,
        "client": ClientIdentity(id="c", issuer="https://as.example"),
        "resource": "",
        "scopes": (),
    }
    return PendingAuthorization(**{**values, **changes})


@pytest.mark.parametrize(
    "answer",
    [
        {"code": "x", "state": "another", "iss": "https://as.example"},
        {"code": "x", "iss": "https://as.example"},
        {"code": "x", "state": "the state"},
        {"code": "x", "state": "the state", "iss": "https://evil.example"},
        {"code": "x", "state": "the state", "iss": "https://as.example/"},
        {"error": "access_denied", "state": "the state", "iss": "https://evil.example"},
    ],
)
def test_an_answer_of_another_login_or_issuer_is_not_believed(answer: dict[str, str]):
    with pytest.raises(UntrustedAuthorityError):
        read_answer(pending(), answer)


def test_words_of_an_error_are_not_repeated():
    answer = {"error": "<script>alert(1)</script>", "state": "the state", "iss": "https://as.example"}
    with pytest.raises(ConsentDeniedError) as raised:
        read_answer(pending(), answer)
    assert "script" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/token",
        "ftp://as.example/",
        "https://user:word@as.example/",
        "javascript:alert(1)",
        "https://",
        "http://127.0.0.1:9/token",
    ],
)
async def test_addresses_in_metadata_of_a_public_server_have_to_be_https(url: str):
    with pytest.raises(UntrustedAuthorityError):
        await GuardedFetcher(["https://mcp.example/mcp"]).get(url)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:9/", "https://10.0.0.1/", "https://169.254.169.254/latest"]
)
async def test_metadata_of_a_public_server_lead_to_no_private_address(url: str):
    with pytest.raises(UntrustedAuthorityError, match="address, and the server is not"):
        await GuardedFetcher(["https://93.184.215.14/mcp"]).get(url)


async def test_the_metadata_service_of_a_cloud_is_never_asked():
    with pytest.raises(UntrustedAuthorityError):
        await GuardedFetcher(["http://127.0.0.1:1/mcp"]).get("https://169.254.169.254/latest")


@pytest.mark.parametrize(
    "url", ["http://mcp.example/token", "http://mcp.example:8080/mcp", "http://127.0.0.1:9/token"]
)
async def test_a_server_with_tls_has_no_endpoint_without_on_its_own_host_either(url: str):
    with pytest.raises(UntrustedAuthorityError, match="not an https address"):
        await GuardedFetcher(["https://mcp.example/mcp"]).get(url)
    # The operator may name an address without TLS; that of another host is none.
    GuardedFetcher(["https://mcp.example/mcp", "http://mcp.example/issuer"]).check("http://mcp.example/token")
    with pytest.raises(UntrustedAuthorityError):
        GuardedFetcher(["https://mcp.example/mcp", "http://as.example"]).check("http://mcp.example/token")


WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("resource", "place", "speaks"),
    [
        # The server itself, wherever its challenge has them; a slash or capitals in the host mean nothing.
        ("https://a.example/t/mcp", f"https://a.example{WELL_KNOWN}/t/mcp", True),
        ("https://a.example/t/mcp", "https://a.example/t/meta.json", True),
        ("https://a.example/t/mcp/", "https://meta.example/t.json", True),
        ("https://A.example:443/t/mcp", "https://a.example/t/meta.json", True),
        # What is above it, at its own well-known place only: whoever is below cannot write there.
        ("https://a.example", f"https://a.example{WELL_KNOWN}", True),
        ("https://a.example/", f"https://a.example{WELL_KNOWN}", True),
        ("https://a.example/t", f"https://a.example{WELL_KNOWN}/t", True),
        ("https://a.example", "https://a.example/t/meta.json", False),
        ("https://a.example/t", "https://a.example/t/meta.json", False),
        ("https://a.example", f"https://a.example{WELL_KNOWN}/t/mcp", False),
        ("https://a.example", f"https://a.example/t{WELL_KNOWN}", False),
        ("https://a.example", f"https://a.example{WELL_KNOWN}-of/t", False),
        ("https://a.example", f"https://evil.example{WELL_KNOWN}", False),
        # Another one.
        ("https://a.example/t/m", f"https://a.example{WELL_KNOWN}/t/m", False),
        ("https://a.example/s", f"https://a.example{WELL_KNOWN}/s", False),
        ("https://a.example/t/mcp/deeper", f"https://a.example{WELL_KNOWN}/t/mcp/deeper", False),
        ("https://a.example.evil.example/t/mcp", "https://a.example/t/meta.json", False),
        ("http://a.example/t/mcp", "https://a.example/t/meta.json", False),
        ("https://evil.example", f"https://evil.example{WELL_KNOWN}", False),
        ("https://a.example/t/mcp?x=1", "https://a.example/t/meta.json", False),
        ("https://a.example:x/t/mcp", "https://a.example/t/meta.json", False),
    ],
)
def test_metadata_of_another_resource_do_not_speak_for_a_server(resource: str, place: str, speaks: bool):
    assert speaks_for(resource, place, "https://a.example/t/mcp") is speaks
    # The operator may choose it, and then it need not be anywhere else.
    if not speaks and ":x" not in resource:
        assert speaks_for(resource, place, "https://a.example/t/mcp", resource)
        assert not speaks_for(resource, place, "https://a.example/t/mcp", "https://chosen.example")


def test_a_challenge_is_read_however_it_is_written():
    text = 'Basic realm="x", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://r/x"'
    found = read_challenge(403, text)
    assert (found.scopes, found.resource_metadata, found.wants_scopes) == (("a", "b"), "https://r/x", True)
    assert read_challenge(401, 'Bearer scope="a\\"').scopes == ()


def test_a_clock_that_was_set_back_does_not_prolong_a_token():
    client = ClientIdentity(id="c", issuer="i")
    token = TokenRecord(access_token="t", obtained=1000.0, lifetime=60.0, client=client)
    assert token.seconds_left(500.0) == 60.0
    assert token.seconds_left(2000.0) < 0


async def link_of(gateway: Gateway) -> str:
    return (await gateway.connections.open_accounts["guarded"].link(ME)).url


async def is_connected(gateway: Gateway) -> bool:
    return (await gateway.connections.open_accounts["guarded"].state(ME)).connected


async def test_an_answer_from_another_browser_connects_nothing(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, url):
        link = await link_of(gateway)
        async with a_browser() as victim, a_browser() as thief:
            async with victim.post(link, headers=HERE, allow_redirects=False) as sent:
                state = parse_qs(urlsplit(sent.headers["Location"]).query)["state"][0]
            back = f"{url.removesuffix('/mcp')}/oauth/callback"
            async with thief.get(back, params={"code": "stolen", "state": state}) as page:
                assert page.status == 403
                assert "another browser" in await page.text()
        assert not await is_connected(gateway)


async def test_a_link_works_once_and_its_page_repeats_nothing(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, url):
        link = await link_of(gateway)
        assert (await connect(link))[0] == 200
        assert (await connect(link))[0] == 410
        back = f"{url.removesuffix('/mcp')}/oauth/callback"
        async with (
            a_browser("pt-BR") as browser,
            browser.get(back, params={"state": "<b>x</b>", "error_description": "<i>y</i>"}) as page,
        ):
            text = await page.text()
            assert page.status == 410
            assert "Este link não é mais válido" in text
            assert "<b>x</b>" not in text
            assert "<i>y</i>" not in text
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
            assert "script" not in page.headers["Content-Security-Policy"]


async def test_another_site_cannot_press_the_button(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, _):
        link = await link_of(gateway)
        async with a_browser() as browser:
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}):
                async with browser.post(link, headers=headers, allow_redirects=False) as page:
                    assert page.status == 403


async def test_a_token_is_not_sent_to_another_address_under_the_same_name(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, _):
        await connect(await link_of(gateway))
        assert await is_connected(gateway)
    moved = config_of("http://127.0.0.1:9/mcp", tmp_path, OAuthAuth())
    async with replica(moved) as (gateway, _):
        assert not await is_connected(gateway)
