"""A caller with few rights tries to learn of, or to use, what it may not have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.serving import Answer, Client, LegacyClient, Line, http
from toolyard.config import Config, InProcess, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule, AuthConfig, IssuerConfig
from toolyard.wire.call import Principal

ACCESS = AccessConfig(
    default="deny",
    rules=(
        AccessRule(name="main", who=("main",), allow=("*",)),
        AccessRule(
            name="readers",
            who=("reader",),
            allow=("notes/*:read", "resource:notes/notes://public", "resource:notes/notes://items/*"),
        ),
    ),
)
SERVERS = tuple(
    ServerConfig(name=name, where=InProcess(module=f"tests.policy.yard_servers:{name}"))
    for name in ("notes", "files")
)


def identify(headers: Any) -> Principal:
    return Principal("acme", dict(headers).get(b"x-agent", b"").decode())


def of(agent: str) -> dict[str, str]:
    return {"x-agent": agent}


@asynccontextmanager
async def place(
    *servers: ServerConfig, access: AccessConfig = ACCESS, tables: Any = None, **settings: Any
) -> AsyncIterator[Yard]:
    both = {"access": access, **(tables or {})}
    async with yard(*servers or SERVERS, identify=identify, tables=both, list_wait=60, **settings) as found:
        await found.tools(headers=of("main"))
        yield found


async def get(yard: Yard, path: str, headers: dict[str, str], method: str = "GET") -> Answer:
    return await yard.client.raw(http(method, path, headers, host=f"127.0.0.1:{yard.client.port}"))


class AgentClient(Client):
    """All its requests are one agent's."""

    agent = ""

    async def open(self, headers: Any, message: Any, method: str = "POST", path: str = "/mcp") -> Line:
        return await super().open(dict(headers) | of(self.agent), message, method, path)

    async def post(self, headers: Any, message: Any, path: str = "/mcp") -> Answer:
        return await super().post(dict(headers) | of(self.agent), message, path)


def agents_client(yard: Yard, agent: str) -> AgentClient:
    client = AgentClient(yard.client.port)
    client.agent = agent
    return client


async def test_whom_an_application_names_is_not_the_local_user() -> None:
    async with place() as yard:
        answer = await get(yard, "/approvals", of("reader"))
        assert answer.status == 403, answer.body
        assert (await get(yard, "/health", of("reader"))).json == {"status": "ok"}
        assert b"files" not in (await get(yard, "/metrics", of("reader"))).body


def changed(yard: Yard, access: AccessConfig) -> Config:
    return replace(yard.gateway.config, access=access)


