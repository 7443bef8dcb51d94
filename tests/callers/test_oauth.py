"""A certified issuer (`oidc-provider`), its tokens, and the SDK that gets in from our URL alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client as McpClient
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking
from tests.app.yard import KEY, at, yard
from tests.callers.door import GuardedServer
from tests.callers.issuer import EC, sign
from tests.callers.oidc import CLIENT, SECRET, OidcProvider, oidc_provider, sign_in
from tests.reading import text_of
from tests.serving import Client, assert_nothing_leaks, http, modern, serving
from toolyard.app import Gateway, asgi
from toolyard.callers.errors import InvalidTokenError
from toolyard.callers.issuer_client import IssuerClient
from toolyard.callers.resource import WELL_KNOWN
from toolyard.callers.tokens import JwtVerifier, token_verifiers
from toolyard.config import Config, ConfigError, GatewayConfig
from toolyard.config.callers import AuthConfig, IssuerConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCE = "http://127.0.0.1:8321/mcp"
REDIRECT = "http://127.0.0.1:3030/callback"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as found:
        yield found


def auth_of(provider: OidcProvider, **changed: Any) -> AuthConfig:
    return AuthConfig(issuers=(IssuerConfig(issuer=provider.url, **changed),), scopes=("mcp",))


async def test_keys_are_rotated_while_both_run(provider: OidcProvider):
    moment = 0.0
    issuer = IssuerConfig(issuer=provider.url)
    verifier = JwtVerifier((issuer,), ("mcp",), IssuerClient(), clock=lambda: moment)
    first = await provider.service_token(RESOURCE)
    assert (await verifier.verify(first, RESOURCE)).subject == CLIENT
    await provider.tell("rotate")
    second = await provider.service_token(RESOURCE)
    assert first.split(".")[0] != second.split(".")[0]  # another kid
    moment += 10
    assert (await verifier.verify(second, RESOURCE)).subject == CLIENT
    assert (await verifier.verify(first, RESOURCE)).subject == CLIENT
    await provider.tell("withdraw")
    moment += 601
    await verifier.verify(second, RESOURCE)  # has the keys renewed
    moment += 301
    third = await provider.service_token(RESOURCE)
    await provider.tell("rotate")
    await verifier.verify(third, RESOURCE)
    fourth = await provider.service_token(RESOURCE)
    moment += 301
    await verifier.verify(fourth, RESOURCE)
    moment += 301
    with pytest.raises(InvalidTokenError, match="does not publish"):
        await verifier.verify(first, RESOURCE)
    await verifier.close()


async def test_a_token_for_another_resource_of_the_same_issuer_is_refused(provider: OidcProvider):
    (verifier,) = token_verifiers(auth_of(provider))
    token = await provider.service_token("https://other.example/mcp")
    with pytest.raises(InvalidTokenError, match="another audience"):
        await verifier.verify(token, RESOURCE)
    await verifier.close()


async def test_opaque_tokens_and_their_withdrawal(provider: OidcProvider):
    url = f"{provider.url}/token/introspection"
    config = auth_of(provider, introspection_url=url, client_id=CLIENT, client_secret=SECRET)
    await provider.tell("opaque")
    try:
        tokens = [await provider.service_token(RESOURCE) for _ in range(2)]
        await provider.revoke(tokens[1])
    finally:
        await provider.tell("jwt")
    verifiers = token_verifiers(config)
    verifier = next(one for one in verifiers if one.recognizes(tokens[0]))
    principal = await verifier.verify(tokens[0], RESOURCE)
    assert (principal.subject, principal.scopes, principal.kind) == (CLIENT, {"mcp"}, "introspection")
    with pytest.raises(InvalidTokenError, match="not active"):
        await verifier.verify(tokens[1], RESOURCE)
    for one in verifiers:
        await one.close()


class Memory:
    """What the SDK keeps for a user."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def signing_in(url: str, name: str, memory: Memory) -> OAuthClientProvider:
    """The SDK's own OAuth, which knows our URL and nothing else, and a person at the issuer's forms."""
    answers: list[dict[str, str]] = []

    async def open_browser(page: str) -> None:
        answers.append(await sign_in(page, name, REDIRECT))

    async def wait_for_browser() -> AuthorizationCodeResult:
        answer = answers.pop()
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])

    metadata = OAuthClientMetadata(client_name="tests", redirect_uris=[REDIRECT])  # pyright: ignore[reportArgumentType]
    return OAuthClientProvider(url, metadata, memory, open_browser, wait_for_browser)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_gets_in_from_nothing_but_our_url(provider: OidcProvider, mode: str):
    guarded = GuardedServer(auth_of(provider))
    async with serving(guarded) as served:
        memory = Memory()
        auth = signing_in(served.url, "anna", memory)
        async with (
            httpx2.AsyncClient(auth=auth) as inner,
            McpClient(streamable_http_client(served.url, http_client=inner), mode=mode) as client,
        ):
            result = await client.call_tool("whoami", {})
        assert text_of(result.content[0]) == "anna"
    principal = guarded.seen[-1]
    assert (principal.issuer, principal.kind, principal.scopes) == (provider.url, "jwt", {"mcp"})
    assert memory.client
    assert principal.client == memory.client.client_id
    assert memory.tokens
    assert memory.tokens.access_token not in repr(guarded.seen)


