"""A gateway that takes grants: as a bearer at its endpoints, and at the path of the sub-agent."""

import json
from typing import Any

import bpe_openai
from msgspec.structs import replace

from tests.app.yard import KEY, Yard, yard
from tests.serving import Answer, http, initialize, modern, serving
from toolyard import narrow_grant
from toolyard.app import Gateway, asgi
from toolyard.callers.grants import Grants
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.config import Config, InProcess, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule, AuthConfig, ProxyConfig
from toolyard.wire.call import Principal

DEMO = ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo"))
REQUIRED = {"auth": AuthConfig(keys=True, required=True)}
INVALID = 'Bearer error="invalid_token"'


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def key(front: Yard) -> tuple[Principal, str]:
    keys: ApiKeys = front.gateway.callers.keys(front.gateway.config)
    issued = await keys.create(KeyHolder(name="laptop", user="ana", agent="planner"))
    return issued.key.principal, issued.text


async def grant(front: Yard, name: str = "helper", **limits: Any) -> str:
    grants: Grants = front.gateway.callers.grants(front.gateway.config)
    holder, _ = await key(front)
    return (await grants.make(holder, name, **limits)).token


async def tools(front: Yard, path: str, headers: dict[str, str]) -> Answer:
    return await front.modern("tools/list", path=path, headers=headers)


def told(answer: Answer) -> tuple[int, str, Any]:
    return answer.status, answer.headers.get("www-authenticate", ""), answer.json


async def test_a_grant_opens_every_endpoint_and_the_path_of_its_agent():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        for path in ("/mcp", "/mcp/demo", "/agents/helper/mcp", "/agents/helper/mcp/"):
            assert (await tools(front, path, bearer(token))).status == 200, path
        everywhere = [
            (await tools(front, path, bearer(token))).result for path in ("/mcp", "/agents/helper/mcp")
        ]
        assert everywhere[0] == everywhere[1]


async def test_the_path_of_an_agent_is_for_a_grant_of_this_name_only():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        _, key_text = await _second_key(front)
        wrong = told(await tools(front, "/agents/helper/mcp", bearer("tyg_" + "A" * 60)))
        assert wrong[:2] == (401, INVALID)
        for path, sent in (
            ("/agents/other/mcp", token),
            ("/agents/Helper/mcp", token),
            ("/agents/helper%20/mcp", token),
            ("/agents/planner/mcp", token),
            ("/agents/planner/mcp", key_text),
            ("/agents/helper/mcp", key_text),
            ("/agents/helper/mcp", narrow_grant(token, name="third")),
        ):
            assert told(await tools(front, path, bearer(sent))) == wrong, path
        assert told(await tools(front, "/agents/helper/mcp", {}))[:2] == (401, "Bearer")
        assert (
            await tools(front, "/agents/third/mcp", bearer(narrow_grant(token, name="third")))
        ).status == 200
        assert (await tools(front, "/agents/helper/mcp", bearer(narrow_grant(token)))).status == 200


async def _second_key(front: Yard) -> tuple[Principal, str]:
    keys: ApiKeys = front.gateway.callers.keys(front.gateway.config)
    issued = await keys.create(KeyHolder(name="second", agent="helper"))
    return issued.key.principal, issued.text


async def test_other_paths_below_agents_do_not_exist():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        for path in (
            "/agents/",
            "/agents/helper",
            "/agents/helper/mcp/demo",
            "/agents//mcp",
            "/agents/a/b/mcp",
        ):
            assert (await tools(front, path, bearer(token))).status == 404, path
        assert (await tools(front, f"/agents/{'x' * 101}/mcp", bearer(token))).status == 404


async def test_the_local_user_and_a_proxy_are_not_let_in_at_the_path_of_an_agent():
    tables = {"auth": AuthConfig(keys=True)}
    async with yard(DEMO, tables=tables) as front:
        assert (await tools(front, "/mcp", {})).status == 200
        assert told(await tools(front, "/agents/helper/mcp", {}))[:2] == (401, "Bearer")
    proxy = {"auth": AuthConfig(proxy=ProxyConfig(addresses=("127.0.0.1",), agent="x-agent"))}
    named = {"X-Forwarded-User": "ana", "X-Agent": "helper"}
    async with yard(DEMO, tables=proxy) as front:
        assert (await tools(front, "/mcp", named)).status == 200
        assert (await tools(front, "/agents/helper/mcp", named)).status == 401
        assert (await tools(front, "/agents/helper/mcp", {**named, **bearer("something")})).status == 401


async def test_where_only_a_proxy_names_callers_other_tokens_are_still_ignored():
    proxy = {"auth": AuthConfig(proxy=ProxyConfig(addresses=("127.0.0.1",)))}
    async with yard(DEMO, tables=proxy) as front:
        named = {"X-Forwarded-User": "ana"}
        assert (await tools(front, "/mcp", {**named, **bearer("of-somebody-else")})).status == 200
        assert (await tools(front, "/mcp", {**named, **bearer("tyg_" + "A" * 60)})).status == 401


async def test_without_a_way_to_know_callers_there_is_no_such_path():
    async with yard(DEMO) as front:
        assert (await tools(front, "/agents/helper/mcp", {})).status == 404
    app = asgi(Gateway(Config(servers=(DEMO,)), KEY), identify=lambda headers: Principal(tenant="app"))
    async with serving(app) as client:
        assert (await client.post(*modern("tools/list"), path="/mcp")).status == 200
        assert (await client.post(*modern("tools/list"), path="/agents/helper/mcp")).status == 404


