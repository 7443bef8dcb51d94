"""A caller with few rights tries to learn of, or to use, what it may not have."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.emulators.composio import ComposioEmulator
from tests.policy.yard_servers import notes
from tests.serving import Answer, Client, LegacyClient, Line, http, modern, serving
from tests.upstream.composio import server as composio_server
from toolyard import Client as ModernClient
from toolyard.artifacts.store import new_id
from toolyard.catalogue.items import RESOURCES
from toolyard.config import Config, InProcess, ResultsConfig, ServerConfig, StateConfig
from toolyard.config.callers import (
    AccessConfig,
    AccessRule,
    AuditConfig,
    AuthConfig,
    IssuerConfig,
    LimitRule,
    LimitsConfig,
)
from toolyard.edge.request import Pace, Refused
from toolyard.kit import Server
from toolyard.policy.access import AccessPolicy
from toolyard.upstream.base import Forward, Outcome, Upstream, WrappedUpstream
from toolyard.wire.call import Principal
from toolyard.wire.errors import McpError

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


async def test_only_the_machine_itself_decides_where_nobody_is_asked_who_they_are() -> None:
    async with yard(*SERVERS, tables={"access": ACCESS}) as place:
        assert (await get(place, "/approvals", {})).status == 200
        for name in ("x-forwarded-for", "x-real-ip", "forwarded"):
            assert (await get(place, "/approvals", {name: "192.0.2.7"})).status == 403


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


# Arguments and names


@pytest.mark.parametrize("arguments", ['{"text":"evil","text":"good"}', '{"text":"good","text":"evil"}'])
async def test_an_argument_that_is_there_twice_fits_no_condition(arguments: str) -> None:
    """Which of the two a server takes nobody knows."""
    rule = AccessRule(who=("x",), allow=("up/*",), when='args.text == "good"')
    speaker = Speaker()
    async with (
        speaking(speaker) as url,
        place(at(url), access=AccessConfig(default="deny", rules=(rule,))) as yard,
    ):
        assert await yard.says("mcp__up__echo", {"text": "good"}, headers=of("x")) == "good"
        headers, message = modern("tools/call", {"name": "mcp__up__echo", "arguments": "HERE"})
        body = json.dumps(message).replace('"HERE"', arguments).encode()
        answer = await yard.client.post(headers | of("x"), body)
        assert "'text' twice" in answer.error["message"]
        assert speaker.calls("echo") == 1


def test_addresses_of_any_length_are_not_remembered() -> None:
    rights = AccessPolicy(ACCESS).rights(Principal("acme", "reader"))
    for length, is_kept in ((100, True), (100_000, False)):
        uri = "notes://items/" + "x" * length
        first = rights.decide(RESOURCES, "notes", uri, None)
        assert first.verb == "allow"
        assert (rights.decide(RESOURCES, "notes", uri, None) is first) == is_kept


def lines_in(folder: Path) -> list[bytes]:
    return [
        line
        for file in folder.rglob("*.jsonl")
        for line in file.read_bytes().splitlines()
        if b'"event":"call"' in line
    ]


async def test_records_stay_short_whatever_a_caller_sends(tmp_path: Path) -> None:
    async with place(tables={"audit": AuditConfig(url=f"file://{tmp_path}")}) as yard:
        session = await LegacyClient.start(agents_client(yard, "reader"))
        for uri in ("notes://items/", "notes://secret", "else://"):
            await session.request("resources/read", {"uri": uri + "x" * 100_000})
    lines = lines_in(tmp_path)
    assert len(lines) == 3
    assert max(map(len, lines)) < 5_000


# Composio


@asynccontextmanager
async def composio_yard(*rules: AccessRule, **settings: Any) -> AsyncIterator[tuple[ComposioEmulator, Yard]]:
    access = AccessConfig(rules=rules)
    async with (
        ComposioEmulator() as composio,
        place(composio_server(composio), access=access, **settings) as yard,
    ):
        yield composio, yard


class Wrapping:
    """Stands between a gateway and its servers, and adds nothing."""

    def configured(self, config: Config) -> None: ...

    def wrap(self, config: ServerConfig, upstream: Upstream) -> Upstream:
        return _Wrapper(upstream)

    def new_id(self, tool: str) -> str:
        return new_id(tool)


class _Wrapper(WrappedUpstream):
    async def send(self, forward: Forward) -> Outcome:
        return await self._inner.send(forward)


@pytest.mark.parametrize("tap", [None, Wrapping()], ids=["", "wrapped"])
async def test_composios_own_tools_run_and_show_no_tool_that_is_denied(tap: Wrapping | None) -> None:
    rule = AccessRule(who=("reader",), deny=("composio/GMAIL_SEND_EMAIL",))
    step = {"tool_slug": "gmail_send_email", "arguments": {"recipient_email": "a@example.com", "body": "x"}}
    async with composio_yard(rule, tap=tap) as (composio, yard):
        for agent, is_allowed in (("reader", False), ("main", True)):
            told = of(agent) | {"x-toolyard-thread": agent}
            for slug in ("gmail_send_email", "GMAIL_SEND_EMAIL"):
                arguments = {"tools": [step | {"tool_slug": slug}]}
                answer = await yard.call(
                    "mcp__composio__COMPOSIO_MULTI_EXECUTE_TOOL", arguments, headers=told
                )
                assert ("nothing was executed" not in str(answer.json)) == is_allowed, answer.json
            queries = {"queries": [{"use_case": "send an email"}], "session": {"generate_id": True}}
            found = await yard.call("mcp__composio__COMPOSIO_SEARCH_TOOLS", queries, headers=told)
            assert ("GMAIL_SEND_EMAIL" in json.dumps(found.json)) == is_allowed
        assert not composio.records.get("emails")


async def found(yard: Yard, agent: str) -> tuple[set[str], list[Any]]:
    """The tools that a search finds, and what it says to be missing."""
    query = {"queries": [{"use_case": "send an email with gmail"}]}
    answer = await yard.call("search_tools", query, headers=of(agent) | {"x-toolyard-thread": "t"})
    told = answer.result["_meta"]["toolyard/search"]
    return {one["tool"] for one in told["results"][0]["results"]}, told.get("missing", [])


async def test_a_search_does_not_tell_that_hidden_tools_match() -> None:
    rule = AccessRule(who=("reader",), deny=("composio/*MAIL*",))
    async with composio_yard(rule, view="search") as (_, yard):
        tools, missing = await found(yard, "main")
        assert "mcp__composio__GMAIL_SEND_EMAIL" in tools, tools
        tools, missing = await found(yard, "reader")
        assert not [tool for tool in tools if "MAIL" in tool]
        assert missing == [{"server": "composio", "reason": "it found nothing"}]


async def test_tools_that_a_server_does_not_list_can_be_allowed_alone() -> None:
    """Composio lists its own few tools, which the agent may not have."""
    access = AccessConfig(
        default="deny", rules=(AccessRule(who=("x",), allow=("composio/GMAIL_SEND_EMAIL",)),)
    )
    async with (
        ComposioEmulator() as composio,
        place(composio_server(composio), access=access, view="search") as yard,
    ):
        assert await found(yard, "x") == ({"mcp__composio__GMAIL_SEND_EMAIL"}, [])
        assert await found(yard, "y") == (set(), [])
        # To connect apps is another right.
        wanted = {"names": ["gmail"], "action": "link"}
        linked = await yard.call("manage_connections", wanted, headers=of("x") | {"x-toolyard-thread": "t"})
        assert "not allowed" in json.dumps(linked.json), linked.json
        assert "http" not in linked.result["content"][0]["text"]


# What is kept


def test_no_tenant_is_mistaken_for_a_user_of_another() -> None:
    user = Principal("acme", subject="anna", issuer="https://issuer.example")
    like = Principal(user.owner)
    assert like.owner != user.owner
    assert like.binding != user.binding
    assert Principal(like.owner).owner not in (like.owner, user.owner)


async def test_profiles_of_hidden_servers_do_not_exist() -> None:
    tables = {"state": StateConfig(key="a key for credential profiles")}
    async with place(tables=tables, view="search", dialects=("suna",)) as yard:
        wanted = {"toolkit_slug": "files", "profile_name": "work"}
        made = await yard.call("create_credential_profile", wanted, headers=of("main"))
        id = json.loads(made.result["content"][0]["text"])["profile"]["profile_id"]
        for agent, is_seen in (("reader", False), ("main", True)):
            listed = await yard.call("get_credential_profiles", {}, headers=of(agent))
            assert (id in json.dumps(listed.json)) == is_seen, agent
            deleted = await yard.call("delete_credential_profile", {"profile_id": id}, headers=of(agent))
            assert ("not found" in json.dumps(deleted.json)) != is_seen


async def test_a_result_of_a_renamed_tool_stays_hidden_when_the_tool_is_gone() -> None:
    speaker = upstream()
    rule = AccessRule(who=("reader",), deny=("up/write",))
    server = lambda url: at(url, rename={"write": "store"})  # noqa: E731
    async with (
        speaking(speaker) as url,
        place(server(url), access=AccessConfig(rules=(rule,)), results=ResultsConfig()) as yard,
    ):
        big = await yard.call("mcp__up__store", {"text": "words " * 10_000}, headers=of("main"))
        uri = big.result["structuredContent"]["storage"]["resource"]
        line = await yard.listen("/mcp", of("main"), toolsListChanged=True)
        speaker.tools = [tool("read")]
        await speaker.tell(TOOLS_CHANGED)
        assert (await line.next_message())["method"] == TOOLS_CHANGED
        assert (await yard.modern("resources/read", {"uri": uri}, headers=of("main"))).result
        refused = await yard.modern("resources/read", {"uri": uri}, headers=of("reader"))
        assert "not found" in refused.error["message"]


@pytest.mark.parametrize("verb", ["preview", "confirm"])
async def test_what_a_person_has_to_see_first_is_not_completed(verb: str) -> None:
    patterns: dict[str, Any] = {verb: ("prompt:notes/*", "resource:notes/*")}
    rules = (AccessRule(who=("x",), **patterns),)
    async with place(access=AccessConfig(rules=rules)) as yard:
        for ref in (
            {"type": "ref/prompt", "name": "mcp__notes__ask_notes"},
            {"type": "ref/resource", "uri": "notes://items/{id}"},
        ):
            asked = {"ref": ref, "argument": {"name": "topic" if "name" in ref else "id", "value": ""}}
            answer = await yard.modern("completion/complete", asked, headers=of("x"))
            assert answer.result["completion"] == {"values": []}
            assert (await yard.modern("completion/complete", asked, headers=of("y"))).result["completion"][
                "values"
            ]


async def test_the_audit_has_every_way_in(tmp_path: Path) -> None:
    tables = {"audit": AuditConfig(url=f"file://{tmp_path}")}
    async with place(tables=tables, results=ResultsConfig()) as yard:
        session = await LegacyClient.start(agents_client(yard, "reader"))
        await session.request("resources/subscribe", {"uri": "notes://secret"})
        ref = {"type": "ref/resource", "uri": "files://items/{id}"}
        await session.request("completion/complete", {"ref": ref, "argument": {"name": "id", "value": ""}})
        line = await yard.listen("/mcp", of("reader"), resourceSubscriptions=["files://public"])
        line.hang_up()
        big = await yard.call("mcp__files__list_files", headers=of("main"))
        stored = big.result["structuredContent"]["storage"]["resource"]
        for agent in ("main", "reader"):
            await yard.modern("resources/read", {"uri": stored}, headers=of(agent))
    records = [json.loads(line) for line in lines_in(tmp_path)]
    told = [(one["agent"], one["method"], one["tool"], one["outcome"]) for one in records]
    assert told == [
        ("reader", "resources/subscribe", "notes://secret", "refused"),
        ("reader", "completion/complete", "files://items/{id}", "refused"),
        ("reader", "subscriptions/listen", "files://public", "refused"),
        ("main", "tools/call", "list_files", "ok"),
        ("main", "results/read", "list_files", "ok"),
        ("reader", "results/read", "list_files", "refused"),
    ]


# Callers that are not let in any more


@pytest.mark.parametrize("how", ["revoked", "changed"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_stream_ends_when_its_caller_would_not_be_let_in_again(era: str, how: str) -> None:
    is_over = False

    def admit(headers: Any) -> Principal:
        if is_over and how == "revoked":
            raise Refused(401, "revoked")
        return Principal("acme", "x", groups=frozenset({"other"} if is_over else {"staff"}))

    pace = Pace(watch_after=0.01, stream_after=0.02, ping_every=0.02)
    async with serving(notes.asgi(identify=admit, pace=pace)) as client:
        if era == "modern":
            headers, message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            line = await client.open(headers, message)
        else:
            line = await (await LegacyClient.start(client)).listen()
        if era == "modern":
            assert "acknowledged" in (await line.next_message())["method"]
        is_over = True
        rest = [message async for message in line.messages()]
        told = [one["error"]["message"].partition(" is")[0] for one in rest]
        assert told == (["The credential"] if era == "modern" else [])


async def test_what_a_task_returns_counts_as_what_a_call_returns() -> None:
    server = Server("long")

    @server.tool(long=True)
    async def work() -> str:
        """Take a while."""
        return "words " * 1_000

    limits = LimitsConfig(rules=(LimitRule(name="bytes", per="agent", bytes_a_day=4_000),))
    async with (
        serving(server.asgi()) as served,
        yard(at(served.url), identify=identify, tables={"limits": limits}) as front,
        ModernClient(front.client.url, headers=of("x")) as client,
    ):
        task = await client.start_task("mcp__up__work")
        assert (await task.result()).text.startswith("words")
        with pytest.raises(McpError, match="bytes"):
            await client.start_task("mcp__up__work")
