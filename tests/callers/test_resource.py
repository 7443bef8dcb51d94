"""The gateway as a resource of OAuth: its addresses, metadata and challenges."""

import json
from typing import Any

import pytest

from tests.serving import Answer, call_asgi
from toolyard.callers.authenticator import Challenges
from toolyard.callers.resource import WELL_KNOWN, ProtectedResource, check_address
from toolyard.config.callers import AuthConfig, IssuerConfig
from toolyard.config.errors import ConfigError

ISSUERS = (IssuerConfig(issuer="https://login.example/t"), IssuerConfig(issuer="https://other.example"))
AUTH = AuthConfig(issuers=ISSUERS, scopes=("mcp",))
MCP = "http://127.0.0.1:8321/mcp"


async def get(
    resource: ProtectedResource, path: str, host: str = "127.0.0.1:8321", method: str = "GET"
) -> Answer:
    app: Any = resource
    return await call_asgi(app, {"host": host, "origin": "https://app.example"}, b"", method, path)


async def named(resource: ProtectedResource, path: str, host: str = "127.0.0.1:8321") -> str:
    answer = await get(resource, path, host)
    return answer.json["resource"] if answer.status == 200 else ""


async def test_the_metadata_of_an_endpoint():
    answer = await get(ProtectedResource(AUTH), f"{WELL_KNOWN}/mcp")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    found = json.loads(answer.body)
    assert found.pop("resource_name")
    assert found == {
        "resource": MCP,
        "authorization_servers": ["https://login.example/t", "https://other.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["mcp"],
    }


async def test_each_endpoint_has_metadata_and_the_root_document_is_that_of_the_main_one():
    resource = ProtectedResource(AUTH)
    assert await named(resource, WELL_KNOWN) == MCP
    assert await named(resource, f"{WELL_KNOWN}/") == MCP
    assert await named(resource, f"{WELL_KNOWN}/mcp") == MCP
    assert await named(resource, f"{WELL_KNOWN}/mcp/") == MCP
    assert await named(resource, f"{WELL_KNOWN}/mcp/git") == f"{MCP}/git"
    assert (
        await named(resource, f"{WELL_KNOWN}/agents/writer/mcp") == "http://127.0.0.1:8321/agents/writer/mcp"
    )


async def test_whether_a_server_exists_cannot_be_told_from_its_metadata():
    resource = ProtectedResource(AUTH)
    assert await named(resource, f"{WELL_KNOWN}/mcp/no-such-server") == f"{MCP}/no-such-server"


@pytest.mark.parametrize(
    "path",
    ["/other", "/mcp/a/b", "/mcp/../x", "x", '/mcp/a"b', "/mcp/a b", "/agents/mcp", "/mcp/" + "a" * 300],
)
async def test_what_is_no_endpoint_has_no_metadata(path: str):
    answer = await get(ProtectedResource(AUTH), WELL_KNOWN + path)
    assert answer.status == 404
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_without_issuers_there_are_no_metadata():
    assert (await get(ProtectedResource(AuthConfig()), f"{WELL_KNOWN}/mcp")).status == 404


async def test_without_scopes_none_are_named():
    answer = await get(ProtectedResource(AuthConfig(issuers=ISSUERS)), f"{WELL_KNOWN}/mcp")
    assert "scopes_supported" not in answer.json


async def test_a_browser_may_ask_first():
    answer = await get(ProtectedResource(AUTH), f"{WELL_KNOWN}/mcp", method="OPTIONS")
    assert answer.status == 204
    assert "mcp-protocol-version" in answer.headers["access-control-allow-headers"]
    assert (await get(ProtectedResource(AUTH), f"{WELL_KNOWN}/mcp", method="POST")).status == 405


def test_the_address_is_the_one_that_the_client_uses():
    local = ProtectedResource(AUTH)
    assert local.url("/mcp", "127.0.0.1:8321") == MCP
    assert local.url("/mcp", "LOCALHOST:8321") == "http://localhost:8321/mcp"
    assert local.url("/mcp", "[::1]:8321") == "http://[::1]:8321/mcp"
    named = ProtectedResource(AUTH, hosts=["mcp.example.com", "b.example.com:444"])
    assert named.url("/mcp", "mcp.example.com", "https") == "https://mcp.example.com/mcp"
    assert named.url("/mcp", "b.example.com:444", "https") == "https://b.example.com:444/mcp"
    assert named.url("/mcp", "b.example.com", "https") == ""


def test_a_public_address_goes_before_the_host_that_a_proxy_sends():
    public = ProtectedResource(AUTH, public_url="https://tools.example.com", hosts=["tools.example.com"])
    for host in ("tools.example.com", "tools.example.com:443", "127.0.0.1:8321", "evil.example", ""):
        assert public.url("/mcp", host) == "https://tools.example.com/mcp"
    several = ProtectedResource(AUTH, public_url="https://a.example.com", hosts=["b.example.com"])
    assert several.url("/mcp", "b.example.com") == "https://b.example.com/mcp"


@pytest.mark.parametrize(
    "host", ["evil.example", "", 'a"b', "localhost.evil.example", "127.0.0.1@evil", "x y"]
)
def test_a_host_that_nobody_named_is_no_audience(host: str):
    for hosts in ([], ["*"], ["mcp.example.com"]):
        assert ProtectedResource(AUTH, hosts=hosts).url("/mcp", host) == ""


async def test_a_public_address_with_a_path():
    resource = ProtectedResource(AUTH, public_url="https://example.com/tools/")
    url = resource.url("/mcp", "127.0.0.1:8321")
    assert url == "https://example.com/tools/mcp"
    assert resource.metadata_url(url) == f"https://example.com/tools{WELL_KNOWN}/mcp"
    # Whether or not the proxy takes the path away.
    assert await named(resource, f"{WELL_KNOWN}/mcp") == url
    assert await named(resource, f"{WELL_KNOWN}/tools/mcp") == url


def test_challenges_lead_to_the_metadata():
    resource = ProtectedResource(AUTH)
    challenges = Challenges(resource.metadata_url, AUTH.scopes)
    where = f'resource_metadata="http://127.0.0.1:8321{WELL_KNOWN}/mcp"'
    assert value_of(challenges.missing(MCP)) == f'Bearer {where}, scope="mcp"'
    assert value_of(challenges.invalid(MCP)) == f'Bearer error="invalid_token", {where}, scope="mcp"'
    step_up = value_of(challenges.insufficient(MCP, ["mcp", "write", "files"]))
    assert step_up == f'Bearer error="insufficient_scope", {where}, scope="mcp write files"'
    below = value_of(Challenges(resource.metadata_url).missing(f"{MCP}/git"))
    assert below == f'Bearer resource_metadata="http://127.0.0.1:8321{WELL_KNOWN}/mcp/git"'
    assert value_of(Challenges(resource.metadata_url).missing("")) == "Bearer"


def value_of(headers: list[tuple[bytes, bytes]]) -> str:
    ((name, value),) = headers
    assert name == b"www-authenticate"
    return value.decode()


def test_beyond_loopback_a_server_must_know_its_address():
    with pytest.raises(ConfigError, match="does not know its address"):
        check_address(AUTH, "", ["*"], beyond_loopback=True)
    check_address(AUTH, "", [], beyond_loopback=False)
    check_address(AUTH, "https://tools.example.com", [], beyond_loopback=True)
    check_address(AUTH, "", ["tools.example.com"], beyond_loopback=True)
    named = AuthConfig(issuers=(IssuerConfig(issuer="https://login.example", audiences=("yard",)),))
    check_address(named, "", [], beyond_loopback=True)
