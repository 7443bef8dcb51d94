"""What people who know FastMCP write first, in the kit's own `Server`."""

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client
from toolyard.client import Elicitation, ElicitResult, LogMessage
from toolyard.kit import (
    Audio,
    AudioFile,
    Context,
    Depends,
    EmbeddedResource,
    File,
    Icon,
    Image,
    ImageFile,
    McpError,
    Message,
    Middleware,
    Server,
    Text,
    TextContents,
    ToolError,
    ToolResult,
)

from .calls import soon

PIXEL = b"\x89PNG of a test"
ICON = {"src": "https://example.com/a.png", "mimeType": "image/png"}


async def call(server: Server, name: str, **arguments: Any) -> Any:
    async with Client(server) as client:
        return await client.call_tool(name, arguments)


async def listed(server: Server) -> list[str]:
    async with Client(server) as client:
        return [tool.name for tool in await client.list_tools()]


# Declaring


async def test_a_server_needs_no_name():
    server = Server()
    async with Client(server) as client:
        assert client.server.name == "server"


async def test_a_tool_is_declared_with_its_name_first_by_a_call_or_from_a_partial():
    server = Server("forms")

    def add(a: int, b: int) -> int:
        return a + b

    server.tool(add)
    server.tool(functools.partial(add, b=10), name="add_ten")
    server.tool("plus", description="By name")(add)
    assert await listed(server) == ["add", "add_ten", "plus"]
    assert (await call(server, "add_ten", a=1)).data == 11
    with pytest.raises(TypeError, match=r"two names: 'a' and 'b'"):
        server.tool("a", name="b")


async def test_a_prompt_is_declared_with_its_name_first():
    server = Server("prompts")

    @server.prompt("greeting")
    def greet(name: str) -> str:
        return f"Greet {name}"

    async with Client(server) as client:
        assert (await client.get_prompt("greeting", {"name": "Ada"})).messages[0].content == Text("Greet Ada")


async def test_tags_are_listed_where_clients_of_fastmcp_look_for_them():
    server = Server("tags")

    @server.tool(tags={"b", "a"}, meta={"mine": 1})
    def one() -> None: ...

    async with Client(server) as client:
        (tool,) = await client.list_tools()
    assert tool.meta == {"mine": 1, "fastmcp": {"tags": ["a", "b"]}}
    with pytest.raises(TypeError, match="tags must be a set"):
        server.tool(one, name="two", tags="a")


async def test_annotations_of_a_tool_are_given_as_the_protocol_spells_them():
    server = Server("hints")

    @server.tool(annotations={"readOnlyHint": True, "title": "One"})
    def one() -> None: ...

    async with Client(server) as client:
        (tool,) = await client.list_tools()
    assert tool.annotations is not None
    assert (tool.annotations.read_only_hint, tool.annotations.title) == (True, "One")
    with pytest.raises(TypeError, match="annotations of a tool"):
        server.tool(one, name="two", annotations={"readOnlyHint": "yes"})


@pytest.mark.parametrize("icon", [Icon("https://example.com/a.png", "image/png"), ICON])
async def test_icons_of_every_kind_are_listed_whether_ours_or_dicts(icon: Any):
    server = Server("icons")
    server.tool(lambda: None, name="tool", icons=[icon])
    server.prompt(lambda: "", name="prompt", icons=[icon])
    server.resource("a://b", name="resource", icons=[icon])(lambda: "")
    server.resource("a://{b}/c", name="template", icons=[icon])(template := lambda b: b)
    assert template
    async with Client(server) as client:
        lists = (client.list_tools, client.list_prompts, client.list_resources, client.list_templates)
        for read in lists:
            (item,) = await read()
            assert item.icons == [Icon("https://example.com/a.png", "image/png")]


def test_an_icon_that_is_none_is_refused_when_it_is_declared():
    with pytest.raises(TypeError, match="is not an icon"):
        Server("icons").resource("a://{b}", icons=[{"href": "a"}])(lambda b: b)


