"""Prompts: named messages with arguments."""

from typing import Annotated, Any

import pytest
from msgspec import Meta

from tests.kit.calls import NAME, accept
from toolyard import Client
from toolyard.kit import Context, Icon, Image, Message, Server, Text, ToolError, assistant, user
from toolyard.wire.errors import McpError


async def get(server: Server, prompt: str, era: Any = "modern", /, **arguments: str) -> list[dict[str, Any]]:
    async with Client(server, era=era) as client:
        return (await client.get_prompt(prompt, arguments)).raw["messages"]


async def refusal(server: Server, prompt: str, /, **arguments: Any) -> McpError:
    with pytest.raises(McpError) as error:
        await get(server, prompt, "modern", **arguments)
    return error.value


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": words}}


async def test_a_string_is_one_message_of_the_user(server: Server, era: Any) -> None:
    @server.prompt
    async def greet(name: str, style: str = "warm") -> str:
        return f"Greet {name}, {style}"

    assert await get(server, "greet", era, name="Ada") == [text("user", "Greet Ada, warm")]


async def test_messages_keep_their_roles_and_order(server: Server) -> None:
    @server.prompt
    def talk() -> list[Message | str]:
        return ["one", assistant("two"), user(Image(b"", "image/png")), Message("assistant", Text("four"))]

    messages = await get(server, "talk")
    assert messages[:2] == [text("user", "one"), text("assistant", "two")]
    assert messages[2]["content"]["type"] == "image"
    assert messages[3] == text("assistant", "four")


async def test_a_prompt_is_listed_with_its_arguments(server: Server) -> None:
    @server.prompt(title="Greet", icons=[Icon("i://c")], meta={"k": 1})
    async def greet(
        name: Annotated[str, "Who"], style: Annotated[str, Meta(title="Style", description="How")] = "warm"
    ) -> str:
        """Greets somebody."""
        return ""

    async with Client(server) as client:
        (prompt,) = await client.list_all("prompts/list")
        got = (await client.get_prompt("greet", {"name": "Ada"})).raw
    assert prompt == {
        "name": "greet",
        "title": "Greet",
        "description": "Greets somebody.",
        "arguments": [
            {"name": "name", "description": "Who", "required": True},
            {"name": "style", "title": "Style", "description": "How", "required": False},
        ],
        "icons": [{"src": "i://c"}],
        "_meta": {"k": 1},
    }
    assert got["description"] == "Greets somebody."


async def test_a_missing_or_unknown_argument_is_named(server: Server) -> None:
    @server.prompt
    async def greet(name: str) -> str:
        return name

    missing, unknown = await refusal(server, "greet"), await refusal(server, "greet", name="A", nick="B")
    assert missing.code == unknown.code == -32602
    assert "'name'" in missing.message
    assert "'nick'" in unknown.message


async def test_an_argument_is_converted_to_the_type_of_its_parameter(server: Server) -> None:
    @server.prompt
    async def repeat(times: int, loud: bool = False) -> str:
        return f"{times!r} {loud!r}"

    assert await get(server, "repeat", times="3", loud="true") == [text("user", "3 True")]
    error = await refusal(server, "repeat", times="often")
    assert error.code == -32602
    assert "'times'" in error.message


async def test_an_unknown_prompt_is_refused_by_name(server: Server) -> None:
    @server.prompt
    async def greet() -> str:
        return ""

    error = await refusal(server, "great")
    assert (error.code, error.message) == (-32602, "Unknown prompt: 'great'")


async def test_a_failure_the_author_foresaw_is_told_and_another_is_masked(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.prompt
    async def greet(how: str) -> str:
        if how == "foreseen":
            raise ToolError("Nobody is there")
        raise RuntimeError("hunter2")

    assert (await refusal(server, "greet", how="foreseen")).message == "Nobody is there"
    assert "hunter2" not in (await refusal(server, "greet", how="x")).message
    assert "hunter2" in caplog.text


async def test_a_value_that_is_no_message_is_masked(server: Server) -> None:
    @server.prompt
    async def greet() -> Any:
        return 5

    assert (await refusal(server, "greet")).code == -32603


async def test_a_prompt_may_ask_the_client_first(server: Server, era: Any) -> None:
    @server.prompt
    async def greet(style: str, ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", NAME)
        return f"Greet {answer.content['name']}, {style}"

    async with Client(server, era=era, on_elicit=lambda _: accept(name="Ada")) as client:
        got = (await client.get_prompt("greet", {"style": "warm"})).raw
    assert got["messages"] == [text("user", "Greet Ada, warm")]


async def test_a_removed_prompt_is_unknown(server: Server) -> None:
    async def greet() -> str:
        return ""

    server.add_prompt(greet, name="one")
    server.add_prompt(greet, name="two")
    server.remove_prompt("one")
    assert (await refusal(server, "one")).code == -32602
    async with Client(server) as client:
        assert [prompt["name"] for prompt in await client.list_all("prompts/list")] == ["two"]
