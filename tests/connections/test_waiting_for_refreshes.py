"""While one caller's token is refreshed, everybody else goes on, and so does that caller if it can."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.token_endpoint import refused, written_endpoint
from tests.connections.token_hop import TokenHop, token_hop
from tests.connections.yard import (
    Guarded,
    config_of,
    guarded,
    key_of,
    log_in,
    replica,
    save_token,
)
from toolyard import Client
from toolyard.app.gateway import Gateway
from toolyard.config import Config
from toolyard.config.callers import AuthConfig
from toolyard.wire.call import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANA, BEN = Principal(subject="ana"), Principal(subject="ben")
CALL = {"tool": "mcp__guarded__whoami", "arguments": {}}
SLOTS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def hop(upstream: Guarded) -> AsyncIterator[TokenHop]:
    async with token_hop(f"{upstream.provider.url}/token") as found:
        yield found


def configured(upstream: Guarded, folder: Path) -> Config:
    return replace(
        config_of(upstream.url, folder, concurrency=SLOTS), auth=AuthConfig(keys=True, required=True)
    )


async def ask(client: Client) -> tuple[bool, str]:
    result = await client.call_tool("call_tool", CALL)
    return bool(result.is_error), result.text


async def ready(gateway: Gateway) -> None:
    """Both are connected, and the lists are read."""
    for principal, user in ((Principal(), "lister"), (BEN, "ben")):
        await log_in(gateway, principal, user)


async def test_calls_that_wait_for_a_token_keep_no_one_else_waiting(
    upstream: Guarded, hop: TokenHop, tmp_path: Path
):
    config = configured(upstream, tmp_path)
    async with (
        replica(config) as (gateway, url),
        Client(url, headers=await key_of(config, "ana")) as ana,
        Client(url, headers=await key_of(config, "ben")) as ben,
    ):
        await ready(gateway)
        record = await log_in(gateway, ANA, "ana")
        await save_token(gateway, ANA, replace(record, obtained=0.0, token_endpoint=hop.url))
        assert await ask(ben) == (False, "ben")
        hold = hop.hold(record.refresh_token, "before")
        waiting = [asyncio.create_task(ask(ana)) for _ in range(3 * SLOTS)]
        await hold.reached()
        assert [await ask(ben) for _ in range(5)] == [(False, "ben")] * 5
        assert not any(call.done() for call in waiting)
        hold.release()
        assert set(await asyncio.gather(*waiting)) == {(False, "ana")}
        assert hop.sent == [record.refresh_token]


async def test_a_token_that_is_still_good_is_used_while_its_successor_is_on_the_way(
    upstream: Guarded, hop: TokenHop, tmp_path: Path
):
    config = configured(upstream, tmp_path)
    async with (
        replica(config) as (gateway, url),
        Client(url, headers=await key_of(config, "ana")) as ana,
    ):
        await ready(gateway)
        record = await log_in(gateway, ANA, "ana")
        assert record.lifetime
        almost = record.obtained - record.lifetime + record.margin
        await save_token(gateway, ANA, replace(record, obtained=almost, token_endpoint=hop.url))
        hold = hop.hold(record.refresh_token, "before")
        assert [await ask(ana) for _ in range(5)] == [(False, "ana")] * 5
        await hold.reached()
        assert [await ask(ana) for _ in range(5)] == [(False, "ana")] * 5
        hold.release()


async def test_a_client_that_its_issuer_has_forgotten_is_registered_anew(upstream: Guarded, tmp_path: Path):
    config = configured(upstream, tmp_path)
    async with written_endpoint() as endpoint, replica(config) as (gateway, url):
        endpoint.answer = refused("invalid_client", 401)
        await ready(gateway)
        record = await log_in(gateway, ANA, "ana")
        ended: Any = replace(record, obtained=0.0, token_endpoint=endpoint.url)
        await save_token(gateway, ANA, ended)
        async with Client(url, headers=await key_of(config, "ana")) as ana:
            failed, text = await ask(ana)
            assert failed
            assert "'guarded' needs your permission" in text
            again = await log_in(gateway, ANA, "ana")
            assert record.client.source == again.client.source == "registered"
            assert record.client.id != again.client.id
            assert await ask(ana) == (False, "ana")
        assert endpoint.asked == [record.refresh_token]
