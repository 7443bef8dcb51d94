"""How tools are declared, what clients see of it, and what is refused at once."""

import functools
from typing import Any

import pytest
from msgspec import Struct

from tests.kit.calls import text_of
from toolyard import Client
from toolyard.kit import Context, Icon, Image, Server


async def listed(server: Server, era: Any = "modern") -> dict[str, Any]:
    async with Client(server, era=era) as client:
        (tool,) = await client.list_all("tools/list")
    return tool


# What clients see


async def test_name_and_description_come_from_the_function(server: Server) -> None:
    @server.tool
    async def look_up(word: str) -> str:
        """Find a word.

        In the big dictionary.
        """
        return word

    tool = await listed(server)
    assert tool["name"] == "look_up"
    assert tool["description"].startswith("Find a word.")
    assert "title" not in tool
    assert "annotations" not in tool
    assert "_meta" not in tool


async def test_everything_can_be_said_in_the_declaration(server: Server, era: Any) -> None:
    @server.tool(
        name="look-up",
        title="Look up",
        description="Finds a word",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        icons=[Icon("https://example.com/i.png", "image/png", ["48x48"], "dark")],
        meta={"example.com/group": "words"},
    )
    async def look_up(word: str) -> str:
        """Not this."""
        return word

    tool = await listed(server, era)
    assert tool["name"] == "look-up"
    assert tool["title"] == "Look up"
    assert tool["description"] == "Finds a word"
    assert tool["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool["icons"] == [
        {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
    ]
    assert tool["_meta"] == {"example.com/group": "words"}


async def test_an_unsaid_hint_is_left_out(server: Server) -> None:
    @server.tool(read_only=False)
    async def write() -> None: ...

    assert (await listed(server))["annotations"] == {"readOnlyHint": False}


async def test_a_decorated_function_is_still_itself(server: Server) -> None:
    @server.tool
    async def double(n: int) -> int:
        return 2 * n

    @server.tool(title="Treble")
    async def treble(n: int) -> int:
        return 3 * n

    assert (await double(2), await treble(2)) == (4, 6)


async def test_a_tool_links_its_page(server: Server) -> None:
    @server.tool(ui="ui://bench/chart", meta={"ui": {"visibility": ["model"]}, "other": 1})
    async def chart() -> dict[str, int]:
        return {"n": 1}

    @server.resource("ui://bench/chart")
    def page() -> str:
        return "<!doctype html>"

    tool = await listed(server)
    assert tool["_meta"] == {
        "ui": {"resourceUri": "ui://bench/chart", "visibility": ["model"]},
        "other": 1,
    }
    async with Client(server) as client:
        (contents,) = (await client.read_resource("ui://bench/chart")).raw["contents"]
        discovered = await client.request("server/discover")
    assert contents["mimeType"] == "text/html;profile=mcp-app"
    assert discovered["capabilities"]["extensions"] == {"io.modelcontextprotocol/ui": {}}


def test_a_page_must_have_a_ui_address(server: Server) -> None:
    async def chart() -> None: ...

    with pytest.raises(ValueError, match=r"'https://example\.com'"):
        server.add_tool(chart, ui="https://example.com")


async def test_tools_are_listed_in_the_order_they_were_declared(server: Server) -> None:
    async def tool() -> None: ...

    for name in ("zebra", "ant", "mole"):
        server.add_tool(tool, name=name)
    async with Client(server) as client:
        assert [item["name"] for item in await client.list_all("tools/list")] == ["zebra", "ant", "mole"]


async def test_a_tool_made_at_run_time_can_be_called_and_a_removed_one_is_unknown(server: Server) -> None:
    async def hello() -> str:
        return "hello"

    async with Client(server) as client:
        server.add_tool(hello, name="one")
        server.add_tool(hello, name="two")
        assert text_of((await client.call_tool("one")).raw) == "hello"
        server.remove_tool("one")
        with pytest.raises(Exception, match="Unknown tool: 'one'"):
            await client.call_tool("one")
        assert [item["name"] for item in await client.list_all("tools/list")] == ["two"]


class Adder:
    """Adds to a number."""

    def __init__(self, by: int) -> None:
        self.by = by

    async def __call__(self, n: int) -> int:
        return n + self.by


async def test_an_object_that_can_be_called_is_a_tool(server: Server) -> None:
    server.add_tool(Adder(5), name="add_five")
    tool = await listed(server)
    assert list(tool["inputSchema"]["properties"]) == ["n"]
    async with Client(server) as client:
        assert (await client.call_tool("add_five", {"n": 1})).raw["structuredContent"] == {"result": 6}


async def test_a_partial_is_a_tool_of_what_is_left_to_fill(server: Server) -> None:
    async def scale(n: int, factor: int) -> int:
        return n * factor

    server.add_tool(functools.partial(scale, factor=3), name="treble")
    async with Client(server) as client:
        assert (await client.call_tool("treble", {"n": 2})).raw["structuredContent"] == {"result": 6}


# What is refused at once


def test_two_tools_cannot_have_one_name(server: Server) -> None:
    async def tool() -> None: ...

    server.add_tool(tool)
    with pytest.raises(ValueError, match=r"'bench'.*'tool'"):
        server.add_tool(tool)


def test_two_resources_cannot_have_one_address_nor_two_prompts_one_name(server: Server) -> None:
    def text() -> str:
        return ""

    server.resource("a://b")(text)
    with pytest.raises(ValueError, match="'a://b'"):
        server.resource("a://b")(text)
    server.add_prompt(text)
    with pytest.raises(ValueError, match="'text'"):
        server.add_prompt(text)


@pytest.mark.parametrize("name", ["has space", "a/b", "naïve", "a,b", "x" * 129, "line\nbreak"])
def test_a_name_that_clients_may_not_take_is_refused(server: Server, name: str) -> None:
    async def tool() -> None: ...

    with pytest.raises(ValueError, match="name"):
        server.add_tool(tool, name=name)
    server.add_tool(tool, name="A.b-c_1")


def test_parameters_that_cannot_be_filled_by_name_are_refused(server: Server) -> None:
    async def many(*args: int) -> None: ...
    async def free(**options: int) -> None: ...
    async def by_place(a: int, /) -> None: ...

    for function, name in ((many, "args"), (free, "options"), (by_place, "a")):
        with pytest.raises(TypeError, match=f"{function.__name__}.*'{name}'.*input_schema"):
            server.add_tool(function)


class Opaque:
    pass


class Holder(Struct):
    inner: Opaque


def test_types_that_no_schema_can_describe_are_refused(server: Server) -> None:
    async def takes(thing: Opaque) -> None: ...
    async def gives() -> Opaque: ...
    async def deep(holder: Holder) -> None: ...

    for function in (takes, gives, deep):
        with pytest.raises(TypeError, match="JSON Schema"):
            server.add_tool(function)
    assert server.tools == {}


def test_an_annotation_that_means_nothing_here_is_refused(server: Server) -> None:
    async def odd(a: "NotDefinedAnywhere") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(TypeError, match=r"odd.*NotDefinedAnywhere"):
        server.add_tool(odd)


def test_an_option_that_does_not_exist_is_refused(server: Server) -> None:
    with pytest.raises(TypeError, match="colour"):

        @server.tool(colour="red")  # type: ignore[call-overload]
        async def tool() -> None: ...


def test_a_failed_declaration_leaves_nothing_behind(server: Server) -> None:
    async def tool(thing: Opaque) -> None: ...

    with pytest.raises(TypeError):
        server.add_tool(tool)

    async def better(thing: int) -> None: ...

    server.add_tool(better, name="tool")


async def test_blocks_in_the_return_annotation_promise_no_structure(server: Server) -> None:
    @server.tool
    async def either(ctx: Context) -> Image | str | None:
        return None

    assert "outputSchema" not in await listed(server)


def test_an_option_that_does_not_exist_is_refused_with_those_that_do():
    server = Server("s")

    def echo(text: str) -> str:
        return text

    with pytest.raises(TypeError, match=r"no option 'titel'; there are: .*title"):
        server.add_tool(echo, titel="Echo")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="a prompt has no option 'read_only'"):
        server.add_prompt(echo, read_only=True)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="a resource has no option 'mime'"):
        server.add_resource(echo, "a://{text}", mime="text/plain")  # pyright: ignore[reportCallIssue]