async def test_a_tool_with_a_timeout_is_given_up():
    server = Server("slow")

    @server.tool(timeout=0.01)
    async def forever() -> None:
        await asyncio.Event().wait()

    @server.tool(timeout=600)
    async def at_once() -> str:
        return "done"

    result = await call(server, "forever")
    assert (result.is_error, result.text) == (True, "Tool 'forever' took longer than 0.01 seconds")
    assert (await call(server, "at_once")).text == "done"
    with pytest.raises(ValueError, match="'at_once' must be more than 0"):
        server.tool(at_once, timeout=0)


# The context


async def test_the_context_is_found_anywhere_and_optional():
    server = Server("contexts")

    @server.tool
    async def say(text: str, ctx: Context | None = None, times: int = 1) -> str:
        assert ctx is not None
        assert ctx.server is server
        assert ctx.request_id
        return text * times

    assert (await call(server, "say", text="a", times=2)).text == "aa"


async def test_log_lines_are_sent_by_their_level():
    server = Server("logs")

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.debug("a")
        await ctx.info("b", logger="mine")
        await ctx.warning("c")
        await ctx.error("d", extra={"code": 7})

    heard: list[LogMessage] = []
    async with Client(server, era="legacy", log_level="debug", on_log=heard.append) as client:
        await client.call_tool("work")
    assert heard == [
        LogMessage("debug", "a"),
        LogMessage("info", "b", "mine"),
        LogMessage("warning", "c"),
        LogMessage("error", {"msg": "d", "extra": {"code": 7}}),
    ]


@pytest.mark.parametrize(
    ("schema", "sent", "got"), [(str, "Ada", "'Ada'"), (int, 3, "3"), (["red", "blue"], "red", "'red'")]
)
async def test_a_form_may_be_one_value_or_a_choice(schema: Any, sent: Any, got: str):
    server = Server("forms")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", response_type=schema)
        return f"{answer.action} {answer.data!r}"

    def fill(question: Elicitation) -> ElicitResult:
        assert question.schema is not None
        assert list(question.schema["properties"]) == ["value"]
        return question.accept(value=sent)

    async with Client(server, on_elicit=fill) as client:
        assert (await client.call_tool("ask")).text == f"accept {got}"


async def test_dependencies_are_made_for_each_call_and_left_after_it():
    server = Server("needs")
    opened: list[str] = []

    @asynccontextmanager
    async def database(ctx: Context) -> AsyncIterator[str]:
        opened.append(f"open {ctx.server.name}")
        yield "rows"
        opened.append("closed")

    def table(rows: str = Depends(database)) -> str:
        return f"table of {rows}"

    @server.tool
    def read(key: int, found: str = Depends(table), rows: str = Depends(database)) -> str:
        return f"{key} {found} {rows} {opened}"

    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert list(tool.input_schema["properties"]) == ["key"]
        assert (await client.call_tool("read", {"key": 1})).text == "1 table of rows rows ['open needs']"
    assert opened == ["open needs", "closed"]


async def test_what_a_caller_sends_for_a_dependency_is_refused():
    server = Server("needs")

    @server.tool
    def read(user: str = Depends(lambda: "ada")) -> str:
        return user

    assert (await call(server, "read", user="eve")).is_error
    assert (await call(server, "read")).text == "ada"


# Lifespan


async def test_a_lifespan_is_entered_before_the_first_request_and_left_at_the_end():
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[dict[str, str]]:
        events.append(f"enter {server.name}")
        yield {"database": "open"}
        events.append("leave")

    server = Server("living", lifespan=lifespan)

    @server.tool
    async def look(ctx: Context) -> str:
        return ctx.lifespan_context["database"]

    for _ in range(2):
        async with Client(server) as client:
            results = await asyncio.gather(*(client.call_tool("look") for _ in range(3)))
            assert [result.text for result in results] == ["open"] * 3
    assert events == ["enter living", "leave"] * 2


async def test_a_lifespan_that_fails_fails_the_requests():
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    server = Server("dead", lifespan=lifespan)
    server.tool(lambda: "", name="look")
    with pytest.raises(McpError):
        await call(server, "look")


# Results


