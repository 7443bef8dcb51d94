"""A rotating refresh token is used once, however many replicas and calls need it at the same moment."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from tests.connections.yard import config_of, connect, guarded, replica
from toolyard import Client
from toolyard.config import Config
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.wire.call import Principal

TOOL = {"tool": "mcp__guarded__whoami", "arguments": {}}


async def expired_connection(url: str, config: Config) -> None:
    """Connects once, and lets the token end while nobody runs."""
    async with replica(config) as (gateway, at), Client(at) as client:
        link = {"action": "link", "names": ["guarded"]}
        found = (await client.call_tool("manage_connections", link)).structured["connections"][0]
        await connect(found["link"])
        accounts = gateway.connections.open_accounts["guarded"]
        assert isinstance(accounts, OAuthAccounts)
        address = accounts.address(Principal())
        held = await gateway.connections.tokens.load(address)
        assert held is not None
        assert held.record.refresh_token
        await gateway.connections.tokens.save(address, replace(held.record, obtained=0.0))


async def test_a_hundred_calls_through_three_replicas_refresh_once(tmp_path: Path):
    async with guarded() as upstream:
        config = config_of(upstream.url, tmp_path)
        await expired_connection(upstream.url, config)
        before = await upstream.provider.refreshes()
        async with (
            replica(config) as (_, one),
            replica(config) as (_, two),
            replica(config) as (_, three),
            Client(one) as a,
            Client(two) as b,
            Client(three) as c,
        ):
            results = await asyncio.gather(
                *((a, b, c)[number % 3].call_tool("call_tool", TOOL) for number in range(100))
            )
            assert {(result.is_error, result.text) for result in results} == {(False, "ana")}
        assert await upstream.provider.refreshes() - before == 1
