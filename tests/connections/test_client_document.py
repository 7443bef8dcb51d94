"""The gateway's own client metadata document: issuers that read such documents need no registration."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.attempts import HERE
from tests.connections.hostile import Hostile, hostile
from tests.connections.yard import KEY, a_browser, config_of
from tests.serving import serving
from toolyard.app.gateway import Gateway
from toolyard.app.http import asgi
from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.client_document import is_readable
from toolyard.wire.call import Principal

PUBLIC = "https://93.184.215.14"
DOCUMENT = f"{PUBLIC}/oauth/client.json"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile() as found:
        found.lie("authority", client_id_metadata_document_supported=True)
        yield found


@asynccontextmanager
async def public_gateway(
    url: str, folder: Path, auth: OAuthAuth | None = None, public: str = PUBLIC
) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway that the world knows as `public`, and where it really is."""
    config = config_of(url, folder, auth)
    gateway = Gateway(replace(config, gateway=replace(config.gateway, public_url=public)), KEY)
    async with serving(asgi(gateway)) as http:
        yield gateway, http.url.removesuffix("/mcp")


async def sent_with(gateway: Gateway, base: str, public: str = PUBLIC) -> dict[str, str]:
    """The parameters with which a browser is sent to the issuer."""
    link = (await gateway.connections.open_accounts["guarded"].link(Principal())).url
    async with (
        a_browser() as browser,
        browser.post(link.replace(public, base), headers=HERE, allow_redirects=False) as page,
    ):
        query = parse_qs(urlsplit(page.headers["Location"]).query)
        return {"cookie": page.headers["Set-Cookie"], **{name: values[0] for name, values in query.items()}}


async def test_an_issuer_that_reads_the_document_lets_the_gateway_in(server: Hostile, tmp_path: Path):
    async with public_gateway(server.url, tmp_path) as (gateway, base), aiohttp.ClientSession() as http:
        async with http.get(DOCUMENT.replace(PUBLIC, base)) as reply:  # as the issuer does
            document: dict[str, Any] = await reply.json()
            assert reply.headers["Cache-Control"] == "public, max-age=3600"
        server.clients[DOCUMENT] = document
        asked = await sent_with(gateway, base)
        assert asked["client_id"] == document["client_id"] == DOCUMENT
        assert document["redirect_uris"] == [asked["redirect_uri"]] == [f"{PUBLIC}/oauth/callback"]
        assert document["client_name"] == "Toolyard"
        assert (document["token_endpoint_auth_method"], document["application_type"]) == ("none", "web")
        assert set(document["grant_types"]) == {"authorization_code", "refresh_token"}

        query = {name: value for name, value in asked.items() if name != "cookie"}
        async with http.get(f"{server.issuer}/authorize", params=query, allow_redirects=False) as reply:
            back = reply.headers["Location"].replace(PUBLIC, base)
        assert "Secure" in asked["cookie"]
        async with http.get(back, headers={"Cookie": asked["cookie"].partition(";")[0]}) as page:
            assert page.status == 200
        assert (await gateway.connections.open_accounts["guarded"].state(Principal())).connected
    assert not server.registrations
    assert server.token_requests[0].form["client_id"] == DOCUMENT


async def test_an_issuer_that_could_not_read_the_document_gets_a_registration(
    server: Hostile, tmp_path: Path
):
    async with public_gateway(server.url, tmp_path) as (gateway, base):
        assert (await sent_with(gateway, base))["client_id"] == DOCUMENT
        again = await sent_with(gateway, base)  # the user was shown an error, and went back
        assert again["client_id"].startswith("client-as-")


@pytest.mark.parametrize(
    "public", ["https://10.0.0.5", "https://127.0.0.1:1", "https://no.such.host.invalid"]
)
async def test_a_document_that_no_issuer_could_read_is_not_used(server: Hostile, tmp_path: Path, public: str):
    async with public_gateway(server.url, tmp_path, public=public) as (gateway, base):
        asked = await sent_with(gateway, base, public)
        assert asked["client_id"].startswith("client-as-")


async def test_a_gateway_without_tls_has_no_document(server: Hostile, tmp_path: Path):
    async with (
        public_gateway(server.url, tmp_path, public="http://127.0.0.1:1") as (_, base),
        aiohttp.ClientSession() as http,
        http.get(f"{base}/oauth/client.json") as reply,
    ):
        assert reply.status == 404


async def test_what_is_configured_comes_before_the_document(server: Hostile, tmp_path: Path):
    for number, (auth, id) in enumerate(
        [
            (OAuthAuth(client_metadata_url="https://my.example/client"), "https://my.example/client"),
            (OAuthAuth(client_id="mine"), "mine"),
        ]
    ):
        async with public_gateway(server.url, tmp_path / str(number), auth) as (gateway, base):
            assert (await sent_with(gateway, base))["client_id"] == id


async def test_an_issuer_that_takes_no_public_clients_gets_a_registration(server: Hostile, tmp_path: Path):
    server.lie("authority", token_endpoint_auth_methods_supported=["client_secret_post"])
    server.lie("registration", client_secret="one")
    async with public_gateway(server.url, tmp_path) as (gateway, base):
        assert (await sent_with(gateway, base))["client_id"].startswith("client-as-")


@pytest.mark.parametrize(
    ("addresses", "readable"),
    [(["93.184.215.14"], True), (["93.184.215.14", "10.0.0.1"], False), (["::1"], False), ([], False)],
)
async def test_a_name_with_a_private_address_is_not_for_issuers(addresses: list[str], readable: bool):
    async def resolve(host: str, port: int) -> list[str]:
        return addresses

    assert await is_readable("https://yard.example", resolve) is readable
