"""Tools as records: the same on every transport, and declared as the Agent SDK's own."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest
from claude_agent_sdk import ToolAnnotations, create_sdk_mcp_server, tool
from mcp import Client, StdioServerParameters

import toolyard
from tests.clients.claude_peer import claude_code
from tests.clients.conversation import Person, Result
from tests.clients.mcp_peer import McpPeer, as_wire, connect
from tests.clients.records import PIXEL, SUM, TOOLS, add, records
from tests.clients.yard import ENVIRONMENT
from tests.serving import serving
from toolyard.kit import agent_sdk
from toolyard.kit.enhanced import EnhancedMcpTool, enhanced_server, enhanced_tool

STDIO = StdioServerParameters(command=sys.executable, args=["-m", "tests.clients.records"], env=ENVIRONMENT)


@asynccontextmanager
async def over(way: str) -> AsyncIterator[McpPeer]:
    transport, mode = way.split()
    if transport == "stdio":
        async with connect(STDIO, mode, mode) as peer:
            yield peer
        return
    async with serving(records().asgi()) as http, connect(http.url, mode, mode) as peer:
        yield peer


@pytest.mark.parametrize("way", ["http legacy", "http 2026-07-28", "stdio legacy", "stdio 2026-07-28"])
async def test_records_make_an_ordinary_server(way: str):
    async with over(way) as peer:
        await assert_definitions(peer)
        await assert_results(peer)
        await assert_failures(peer)
        peer.person.answer = {"action": "accept", "content": {"name": "Ada"}}
        assert await peer.call("greet") == Result("Hello Ada")


async def assert_definitions(peer: McpPeer) -> None:
    tools = await peer.tools()
    assert set(tools) == {record.name for record in TOOLS}
    assert tools["add"] == {
        "name": "add",
        "title": "Sums",
        "description": "Add two numbers",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
        "outputSchema": SUM,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {"anthropic/maxResultSizeChars": 9000},
    }
    assert tools["fail"]["annotations"] == {"destructiveHint": True}


async def assert_results(peer: McpPeer) -> None:
    assert await peer.call("add", a=1, b=2) == Result('{"sum":3}', {"sum": 3})
    assert await peer.call("explain", any=1) == Result("There are **1**.", {"sum": 1})
    painted = await peer.client.call_tool("paint")
    assert [block.type for block in painted.content] == ["image", "text"]
    assert as_wire(painted.content[0])["data"] == PIXEL
    served = await peer.client.call_tool("serve", {"dish": "soup"})
    assert [block.type for block in served.content] == ["text", "resource_link", "resource", "resource"]


async def assert_failures(peer: McpPeer) -> None:
    assert await peer.call("fail") == Result("No.", is_error=True)
    assert await peer.call("fail_silently") == Result("The tool failed and gave no reason", is_error=True)
    for tool_name, arguments, reason in (
        ("add", {"a": 1}, '"b" is a required property'),
        ("lie", {}, "field 'sum'"),
        ("babble", {}, "'smell'"),
    ):
        failed = await peer.call(tool_name, **arguments)
        assert failed.is_error
        assert reason in failed.text


async def test_claude_gets_the_structured_content_of_a_record(tmp_path: Path):
    person = Person(answer={"action": "accept", "content": {"name": "Ada"}})
    server = agent_sdk.create_sdk_mcp_server(
        "records", "2.1.0", TOOLS, on_elicit=lambda params, use: person.answer
    )
    assert (server["type"], server["name"]) == ("sdk", "records")

    async def never() -> None:
        raise AssertionError("nothing here waits")

    async with claude_code(tmp_path, server, "2025-11-25", never, person) as peer:
        assert (await peer.tools())["add"]["annotations"] == {"readOnlyHint": True}
        assert await peer.call("add", a=1, b=2) == Result('{"sum":3}', {"sum": 3})
        assert await peer.call("fail") == Result("No.", is_error=True)
        assert await peer.call("greet") == Result("Hello Ada")
        assert (await peer.call("paint")).structured == {"sum": 1}
        assert "image" in [block["type"] for block in peer.last_request.tool_results[-1].content]


class Inner(TypedDict):
    x: int


class Everything(TypedDict, total=False):
    needed: Required[int]
    told: Annotated[str, "What it is"]
    rows: list[Inner]
    maybe: NotRequired[int | None]
    table: dict[str, int]
    either: int | str


SCHEMAS: dict[str, Any] = {
    "nothing": {},
    "simple": {"s": str, "i": int, "f": float, "b": bool, "l": list, "d": dict},
    "composed": {"li": list[int], "o": str | None, "u": int | str, "a": Annotated[str, "Told"], "in": Inner},
    "unknown": {"any": Any, "when": datetime},
    "typed dict": Everything,
    "json schema": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
async def test_an_input_schema_means_what_it_means_to_the_agent_sdk(name: str):
    async def handler(args: Any) -> dict[str, Any]:
        return {"content": []}

    hints = ToolAnnotations(readOnlyHint=False, idempotentHint=True)
    theirs = create_sdk_mcp_server("them", tools=[tool("t", "Does it", SCHEMAS[name], hints)(handler)])
    async with Client(theirs["instance"]) as client:
        (their_tool,) = (await client.list_tools()).tools
    ours = enhanced_server("us", tools=[enhanced_tool("t", "Does it", SCHEMAS[name], hints)(handler)])
    async with toolyard.Client(ours) as client:
        (our_tool,) = await client.list_all("tools/list")
    assert our_tool == as_wire(their_tool)


def test_a_record_is_what_was_declared():
    made = EnhancedMcpTool(add.name, add.description, add.input_schema, add.handler, output_schema=SUM)
    assert made.name in enhanced_server("us", tools=[made]).tools
    assert (add.name, add.description, add.output_schema) == ("add", "Add two numbers", SUM)
    assert add.input_schema == {"a": int, "b": int}
    assert add.annotations["title"] == "Sums"
    with pytest.raises(AttributeError, match="immutable"):
        add.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("schema", [int, {"a": "int"}, {"a": {"type": "integer"}}])
def test_an_input_schema_that_is_none_is_refused_with_the_name_of_the_tool(schema: Any):
    record = enhanced_tool("t", "Does it", schema)(add.handler)
    with pytest.raises(TypeError, match="tool 't': input_schema"):
        enhanced_server("us", tools=[record])


async def test_a_result_that_does_not_fit_is_an_error_unless_the_author_wants_it_sent(
    caplog: pytest.LogCaptureFixture,
):
    @enhanced_tool("add", "Add two numbers", {"a": int, "b": int}, output_schema=SUM)
    async def slip(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"soma": args["a"] + args["b"]}}

    async with toolyard.Client(enhanced_server("sums", tools=[slip])) as client:
        refused = (await client.call_tool("add", {"a": 1, "b": 2})).raw
    assert refused["isError"]
    assert '"sum" is a required property' in refused["content"][0]["text"]
    caplog.clear()
    async with toolyard.Client(enhanced_server("sums", tools=[slip], lenient_output=True)) as client:
        sent = (await client.call_tool("add", {"a": 1, "b": 2})).raw
    assert "isError" not in sent
    assert sent["structuredContent"] == {"soma": 3}
    assert sent["content"] == [{"type": "text", "text": '{"soma":3}'}]
    assert '"sum" is a required property' in caplog.text