async def test_files_are_sent_as_content(tmp_path: Path):
    server = Server("files")
    (tmp_path / "a.png").write_bytes(PIXEL)

    @server.tool
    def picture() -> ImageFile:
        return ImageFile(tmp_path / "a.png")

    @server.tool
    def several() -> list[str | ImageFile | AudioFile]:
        return ["see", ImageFile(data=PIXEL, format="jpeg"), AudioFile(data=b"la", format="mp3")]

    @server.tool
    def text() -> File:
        return File(data=b"hello", format="txt", name="note")

    @server.tool
    def book() -> File:
        return File(data=b"%PDF", format="pdf")

    assert (await call(server, "picture")).content == [Image(PIXEL, "image/png")]
    several_ = (await call(server, "several")).content
    assert several_ == [Text("see"), Image(PIXEL, "image/jpeg"), Audio(b"la", "audio/mp3")]
    (embedded,) = (await call(server, "text")).content
    assert embedded == EmbeddedResource(TextContents("file:///note.txt", "hello", "text/plain"))
    (embedded,) = (await call(server, "book")).content
    assert embedded.resource.mime_type == "application/pdf"
    with pytest.raises(ValueError, match="either a path or data"):
        ImageFile()


async def test_a_tool_result_takes_one_value_and_the_protocols_spelling():
    server = Server("results")

    @server.tool
    def both() -> ToolResult:
        return ToolResult("short", structured_content={"a": 1}, meta={"b": 2})

    result = await call(server, "both")
    assert (result.text, result.structured_content, result.meta["b"]) == ("short", {"a": 1}, 2)


@pytest.mark.parametrize(
    ("value", "data"), [(5, 5), ([1, 2], [1, 2]), ({"a": 1}, {"a": 1}), ("text", "text"), (None, None)]
)
async def test_data_is_the_value_that_a_tool_returned(value: Any, data: Any):
    server = Server("data")

    def tool() -> Any:
        return value

    kinds: dict[type, Any] = {list: list[int], dict: dict[str, int], type(None): None}
    tool.__annotations__["return"] = kinds.get(type(value), type(value))
    server.tool(tool)
    assert (await call(server, "tool")).data == data


async def test_bare_values_stand_in_the_text_as_they_are():
    server = Server("bare", bare_values=True)

    @server.tool
    def number() -> int:
        return 5

    @server.tool
    def words() -> str:
        return "as it is"

    @server.tool
    def unannotated():  # type: ignore[no-untyped-def]
        return [1, 2]

    async with Client(server) as client:
        schemas = {tool.name: tool.output_schema for tool in await client.list_tools()}
        found = {name: await client.call_tool(name) for name in schemas}
    assert schemas["words"] is not None
    assert schemas["words"]["x-fastmcp-wrap-result"] is True
    assert schemas["unannotated"] is None
    assert {name: one.text for name, one in found.items()} == {
        "number": "5",
        "words": "as it is",
        "unannotated": "[1,2]",
    }
    assert found["words"].structured == {"result": "as it is"}


async def test_a_lax_server_takes_numbers_in_strings():
    def double(a: int) -> int:
        return 2 * a

    server, strict = Server("lax", lax=True), Server("strict")
    server.tool(double)
    strict.tool(double)
    assert (await call(server, "double", a="4")).data == 8
    assert (await call(strict, "double", a="4")).is_error


# Templates


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("shop://list/tea", "tea 10 None"),
        ("shop://list/tea?limit=3", "tea 3 None"),
        ("shop://list/tea?sort-by=a%20b&limit=3", "tea 3 a b"),
        ("shop://list/tea?other=1", "tea 10 None"),
    ],
)
async def test_a_template_has_a_query_and_names_with_hyphens(uri: str, found: str):
    server = Server("shop")

    @server.resource("shop://list/{article-name}{?limit,sort-by}")
    def articles(article_name: str, limit: int = 10, sort_by: str | None = None) -> str:
        return f"{article_name} {limit} {sort_by}"

    async with Client(server) as client:
        assert (await client.read_resource(uri)).text == found


async def test_a_template_takes_the_rest_of_a_path_by_either_spelling():
    server = Server("files")
    server.resource("files://{path*}")(lambda path: path)
    server.resource("more://{+path}")(lambda path: path)
    async with Client(server) as client:
        assert (await client.read_resource("files://a/b")).text == "a/b"
        assert (await client.read_resource("more://a/b")).text == "a/b"


def test_a_query_needs_defaults():
    def articles(limit: int) -> str:
        return ""

    with pytest.raises(TypeError, match=r"a query can be left out, so \['limit'\]"):
        Server("shop").resource("shop://list{?limit}")(articles)


