"""Gateway, server and issuer behind nginx with TLS and a private authority, and the SDK as client."""

from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import mcp_types as types
from mcp import Client as McpClient
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client

from tests.callers.oidc import oidc_provider
from tests.connections.foreign import sdk_server, starlette
from tests.connections.person import a_person
from tests.connections.program import Machine
from tests.connections.tls import nginx_with_tls, trusting
from tests.programs import needs
from tests.stores import free_port

pytestmark = [needs("chromium"), needs("nginx")]


async def call(client: McpClient, tool: str, arguments: dict[str, Any]) -> Any:
    result: Any = await client.call_tool(tool, arguments)
    return result


async def test_a_user_connects_a_server_over_tls(tmp_path: Path):
    gateway, server = free_port(), free_port()
    outside = {name: free_port() for name in ("gateway", "server", "issuer")}
    at = {name: f"https://localhost:{port}" for name, port in outside.items()}
    async with oidc_provider(at["issuer"]) as provider, a_person(ignore_https_errors=True) as person:
        await provider.tell("opaque")
        issuer = int(provider.url.rpartition(":")[2])
        ports = {outside["gateway"]: gateway, outside["server"]: server, outside["issuer"]: issuer}
        upstream = f"{at['server']}/mcp"
        async with (
            nginx_with_tls(tmp_path, ports) as certificate,
            starlette(sdk_server(provider, upstream, at["issuer"]), server),
        ):
            home = tmp_path / "home"
            home.mkdir()
            machine = Machine(home, SSL_CERT_FILE=str(certificate))
            machine.file.write_text(f'[gateway]\npublic_url = "{at["gateway"]}"\n')
            status, said = await machine.run("add", "sdk", upstream)
            assert (status, "toolyard login sdk" in said) == (0, True), said

            async def on_elicit(
                context: ClientRequestContext, params: types.ElicitRequestParams
            ) -> types.ElicitResult:
                assert isinstance(params, types.ElicitRequestURLParams)
                assert await person.log_in(params.url, "ben") == "sdk is connected"
                return types.ElicitResult(action="accept")

            async with (
                machine.serving(port=gateway),
                httpx2.AsyncClient(verify=trusting(certificate), timeout=60) as http,
                McpClient(
                    streamable_http_client(f"{at['gateway']}/mcp", http_client=http),
                    elicitation_callback=on_elicit,
                ) as client,
            ):
                asked = {"action": "link", "names": ["sdk"], "seconds": 20}
                (one,) = (await call(client, "manage_connections", asked)).structured_content["connections"]
                assert one.get("link", "").startswith(f"{at['gateway']}/oauth/connect/"), one
                pressed = {"Origin": at["gateway"]}
                async with (
                    aiohttp.ClientSession(headers=pressed) as browser,
                    browser.post(one["link"], allow_redirects=False, ssl=trusting(certificate)) as page,
                ):
                    assert page.headers["Location"].startswith(f"{at['issuer']}/auth?")
                    assert "; Secure" in page.headers["Set-Cookie"]
                assert await person.log_in(one["link"]) == "sdk is connected"
                await call(client, "manage_connections", {**asked, "action": "wait"})
                tool = {"tool": "mcp__sdk__whoami", "arguments": {}}
                assert (await call(client, "call_tool", tool)).structured_content == {"result": "ana"}
                await call(client, "manage_connections", {**asked, "action": "disconnect"})
                assert (await call(client, "call_tool", tool)).structured_content == {"result": "ben"}
