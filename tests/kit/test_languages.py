"""Tools in two languages: what is listed, and that both names are answered."""

from typing import Any, Literal

import pytest
from msgspec import Struct

from toolyard import Client
from toolyard.kit import Context, Server
from toolyard.kit.localization import LocalizedTool, add_localized_tool

EN = LocalizedTool(
    name="query",
    title="Ask",
    description="Ask the database.",
    parameters={"question": "In plain words", "limit": "How many rows"},
)
PT = LocalizedTool(
    name="consultar",
    title="Perguntar",
    description="Pergunta à base de dados.",
    parameters={"question": ("pergunta", "Em palavras simples"), "limit": ("limite", "Quantas linhas")},
)


class Answer(Struct):
    answer: str


async def ask(ctx: Context, question: str, limit: int = 5) -> Answer:
    return Answer(f"{question} {limit} {ctx.caller.tenant}")


def made(locale: Literal["en", "pt"]) -> Server:
    server = Server("two", locale=locale)
    add_localized_tool(server, ask, en=EN, pt=PT, read_only=True)
    return server


@pytest.mark.parametrize(
    ("locale", "name", "first", "title"),
    [("en", "query", "question", "Ask"), ("pt", "consultar", "pergunta", "Perguntar")],
)
async def test_what_is_listed_is_in_the_language_of_the_server(
    locale: Literal["en", "pt"], name: str, first: str, title: str
):
    async with Client(made(locale)) as client:
        (tool,) = await client.list_all("tools/list")
    assert (tool["name"], tool["title"]) == (name, title)
    assert tool["annotations"] == {"readOnlyHint": True}
    assert tool["inputSchema"]["required"] == [first]
    assert tool["inputSchema"]["properties"][first]["type"] == "string"
    assert "palavras" in str(tool["inputSchema"]) or locale == "en"
    assert tool["outputSchema"]["properties"] == {"answer": {"type": "string"}}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("query", {"question": "how many?", "limit": 7}), ("consultar", {"pergunta": "how many?", "limite": 7})],
)
@pytest.mark.parametrize("locale", ["en", "pt"])
async def test_either_name_is_answered(locale: Any, name: str, arguments: dict[str, Any], era: Any):
    async with Client(made(locale), era=era) as client:
        found = (await client.call_tool(name, arguments)).raw
    assert found["structuredContent"] == {"answer": "how many? 7 local"}


async def test_wrong_arguments_are_named_as_the_caller_knows_them():
    async with Client(made("en")) as client:
        found = (await client.call_tool("consultar", {"limite": 1})).raw
    assert found["isError"]
    assert "pergunta" in found["content"][0]["text"]


def test_a_face_that_does_not_fit_its_function_is_refused():
    wrong = LocalizedTool(
        name="query", title="", description="", parameters={"question": "", "limit": "", "more": ""}
    )
    with pytest.raises(ValueError, match="more"):
        add_localized_tool(Server("two"), ask, en=wrong, pt=PT)
    with pytest.raises(ValueError, match="limit"):
        add_localized_tool(
            Server("two"),
            ask,
            en=LocalizedTool(name="a", title="", description="", parameters={"question": ""}),
            pt=PT,
        )