# Enabling and disabling


async def test_what_is_disabled_is_neither_listed_nor_found_until_it_is_enabled():
    server = Server("modes")
    server.tool(lambda: "a", name="a", tags={"admin"})
    server.tool(lambda: "b", name="b")
    server.tool(lambda: "c", name="c", enabled=False)
    server.resource("a://b", name="resource", tags={"admin"})(lambda: "")
    server.prompt(lambda: "", name="prompt", tags={"admin"})
    assert await listed(server) == ["a", "b"]
    server.disable(tags={"admin"})
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["b"]
        assert await client.list_resources() == []
        assert await client.list_prompts() == []
        for ask in (client.call_tool("a"), client.read_resource("a://b"), client.get_prompt("prompt")):
            with pytest.raises(McpError, match=r"[Uu]nknown|not found"):
                await ask
    server.enable(tags={"admin"}, components={"tool"})
    server.enable(names={"c"})
    assert await listed(server) == ["a", "b", "c"]
    server.enable(names={"b"}, only=True)
    assert await listed(server) == ["b"]
    with pytest.raises(ValueError, match=r"unknown kinds \['tools'\]"):
        server.disable(components={"tools"})  # type: ignore[arg-type]


async def test_a_rule_holds_for_what_is_declared_later_and_its_names_stay_taken():
    server = Server("modes")
    server.disable(tags={"beta"})
    server.tool(lambda: "", name="later", tags={"beta"})
    assert await listed(server) == []
    with pytest.raises(ValueError, match="already has a tool 'later'"):
        server.tool(lambda: "", name="later")
    server.remove_tool("later")


async def test_clients_hear_of_what_is_disabled():
    server = Server("modes")
    server.tool(lambda: "", name="a")
    async with Client(server) as client, client.listen(tools=True) as changes:
        server.disable(names={"a"})
        assert (await soon(anext(changes))).kind == "tools"
        assert await client.list_tools() == []


# Mounting


async def test_a_mounted_server_is_reached_under_its_namespace():
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    async def where(ctx: Context) -> str:
        return ctx.server.name

    inner.resource("data://{id}/x")(lambda id: f"data of {id}")
    inner.prompt(lambda: "hello", name="hi")
    outer.tool(lambda: "own", name="own")
    outer.mount(inner, "in")
    async with Client(outer) as client:
        assert [tool.name for tool in await client.list_tools()] == ["own", "in_where"]
        assert (await client.call_tool("in_where")).text == "inner"
        read = await client.read_resource("data://in/7/x")
        assert read.contents == [TextContents("data://in/7/x", "data of 7")]
        assert (await client.get_prompt("in_hi")).messages[0].content == Text("hello")
        inner.tool(lambda: "new", name="later")
        assert (await client.call_tool("in_later")).text == "new"
        inner.disable(names={"later"})
        assert [tool.name for tool in await client.list_tools()] == ["own", "in_where"]
    with pytest.raises(ValueError, match="'inner' cannot be mounted in itself"):
        inner.mount(outer)


async def test_what_is_here_goes_before_what_is_mounted_and_mounts_nest():
    first, second, third = Server("first"), Server("second"), Server("third")
    for server in (first, second, third):
        server.tool(functools.partial(lambda name: name, server.name), name="who")
    first.mount(second)
    first.mount(third, "c")
    outer = Server("outer")
    outer.mount(first, "a")
    assert (await call(first, "who")).text == "first"
    assert await listed(outer) == ["a_who", "a_c_who"]
    assert (await call(outer, "a_c_who")).text == "third"


