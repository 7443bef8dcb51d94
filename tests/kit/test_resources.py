"""Resources: one address or a template of addresses, listed and read."""

import asyncio
from typing import Annotated, Any

import pytest
from msgspec import Meta

from tests.kit.calls import NAME, accept
from toolyard import Client
from toolyard.kit import Annotations, BlobContents, Context, Icon, Server, TextContents, ToolError
from toolyard.wire.errors import McpError


async def read(server: Server, uri: str, era: Any = "modern") -> list[dict[str, Any]]:
    async with Client(server, era=era) as client:
        return (await client.read_resource(uri)).raw["contents"]


async def refusal(server: Server, uri: str, era: Any = "modern") -> McpError:
    with pytest.raises(McpError) as error:
        await read(server, uri, era)
    return error.value


# Static ones


async def test_text_and_bytes_are_read_in_their_wire_forms(server: Server, era: Any) -> None:
    @server.resource("notes://today", mime_type="text/markdown")
    async def today() -> str:
        return "# Today"

    @server.resource("notes://photo", mime_type="image/png")
    def photo() -> bytes:
        return b"\x89PNG\xff"

    assert await read(server, "notes://today", era) == [
        {"uri": "notes://today", "text": "# Today", "mimeType": "text/markdown"}
    ]
    assert await read(server, "notes://photo", era) == [
        {"uri": "notes://photo", "blob": "iVBOR/8=", "mimeType": "image/png"}
    ]


async def test_contents_spelt_out_keep_their_own_addresses(server: Server) -> None:
    @server.resource("files://all")
    async def all_files() -> list[TextContents | BlobContents]:
        return [
            TextContents("files://a", "A", "text/plain", meta={"k": 1}),
            BlobContents("files://b", b"B"),
        ]

    assert await read(server, "files://all") == [
        {"uri": "files://a", "text": "A", "mimeType": "text/plain", "_meta": {"k": 1}},
        {"uri": "files://b", "blob": "Qg=="},
    ]


async def test_a_list_may_mix_strings_and_bytes(server: Server) -> None:
    @server.resource("files://all")
    async def all_files() -> list[str | bytes]:
        return ["A", b"B"]

    assert [set(item) - {"uri"} for item in await read(server, "files://all")] == [{"text"}, {"blob"}]


async def test_a_resource_is_listed_with_all_that_was_said_of_it(server: Server) -> None:
    @server.resource(
        "notes://today",
        name="today",
        title="Today's notes",
        description="What happened",
        mime_type="text/plain",
        size=12,
        icons=[Icon("i://c")],
        annotations=Annotations(["assistant"], 1.0),
        meta={"k": 1},
    )
    async def today() -> str:
        return ""

    async with Client(server) as client:
        (listed,) = await client.list_all("resources/list")
    assert listed == {
        "uri": "notes://today",
        "name": "today",
        "title": "Today's notes",
        "description": "What happened",
        "mimeType": "text/plain",
        "size": 12,
        "icons": [{"src": "i://c"}],
        "annotations": {"audience": ["assistant"], "priority": 1.0},
        "_meta": {"k": 1},
    }


async def test_name_and_description_come_from_the_function_when_unsaid(server: Server) -> None:
    @server.resource("notes://today")
    async def today() -> str:
        """What happened today."""
        return ""

    async with Client(server) as client:
        (listed,) = await client.list_all("resources/list")
    assert listed == {"uri": "notes://today", "name": "today", "description": "What happened today."}


# Templates


async def test_a_template_is_listed_apart_from_the_resources(server: Server) -> None:
    @server.resource("shop://item/{id}", title="An item", mime_type="text/plain")
    async def item(id: str) -> str:
        return id

    @server.resource("shop://shelf")
    async def shelf() -> str:
        return ""

    async with Client(server) as client:
        assert [found["uri"] for found in await client.list_all("resources/list")] == ["shop://shelf"]
        templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    assert templates == [
        {"uriTemplate": "shop://item/{id}", "name": "item", "title": "An item", "mimeType": "text/plain"}
    ]


