"""A certified issuer (`oidc-provider`), its tokens, and the SDK that gets in from our URL alone."""

from collections.abc import AsyncIterator
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

from tests.callers.door import GuardedServer
from tests.callers.issuer import EC, sign
from tests.callers.oidc import CLIENT, SECRET, OidcProvider, oidc_provider, sign_in
from tests.serving import Client, assert_nothing_leaks, modern, serving
from toolyard.callers.errors import InvalidTokenError
from toolyard.callers.issuer_client import IssuerClient
from toolyard.callers.tokens import JwtVerifier, token_verifiers
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
    async with serving(guarded) as http:
        memory = Memory()
        auth = signing_in(http.url, "anna", memory)
        async with (
            httpx2.AsyncClient(auth=auth) as inner,
            McpClient(streamable_http_client(http.url, http_client=inner), mode=mode) as client,
        ):
            result = await client.call_tool("whoami", {})
        assert result.content[0].text == "anna"  # pyright: ignore[reportAttributeAccessIssue]
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
    async with serving(guarded) as http:
        token = await provider.service_token(http.url)
        assert (await whoami(http, Authorization=f"Bearer {token}")).status == 200
        assert (await whoami(http, Authorization=f"bearer {token}")).status == 200
        found = f"http://127.0.0.1:{http.port}/.well-known/oauth-protected-resource/mcp"
        nothing = await whoami(http)
        assert nothing.status == 401
        assert nothing.headers["www-authenticate"] == f'Bearer resource_metadata="{found}", scope="mcp"'
        wrong = await whoami(http, Authorization=f"Bearer {token[:-8]}AAAAAAAA")
        assert wrong.status == 401
        assert wrong.headers["www-authenticate"] == (
            f'Bearer error="invalid_token", resource_metadata="{found}", scope="mcp"'
        )
        assert_nothing_leaks(wrong.body)
        assert token.split(".")[1].encode() not in wrong.body
        weak = await provider.service_token(http.url, scope="mcp:write")
        lacking = await whoami(http, Authorization=f"Bearer {weak}")
        assert lacking.status == 403
        assert lacking.headers["www-authenticate"] == (
            f'Bearer error="insufficient_scope", resource_metadata="{found}", scope="mcp"'
        )


async def test_tokens_in_other_places_do_not_count(provider: OidcProvider):
    guarded = GuardedServer(auth_of(provider))
    async with serving(guarded) as http:
        token = await provider.service_token(http.url)
        sent, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        in_query = await http.post(sent, message, f"/mcp?access_token={token}")
        assert in_query.status == 401
        twice = [*sent.items(), ("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
        assert (await http.post(twice, message)).status == 400
        for value in (f"Bearer {token} {token}", f"Bearer {token},{token}", f"Basic {token}", "Bearer"):
            assert (await whoami(http, Authorization=value)).status == 401
        long = "eyJ" + "x" * 12_000 + ".e30.x"
        assert (await whoami(http, Authorization=f"Bearer {long}")).status == 401
        assert (await whoami(http, Authorization=f"Bearer {'x' * 1_000_000}")).status in (400, 431)
    assert guarded.seen == []


async def test_an_issuer_that_is_down_is_said_so():
    guarded = GuardedServer(AuthConfig(issuers=(IssuerConfig(issuer="http://127.0.0.1:9"),)))
    async with serving(guarded) as http:
        token = sign({"alg": "ES256", "kid": "ec"}, {"iss": "http://127.0.0.1:9"}, EC)
        answer = await whoami(http, Authorization=f"Bearer {token}")
        assert answer.status == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 10