async def test_a_legacy_session_runs_at_the_path_of_an_agent_and_belongs_to_its_grant():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        other = narrow_grant(token)
        headers, message = initialize()
        answer = await front.client.post({**headers, **bearer(token)}, message, path="/agents/helper/mcp")
        assert answer.status == 200
        session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

        async def ask(sent: str, path: str) -> int:
            found = await front.client.post({**headers, **session, **bearer(sent)}, listing, path=path)
            return found.status

        assert await ask(token, "/agents/helper/mcp") == 200
        assert await ask(token, "/mcp") == 200
        assert await ask(other, "/agents/helper/mcp") == 404


async def test_a_page_of_another_method_is_refused_in_the_words_of_the_endpoint():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        here = await front.client.raw(http("PUT", "/agents/helper/mcp", bearer(token)))
        there = await front.client.raw(http("PUT", "/mcp", bearer(token)))
        assert (here.status, here.body) == (there.status, there.body)


async def test_grants_end_while_the_gateway_runs_when_they_are_turned_off():
    async with yard(DEMO, tables=REQUIRED) as front:
        token = await grant(front)
        assert (await tools(front, "/mcp", bearer(token))).status == 200
        off = replace(REQUIRED["auth"], grants=False)
        await front.gateway.reload(replace(front.gateway.config, auth=off))
        assert (await tools(front, "/mcp", bearer(token))).status == 401


# The tool, and what a grant leaves of the tools

ACCESS = AccessConfig(
    default="deny",
    rules=(
        AccessRule(who=("planner",), allow=("demo",)),
        AccessRule(who=("narrow",), deny=("demo/add",)),
    ),
)


async def make_grant(front: Yard, headers: dict[str, str], **arguments: Any) -> Any:
    return (await front.call("make_grant", arguments, headers=headers)).result


async def names(front: Yard, token: str, path: str = "/mcp/demo") -> set[str]:
    return {tool["name"] for tool in (await tools(front, path, bearer(token))).result["tools"]}


async def test_an_agent_makes_a_grant_with_a_tool():
    tables = {**REQUIRED, "access": ACCESS}
    async with yard(DEMO, tables=tables, view="search", public_url="https://yard.example/") as front:
        _, own = await key(front)
        shown = {tool["name"]: tool for tool in (await tools(front, "/mcp", bearer(own))).result["tools"]}
        assert shown["make_grant"]["inputSchema"]["required"] == ["name"]
        encode = bpe_openai.get_encoding("o200k_base").encode
        assert len(encode(json.dumps(list(shown.values()), separators=(",", ":")))) < 1500
        made = await make_grant(front, bearer(own), name="helper", allow=["demo/echo"], minutes=5, calls=2)
        given = made["structuredContent"]
        assert given["url"] == "https://yard.example/agents/helper/mcp"
        assert (given["name"], given["calls"]) == ("helper", 2)
        token = given["token"]
        assert await names(front, token) == {"echo"}
        further = await make_grant(front, bearer(token), name="third", allow=["*"], calls=50)
        third = further["structuredContent"]["token"]
        assert await names(front, third) == {"echo"}
        said = [
            await front.call("echo", {"text": "hi"}, path="/mcp/demo", headers=bearer(third)) for _ in "123"
        ]
        assert [answer.status for answer in said] == [200, 200, 403]
        assert "has used its 2 calls" in said[2].error["message"]
        assert (await front.call("echo", {"text": "hi"}, path="/mcp/demo", headers=bearer(own))).status == 200


async def test_rules_for_the_maker_and_for_the_name_hold_for_a_grant():
    async with yard(DEMO, tables={**REQUIRED, "access": ACCESS}, view="search") as front:
        holder, own = await key(front)
        grants = front.gateway.callers.grants(front.gateway.config)
        everything = await names(front, own)
        assert "add" in everything
        for name, expected in (("helper", everything), ("narrow", everything - {"add"})):
            issued = await grants.make(holder, name)
            assert await names(front, issued.token) == expected


async def test_a_tool_call_that_cannot_make_a_grant_says_why():
    async with yard(DEMO, tables=REQUIRED, view="search") as front:
        _, own = await key(front)
        for arguments, said in (
            ({}, "name"),
            ({"name": "a/b"}, "letters, digits"),
            ({"name": "x", "allow": ["demo/"]}, "ends with '/'"),
            ({"name": "x", "calls": 0}, "calls"),
            ({"name": "x", "minutes": -1}, "minutes"),
            ({"name": "PLANNER"}, "looks like 'planner'"),
        ):
            result = await make_grant(front, bearer(own), **arguments)
            assert result["isError"], arguments
            assert said in result["content"][0]["text"]


async def test_there_is_no_such_tool_where_grants_are_off_or_callers_are_unknown():
    for auth in (AuthConfig(keys=True, grants=False), AuthConfig()):
        async with yard(DEMO, tables={"auth": auth}, view="search") as front:
            found = (await tools(front, "/mcp", {})).result["tools"]
            assert "make_grant" not in {tool["name"] for tool in found}
