"""What a tool returns, and what its caller gets."""

import datetime
import enum
import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import jsonschema_rs
import pytest
from msgspec import Struct

from tests.kit.calls import text_of
from toolyard import Client
from toolyard.kit import (
    Annotations,
    Audio,
    BlobContents,
    EmbeddedResource,
    Icon,
    Image,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolResult,
)


async def result_of(server: Server, era: Any = "modern", **arguments: Any) -> dict[str, Any]:
    """Call a server's only tool; if it is listed with an output schema, the result must fit it."""
    async with Client(server, era=era) as client:
        (tool,) = await client.list_all("tools/list")
        result = (await client.call_tool(tool["name"], arguments)).raw
    if "outputSchema" in tool and "isError" not in result:
        assert tool["outputSchema"]["type"] == "object"
        jsonschema_rs.validate(tool["outputSchema"], result["structuredContent"])
    if "structuredContent" in result:
        assert json.loads(text_of(result)) == result["structuredContent"], "the text twin says the same"
    return result


async def output_schema_of(server: Server) -> Any:
    async with Client(server) as client:
        (tool,) = await client.list_all("tools/list")
    return tool.get("outputSchema")


# Content only


async def test_none_is_a_result_without_content(server: Server) -> None:
    @server.tool
    async def nothing() -> None: ...

    result = await result_of(server)
    assert result["content"] == []
    assert "structuredContent" not in result
    assert "isError" not in result


async def test_a_string_is_text_and_promises_no_structure(server: Server) -> None:
    @server.tool
    async def hello() -> str:
        return "héllo\n"

    result = await result_of(server)
    assert text_of(result) == "héllo\n"
    assert "structuredContent" not in result
    assert await output_schema_of(server) is None


async def test_each_kind_of_block_travels_in_its_wire_form(server: Server) -> None:
    @server.tool
    async def show() -> list[Text | Image | Audio | ResourceLink | EmbeddedResource]:
        return [
            Text("plain", annotations=Annotations(["user"], 0.5, "2025-01-01T00:00:00Z"), meta={"k": 1}),
            Image(b"\x89PNG", "image/png"),
            Audio(b"RIFF", "audio/wav"),
            ResourceLink("a://b", "b", title="B", mime_type="text/plain", size=3, icons=[Icon("i://c")]),
            EmbeddedResource(TextContents("a://t", "text", "text/plain")),
            EmbeddedResource(BlobContents("a://b", b"\x00\xff")),
        ]

    assert (await result_of(server))["content"] == [
        {
            "type": "text",
            "text": "plain",
            "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-01T00:00:00Z"},
            "_meta": {"k": 1},
        },
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {
            "type": "resource_link",
            "uri": "a://b",
            "name": "b",
            "title": "B",
            "mimeType": "text/plain",
            "size": 3,
            "icons": [{"src": "i://c"}],
        },
        {"type": "resource", "resource": {"uri": "a://t", "text": "text", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "a://b", "blob": "AP8="}},
    ]
    assert await output_schema_of(server) is None


async def test_one_block_alone_is_a_list_of_one(server: Server) -> None:
    @server.tool
    async def picture() -> Image:
        return Image(b"", "image/png")

    assert (await result_of(server))["content"] == [{"type": "image", "data": "", "mimeType": "image/png"}]


async def test_a_list_may_mix_strings_and_blocks(server: Server) -> None:
    @server.tool
    async def mixed() -> list[str | Image]:
        return ["look:", Image(b"", "image/png")]

    kinds = [block["type"] for block in (await result_of(server))["content"]]
    assert kinds == ["text", "image"]


# Structured


class Point(Struct):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int
    label: str | None = None


class Style(TypedDict):
    stroke: str


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (Size, Size(3), {"width": 3, "label": None}),
        (Style, Style(stroke="thin"), {"stroke": "thin"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict, {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    ],
    ids=["struct", "dataclass", "typed dict", "dict of int", "any dict"],
)
async def test_an_object_is_structured_as_it_is(
    server: Server, era: Any, kind: Any, value: Any, expected: Any
) -> None:
    server.add_tool(_returning(kind, value), name="give")
    assert (await result_of(server, era))["structuredContent"] == expected
    assert (await output_schema_of(server))["type"] == "object"


def _returning(kind: Any, value: Any) -> Any:
    async def tool() -> Any:
        return value

    tool.__annotations__["return"] = kind
    return tool


class Mood(enum.Enum):
    GOOD = "good"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 5, 5),
        (float, 0.5, 0.5),
        (bool, False, False),
        (list[int], [1, 2], [1, 2]),
        (list[str], ["a"], ["a"]),
        (list[Point], [Point(1)], [{"x": 1, "y": 0}]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (Point | None, None, None),
        (Point | None, Point(1), {"x": 1, "y": 0}),
        (int | None, None, None),
        (Literal["a", "b"], "b", "b"),
        (Mood, Mood.GOOD, "good"),
        (datetime.date, datetime.date(1969, 7, 20), "1969-07-20"),
        (bytes, b"\x00", "AA=="),
    ],
    ids=str,
)
async def test_what_is_no_object_travels_wrapped_as_result(
    server: Server, kind: Any, value: Any, expected: Any
) -> None:
    server.add_tool(_returning(kind, value), name="give")
    result = await result_of(server)
    assert result["structuredContent"] == {"result": expected}
    assert (await output_schema_of(server))["required"] == ["result"]