async def test_a_mounted_server_keeps_its_lifespan_and_its_middleware():
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        yield f"life of {server.name}"

    seen: list[str] = []

    class Watch(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(context.message.name)
            return await call_next(context)

    inner, outer = Server("inner", lifespan=lifespan, middleware=[Watch()]), Server("outer")

    @inner.tool
    async def look(ctx: Context) -> str:
        return ctx.lifespan_context

    outer.mount(inner, "in")
    assert (await call(outer, "in_look")).text == "life of inner"
    assert seen == ["look"]


async def test_a_long_tool_of_a_mounted_server_becomes_a_task_that_is_found():
    inner, outer = Server("inner"), Server("outer")
    inner.tool(lambda: "done", name="work", long=True)
    outer.mount(inner, "in")
    async with Client(outer, era="modern") as client:
        task = await client.start_task("in_work")
        assert (await soon(task.result())).text == "done"


async def test_a_dict_of_a_resource_is_json():
    server = Server("data")
    server.resource("data://a")(lambda: {"a": 1})
    async with Client(server) as client:
        read = await client.read_resource("data://a")
    assert read.contents == [TextContents("data://a", '{"a":1}', "application/json")]


async def test_clients_of_the_outer_server_hear_of_changes_within():
    inner, outer = Server("inner"), Server("outer")
    inner.tool(lambda: "", name="a")
    outer.mount(inner)
    async with Client(outer) as client, client.listen(tools=True) as changes:
        inner.notify_tools_changed()
        assert (await soon(anext(changes))).kind == "tools"


# Middleware


def served(*middleware: Middleware) -> Server:
    server = Server("with", middleware=middleware)

    @server.tool(tags={"hidden"})
    def secret() -> str:
        return "secret"

    @server.tool
    def add(a: int, b: int = 1) -> str:
        if a > 100:
            raise ToolError("too much")
        return str(a + b)

    server.resource("a://b", name="resource")(lambda: "read")
    server.resource("a://{b}/c", name="template")(lambda b: b)
    server.prompt(lambda: "hello", name="prompt")
    return server


async def test_middleware_changes_requests_and_results_from_the_outside_in():
    order: list[str] = []

    class Doubles(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            order.append("doubles")
            context.message.arguments["a"] *= 2
            return await call_next(context)

    class Marks(Middleware):
        async def on_request(self, context: Any, call_next: Any) -> Any:
            order.append(context.method)
            return await call_next(context)

        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            result = await call_next(context)
            result.content = [*result.content, Text("marked")]
            return result

    async with Client(served(Marks(), Doubles())) as client:
        order.clear()
        assert (await client.call_tool("add", {"a": 2})).text == "5\nmarked"
    assert order == ["tools/call", "doubles"]


async def test_middleware_refuses_answers_itself_and_sees_failures():
    class Guard(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            if context.message.name == "secret":
                raise ToolError("not for you")
            try:
                return await call_next(context)
            except ToolError as error:
                return ToolResult(f"caught: {error}")

    async with Client(served(Guard())) as client:
        refused = await client.call_tool("secret")
        assert (refused.is_error, refused.text) == (True, "not for you")
        assert (await client.call_tool("add", {"a": 101})).text == "caught: too much"


async def test_a_failure_that_nobody_catches_stays_as_it_is():
    class Nothing(Middleware):
        async def on_message(self, context: Any, call_next: Any) -> Any:
            return await call_next(context)

    result = await call(served(Nothing()), "add", a=101)
    assert (result.is_error, result.text) == (True, "too much")


async def test_middleware_filters_lists_and_reads_of_every_kind():
    class Filter(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            return [tool for tool in await call_next(context) if "hidden" not in tool.tags]

        async def on_list_resources(self, context: Any, call_next: Any) -> Any:
            return []

        async def on_list_resource_templates(self, context: Any, call_next: Any) -> Any:
            return [*await call_next(context)] * 2

        async def on_list_prompts(self, context: Any, call_next: Any) -> Any:
            return (await call_next(context))[:0]

        async def on_read_resource(self, context: Any, call_next: Any) -> Any:
            result = await call_next(context)
            result.contents[0].text += f" {context.message.uri}"
            return result

        async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
            result = await call_next(context)
            result.messages.append(Message("user", Text(context.message.name)))
            return result

    async with Client(served(Filter())) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        assert await client.list_resources() == []
        assert await client.list_prompts() == []
        assert len(await client.list_templates()) == 2
        assert (await client.read_resource("a://b")).text == "read a://b"
        prompt = await client.get_prompt("prompt")
        assert [message.content for message in prompt.messages] == [Text("hello"), Text("prompt")]


async def test_middleware_added_later_is_inside():
    seen: list[str] = []

    class Named(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(self.name)
            return await call_next(context.copy())

    server = served(Named("outer"))
    server.add_middleware(Named("inner"))
    await call(server, "add", a=1)
    assert seen == ["outer", "inner"]