async def whoami(client: Client, **headers: str) -> Any:
    sent, message = modern("tools/call", {"name": "whoami", "arguments": {}})
    return await client.post({**sent, **headers}, message)


async def test_what_a_client_is_told(provider: OidcProvider):
    guarded = GuardedServer(auth_of(provider))
    async with serving(guarded) as served:
        token = await provider.service_token(served.url)
        assert (await whoami(served, Authorization=f"Bearer {token}")).status == 200
        assert (await whoami(served, Authorization=f"bearer {token}")).status == 200
        found = f"http://127.0.0.1:{served.port}/.well-known/oauth-protected-resource/mcp"
        nothing = await whoami(served)
        assert nothing.status == 401
        assert nothing.headers["www-authenticate"] == f'Bearer resource_metadata="{found}", scope="mcp"'
        wrong = await whoami(served, Authorization=f"Bearer {token[:-8]}AAAAAAAA")
        assert wrong.status == 401
        assert wrong.headers["www-authenticate"] == (
            'Bearer error="invalid_token", error_description="The token\'s signature is wrong", '
            f'resource_metadata="{found}", scope="mcp"'
        )
        assert_nothing_leaks(wrong.body)
        assert token.split(".")[1].encode() not in wrong.body
        weak = await provider.service_token(served.url, scope="mcp:write")
        lacking = await whoami(served, Authorization=f"Bearer {weak}")
        assert lacking.status == 403
        assert lacking.headers["www-authenticate"] == (
            f'Bearer error="insufficient_scope", resource_metadata="{found}", scope="mcp"'
        )


