"""`toolyard.fastmcp`: the names of FastMCP, and its defaults."""

import asyncio
from pathlib import Path

import pytest

from toolyard import fastmcp
from toolyard.fastmcp import (
    Client,
    Context,
    CurrentContext,
    FastMCP,
    Image,
    Message,
    Middleware,
    MiddlewareContext,
    NotFoundError,
    TextContent,
    ToolError,
)

PIXEL = b"\x89PNG of a test"


def program() -> FastMCP:
    mcp = FastMCP("Shop", "Ask for tea", version="2.1", list_page_size=2)

    @mcp.tool
    async def add_up(a: int, b: int = 1, ctx: Context = CurrentContext()) -> int:  # noqa: B008 (as programs write it)
        await ctx.info("adding")
        return a + b

    @mcp.tool(tags={"pictures"})
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @mcp.tool
    def fail() -> str:
        raise ToolError("sold out")

    @mcp.resource("shop://{kind}{?limit}")
    def stock(kind: str, limit: int = 5) -> str:
        return f"{limit} of {kind}"

    @mcp.prompt
    def order(article: str) -> list[object]:
        return ["One", Message(f"of {article}?", role="assistant")]

    return mcp


async def test_a_program_says_what_it_says_under_fastmcp():
    async with Client(program()) as client:
        assert (client.server.name, client.server.version, client.instructions) == (
            "Shop",
            "2.1",
            "Ask for tea",
        )
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert [tool.title for tool in tools.values()] == ["Add Up", "Picture", "Fail"]
        assert tools["picture"].tags == {"pictures"}
        result = await client.call_tool("add_up", {"a": "4"})
        assert (result.data, result.text, result.structured_content) == (5, "5", {"result": 5})
        assert (await client.call_tool("picture")).content[0].data == PIXEL  # type: ignore[union-attr]
        (held,) = await client.read_resource("shop://tea?limit=2")
        assert (held.text, held.mime_type) == ("2 of tea", "text/plain")  # type: ignore[union-attr]
        messages = (await client.get_prompt("order", {"article": "tea"})).messages
        assert [(one.role, one.content) for one in messages] == [
            ("user", TextContent("One")),
            ("assistant", TextContent("of tea?")),
        ]


async def test_failures_are_raised_by_the_client():
    async with Client(program()) as client:
        with pytest.raises(ToolError, match="sold out"):
            await client.call_tool("fail")
        assert (await client.call_tool("fail", raise_on_error=False)).is_error
        with pytest.raises(NotFoundError, match="Unknown tool"):
            await client.call_tool("none")


async def test_lists_that_nothing_is_in_are_empty():
    async with Client(FastMCP()) as client:
        assert await client.request("tools/list") == {**await client.request("tools/list"), "tools": []}
        assert await client.list_resource_templates() == []


async def test_the_server_calls_its_own_tools():
    mcp = program()
    assert (await mcp.call_tool("add_up", {"a": 1})).data == 2
    assert len(await mcp.list_tools()) == 3


async def test_annotations_of_middleware_are_written_as_there():
    class Doubles(Middleware):
        async def on_call_tool(
            self, context: MiddlewareContext[object], call_next: fastmcp.CallNext[object, object]
        ) -> object:
            result = await call_next(context)
            result.structured_content["result"] *= 2  # type: ignore[attr-defined]
            return result

    mcp = program()
    mcp.add_middleware(Doubles())
    assert (await mcp.call_tool("add_up", {"a": 1})).data == 4


async def test_the_client_starts_a_python_file(tmp_path: Path):
    file = tmp_path / "shop.py"
    file.write_text(
        "from toolyard.fastmcp import FastMCP\n"
        "mcp = FastMCP('File')\n"
        "@mcp.tool\ndef hi() -> str: return 'hello'\n"
        "mcp.run()\n",
        "utf-8",
    )
    client = Client(file)
    assert not client.is_connected()
    async with client:
        assert client.is_connected()
        assert (await client.call_tool("hi")).data == "hello"


def test_an_unknown_transport_is_named():
    with pytest.raises(ValueError, match="unknown transport 'sse'"):
        program().run("sse")


def test_what_the_kit_does_not_have_is_refused():
    with pytest.raises(TypeError, match="providers"):
        FastMCP(providers=[])
    with pytest.raises(TypeError, match="a tool has no option 'auth'"):
        program().tool(asyncio.sleep, auth=None)  # type: ignore[call-overload]
