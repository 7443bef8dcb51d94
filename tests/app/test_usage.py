"""What is used of the limits, asked over HTTP: who may ask, who sees which counter, and bad requests."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.serving import Answer, http
from toolyard.config.callers import AccessConfig, AccessRule, LimitRule, LimitsConfig
from toolyard.wire.call import Grant, Principal

LIMITS = LimitsConfig(
    rules=tuple(
        LimitRule(name=per, per=per, calls_a_month=10)
        for per in ("user", "agent", "tenant", "server", "tool", "all")
    )
)
ONLY_ECHO = AccessConfig(
    default="deny",
    rules=(
        AccessRule(who=("main",), allow=("*",)),
        AccessRule(who=("echoer",), allow=("up/echo",)),
        AccessRule(who=("nobody",), allow=("elsewhere",)),
    ),
)
SHARED = {"server 'up'", "tool 'up/echo'", "all callers"}
LONG = "t" * 300


def identify(headers: Any) -> Principal:
    """As a credential would say, in headers: tenant, agent and scopes."""
    said = {name.decode(): value.decode() for name, value in headers if name.startswith(b"x-")}
    grant = Grant("g", ("g",), (), 0.0) if "x-grant" in said else None
    return Principal(
        said.get("x-tenant", "acme"),
        said.get("x-agent", "main"),
        said.get("x-user", "ana"),
        scopes=frozenset(said.get("x-scopes", "").split()),
        kind="key" if grant is None else "grant",
        grant=grant,
    )


async def get(front: Yard, path: str = "/usage", method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await front.client.raw(http(method, path, named, host=f"127.0.0.1:{front.client.port}"))


async def seen(front: Yard, **headers: str) -> set[str]:
    answer = await get(front, x_scopes="usage", **headers)
    assert answer.status == 200, answer.body
    return {row["who"] for row in answer.json["usage"]}


async def echo(front: Yard, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    assert (await front.call("mcp__up__echo", {"text": "hi"}, headers=named)).status == 200


async def test_a_caller_with_the_scope_sees_its_tenant_and_what_it_shares() -> None:
    async with (
        speaking(Speaker("modern")) as url,
        yard(at(url), identify=identify, tables={"limits": LIMITS}) as front,
    ):
        await echo(front)
        await echo(front, x_tenant="other", x_user="ben")
        await echo(front, x_tenant=LONG, x_user="zoe")
        acme = {"user 'ana' of 'acme'", "agent 'main' of 'acme'", "tenant 'acme'"}
        other = {"user 'ben' of 'other'", "agent 'main' of 'other'", "tenant 'other'"}
        assert await seen(front) == acme | SHARED
        assert await seen(front, x_tenant="other") == other | SHARED
        assert await seen(front, x_tenant="third") == SHARED
        assert await seen(front, x_tenant="acm") == SHARED
        assert await seen(front, x_tenant=LONG) == SHARED, "its name is cut, so nobody knows whose it is"


async def test_servers_and_tools_that_do_not_exist_for_a_caller_are_not_counted_for_it_either() -> None:
    tables = {"limits": LIMITS, "access": ONLY_ECHO}
    async with (
        speaking(Speaker("modern", [tool("echo"), tool("hidden")])) as url,
        yard(at(url), identify=identify, tables=tables) as front,
    ):
        await echo(front)
        await front.call("mcp__up__hidden")
        tools = {"tool 'up/echo'", "tool 'up/hidden'"}
        assert tools < await seen(front, x_tenant="x")
        assert await seen(front, x_tenant="x", x_agent="echoer") == SHARED
        assert await seen(front, x_tenant="x", x_agent="nobody") == {"all callers"}


async def test_without_the_scope_nothing_is_seen() -> None:
    async with (
        speaking(Speaker("modern")) as url,
        yard(at(url), identify=identify, tables={"limits": LIMITS}) as front,
    ):
        await echo(front)
        for answer in (
            await get(front),
            await get(front, x_scopes="approve usages"),
            await get(front, x_scopes="usage", x_grant="yes"),
        ):
            assert answer.status == 403
            assert 'scope="usage"' in answer.headers["www-authenticate"]
            assert b"ana" not in answer.body


async def test_only_the_machine_itself_asks_where_nobody_is_asked_who_they_are() -> None:
    async with speaking(Speaker("modern")) as url, yard(at(url), tables={"limits": LIMITS}) as front:
        await echo(front)
        answer = await get(front)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json["currency"] == LIMITS.currency
        assert {row["who"] for row in answer.json["usage"]} >= SHARED | {"the local user"}
        for name in ("x_forwarded_for", "x_real_ip", "forwarded"):
            refused = await get(front, **{name: "192.0.2.7"})
            assert refused.status == 403
            assert b"'usage'" in refused.body
        assert (await get(front, origin="https://evil.example")).status == 403
        spoofed = await front.client.raw(http("GET", "/usage", {}, host="evil.example"))
        assert spoofed.status == 403
    async with yard(tables={"limits": LIMITS}, proxies=("127.0.0.1",)) as front:
        assert (await get(front)).status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/usage", 405), ("DELETE", "/usage", 405), ("GET", "/usages", 404), ("GET", "/usage/ana", 404)],
)
async def test_other_requests_are_refused(method: str, path: str, status: int) -> None:
    async with yard(tables={"limits": LIMITS}) as front:
        answer = await get(front, path, method)
        assert answer.status == status
        assert "use GET" in answer.json["error"]


async def test_limits_that_were_taken_away_while_it_runs_are_gone() -> None:
    async with yard(tables={"limits": LIMITS}) as front:
        assert (await get(front)).json["usage"] == []
        await front.gateway.reload(replace(front.gateway.config, limits=LimitsConfig()))
        gone = await get(front)
        assert (gone.status, gone.json) == (404, {"error": "this gateway has no limits"})
