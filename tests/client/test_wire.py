"""What a client does when a server over HTTP behaves as few do: sessions forgotten, arguments in headers."""

from typing import Any

import pytest

from tests.cli.stranger import Message, answer, fine, legacy, modern, stranger
from tests.serving import serving
from toolyard import Client
from toolyard.client import ConnectError, McpError, ProtocolError, UnsupportedError
from toolyard.kit import Server

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
GONE = [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]


async def test_a_session_that_the_server_forgot_is_begun_again() -> None:
    begun: list[Message] = []
    called: list[Message] = []

    def initialize(message: Message) -> list[bytes]:
        begun.append(message)
        opened = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        return answer(message, opened, f"Mcp-Session-Id: s{len(begun)}")

    def call(message: Message) -> list[bytes]:
        called.append(message)
        return GONE if len(called) == 1 else fine(message)

    with stranger(legacy, initialize=initialize, tools_call=call) as url:
        async with Client(url) as client:
            assert (await client.call_tool("t")).text == "fine"
    assert (len(begun), len(called)) == (2, 2)


async def test_a_session_that_is_forgotten_again_and_again_is_an_error() -> None:
    def initialize(message: Message) -> list[bytes]:
        return answer(message, {"protocolVersion": "2025-11-25"}, "Mcp-Session-Id: s")

    with stranger(legacy, initialize=initialize, tools_call=lambda _: GONE) as url:
        async with Client(url) as client:
            with pytest.raises(ConnectError, match="its session has expired"):
                await client.call_tool("t")


@pytest.fixture
def mirrored() -> Server:
    server = Server("mirrored")

    @server.tool(input_schema=REGION)
    def where(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    return server


@pytest.mark.parametrize("listed", [True, False])
async def test_arguments_that_a_tool_wants_in_headers_are_sent_there_too(
    mirrored: Server, listed: bool
) -> None:
    async with serving(mirrored.asgi()) as served, Client(served.url) as client:
        if listed:
            await client.list_tools()
        result = await client.call_tool("where", {"region": "São Paulo"})
        assert result.structured == {"region": "São Paulo"}


async def test_a_tool_whose_headers_cannot_be_sent_is_left_out_and_not_called() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "no header"}}}

    def tools(message: Message) -> list[bytes]:
        good = {"name": "good", "inputSchema": {"type": "object"}}
        return answer(message, {"tools": [{"name": "bad", "inputSchema": wrong}, good]})

    with stranger(modern, tools_list=tools) as url:
        async with Client(url) as client:
            assert [tool.name for tool in await client.list_tools()] == ["good"]
            with pytest.raises(UnsupportedError, match="tool 'bad' cannot be called over HTTP"):
                await client.call_tool("bad", {"a": "x"})


async def test_items_that_cannot_be_understood_are_left_out_and_parts_of_them_forgiven() -> None:
    def tools(message: Message) -> list[bytes]:
        odd = {"name": "odd", "inputSchema": {"type": "object"}, "annotations": "none", "description": "kept"}
        return answer(message, {"tools": ["no tool", {"description": "no name"}, odd]})

    with stranger(modern, tools_list=tools) as url:
        async with Client(url) as client:
            (tool,) = await client.list_tools()
            assert (tool.name, tool.description, tool.annotations) == ("odd", "kept", None)
            assert len(await client.list_all("tools/list")) == 3


async def test_a_list_without_an_end_is_left() -> None:
    def tools(message: Message) -> list[bytes]:
        return answer(message, {"tools": [], "nextCursor": "again"})

    with stranger(modern, tools_list=tools) as url:
        async with Client(url) as client:
            with pytest.raises(ProtocolError, match="has no end"):
                await client.list_tools()


async def test_rounds_without_an_end_are_left() -> None:
    def call(message: Message) -> list[bytes]:
        question = {"method": "elicitation/create", "params": {"message": "again?"}}
        return answer(message, {"resultType": "input_required", "inputRequests": {"q": question}})

    with stranger(modern, tools_call=call) as url:
        async with Client(url, on_elicit=lambda form: form.accept()) as client:
            with pytest.raises(
                ProtocolError, match="'tools/call' asked for input 20 times and did not finish"
            ):
                await client.call_tool("t")


async def test_content_of_an_unknown_kind_is_kept_as_it_is() -> None:
    def call(message: Message) -> list[bytes]:
        return answer(message, {"content": [{"type": "smell", "of": "wood"}, {"type": "text", "text": "x"}]})

    with stranger(modern, tools_call=call) as url:
        async with Client(url) as client:
            result = await client.call_tool("t")
    other, _ = result.content
    assert getattr(other, "raw", None) == {"type": "smell", "of": "wood"}
    assert result.text == "x"


async def test_an_error_keeps_the_servers_code_and_data() -> None:
    server = Server("shop")

    @server.tool
    def run_out() -> str:
        raise McpError(-32050, "Out of stock", {"until": "Monday"})

    async with serving(server.asgi()) as served, Client(served.url) as client:
        with pytest.raises(McpError, match="Out of stock") as raised:
            await client.call_tool("run_out")
    assert (raised.value.code, raised.value.data) == (-32050, {"until": "Monday"})