async def test_a_variable_stands_for_one_segment_and_its_contents_carry_the_address_asked_for(
    server: Server, era: Any
) -> None:
    @server.resource("shop://{shelf}/item/{id}", mime_type="text/plain")
    async def item(id: str, shelf: str) -> str:
        return f"{shelf}:{id}"

    assert await read(server, "shop://top/item/7", era) == [
        {"uri": "shop://top/item/7", "text": "top:7", "mimeType": "text/plain"}
    ]
    for miss in ("shop://top/item/7/8", "shop://top/item/", "shop://a/b/item/7", "shop://top/item/7?x=1"):
        await refusal(server, miss, era)


async def test_a_plus_variable_stands_for_the_rest_slashes_and_all(server: Server) -> None:
    @server.resource("file:///{+path}")
    async def file(path: str) -> str:
        return path

    (contents,) = await read(server, "file:///a/b%20c/d.txt")
    assert contents["text"] == "a/b c/d.txt"


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("a%20b", "a b"),
        ("a%2Fb", "a/b"),
        ("100%25", "100%"),
        ("caf%C3%A9", "café"),
        ("a+b", "a+b"),
        ("naïve", "naïve"),
        ("%zz", "%zz"),
    ],
)
async def test_values_are_percent_decoded_once(server: Server, sent: str, seen: str) -> None:
    @server.resource("shop://item/{id}")
    async def item(id: str) -> str:
        return id

    (contents,) = await read(server, f"shop://item/{sent}")
    assert contents["text"] == seen


async def test_a_variable_is_converted_to_the_type_of_its_parameter(server: Server) -> None:
    @server.resource("shop://item/{id}/{sold}")
    async def item(id: Annotated[int, Meta(ge=1)], sold: bool) -> str:
        return f"{id!r} {sold!r}"

    (contents,) = await read(server, "shop://item/7/true")
    assert contents["text"] == "7 True"
    for uri in ("shop://item/seven/true", "shop://item/0/true"):
        error = await refusal(server, uri)
        assert error.code == -32602
        assert "'id'" in error.message


async def test_an_exact_address_wins_over_a_template(server: Server) -> None:
    @server.resource("shop://item/{id}")
    async def item(id: str) -> str:
        return "template"

    @server.resource("shop://item/best")
    async def best() -> str:
        return "exact"

    assert (await read(server, "shop://item/best"))[0]["text"] == "exact"
    assert (await read(server, "shop://item/worst"))[0]["text"] == "template"


async def test_characters_that_mean_something_in_a_pattern_mean_themselves(server: Server) -> None:
    @server.resource("a://x.y+z/({id})")
    async def odd(id: str) -> str:
        return id

    assert (await read(server, "a://x.y+z/(1)"))[0]["text"] == "1"
    await refusal(server, "a://xqy+z/(1)")


# What goes wrong


async def test_an_unknown_address_is_refused_with_the_code_of_the_era(server: Server) -> None:
    @server.resource("a://b")
    async def resource() -> str:
        return ""

    modern, legacy = await refusal(server, "a://c"), await refusal(server, "a://c", "legacy")
    assert (modern.code, modern.data) == (-32602, {"uri": "a://c"})
    assert (legacy.code, legacy.data) == (-32002, {"uri": "a://c"})


