"""The modes that need nobody, at a certified issuer: keys for secrets, a workload's own token, DPoP."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from time import time

import aiohttp
import pytest
import pytest_asyncio
from joserfc import jws
from joserfc.jwk import ECKey, KeySet
from msgspec.json import decode

from tests.callers.door import GuardedServer
from tests.callers.issuer import EC, sign
from tests.callers.oidc import OidcProvider, oidc_provider
from tests.connections.acting import TOOL, Yard, acting
from tests.connections.yard import config_of, replica
from tests.serving import serving
from toolyard import Client
from toolyard.callers.resource import WELL_KNOWN
from toolyard.config.callers import AuthConfig, IssuerConfig
from toolyard.config.server_auth import OAuthAuth
from toolyard.edge.request import Headers, Receive, Scope, Send
from toolyard.wire.call import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(provider: OidcProvider) -> AsyncIterator[Yard]:
    async with acting(provider) as found:
        yield found


async def said(url: str) -> tuple[bool, str]:
    async with Client(url) as client:
        result = await client.call_tool("call_tool", TOOL)
        return bool(result.is_error), result.text


async def test_a_client_shows_its_key_instead_of_a_secret(yard: Yard, tmp_path: Path):
    client = await yard.provider.register(
        grant_types=["client_credentials"],
        redirect_uris=[],
        response_types=[],
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [EC.as_dict(private=False)]},
    )
    pem = EC.as_pem(private=True).decode()
    auth = OAuthAuth(mode="client_credentials", client_id=client["client_id"], private_key=pem, key_id="ec")
    async with replica(config_of(yard.url, tmp_path, auth)) as (_, url):
        assert await said(url) == (False, client["client_id"])
    another = ECKey.generate_key("P-256").as_pem(private=True).decode()
    forged = OAuthAuth(
        mode="client_credentials", client_id=client["client_id"], private_key=another, key_id="ec"
    )
    async with replica(config_of(yard.url, tmp_path / "forged", forged)) as (_, url):
        failed, text = await said(url)
        assert (failed, "does not accept our client (invalid_client)" in text) == (True, True), text


async def test_a_workload_shows_whatever_its_file_has_now(yard: Yard, tmp_path: Path):
    cluster = "https://cluster.example"
    await yard.provider.allow_exchange(
        workload={"issuer": cluster, "key": EC.as_dict(private=False)}, targets=[yard.url]
    )

    def mount(pod: str) -> None:
        about = {"iss": cluster, "sub": pod, "aud": yard.provider.url}
        claims = {**about, "jti": token_hex(8), "exp": time() + 600}
        file.write_text(sign({"alg": "ES256", "typ": "JWT"}, claims, EC))

    file = tmp_path / "token"
    mount("pod-1")
    auth = OAuthAuth(
        mode="workload_identity",
        assertion_file=str(file),
        client_id=yard.client["client_id"],
        client_secret=yard.client["client_secret"],
    )
    async with replica(config_of(yard.url, tmp_path / "state", auth)) as (gateway, url):
        accounts = gateway.connections.open_accounts["guarded"]
        assert await said(url) == (False, "pod-1")
        mount("pod-2")
        assert await said(url) == (False, "pod-1")  # its token is good for a while
        await accounts.disconnect(Principal())
        assert await said(url) == (False, "pod-2")
        file.unlink()
        await accounts.disconnect(Principal())
        failed, text = await said(url)
        assert (failed, "see 'assertion_file'" in text) == (True, True), text


class BoundServer(GuardedServer):
    """Takes only tokens that are bound to a key, with a proof of it for each request (RFC 9449)."""

    def __init__(self, issuer: str) -> None:
        super().__init__(AuthConfig(issuers=(IssuerConfig(issuer=issuer),), scopes=("mcp",)))
        self._issuer = issuer
        self.proofs: set[str] = set()
        self.nonce = "the first nonce"
        self.refusals: list[str] = []

    async def identify(self, headers: Headers) -> Principal:
        token = dict(headers)[b"authorization"].decode().removeprefix("DPoP ")
        return Principal(tenant="t", subject=decode(jws.extract_compact(token.encode()).payload)["sub"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(WELL_KNOWN):
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            reason = await self._refusal(scope["method"], f"http://{headers['host']}{scope['path']}", headers)
            if reason:
                self.refusals.append(reason)
                told = [
                    (b"www-authenticate", f'DPoP error="{reason}", algs="ES256"'.encode()),
                    (b"dpop-nonce", self.nonce.encode()),
                    (b"content-length", b"0"),
                ]
                await send({"type": "http.response.start", "status": 401, "headers": told})
                await send({"type": "http.response.body", "body": b""})
                return
        await super().__call__(scope, receive, send)

    async def _refusal(self, method: str, url: str, headers: dict[str, str]) -> str:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        proof = headers.get("dpop", "")
        if scheme != "DPoP" or not proof:
            return "invalid_token"
        async with aiohttp.ClientSession() as http, http.get(f"{self._issuer}/jwks") as answer:
            keys = KeySet.import_key_set(await answer.json())
        claims = decode(jws.deserialize_compact(token, keys, algorithms=["ES256"]).payload)
        key = ECKey.import_key(jws.extract_compact(proof.encode()).headers()["jwk"])
        shown = decode(jws.deserialize_compact(proof, key, algorithms=["ES256"]).payload)
        digest = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        fits = (
            claims["cnf"]["jkt"] == key.thumbprint()
            and claims["aud"] == url
            and (shown["htm"], shown["htu"], shown["ath"]) == (method, url, digest)
            and shown["jti"] not in self.proofs
        )
        if not fits:
            return "invalid_dpop_proof"
        self.proofs.add(shown["jti"])
        return "" if shown.get("nonce") == self.nonce else "use_dpop_nonce"


async def test_tokens_are_bound_to_a_key_that_each_request_proves(provider: OidcProvider, tmp_path: Path):
    client = await provider.register(
        grant_types=["client_credentials"],
        redirect_uris=[],
        response_types=[],
        dpop_bound_access_tokens=True,
    )
    server = BoundServer(provider.url)
    auth = OAuthAuth(
        mode="client_credentials",
        client_id=client["client_id"],
        client_secret=client["client_secret"],
        dpop=True,
    )
    async with serving(server) as http, replica(config_of(http.url, tmp_path, auth)) as (_, url):
        assert await said(url) == (False, client["client_id"])
        server.nonce = "the second nonce"
        server.refusals.clear()
        assert await said(url) == (False, client["client_id"])
        assert set(server.refusals) == {"use_dpop_nonce"}
    assert len(server.proofs) > 2
    await server.close()


async def test_without_proofs_a_bound_server_gives_nothing(
    provider: OidcProvider, yard: Yard, tmp_path: Path
):
    server = BoundServer(provider.url)
    auth = OAuthAuth(
        mode="client_credentials",
        client_id=yard.client["client_id"],
        client_secret=yard.client["client_secret"],
    )
    async with serving(server) as http, replica(config_of(http.url, tmp_path, auth)) as (_, url):
        assert (await said(url))[0]
    assert server.proofs == set()
    await server.close()
