"""What an operator sees: what is kept elsewhere in /health, and in the log who came, went and called."""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.speaker import Speaker, free_port, silent, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.audit.records import full_disk
from tests.stores import PASSWORD, RedisServer
from tests.waiting import until
from toolyard.app.storage import GatewayStorage
from toolyard.config import (
    Config,
    ResultsConfig,
    ServerConfig,
    StateConfig,
    Stdio,
    StoreConfig,
    TelemetryConfig,
)
from toolyard.wire.seal import Sealer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def kept_in(url: str) -> dict[str, Any]:
    return {"tables": {"state": StateConfig(url=url, key="0" * 64)}}


@asynccontextmanager
async def probed(url: str, **options: Any) -> AsyncIterator[GatewayStorage]:
    """A gateway's storage by itself, whose probes have time limits of the test's own."""
    config = Config(state=StateConfig(url=url, key="0" * 64), results=ResultsConfig(shape=False))
    storage = GatewayStorage(config, None, Sealer(b"0" * 32, "health"), **options)
    try:
        yield storage
    finally:
        await storage.close()


# State and store


async def test_health_names_the_state(redis: RedisServer):
    async with yard(**kept_in(redis.url)) as front:
        shown = await front.health()
        assert (shown["status"], shown["state"]) == ("ok", {"kind": "redis", "state": "up"})


async def test_health_is_degraded_while_redis_is_away(redis: RedisServer):
    redis.stop()
    async with yard(**kept_in(redis.url)) as front:
        shown = await front.health()
        assert (shown["status"], shown["state"]["state"]) == ("degraded", "down")
        assert f"127.0.0.1:{redis.port}" in shown["state"]["reason"]
        assert PASSWORD not in str(shown)


async def test_a_probe_follows_redis_down_and_up_again(redis: RedisServer):
    async with probed(redis.url, probe_max_age=0.0) as storage:

        async def state() -> str:
            await storage.check()
            return storage.probes["state"].as_dict()["state"]

        assert await state() == "up"
        redis.stop()
        assert await state() == "down"
        redis.start()
        assert await state() == "up"


async def test_a_probe_does_not_hang_on_a_redis_that_does():
    with silent() as url:
        hanging = url.replace("http:", "redis:").removesuffix("/mcp") + "/0"
        async with probed(hanging, probe_timeout=0.1) as storage:
            await storage.check()
            shown = storage.probes["state"].as_dict()
            assert (shown["state"], shown["reason"]) == ("down", "no answer within 0.1 s")


async def test_a_state_that_takes_no_entry_is_down_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with probed(f"sqlite://{tmp_path}/state.db", probe_max_age=0.0) as storage:

        async def state() -> str:
            await storage.check()
            return storage.probes["state"].as_dict()["state"]

        assert await state() == "up"
        with full_disk(0):
            assert [await state() for _ in range(2)] == ["down", "down"]
        assert await state() == "up"
    (told,) = lines(caplog, "state store: the state file")
    assert "state.db" in told


async def test_who_may_not_see_it_all_is_still_told_that_all_is_not_well(redis: RedisServer):
    def nobody(headers: Any) -> Any:
        raise PermissionError

    redis.stop()
    async with yard(identify=nobody, **kept_in(redis.url)) as front:
        assert await front.health() == {"status": "degraded"}


async def test_health_names_the_store_of_whole_results(tmp_path: Path):
    place = tmp_path / "results"
    store = StoreConfig(url=f"local:{place}")
    async with yard(results=ResultsConfig(), tables={"store": store}) as front:
        shown = await front.until_health(lambda health: health["store"]["state"] == "up")
        assert shown["status"] == "ok"
        assert shown["store"]["kind"] == "local"


async def test_many_who_look_at_once_ask_the_store_once(redis: RedisServer):
    async with yard(**kept_in(redis.url)) as front:
        for _ in range(5):
            assert (await front.health())["state"]["state"] == "up"
        redis.stop()
        assert (await front.health())["state"]["state"] == "up", "what was found a moment ago counts"


# Coming and going


def lines(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


async def test_a_server_that_comes_back_is_told_in_the_log(caplog: pytest.LogCaptureFixture):
    port = free_port()
    with caplog.at_level(logging.INFO, "toolyard"):
        async with yard(at(f"http://127.0.0.1:{port}/mcp"), list_wait=0.1) as front:
            await front.until_health(lambda health: health["servers"]["up"]["state"] == "down")
            assert not lines(caplog, "is back")
            async with speaking(Speaker("modern", [tool("echo")]), port):
                await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
    (told,) = lines(caplog, "is back")
    assert told.startswith("up: is back after ")
    assert told.endswith(" s, with 1 tools")


async def test_a_program_that_was_started_again_is_told_with_its_number_and_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    args = ("-m", "tests.app.program", str(tmp_path / "journal"), "legacy")
    where = Stdio(command=sys.executable, args=args, cwd=str(ROOT))
    with caplog.at_level(logging.INFO, "toolyard"):
        async with yard(ServerConfig(name="up", where=where)) as front:
            first = int(await front.says("mcp__up__who"))
            os.kill(first, signal.SIGKILL)

            async def answers() -> bool:
                return "error" not in (await front.call("mcp__up__who")).json

            await until(answers)
            second = int(await front.says("mcp__up__who"))
            await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
    assert lines(caplog, "runs as process") == [f"up: runs as process {first}"]
    assert lines(caplog, "was started again") == [
        f"up: was started again as process {second}: process {first} killed by SIGKILL"
    ]


# Calls


def calls(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.name == "toolyard.calls"]


async def call_twice(front: Yard) -> None:
    await front.says("mcp__up__echo", {"text": "hello"})
    await front.call("mcp__up__echo", {"text": "again"}, headers={"X-Forwarded-For": "203.0.113.7"})


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_successful_calls_are_logged_with_who_made_them_when_that_is_wanted(
    era: str, caplog: pytest.LogCaptureFixture
):
    tables = {"telemetry": TelemetryConfig(access_log=True)}
    with caplog.at_level(logging.INFO, "toolyard"):
        async with speaking(Speaker(era, [tool("echo")])) as url, yard(at(url), tables=tables) as front:
            await call_twice(front)
            if era == "legacy":
                client = await front.legacy()
                await client.call("mcp__up__echo", {"text": "hello"})
    logged = calls(caplog)
    first, second, *_ = logged
    assert (first["levelname"], first["outcome"]) == ("INFO", "ok")
    assert (first["server"], first["tool"], first["tenant"]) == ("up", "echo", "local")
    assert first["address"] == "127.0.0.1"
    assert first["client"]
    assert first["duration_ms"] > 0
    assert "forwarded_for" not in first
    assert second["forwarded_for"] == "203.0.113.7"
    assert len({record["client"] for record in logged}) == len(logged) - 1


async def test_the_address_in_the_log_is_the_clients_behind_a_configured_proxy(
    caplog: pytest.LogCaptureFixture,
):
    tables = {"telemetry": TelemetryConfig(access_log=True)}
    with caplog.at_level(logging.INFO, "toolyard"):
        async with (
            speaking(Speaker("modern", [tool("echo")])) as url,
            yard(at(url), tables=tables, proxies=("127.0.0.1",)) as front,
        ):
            await call_twice(front)
    assert [call["address"] for call in calls(caplog)] == ["127.0.0.1", "203.0.113.7"]


async def test_successful_calls_are_not_logged_unless_that_is_wanted(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "toolyard"):
        async with speaking(Speaker("modern", [tool("echo")])) as url, yard(at(url)) as front:
            await call_twice(front)
    assert not calls(caplog)