async def test_a_failure_the_author_foresaw_is_told_and_another_is_masked(
    server: Server, era: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @server.resource("a://{how}")
    async def resource(how: str) -> str:
        if how == "foreseen":
            raise ToolError("The shelf is locked")
        raise RuntimeError("hunter2")

    foreseen, other = await refusal(server, "a://foreseen", era), await refusal(server, "a://other", era)
    assert (foreseen.code, foreseen.message) == (-32603, "The shelf is locked")
    assert other.code == -32603
    assert "hunter2" not in other.message
    assert "hunter2" in caplog.text


async def test_a_value_that_is_no_contents_is_masked(server: Server) -> None:
    @server.resource("a://b")
    async def resource() -> Any:
        return 5

    assert (await refusal(server, "a://b")).code == -32603


async def test_a_resource_may_ask_the_client_first(server: Server, era: Any) -> None:
    @server.resource("notes://{of}")
    async def notes(of: str, ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", NAME)
        return f"{of} for {answer.content['name']}"

    async with Client(server, era=era, on_elicit=lambda _: accept(name="Ada")) as client:
        (contents,) = (await client.read_resource("notes://today")).raw["contents"]
    assert contents["text"] == "today for Ada"


async def test_reading_can_be_cancelled(server: Server) -> None:
    started = asyncio.Event()

    @server.resource("a://b")
    async def resource() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    reading = asyncio.create_task(read(server, "a://b"))
    await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


# What is refused at once


def test_an_address_needs_a_scheme(server: Server) -> None:
    with pytest.raises(ValueError, match=r"'today'.*scheme"):
        server.resource("today")(lambda: "")


def test_variables_and_parameters_must_be_the_same(server: Server) -> None:
    def none() -> str:
        return ""

    def other(name: str) -> str:
        return ""

    def more(id: str, extra: str) -> str:
        return ""

    for function, names in ((none, "id"), (other, "id.*name"), (more, "extra")):
        with pytest.raises(TypeError, match=f"'shop://item/{{id}}'.*{names}"):
            server.resource("shop://item/{id}")(function)
    with pytest.raises(TypeError, match=r"'shop://shelf'.*name"):
        server.resource("shop://shelf")(other)


@pytest.mark.parametrize(
    "uri", ["a://{x}/{x}", "a://{x", "a://x}", "a://{}", "a://{?q}b", "a://{x:3}", "a://{x,y}"]
)
def test_a_template_we_cannot_match_is_refused(server: Server, uri: str) -> None:
    def function(x: str) -> str:
        return ""

    def nothing() -> str:
        return ""

    for candidate in (function, nothing):
        with pytest.raises((ValueError, TypeError), match=r"template|variable"):
            server.resource(uri)(candidate)
    assert server.resources == {}


@pytest.mark.parametrize("uri", ["a://{x}{y}", "a://{+x}/{+y}", "a://{+x}-{y}"])
def test_a_template_that_could_be_read_in_many_ways_is_refused(uri: str):
    server = Server("s")
    with pytest.raises(ValueError, match="variable"):

        @server.resource(uri)
        def both(x: str, y: str) -> str:
            return x + y


async def test_of_two_variables_in_a_segment_the_first_ends_where_what_follows_it_begins():
    server = Server("s")

    @server.resource("log://{day}-{name}/end")
    def log(day: str, name: str) -> str:
        return f"{day}|{name}"

    @server.resource("page://{page}.md")
    def page(page: str) -> str:
        return page

    async with Client(server) as client:
        assert (await client.read_resource("log://1-2-3/end")).raw["contents"][0]["text"] == "1|2-3"
        assert (await client.read_resource("page://v1.2.md")).raw["contents"][0]["text"] == "v1.2"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_address_of_any_length_is_not_taken(era: Any):
    server = Server("s")

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return name

    async with Client(server, era=era) as client:
        await client.read_resource("note://" + "a" * 8000)
        with pytest.raises(McpError, match="length") as refused:
            await client.read_resource("note://" + "a" * 9000)
    assert refused.value.code == -32602


# From elsewhere


async def test_what_comes_from_elsewhere_is_looked_for_before_each_list(server: Server, era: Any) -> None:
    shelf = ["a", "b"]

    async def look() -> None:
        for uri in [uri for uri in server.resources if uri.startswith("shelf://")]:
            server.remove_resource(uri)
        for name in shelf:
            server.add_resource(lambda: "", f"shelf://{name}", name=name)

    server.add_resource(lambda: "", "notes://today", name="today")
    server.on_list_resources(look)
    async with Client(server, era=era) as client:
        assert [one["name"] for one in await client.list_all("resources/list")] == ["today", "a", "b"]
        shelf[:] = ["b", "c"]
        assert [one["name"] for one in await client.list_all("resources/list")] == ["today", "b", "c"]


async def test_a_look_that_fails_costs_no_list(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def look() -> None:
        raise OSError("the shelf is gone")

    server.add_resource(lambda: "", "notes://today", name="today")
    server.on_list_resources(look)
    async with Client(server) as client:
        assert [one["name"] for one in await client.list_all("resources/list")] == ["today"]
    assert "could not renew its resources" in caplog.text