@pytest.mark.parametrize("path", ["/mcp/NAME", "/mcp/NAME/"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE", "PUT"])
@pytest.mark.parametrize("origin", [False, True])
async def test_a_hidden_servers_path_is_answered_as_one_that_does_not_exist(
    path: str, method: str, origin: bool
) -> None:
    async with place() as yard:
        headers = of("reader") | ({"origin": f"http://127.0.0.1:{yard.client.port}"} if origin else {})
        hidden = await get(yard, path.replace("NAME", "files"), headers, method)
        unknown = await get(yard, path.replace("NAME", "filez"), headers, method)
        assert hidden.status == unknown.status
        assert hidden.body.replace(b"files", b"filez") == unknown.body
        assert {**hidden.headers, "date": ""} == {**unknown.headers, "date": ""}


async def test_a_challenge_does_not_tell_which_servers_there_are() -> None:
    auth = AuthConfig(issuers=(IssuerConfig(issuer="https://issuer.example"),), required=True)
    async with yard(*SERVERS, tables={"access": ACCESS, "auth": auth}) as place:
        hidden, unknown = [await get(place, f"/mcp/{name}", {}) for name in ("files", "filez")]
        assert hidden.status == unknown.status == 401
        theirs, none = (answer.headers["www-authenticate"] for answer in (hidden, unknown))
        assert theirs.replace("files", "filez") == none


async def test_a_key_for_a_server_leads_out_of_no_rule() -> None:
    keyed = replace(SERVERS[0], caller_keys=("x-notes-key",))
    access = AccessConfig(rules=(AccessRule(who=("tenant:acme",), deny=("notes/write_*",)),))
    async with place(keyed, access=access) as yard:
        for key in ({}, {"x-notes-key": "anything"}):
            listed = await yard.tools(headers=of("x") | key)
            assert "mcp__notes__read_notes" in listed
            assert "mcp__notes__write_notes" not in listed, key


# Changes


READER = AccessConfig(
    default="deny",
    rules=(
        AccessRule(name="main", who=("main",), allow=("*",)),
        AccessRule(name="reader", who=("reader",), allow=("up/read", "resource:up/a:*")),
    ),
)
LESS = AccessConfig(
    default="deny", rules=(AccessRule(who=("reader",), allow=("up/read", "resource:up/a:2")),)
)


def upstream() -> Speaker:
    speaker = Speaker(tools=[tool("read"), tool("write")])
    speaker.capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}

    async def listed(exchange: Any) -> None:
        await exchange.result({"resources": [{"uri": "a:1", "name": "a"}, {"uri": "b:1", "name": "b"}]})

    async def templates(exchange: Any) -> None:
        await exchange.result({"resourceTemplates": []})

    speaker.on |= {"resources/list": listed, "resources/templates/list": templates}
    return speaker


TOOLS_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/up"])
async def test_nobody_is_told_of_changes_that_they_cannot_see(path: str) -> None:
    wanted: dict[str, Any] = {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
    speaker = upstream()
    async with speaking(speaker) as url, place(at(url), access=READER) as yard:
        line = await yard.listen(path, of("reader"), **wanted)
        main = await yard.listen(path, of("main"), toolsListChanged=True)
        await speaker.until_listened(2)
        speaker.tools = [tool("read"), tool("write"), tool("erase")]
        await speaker.tell(TOOLS_CHANGED)
        assert (await main.next_message())["method"] == TOOLS_CHANGED
        await speaker.tell(UPDATED, {"uri": "a:1"})
        assert (await line.next_message())["method"] == UPDATED
        speaker.tools = [tool("read", description="other words"), tool("write")]
        await speaker.tell(TOOLS_CHANGED)
        assert (await line.next_message())["method"] == TOOLS_CHANGED


async def test_a_server_that_was_hidden_leaves_unnoticed() -> None:
    wanted: dict[str, Any] = {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
    speaker = upstream()
    async with speaking(speaker) as url, place(at(url), *SERVERS, access=READER) as yard:
        line = await yard.listen("/mcp", of("reader"), **wanted)
        main = await yard.listen("/mcp", of("main"), toolsListChanged=True)
        await speaker.until_listened(2)
        config = yard.gateway.config
        await yard.gateway.reload(replace(config, servers=config.servers[:1]))
        assert (await main.next_message())["method"] == TOOLS_CHANGED
        await speaker.tell(UPDATED, {"uri": "a:1"})
        assert (await line.next_message())["method"] == UPDATED


@pytest.mark.parametrize("path", ["/mcp", "/mcp/up"])
async def test_changed_rules_are_told_where_they_change_a_list(path: str) -> None:
    speaker = upstream()
    async with speaking(speaker) as url, place(at(url), access=READER) as yard:
        line = await yard.listen(path, of("reader"), toolsListChanged=True, resourcesListChanged=True)
        await yard.gateway.reload(changed(yard, LESS))
        assert (await line.next_message())["method"] == "notifications/resources/list_changed"
        await yard.gateway.reload(changed(yard, AccessConfig()))
        assert (await line.next_message())["method"] == TOOLS_CHANGED


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_updates_end_with_the_right_to_the_resource(era: str) -> None:
    speaker = upstream()
    async with speaking(speaker) as url, place(at(url), access=READER) as yard:
        if era == "modern":
            line = await yard.listen("/mcp", of("reader"), resourceSubscriptions=["a:1"])
        else:
            session = await LegacyClient.start(agents_client(yard, "reader"))
            line = await session.listen()
            assert (await session.request("resources/subscribe", {"uri": "a:1"})).result == {}
        await speaker.until_listened(2)
        await speaker.tell(UPDATED, {"uri": "b:1"})  # nobody asked for it, and the caller may not have it
        await speaker.tell(UPDATED, {"uri": "a:1"})
        assert (await line.next_message())["params"]["uri"] == "a:1"
        await yard.gateway.reload(changed(yard, LESS))
        await speaker.tell(UPDATED, {"uri": "a:1"})
        await speaker.tell(UPDATED, {"uri": "a:2"})
        told = await line.next_message()
        while told["method"] != UPDATED:  # the list has changed
            told = await line.next_message()
        assert told["params"]["uri"] == "a:2"
