"""The page at `/`: what an address is, for whoever opens it in a browser."""

import pytest

from tests.app.yard import yard
from tests.serving import Client, http, serving
from toolyard.config import InProcess, ServerConfig
from toolyard.config.callers import AuthConfig
from toolyard.kit import CallerKeys, Server

INSIDE = ServerConfig(name="up", where=InProcess(module="toolyard.servers.demo:server"))


async def opened(client: Client, method: str = "GET", host: str = "", path: str = "/") -> tuple[int, str]:
    answer = await client.raw(http(method, path, host=host or f"127.0.0.1:{client.port}"))
    assert answer.headers["content-type"].startswith(
        "text/plain" if answer.status == 200 else "application/json"
    )
    return answer.status, answer.body.decode()


async def test_a_servers_page_says_what_it_is_with_the_lines_for_clients():
    async with serving(Server("my shop").asgi()) as client:
        status, text = await opened(client)
        url = f"http://127.0.0.1:{client.port}/mcp"
        assert (status, text.splitlines()[0]) == (200, "This is Toolyard, an MCP endpoint.")
        assert f"claude mcp add --transport http my-shop {url}\n" in text
        assert f'{{"mcpServers": {{"my-shop": {{"url": "{url}"}}}}}}' in text
        assert f'"args": ["-y", "mcp-remote", "{url}"]' in text
        assert (await opened(client, "POST"))[0] == 404
        assert (await opened(client, path="/other"))[0] == 404
        status, text = await opened(client, host="evil.example")
        assert (status, "evil" in text) == (404, False), "a name that is not ours is not repeated"


async def test_a_server_that_wants_a_key_says_where_it_goes():
    server = Server("shop", key=b"0123456789abcdef", caller_keys=CallerKeys(("x-shop-key",)))
    async with serving(server.asgi(path="/tools")) as client:
        text = (await opened(client))[1]
        assert f"http://127.0.0.1:{client.port}/tools --header 'x-shop-key: …'" in text
        assert '"--header", "x-shop-key:…"' in text


async def test_an_endpoint_at_the_root_stays_one():
    async with serving(Server("shop").asgi(path="/")) as client:
        assert (await opened(client))[0] == 405


@pytest.mark.parametrize("keys", [False, True])
async def test_a_gateway_has_the_page_for_everybody_who_reaches_it(keys: bool):
    public = "https://tools.example"
    auth = AuthConfig(keys=keys, required=keys)
    async with yard(INSIDE, tables={"auth": auth}, public_url=public, locale="pt") as front:
        status, text = await opened(front.client)
        assert (status, text.splitlines()[0]) == (200, "Este é o Toolyard, um endpoint MCP.")
        header = " --header 'Authorization: Bearer ty_…'" if keys else ""
        assert f"claude mcp add --transport http toolyard https://tools.example/mcp{header}\n" in text
