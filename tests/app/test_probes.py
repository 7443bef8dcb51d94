"""Probes of a load balancer, and the headers that every reply has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.speaker import Speaker, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.audit.records import full_disk
from tests.serving import Answer, call_asgi, http
from tests.stores import PASSWORD, RedisServer
from toolyard.app import Gateway, asgi
from toolyard.config import (
    Config,
    GatewayConfig,
    InProcess,
    ResultsConfig,
    ServerConfig,
    StateConfig,
)
from toolyard.config.callers import AuditConfig, AuthConfig, IssuerConfig
from toolyard.kit import Server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def kept_in(url: str) -> dict[str, Any]:
    return {"tables": {"state": StateConfig(url=url, key="0" * 64)}}


async def probe(front: Yard, name: str, host: str = "") -> Answer:
    return await front.client.raw(
        http("GET", f"/health/{name}", host=host or f"127.0.0.1:{front.client.port}")
    )


async def asked(app: Any, path: str) -> Answer:
    return await call_asgi(app, {}, b"", "GET", path)


# Probes


async def test_a_gateway_that_runs_is_live_and_ready():
    async with yard() as front:
        for name in ("live", "ready"):
            answer = await probe(front, name)
            assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_it_is_not_ready_while_the_state_store_is_away_but_lives(redis: RedisServer):
    redis.stop()
    async with yard(**kept_in(redis.url)) as front:
        ready = await probe(front, "ready")
        assert (ready.status, ready.json["reasons"]) == (503, ["the state store cannot be used"])
        assert PASSWORD not in str(ready)
        assert str(redis.port) not in str(ready.json), "everybody sees it"
        assert (await probe(front, "live")).status == 200


@pytest.mark.parametrize("audit", ["file:", "sqlite:"])
@pytest.mark.parametrize("unavailable", ["closed", "open"])
async def test_it_is_not_ready_while_every_call_would_be_refused_for_a_full_disk(
    audit: str, unavailable: Any
):
    demo = ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo"))
    tables = {"audit": AuditConfig(url=audit, unavailable=unavailable)}
    async with yard(demo, results=ResultsConfig(), tables=tables) as front:
        await front.tools()
        with full_disk(0):
            ready = await probe(front, "ready")
            health = await front.health()
            called = await front.call("mcp__demo__echo", {"text": "hello"})
            assert (await probe(front, "live")).status == 200
    is_refused = unavailable == "closed"
    assert called.status == (503 if is_refused else 200)
    assert ready.status == called.status
    assert "the audit cannot be written" in ready.json["reasons" if is_refused else "warnings"]
    assert health["status"] == "degraded"
    assert "full" in health["audit"]["reason"]
    assert "full" in health["store"]["reason"]


async def test_probes_need_no_credential_and_no_known_host():
    def nobody(headers: Any) -> Any:
        raise AssertionError("a probe asked who calls")

    async with yard(identify=nobody) as front:
        for name in ("live", "ready"):
            assert (await probe(front, name, "10.0.0.7")).status == 200


async def test_a_file_that_cannot_be_used_is_a_warning_while_the_one_before_runs():
    async with yard() as front:
        front.gateway.set_config_fault("toolyard.toml, line 3: no value")
        ready = await probe(front, "ready")
        assert ready.status == 200
        assert ready.json == {"status": "ok", "warnings": ["the configuration on disk cannot be used"]}


async def test_it_is_ready_from_its_start_until_its_end(tmp_path: Any):
    app = asgi(Gateway(Config(gateway=GatewayConfig(state_dir=str(tmp_path)))))

    async def ready() -> tuple[int, Any]:
        answer = await asked(app, "/health/ready")
        return answer.status, answer.json.get("reasons")

    assert await ready() == (503, ["it is starting"])
    health = (await asked(app, "/health")).json
    assert (health["status"], health["start"][:18]) == ("degraded", "it has not started")
    await app.start()
    assert await ready() == (200, None)
    await app.close()
    assert await ready() == (503, ["it is shutting down"])


async def test_a_server_without_a_gateway_has_the_same_probes():
    edge = Server("notes").asgi()
    assert (await asked(edge, "/health/live")).json == {"status": "ok"}
    assert (await asked(edge, "/health/ready")).status == 200
    await edge.close()
    assert (await asked(edge, "/health/live")).status == 200
    assert (await asked(edge, "/health/ready")).status == 503


# Headers


async def test_replies_are_not_stored_and_not_sniffed():
    async with speaking(Speaker("modern", [tool("echo")])) as url, yard(at(url)) as front:
        legacy = await front.legacy()
        answers = [
            await front.call("mcp__up__echo", {"text": "hello"}),
            await front.modern("no/such/method"),
            await front.modern("tools/list", path="/mcp/up"),
            await front.modern("tools/list", path="/elsewhere"),
            await legacy.request("tools/list"),
        ]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/mcp",
        "/approvals",
        "/usage",
        "/.well-known/oauth-protected-resource",
        "/results/x",
        "/health",
        "/none",
    ],
)
async def test_each_header_comes_once_also_where_others_are_added(path: str, tmp_path: Path):
    issuer = IssuerConfig(issuer="https://id.example.com")
    gateway = GatewayConfig(state_dir=str(tmp_path), public_url="https://tools.example.com")
    app = asgi(Gateway(Config(gateway=gateway, auth=AuthConfig(issuers=(issuer,))), b"0" * 32))
    names: list[bytes] = []

    async def send(event: Any) -> None:
        names.extend(name for name, _ in event.get("headers", []))

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}
    await app(scope, receive, send)
    assert b"x-content-type-options" in names
    assert len(names) == len(set(names)), names
    await app.close()


async def test_a_stream_is_not_stored_either():
    async with yard() as front:
        line = await front.listen(toolsListChanged=True)
        assert line.headers["cache-control"] == "no-cache, no-store, no-transform"
        assert line.headers["x-content-type-options"] == "nosniff"
        line.hang_up()


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/metrics"])
async def test_a_page_loads_nothing_and_is_in_no_frame(path: str):
    async with yard() as front:
        answer = await front.client.raw(http("GET", path, host=f"127.0.0.1:{front.client.port}"))
    assert answer.status == 200
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_browsers_are_held_to_tls_only_where_there_is_tls():
    for public_url, wanted in (
        ("https://tools.example.com", "max-age=31536000"),
        ("http://tools.example.com", None),
        ("", None),
    ):
        async with yard(public_url=public_url) as front:
            for path in ("/health", "/health/live"):
                answer = await front.client.raw(http("GET", path, host=f"127.0.0.1:{front.client.port}"))
                assert answer.headers.get("strict-transport-security") == wanted