async def test_an_unannotated_dict_is_structured_though_nothing_was_promised(server: Server) -> None:
    @server.tool
    async def loose():
        return {"a": 1}

    result = await result_of(server)
    assert result["structuredContent"] == {"a": 1}
    assert await output_schema_of(server) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (True, "true"), (0.25, "0.25"), (datetime.date(1969, 7, 20), '"1969-07-20"')],
)
async def test_an_unannotated_primitive_is_its_json_as_text(server: Server, value: Any, text: str) -> None:
    @server.tool
    async def loose():
        return value

    result = await result_of(server)
    assert text_of(result) == text
    assert "structuredContent" not in result


async def test_a_result_spelt_out_keeps_its_content_beside_the_structure(server: Server) -> None:
    @server.tool
    async def spelt() -> ToolResult:
        return ToolResult(content=["one", Text("two")], structured={"n": 2}, meta={"took": 3})

    async with Client(server) as client:
        result = (await client.call_tool("spelt")).raw
    assert [block["text"] for block in result["content"]] == ["one", "two"]
    assert result["structuredContent"] == {"n": 2}
    assert result["_meta"]["took"] == 3


async def test_a_result_spelt_out_without_content_still_has_its_text_twin(server: Server) -> None:
    @server.tool
    async def spelt() -> ToolResult:
        return ToolResult(structured={"n": 2})

    assert text_of(await result_of(server)) == '{"n":2}'


async def test_a_picture_beside_structured_data_does_not_replace_the_text_twin(server: Server) -> None:
    @server.tool
    async def chart() -> ToolResult:
        return ToolResult(content=[Image(b"", "image/png")], structured={"n": 2})

    async with Client(server) as client:
        result = (await client.call_tool("chart")).raw
    assert [block["type"] for block in result["content"]] == ["image", "text"]
    assert json.loads(result["content"][1]["text"]) == {"n": 2}


async def test_an_error_spelt_out_has_text_and_no_structure(server: Server) -> None:
    @server.tool
    async def spelt() -> ToolResult:
        return ToolResult(content=["no"], structured={"n": 2}, is_error=True)

    result = await result_of(server)
    assert (result["isError"], text_of(result)) == (True, "no")
    assert "structuredContent" not in result


# Results that break their promise


async def test_a_value_that_breaks_the_return_type_is_an_error_that_names_the_field(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def point() -> Point:
        return Point("left")  # type: ignore[arg-type]

    result = await result_of(server)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "'point'" in text_of(result)
    assert "field 'x': expected `int`, got `str`" in text_of(result)
    assert "'point'" in caplog.text, "the author learns of it in the log"


@pytest.mark.parametrize("kind", [Point, int, dict[str, int]], ids=str)
async def test_none_where_something_was_promised_is_an_error(server: Server, kind: Any) -> None:
    server.add_tool(_returning(kind, None), name="give")
    assert (await result_of(server))["isError"] is True


@pytest.mark.parametrize(
    "value", [{"a": object()}, {"a": {1, object()}}, {(1, 2): 3}], ids=["object", "in a set", "as a key"]
)
async def test_a_value_that_is_no_json_is_an_error_without_the_inside(server: Server, value: Any) -> None:
    @server.tool
    async def odd() -> dict:
        return value

    result = await result_of(server)
    assert result["isError"] is True
    assert " at 0x" not in text_of(result)


async def test_not_a_number_breaks_a_promised_number(server: Server) -> None:
    @server.tool
    async def ratio() -> float:
        return float("nan")

    assert (await result_of(server))["isError"] is True


async def test_results_are_stamped_in_the_modern_era_and_bare_in_the_legacy_one(server: Server) -> None:
    @server.tool
    async def hello() -> str:
        return "hello"

    modern, legacy = await result_of(server, "modern"), await result_of(server, "legacy")
    assert modern["resultType"] == "complete"
    assert modern["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "bench", "version": "1.0"}
    assert legacy == {"content": [{"type": "text", "text": "hello"}]}
