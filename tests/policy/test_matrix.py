"""Every agent, every item of a mixed yard, every way in: seen exactly when the table says so.

The table (`SEEN`) is written by hand, and not by the code that is tested.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import pytest

from tests.policy.yard_servers import files
from tests.serving import serving
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.app import Gateway, asgi
from toolyard.config import Config, GatewayConfig, Http, InProcess, ResultsConfig, ServerConfig, Stdio
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.wire.call import Principal
from toolyard.wire.errors import McpError

SERVERS = ("notes", "files", "ops")
ACCESS = AccessConfig(
    default="deny",
    rules=(
        AccessRule(name="main", who=("main",), allow=("*",), deny=("ops", "resource:files/files://secret")),
        AccessRule(
            name="readers",
            who=("reader",),
            allow=("notes/*:read", "files/*:read", "resource:notes/*"),
            deny=("resource:notes/notes://secret",),
        ),
        AccessRule(
            name="writer", who=("writer",), allow=("files", "notes/write_notes"), deny=("files/list_*",)
        ),
        AccessRule(name="ops", who=("agent:ops",), allow=("ops", "prompt:notes/*")),
    ),
)


def items(server: str, *kinds: str) -> set[str]:
    tools = {f"{verb}_{server}" for verb in ("read", "write", "list", "slow")}
    every = {
        "tools": tools,
        "prompts": {f"ask_{server}"},
        "public": {f"{server}://public"},
        "secret": {f"{server}://secret"},
        "items": {f"{server}://items/{{id}}", f"{server}://items/7"},
    }
    return set[str]().union(*(every[kind] for kind in kinds or every))


EVERYTHING = set[str]().union(*(items(server) for server in SERVERS))
SEEN: dict[str, set[str]] = {
    "main": items("notes") | (items("files") - {"files://secret"}),
    "reader": {"read_notes", "list_notes", "read_files", "list_files"} | items("notes", "public", "items"),
    "writer": (items("files") - {"list_files"}) | {"write_notes"},
    "ops": items("ops") | {"ask_notes"},
    "nobody": set(),
    "Main": items("notes") | (items("files") - {"files://secret"}),
}
AGENTS = list(SEEN)
ERAS = ("modern", "legacy")


def identify(headers: Any) -> Principal:
    return Principal("acme", dict(headers).get(b"x-agent", b"").decode())


class Place:
    def __init__(self, port: int) -> None:
        self.port = port

    @asynccontextmanager
    async def client(self, agent: str, era: Any, path: str = "/mcp") -> AsyncIterator[Client]:
        headers = {"x-agent": agent, "x-toolyard-thread": f"{agent}-{era}"}
        async with Client(f"http://127.0.0.1:{self.port}{path}", era=era, headers=headers) as client:
            yield client


@asynccontextmanager
async def place(folder: str, view: Any, dialects: tuple[str, ...] = ("native",)) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serving(files.asgi()))
        child = Stdio(command=sys.executable, args=("-m", "tests.policy.yard_servers", "ops"))
        servers = (
            ServerConfig(name="notes", where=InProcess(module="tests.policy.yard_servers:notes")),
            ServerConfig(name="files", where=Http(url=f"http://127.0.0.1:{upstream.port}/mcp")),
            ServerConfig(name="ops", where=child),
        )
        config = Config(
            servers=servers,
            gateway=GatewayConfig(view=view, dialects=dialects, state_dir=folder, list_wait=60),
            results=ResultsConfig(),
            access=ACCESS,
        )
        gateway = Gateway(config, b"a key for the matrix of access")
        served = await stack.enter_async_context(serving(asgi(gateway, identify=identify)))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(server.settled.wait() for server in gateway.catalogue.servers.values()))
        yield Place(served.port)


@pytest.fixture(scope="module", params=["all", "search"])
def view(request: pytest.FixtureRequest) -> str:
    return request.param


def full(name: str) -> str:
    return f"mcp__{name.rpartition('_')[2]}__{name}"


TOOLS = sorted(name for name in EVERYTHING if "://" not in name and not name.startswith("ask_"))
PROMPTS = sorted(name for name in EVERYTHING if name.startswith("ask_"))
URIS = sorted(name for name in EVERYTHING if "://" in name and "{" not in name)
TEMPLATES = sorted(name for name in EVERYTHING if "{" in name)


def cases() -> Iterator[tuple[str, str]]:
    return ((agent, era) for agent in AGENTS for era in ERAS)


async def refusal(asking: Any) -> str | None:
    """What a caller is told, if it gets nothing."""
    try:
        found = await asking
    except McpError as error:
        return error.message
    return found.text if getattr(found, "is_error", False) else None


async def test_lists_and_direct_calls(tmp_path: Any, view: str) -> None:
    async with place(str(tmp_path), view) as yard:
        for agent, era in cases():
            seen = SEEN[agent]
            async with yard.client(agent, era) as client:
                if view == "all":
                    listed = {tool.name for tool in await client.list_tools()} - {"read_result"}
                    assert listed == {full(name) for name in TOOLS if name in seen}, (agent, era)
                prompts = {prompt.name for prompt in await client.list_prompts()}
                assert prompts == {full(name) for name in PROMPTS if name in seen}, (agent, era)
                uris = {resource.uri for resource in await client.list_resources()}
                assert uris == {uri for uri in URIS if uri in seen and not uri[-1].isdigit()}, (agent, era)
                templates = {one.uri_template for one in await client.list_templates()}
                ours = {one for one in templates if one.startswith("toolyard:")}
                assert templates - ours == {one for one in TEMPLATES if one in seen}, (agent, era)
                for name in TOOLS:
                    told = await refusal(client.call_tool(full(name)))
                    assert (told is None) == (name in seen), (agent, era, name, told)
                for name in PROMPTS:
                    told = await refusal(client.get_prompt(full(name), {"topic": "x"}))
                    assert (told is None) == (name in seen), (agent, era, name, told)
                    told = await refusal(client.complete("topic", "", prompt=full(name)))
                    assert (told is None) == (name in seen), (agent, era, name, told)
                for uri in URIS:
                    told = await refusal(client.read_resource(uri))
                    assert (told is None) == (uri in seen), (agent, era, uri, told)
                for uri in TEMPLATES:
                    told = await refusal(client.complete("id", "", resource=uri))
                    assert (told is None) == (uri in seen), (agent, era, uri, told)
                server_words = client.instructions or ""
                for server in SERVERS:
                    is_seen = bool(seen & items(server))
                    assert (server in server_words) == is_seen, (agent, era, server, server_words)


async def test_meta_tools(tmp_path: Any) -> None:
    async with place(str(tmp_path), "search") as yard:
        for agent, era in cases():
            seen = SEEN[agent]
            async with yard.client(agent, era) as client:
                found: set[str] = set()
                for name in TOOLS:
                    query = {"queries": [{"use_case": name.replace("_", " "), "limit": 25}]}
                    answer = await client.call_tool("search_tools", query)
                    found |= {one for one in TOOLS if full(one) in answer.text}
                    assert not [one for one in TOOLS if one not in seen and one in answer.text], (
                        agent,
                        answer,
                    )
                assert found == {name for name in TOOLS if name in seen}, (agent, era)
                described = await client.call_tool(
                    "describe_tools", {"tools": [full(name) for name in TOOLS]}
                )
                for name in TOOLS:
                    assert (f'"tool":"{full(name)}"' in described.text.replace(" ", "")) == (name in seen), (
                        name
                    )
                for name in TOOLS:
                    call = {"tool": full(name), "arguments": {}}
                    told = await refusal(client.call_tool("call_tool", call))
                    assert (told is None) == (name in seen), (agent, era, name, told)
                calls = [{"tool": full(name), "arguments": {}} for name in TOOLS]
                batch = await client.call_tool("call_tools", {"calls": calls})
                results = batch.structured["results"] if batch.structured else []
                for name, result in zip(TOOLS, results, strict=True):
                    assert result["ok"] == (name in seen), (agent, era, name, result)
                status = await client.call_tool("manage_connections", {})
                for server in SERVERS:
                    assert (server in status.text) == bool(seen & items(server)), (agent, server, status.text)


async def test_each_server_by_itself(tmp_path: Any) -> None:
    async with place(str(tmp_path), "search") as yard:
        for agent, era in cases():
            seen = SEEN[agent]
            for server in SERVERS:
                mine = seen & items(server)
                if not mine:
                    with pytest.raises(Exception, match=r"Not found|404"):
                        async with yard.client(agent, era, f"/mcp/{server}"):
                            pass
                    continue
                async with yard.client(agent, era, f"/mcp/{server}") as client:
                    listed = {tool.name for tool in await client.list_tools()}
                    assert listed == {name for name in TOOLS if name in mine}, (agent, era)
                    for name in (name for name in TOOLS if name in items(server)):
                        told = await refusal(client.call_tool(name))
                        assert (told is None) == (name in mine), (agent, era, name, told)
                    for uri in (uri for uri in URIS if uri in items(server)):
                        told = await refusal(client.read_resource(uri))
                        assert (told is None) == (uri in mine), (agent, era, uri, told)


async def test_subscriptions_and_tasks(tmp_path: Any) -> None:
    async with place(str(tmp_path), "all") as yard:
        tasks: dict[str, tuple[str, str]] = {}
        for agent in AGENTS:
            seen = SEEN[agent]
            async with yard.client(agent, "modern") as client:
                async with client.listen(uris=[uri for uri in URIS if not uri[-1].isdigit()]) as changes:
                    agreed = set(changes.agreed.get("resourceSubscriptions", []))
                    assert agreed == {uri for uri in URIS if uri in seen and not uri[-1].isdigit()}, agent
                for name in (name for name in TOOLS if name.startswith("slow_") and name in seen):
                    task = await client.start_task(full(name))
                    assert task.id
                    tasks[task.id] = (agent, name)
        for id, (owner, name) in tasks.items():
            for agent in AGENTS:
                async with yard.client(agent, "modern") as client:
                    told = await refusal(client.get_task(id))
                    assert (told is None) == (agent.lower() == owner.lower() and agent == owner), (
                        agent,
                        name,
                    )


async def test_a_stored_result_ends_with_the_right_to_its_tool(tmp_path: Any) -> None:
    async with place(str(tmp_path), "search") as yard, yard.client("main", "modern") as client:
        big = await client.call_tool(full("list_files"))
        assert big.structured
        uri = big.structured["storage"]["resource"]
        assert await refusal(client.read_resource(uri)) is None
        async with yard.client("reader", "modern") as reader:  # the same tenant, which may have that tool
            assert await refusal(reader.read_resource(uri)) is None
        for agent in ("writer", "ops", "nobody"):
            async with yard.client(agent, "modern") as other:
                unknown = uri[:-32] + "0" * 32
                told, never = (
                    await refusal(other.read_resource(uri)),
                    await refusal(other.read_resource(unknown)),
                )
                assert told is not None
                assert never is not None
                assert told.replace(uri[-32:], "") == never.replace("0" * 32, "")
                read = await other.call_tool("read_result", {"id": uri})
                assert read.is_error
                assert "never existed" in read.text


async def test_dialects_show_no_more(tmp_path: Any) -> None:
    async with place(str(tmp_path), "search", ("composio", "suna")) as yard:
        for agent in AGENTS:
            seen = SEEN[agent]
            async with yard.client(agent, "modern") as client:
                texts = [
                    (await client.call_tool("COMPOSIO_LIST_TOOLKITS", {})).text,
                    (
                        await client.call_tool(
                            "COMPOSIO_SEARCH_TOOLS", {"queries": [{"use_case": "read or write what is kept"}]}
                        )
                    ).text,
                    (
                        await client.call_tool(
                            "COMPOSIO_GET_TOOL_SCHEMAS", {"tool_slugs": [full(name) for name in TOOLS]}
                        )
                    ).text,
                ]
                asked = texts.pop()
                for name in TOOLS:
                    if name not in seen:
                        assert not [text for text in texts if name in text], (agent, name)
                    described = f'"tool_slug":"{full(name)}"' in asked.replace(" ", "")
                    assert described == (name in seen), (agent, name, asked[:500])
                    step = {"tools": [{"tool_slug": full(name), "arguments": {}}]}
                    run = await client.call_tool("COMPOSIO_MULTI_EXECUTE_TOOL", step)
                    marker = {"read": "read", "write": "written", "list": "kept", "slow": "slowly"}
                    did = f"{marker[name.partition('_')[0]]}" in run.text and "not found" not in run.text
                    assert did == (name in seen), (agent, name, run.text[:300])


@pytest.mark.parametrize("era", ERAS)
async def test_forbidden_and_unknown_differ_neither_in_words_nor_in_work(tmp_path: Any, era: str) -> None:
    async with place(str(tmp_path), "search") as yard, yard.client("reader", era) as client:
        forbidden, unknown = full("write_files"), full("write_filez").replace("filez", "files", 1)
        texts: dict[str, str] = {}
        work: dict[str, list[int]] = {forbidden: [], unknown: []}
        for _ in range(20):
            for name in (forbidden, unknown):
                with counted_calls() as calls:
                    told = await refusal(client.call_tool("call_tool", {"tool": name, "arguments": {}}))
                work[name].append(calls["number"])
                assert told is not None
                texts[name] = told.replace(name, "NAME")
        assert texts[forbidden] == texts[unknown]
        # A look-up at an upstream or a second path would show.
        assert abs(min(work[forbidden]) / min(work[unknown]) - 1) < 0.02


@contextmanager
def counted_calls() -> Iterator[dict[str, int]]:
    """The calls of functions in this thread, in which client and gateway run: as long as time, and exact."""
    calls = {"number": 0}

    def note(_frame: Any, event: str, _argument: Any) -> None:
        calls["number"] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
