"""What a client asks of a server: lists, calls, resources, prompts; the same on every transport."""

import asyncio
from contextlib import suppress

import pytest

from tests.client.conftest import Connect
from tests.waiting import PATIENCE
from toolyard.client import ClientTimeoutError, LogMessage, McpError, Progress, ToolCallError
from toolyard.kit import Audio, EmbeddedResource, Image, ResourceLink, Text, TextContents


async def test_the_server_says_who_it_is(connect: Connect) -> None:
    async with connect() as client:
        assert (client.server.name, client.server.version) == ("workshop", "1.2")
        assert client.instructions == "Mind the saw"
        assert "tools" in client.capabilities
        assert client.version in ("2025-11-25", "2026-07-28")
        await client.ping()


async def test_a_list_is_read_to_its_end(connect: Connect) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert len(tools) == 16
        assert tools["add"].description == "Add two numbers."
        assert set(tools["add"].input_schema["properties"]) == {"a", "b"}
        assert [resource.uri for resource in await client.list_resources()] == [
            "workshop://shelf",
            "workshop://blob",
        ]
        assert [one.uri_template for one in await client.list_templates()] == ["workshop://boards/{kind}"]
        (prompt,) = await client.list_prompts()
        assert [argument.name for argument in prompt.arguments or ()] == ["wood"]


async def test_a_page_is_asked_for_by_the_cursor_of_the_one_before(connect: Connect) -> None:
    async with connect() as client:
        first = await client.tools_page()
        assert [tool.name for tool in first.items] == ["add", "refuse", "show", "saw"]
        second = await client.tools_page(first.next_cursor)
        assert second.items[0].name == "hang"
        assert (await client.prompts_page()).next_cursor is None
        assert len((await client.resources_page()).items) == 2
        assert len((await client.templates_page()).items) == 1


async def test_a_result_is_typed(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured == {"total": 3}
        assert result.text == '{"total":3}'
        assert not result.is_error
        assert result.raw["structuredContent"] == {"total": 3}


async def test_every_kind_of_content_is_read(connect: Connect) -> None:
    async with connect() as client:
        content = (await client.call_tool("show")).content
    assert [type(block) for block in content[:4]] == [Text, Image, Audio, ResourceLink]
    _, image, _, _, embedded, blob = content
    assert isinstance(image, Image)
    assert image.data == b"\x89PNG"
    assert isinstance(embedded, EmbeddedResource)
    assert embedded.resource == TextContents("workshop://note", "a note")
    assert isinstance(blob, EmbeddedResource)


async def test_a_tool_that_fails_says_so_in_its_result_or_raises_if_asked_to(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("refuse")
        assert (result.is_error, result.text) == (True, "We are closed")
        with pytest.raises(ToolCallError, match="tool 'refuse' failed: We are closed") as raised:
            await client.call_tool("refuse", raise_on_error=True)
        assert raised.value.result.is_error


async def test_an_unknown_tool_is_the_servers_own_error(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(McpError, match="Unknown tool: 'nothing'") as raised:
            await client.call_tool("nothing")
        assert raised.value.code == -32602


async def test_progress_goes_to_whoever_called(connect: Connect) -> None:
    heard: list[Progress] = []
    others: list[Progress] = []
    async with connect(on_progress=others.append) as client:
        await client.call_tool("saw", {"boards": 2}, on_progress=heard.append)
        await client.call_tool("saw", {"boards": 1})
    assert heard == [Progress(1, 2, "board 1"), Progress(2, 2, "board 2")]
    assert others == [Progress(1, 1, "board 1")]


async def test_log_lines_come_from_the_level_that_was_asked_for(connect: Connect) -> None:
    lines: list[LogMessage] = []
    async with connect(on_log=lines.append, log_level="info") as client:
        await client.call_tool("saw", {"boards": 1})
        assert lines == [LogMessage("info", {"board": 1}, "saw")]
        await client.set_log_level("debug")
        await client.call_tool("saw", {"boards": 1})
    assert [line.level for line in lines] == ["info", "info", "debug"]


async def test_a_handler_that_fails_harms_neither_the_call_nor_the_client(connect: Connect) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError("the handler's own problem")

    async with connect() as client:
        assert (await client.call_tool("saw", {"boards": 1}, on_progress=fail)).text == "sawn"


async def test_cancelling_whoever_waits_cancels_the_call_at_the_server(connect: Connect) -> None:
    begun = asyncio.Event()
    async with connect() as client:
        call = asyncio.create_task(client.call_tool("hang", on_progress=lambda _: begun.set()))
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        assert call.cancelled()
        assert (await client.call_tool("stopped_hanging")).text == "it was cancelled"


async def test_a_call_that_takes_too_long_is_given_up_and_cancelled(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(ClientTimeoutError, match=r"gave no answer within 0\.2 seconds"):
            await client.call_tool("hang", timeout=0.2)
        assert (await client.call_tool("stopped_hanging")).text == "it was cancelled"


async def test_nothing_is_left_running_when_a_client_is_closed_in_the_middle(connect: Connect) -> None:
    before = asyncio.all_tasks()
    begun = asyncio.Event()
    async with connect() as client, client.listen(tools=True):
        call = asyncio.create_task(client.call_tool("hang", on_progress=lambda _: begun.set()))
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    assert asyncio.all_tasks() == before


async def test_calls_run_side_by_side(connect: Connect) -> None:
    async with connect() as client:
        sums = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": n}) for n in range(20)))
    assert [result.structured["total"] for result in sums] == [2 * n for n in range(20)]


async def test_a_resource_is_read_as_text_or_as_bytes(connect: Connect) -> None:
    async with connect() as client:
        assert (await client.read_resource("workshop://shelf")).text == "three lamps"
        assert (await client.read_resource("workshop://boards/oak")).text == "oak boards"
        (part,) = (await client.read_resource("workshop://blob")).contents
        assert getattr(part, "blob", None) == b"\x00\x01"


async def test_a_prompt_is_filled_in_and_its_argument_completed(connect: Connect) -> None:
    async with connect() as client:
        assert (await client.complete("wood", "o", prompt="advise")).values == ["oak", "olive"]
        (message,) = (await client.get_prompt("advise", {"wood": "oak"})).messages
        assert (message.role, message.content) == ("user", Text("How do I plane oak?"))
        with pytest.raises(ValueError, match="either the prompt or the resource template"):
            await client.complete("wood", "o")


async def test_a_tool_may_be_called_by_its_definition(connect: Connect) -> None:
    async with connect() as client:
        add = next(tool for tool in await client.list_tools() if tool.name == "add")
        assert (await client.call_tool(add, {"a": 2, "b": 2})).structured == {"total": 4}
