"""A function that asks for tokens: what it accepts, what it says of itself, and whose host it believes."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.callers.issuer import Issuer, issuing
from tests.edge.lambda_client import HOST, LambdaClient
from tests.serving import Answer, modern
from toolyard.app.aws_lambda import build
from toolyard.app.function_callers import FunctionAuth, FunctionCallers
from toolyard.edge.aws.events import BufferedResponse, kind_of, read_event

MCP = f"https://{HOST}/mcp"
METADATA = "/.well-known/oauth-protected-resource"
KEYED = "tests.app.keyed_function:server"


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as found:
        found.clocks.day = time.time()
        yield found


def function(issuer: Issuer, *servers: str, **settings: Any) -> LambdaClient:
    auth = FunctionAuth((issuer.config(),), **settings)
    return LambdaClient(build(servers or ("demo",), callers=FunctionCallers(auth)))


async def ask(client: LambdaClient, token: str = "", path: str = "/mcp", **headers: str) -> Answer:
    told, message = modern("tools/list")
    shown = {"authorization": f"Bearer {token}"} if token else {}
    return await client.post({**told, **shown, **headers}, message, path)


async def test_a_caller_needs_a_token_that_names_the_function(issuer: Issuer):
    client = function(issuer)
    nobody = await ask(client)
    assert nobody.status == 401
    assert nobody.headers["www-authenticate"] == f'Bearer resource_metadata="https://{HOST}{METADATA}/mcp"'
    assert (await ask(client, issuer.token(aud=MCP))).status == 200
    for wrong in (issuer.token(), issuer.token(aud=MCP, exp=int(time.time()) - 3600), "ty_key", "tyg_grant"):
        refused = await ask(client, wrong)
        assert refused.status == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    assert (await client.ask("GET", "/health", {})).status == 200


async def test_its_metadata_say_where_tokens_come_from(issuer: Issuer):
    client = function(issuer, scopes=("mcp",))
    for path in (METADATA, f"{METADATA}/mcp"):
        found = await client.ask("GET", path, {"origin": "https://app.example"})
        assert found.status == 200
        assert found.headers["access-control-allow-origin"] == "*"
        described = json.loads(found.body)
        assert (described["resource"], described["authorization_servers"]) == (MCP, [issuer.url])
        assert described["scopes_supported"] == ["mcp"]
    assert (await client.ask("HEAD", METADATA, {})).body == b""
    assert (await client.ask("POST", METADATA, {}, b"{}")).status == 405
    assert (await client.ask("GET", f"{METADATA}/other", {})).status == 404
    lacking = await ask(client, issuer.token(aud=MCP))
    assert (lacking.status, 'scope="mcp"' in lacking.headers["www-authenticate"]) == (403, True)
    assert (await ask(client, issuer.token(aud=MCP, scope="mcp"))).status == 200


async def test_a_function_without_callers_has_no_metadata():
    assert (await LambdaClient(build(["demo"])).ask("GET", METADATA, {})).status == 404


async def test_tokens_are_for_one_of_several_servers(issuer: Issuer):
    client = function(issuer, "demo", "render")
    token = issuer.token(aud=f"{MCP}/toolyard")
    assert (await ask(client, token, "/mcp/toolyard")).status == 200
    assert (await ask(client, token, "/mcp/render")).status == 401


async def test_a_token_comes_beside_the_callers_key_for_the_api(issuer: Issuer):
    client = function(issuer, KEYED)
    token, key = issuer.token(aud=MCP), {"x-tiflux-api-key": "tenant-one-key-5f1c"}
    assert (await ask(client, token, **key)).status == 200
    assert (await ask(client, token)).status == 401
    assert (await ask(client, **key)).status == 401


@pytest.mark.parametrize("host", ["victim.example", HOST, "127.0.0.1"])
async def test_the_host_that_a_client_sends_does_not_choose_the_audience(issuer: Issuer, host: str):
    client = function(issuer)
    assert (await ask(client, issuer.token(aud=f"https://{host}/mcp"), host=host)).status == (
        200 if host == HOST else 401
    )
    # A load balancer passes on any Host, so a function behind one has to be told its address.
    for public, status in (("", 401), (f"https://{host}", 200)):
        balanced = function(issuer, public_url=public)
        told, message = modern("tools/list")
        token = issuer.token(aud=f"https://{host}/mcp")
        event = {
            "httpMethod": "POST",
            "path": "/mcp",
            "headers": {**told, "host": host, "authorization": f"Bearer {token}"},
            "requestContext": {"elb": {}, "domainName": host},
            "body": json.dumps(message),
            "isBase64Encoded": False,
        }
        writer = BufferedResponse(kind_of(event))
        await balanced.edge.serve(read_event(event), writer, None)
        assert writer.reply()["statusCode"] == status