async def test_tokens_in_other_places_do_not_count(provider: OidcProvider):
    guarded = GuardedServer(auth_of(provider))
    async with serving(guarded) as served:
        token = await provider.service_token(served.url)
        sent, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        in_query = await served.post(sent, message, f"/mcp?access_token={token}")
        assert in_query.status == 401
        twice = [*sent.items(), ("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
        assert (await served.post(twice, message)).status == 400
        for value in (f"Bearer {token} {token}", f"Bearer {token},{token}", "Bearer"):
            assert (await whoami(served, Authorization=value)).status == 400
        assert (await whoami(served, Authorization=f"Basic {token}")).status == 401
        long = "eyJ" + "x" * 12_000 + ".e30.x"
        assert (await whoami(served, Authorization=f"Bearer {long}")).status == 401
        assert (await whoami(served, Authorization=f"Bearer {'x' * 1_000_000}")).status in (400, 431)
    assert guarded.seen == []


async def test_an_issuer_that_is_down_is_said_so():
    guarded = GuardedServer(AuthConfig(issuers=(IssuerConfig(issuer="http://127.0.0.1:9"),)))
    async with serving(guarded) as served:
        token = sign({"alg": "ES256", "kid": "ec"}, {"iss": "http://127.0.0.1:9"}, EC)
        answer = await whoami(served, Authorization=f"Bearer {token}")
        assert answer.status == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 10


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_token_is_never_handed_on_to_a_server(provider: OidcProvider, era: str):
    door = GuardedServer(auth_of(provider, audiences=(RESOURCE,)))
    upstream = Speaker(era)
    async with speaking(upstream) as url, yard(at(url), identify=door.identify) as gateway:
        token = await provider.service_token(RESOURCE)
        sent = {"Authorization": f"Bearer {token}"}
        assert (await gateway.call("mcp__up__echo")).status == 401
        answer = await gateway.call("mcp__up__echo", headers=sent)
        assert answer.status == 200
        calls = upstream.heard("tools/call")
    assert calls
    for exchange in calls:
        everything = repr((exchange.headers, exchange.message))
        assert not any(part in everything for part in token.split("."))
        assert "authorization" not in exchange.headers
    await door.close()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/up"])
async def test_the_sdk_gets_in_at_a_gateway(provider: OidcProvider, path: str):
    upstream = Speaker()
    auth = AuthConfig(issuers=(IssuerConfig(issuer=provider.url),), scopes=("mcp",), required=True)
    async with speaking(upstream) as url, yard(at(url), tables={"auth": auth}) as gateway:
        address = f"http://127.0.0.1:{gateway.client.port}{path}"
        memory = Memory()
        async with (
            httpx2.AsyncClient(auth=signing_in(address, "anna", memory)) as inner,
            McpClient(streamable_http_client(address, http_client=inner)) as client,
        ):
            (name,) = [tool.name for tool in (await client.list_tools()).tools if tool.name.endswith("echo")]
            assert not (await client.call_tool(name, {})).is_error
        in_query = await gateway.client.post(*modern("tools/list"), f"{path}?access_token=x")
        assert in_query.status == 400
    assert memory.tokens
    for exchange in upstream.heard("tools/call"):
        assert memory.tokens.access_token not in repr((exchange.headers, exchange.message))


async def test_issuers_change_while_the_gateway_runs(provider: OidcProvider):
    upstream = Speaker()
    where = f"{WELL_KNOWN}/mcp"
    async with speaking(upstream) as url, yard(at(url)) as gateway:
        host = f"127.0.0.1:{gateway.client.port}"
        assert (await gateway.client.raw(http("GET", where, host=host))).status == 404
        token = await provider.service_token(f"http://{host}/mcp")
        before = gateway.gateway.config
        auth = AuthConfig(issuers=(IssuerConfig(issuer=provider.url),), required=True)
        await gateway.gateway.reload(replace(before, auth=auth))
        metadata = await gateway.client.raw(http("GET", where, host=host))
        assert metadata.json["authorization_servers"] == [provider.url]
        sent = {"Authorization": f"Bearer {token}"}
        assert (await gateway.call("mcp__up__echo", headers=sent)).status == 200
        assert (await gateway.call("mcp__up__echo")).status == 401
        await gateway.gateway.reload(before)
        assert (await gateway.client.raw(http("GET", where, host=host))).status == 404


async def test_a_gateway_for_others_must_know_its_address(tmp_path: Path):
    issuer = IssuerConfig(issuer="https://login.example.com")
    settings = GatewayConfig(state_dir=str(tmp_path), allowed_hosts=("*",))
    gateway = Gateway(Config(servers=(), gateway=settings, auth=AuthConfig(issuers=(issuer,))), KEY)
    with pytest.raises(ConfigError, match="does not know its address"):
        asgi(gateway, exposed=True)
    await gateway.close()
