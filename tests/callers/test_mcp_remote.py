"""mcp-remote, for clients that can only start programs: it signs its user in, knowing our URL alone."""

import asyncio
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.callers.door import GuardedServer
from tests.callers.oidc import ROOT, node_program, oidc_provider, sign_in
from tests.reading import text_of
from tests.serving import serving
from tests.waiting import until
from toolyard.config.callers import AuthConfig, IssuerConfig

PROXY = ROOT / "build/npm/node_modules/mcp-remote/dist/proxy.js"
_VISIT = re.compile(r"http://127\.0\.0\.1:\d+/auth\?\S+")


def pages_in(log: Path) -> set[str]:
    return set(_VISIT.findall(log.read_text()))


async def approve(log: Path, name: str) -> None:
    """The person before the browser: opens the page that mcp-remote names, and follows it back."""

    async def is_named() -> bool:
        return bool(pages_in(log))

    await until(is_named)
    (page,) = pages_in(log)
    (back,) = parse_qs(urlsplit(page).query)["redirect_uri"]
    answer = await sign_in(page, name, back)
    async with aiohttp.ClientSession() as browser, browser.get(back, params=answer) as reply:
        assert reply.status == 200, await reply.text()


async def test_mcp_remote_signs_its_user_in(tmp_path: Path):
    node = node_program(PROXY)
    async with oidc_provider() as provider:
        guarded = GuardedServer(AuthConfig(issuers=(IssuerConfig(issuer=provider.url),), scopes=("mcp",)))
        log = tmp_path / "log"
        async with serving(guarded) as http:
            args = [str(PROXY), http.url, "--allow-http", "--transport", "http-only"]
            # Without a PATH it finds no browser to open.
            program = StdioServerParameters(command=node, args=args, env={"HOME": str(tmp_path), "PATH": ""})
            with log.open("w") as said:
                person = asyncio.create_task(approve(log, "ben"))
                async with Client(stdio_client(program, errlog=said), mode="legacy") as client:
                    result = await client.call_tool("whoami", {})
                await person
    assert text_of(result.content[0]) == "ben"
    assert guarded.seen[-1].issuer == provider.url
