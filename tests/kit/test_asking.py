"""Questions to the client: the same to the author in both eras."""

import asyncio
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jsonschema_rs
import pytest
from msgspec import Meta, Struct

from tests.kit.calls import NAME, accept, said, soon, text_of
from toolyard import Client
from toolyard.client import Elicitation
from toolyard.kit import Context, Elicit, ElicitUrl, Roots, Sample, Server
from toolyard.wire.errors import McpError, MissingCapability

ROOTS = [Path("/a"), "file:///b"]
FULL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


class Answerer:
    """Answers every question with what it was given, and keeps what it was asked."""

    def __init__(self, elicit: Any = None, sample: Any = None, roots: Any = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.options: dict[str, Any] = {
            f"on_{name}": self._answer(answer)
            for name, answer in (("elicit", elicit), ("sample", sample))
            if answer is not None
        }
        if roots is not None:
            self.options["roots"] = lambda: self._answer(roots)(None)

    def _answer(self, answer: Any) -> Any:
        def reply(question: Any) -> Any:
            self.asked.append({} if question is None else question.raw)
            return answer

        return reply

    async def call(self, server: Server, era: Any, tool: str, capabilities: Any = FULL) -> dict[str, Any]:
        async with Client(server, era=era, capabilities=capabilities, **self.options) as client:
            return (await client.call_tool(tool)).raw


# Forms


@pytest.fixture
def greeter(server: Server) -> Server:
    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", NAME)
        if answer.accepted:
            return f"Hello {answer.content['name']}"
        return f"{answer.action}, {answer.content}"

    return server


async def test_an_accepted_form_brings_its_content(greeter: Server, era: Any) -> None:
    client = Answerer(elicit=accept(name="Ada"))
    assert text_of(await client.call(greeter, era, "greet")) == "Hello Ada"
    assert client.asked == [{"mode": "form", "message": "Your name?", "requestedSchema": NAME}]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_declined_or_cancelled_form_brings_none(greeter: Server, era: Any, action: str) -> None:
    client = Answerer(elicit={"action": action, "content": {"name": "ignored"}})
    assert text_of(await client.call(greeter, era, "greet")) == f"{action}, None"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (accept(name=5), "name"),
        (accept(), "name"),
        ({"action": "accept"}, "name"),
        ({"action": "maybe"}, "action"),
        ({}, "action"),
        ("yes", "object"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_with_its_fault(
    greeter: Server, era: Any, answer: Any, word: str
) -> None:
    client = Answerer(elicit=answer)
    if era == "legacy":
        result = await client.call(greeter, era, "greet")
        assert result["isError"] is True
        text = text_of(result)
    else:
        with pytest.raises(McpError) as error:
            await client.call(greeter, era, "greet")
        assert error.value.code == -32602
        text = error.value.message
    assert word in text
    assert "elicit-1" in text


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(Struct):
    name: Annotated[str, Meta(min_length=1, title="Your name", description="As on your card")]
    age: Annotated[int, Meta(ge=0, le=150)] = 30
    height: float = 1.7
    member: bool = False
    tone: Literal["warm", "formal"] = "warm"
    colour: Colour = Colour.RED
    mail: Annotated[str, Meta(extra_json_schema={"format": "email"})] | None = None
    second: Colour | None = None
    hobbies: list[Literal["chess", "golf"]] = []


@dataclass
class Place:
    city: str
    zip: int = 0


class Choice(TypedDict):
    agree: bool


async def asked_for(server: Server, kind: Any, answer: Any) -> tuple[dict[str, Any], Any]:
    """The form a type makes, and what the function gets for an answer."""
    got: list[Any] = []

    @server.tool
    async def ask(ctx: Context) -> None:
        got.append((await ctx.elicit("?", kind)).content)

    client = Answerer(elicit=accept(**answer))
    result = await client.call(server, "modern", "ask")
    assert "isError" not in result, result
    return client.asked[0]["requestedSchema"], got[-1]


async def test_a_struct_makes_a_flat_form_of_the_kinds_the_protocol_knows(server: Server) -> None:
    schema, person = await asked_for(server, Person, {"name": "Ada", "colour": "blue", "hobbies": ["golf"]})
    assert person == Person("Ada", colour=Colour.BLUE, hobbies=["golf"])
    assert schema["type"] == "object"
    assert schema["required"] == ["name"]
    assert schema["properties"] == {
        "name": {"type": "string", "minLength": 1, "title": "Your name", "description": "As on your card"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
        "height": {"type": "number", "default": 1.7},
        "member": {"type": "boolean", "default": False},
        "tone": {"type": "string", "enum": ["formal", "warm"], "default": "warm"},
        "colour": {"type": "string", "enum": ["blue", "red"], "default": "red", "title": "Colour"},
        "mail": {"type": "string", "format": "email"},
        "second": {"type": "string", "enum": ["blue", "red"], "title": "Colour"},
        "hobbies": {"type": "array", "items": {"type": "string", "enum": ["chess", "golf"]}, "default": []},
    }
    jsonschema_rs.validator_for(schema)


async def test_a_dataclass_or_a_typed_dict_makes_a_form_too(server: Server) -> None:
    schema, place = await asked_for(server, Place, {"city": "Porto"})
    assert place == Place("Porto", 0)
    assert (list(schema["properties"]), schema["required"]) == (["city", "zip"], ["city"])
    server.remove_tool("ask")
    schema, choice = await asked_for(server, Choice, {"agree": True})
    assert choice == {"agree": True}
    assert schema["properties"] == {"agree": {"type": "boolean"}}


def test_what_no_form_can_hold_is_refused() -> None:
    class Nested(Struct):
        place: Place

    class Maybe(Struct):
        place: Place | None = None

    class Lists(Struct):
        names: list[str]

    class Numbers(Struct):
        size: Literal[1, 2]

    class Mixed(Struct):
        value: int | str

    class Table(Struct):
        table: dict[str, int]

    for kind in (Nested, Maybe, Lists, Numbers, Mixed, Table):
        with pytest.raises(TypeError, match=f"'{kind.__struct_fields__[0]}'"):
            Elicit("?", kind)


def test_a_form_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a usable JSON Schema"):
        Elicit("?", {"type": "object", "properties": {"a": {"type": "text"}}})


# Links


async def test_a_link_is_asked_for_and_only_the_consent_comes_back(server: Server, era: Any) -> None:
    @server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Please pay", "https://pay.example/7")
        return f"{answer.action}, {answer.content}"

    client = Answerer(elicit={"action": "accept"})
    assert text_of(await client.call(server, era, "pay")) == "accept, None"
    (asked,) = client.asked
    assert (asked["mode"], asked["message"], asked["url"]) == ("url", "Please pay", "https://pay.example/7")
    assert ("elicitationId" in asked) == (era == "legacy"), "an id is the legacy revision's own"


# Sampling


async def test_a_prompt_is_sampled_with_its_parameters(server: Server, era: Any) -> None:
    @server.tool
    async def think(ctx: Context) -> str:
        answer = await ctx.sample(
            "Capital of France?",
            max_tokens=10,
            system="Be brief",
            temperature=0.5,
            stop_sequences=["."],
            model_preferences={"hints": [{"name": "small"}]},
            metadata=None,
        )
        return f"{answer.role} {answer.text} {answer.model} {answer.stop_reason}"

    client = Answerer(sample=said("Paris") | {"stopReason": "endTurn"})
    assert text_of(await client.call(server, era, "think")) == "assistant Paris m-1 endTurn"
    assert client.asked == [
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
            "maxTokens": 10,
            "systemPrompt": "Be brief",
            "temperature": 0.5,
            "stopSequences": ["."],
            "modelPreferences": {"hints": [{"name": "small"}]},
        }
    ]


async def test_messages_are_sampled_as_they_are_and_text_is_gathered_from_all_blocks(
    server: Server, era: Any
) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]

    @server.tool
    async def think(ctx: Context) -> str:
        return (await ctx.sample(messages)).text

    blocks = [{"type": "text", "text": "Pa"}, {"type": "image", "data": ""}, {"type": "text", "text": "ris"}]
    client = Answerer(sample={"role": "assistant", "content": blocks, "model": "m"})
    assert text_of(await client.call(server, era, "think")) == "Paris"
    assert client.asked[0]["messages"] == messages


# Roots


async def test_roots_are_listed(server: Server, era: Any) -> None:
    @server.tool
    async def folders(ctx: Context) -> list[list[str | None]]:
        return [[root.uri, root.name] for root in await ctx.roots()]

    result = await Answerer(roots=ROOTS).call(server, era, "folders")
    assert result["structuredContent"] == {"result": [["file:///a", "a"], ["file:///b", None]]}


# Several


async def test_several_questions_are_put_at_once_and_answered_by_name(server: Server, era: Any) -> None:
    @server.tool
    async def plan(ctx: Context) -> str:
        answers = await ctx.ask(
            who=Elicit("Your name?", NAME),
            pay=ElicitUrl("Pay", "https://pay.example"),
            line=Sample("A line", max_tokens=5),
            places=Roots(),
        )
        who, pay, line, places = answers["who"], answers["pay"], answers["line"], answers["places"]
        return f"{who.content['name']} {pay.action} {line.text} {places[0].uri}"

    client = Answerer(elicit=accept(name="Ada"), sample=said("so"), roots=ROOTS)
    assert text_of(await client.call(server, era, "plan")) == "Ada accept so file:///a"
    assert len(client.asked) == 4


async def test_questions_one_after_the_other_each_get_their_own_answer(server: Server, era: Any) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        names = [(await ctx.elicit(f"Name {n}?", NAME)).content["name"] for n in range(3)]
        return " ".join(names)

    def answer(question: Elicitation) -> Any:
        return accept(name=question.message.removesuffix("?"))

    async with Client(server, era=era, on_elicit=answer) as client:
        assert text_of((await client.call_tool("greet")).raw) == "Name 0 Name 1 Name 2"


async def test_questions_side_by_side_in_a_task_group_work_in_both_eras(server: Server, era: Any) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ctx.elicit("First?", NAME, key="first"))
            second = group.create_task(ctx.elicit("Second?", NAME, key="second"))
        return f"{first.result().content['name']} {second.result().content['name']}"

    def answer(question: Elicitation) -> Any:
        return accept(name=question.message)

    async with Client(server, era=era, on_elicit=answer) as client:
        assert text_of((await client.call_tool("greet")).raw) == "First? Second?"


async def test_gathered_questions_work_in_both_eras(server: Server, era: Any) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        answers = await asyncio.gather(*(ctx.elicit(f"{n}?", NAME, key=f"name-{n}") for n in range(3)))
        return " ".join(answer.content["name"] for answer in answers)

    def answer(question: Elicitation) -> Any:
        return accept(name=question.message)

    async with Client(server, era=era, on_elicit=answer) as client:
        assert text_of((await client.call_tool("greet")).raw) == "0? 1? 2?"


async def test_when_one_question_fails_the_others_are_no_longer_asked(server: Server) -> None:
    sampling, dropped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def plan(ctx: Context) -> None:
        await ctx.ask(who=Elicit("Who?", NAME), line=Sample("A line"))

    async def refuse(_: Any) -> Any:
        await sampling.wait()
        raise McpError(-1, "No")

    async def never(_: Any) -> Any:
        sampling.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()

    async with Client(server, era="legacy", on_elicit=refuse, on_sample=never) as client:
        with pytest.raises(McpError, match="No"):
            await client.call_tool("plan")
        await soon(dropped.wait())


async def test_two_questions_of_one_key_are_the_authors_mistake(
    server: Server, era: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def twice(ctx: Context) -> str:
        await ctx.elicit("First?", NAME, key="name")
        await ctx.elicit("Second?", NAME, key="name")
        return "never"

    result = await Answerer(elicit=accept(name="Ada")).call(server, era, "twice")
    assert result["isError"] is True
    assert "'name'" in caplog.text


async def test_a_value_is_remembered_once_per_call_however_many_rounds_it_takes(
    server: Server, era: Any
) -> None:
    made: list[int] = []

    async def make() -> int:
        made.append(len(made))
        return made[-1]

    @server.tool
    async def order(ctx: Context) -> list[Any]:
        number = await ctx.remember("number", make)
        await ctx.elicit("Sure?", NAME)
        word = await ctx.remember("word", lambda: "plain")
        await ctx.elicit("Really?", NAME)
        return [number, await ctx.remember("number", make), word]

    client = Answerer(elicit=accept(name="Ada"))
    for call in range(2):
        result = await client.call(server, era, "order")
        assert result["structuredContent"] == {"result": [call, call, "plain"]}
    assert made == [0, 1]


async def test_progress_of_what_is_remembered_comes_once_though_the_function_runs_again(
    server: Server, era: Any
) -> None:
    @server.tool
    async def dinner(ctx: Context) -> str:
        async def cook() -> str:
            await ctx.report_progress(1, total=2)
            return "soup"

        dish = await ctx.remember("dish", cook)
        await ctx.elicit("Serve it?", NAME)
        await ctx.report_progress(2, total=2)
        return dish

    heard: list[float] = []
    client = Answerer(elicit=accept(name="Ada"))
    client.options["on_progress"] = lambda at: heard.append(at.progress)
    assert text_of(await client.call(server, era, "dinner")) == "soup"
    assert heard == [1, 2]


async def test_an_authors_own_handler_does_not_swallow_a_question(server: Server, era: Any) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Your name?", NAME)).content["name"]
        except Exception:  # careless, and common
            return "swallowed"

    assert text_of(await Answerer(elicit=accept(name="Ada")).call(server, era, "greet")) == "Ada"


# Clients that cannot


QUESTIONS: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("form", Elicit("?", NAME), {}, {"elicitation": {}}),
    ("form, links only", Elicit("?", NAME), {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
    ("link", ElicitUrl("?", "https://a.b"), {}, {"elicitation": {"url": {}}}),
    ("link, forms only", ElicitUrl("?", "https://a.b"), {"elicitation": {}}, {"elicitation": {"url": {}}}),
    ("sample", Sample("?"), {}, {"sampling": {}}),
    ("sample with tools", Sample("?", tools=[]), {"sampling": {}}, {"sampling": {"tools": {}}}),
    ("roots", Roots(), {}, {"roots": {}}),
    ("roots, declared wrongly", Roots(), {"roots": True}, {"roots": {}}),
]


@pytest.mark.parametrize(
    ("question", "declared", "required"),
    [case[1:] for case in QUESTIONS],
    ids=[case[0] for case in QUESTIONS],
)
async def test_a_client_that_did_not_declare_it_is_not_asked(
    server: Server, era: Any, question: Any, declared: dict[str, Any], required: dict[str, Any]
) -> None:
    @server.tool
    async def ask(ctx: Context) -> None:
        await ctx.ask(it=question)

    client = Answerer()
    if era == "legacy":
        result = await client.call(server, era, "ask", declared)
        assert result["isError"] is True
        assert next(iter(required)) in text_of(result)
    else:
        with pytest.raises(MissingCapability) as error:
            await client.call(server, era, "ask", declared)
        assert error.value.code == -32021
        assert error.value.data == {"requiredCapabilities": required}
    assert client.asked == []


async def test_a_tool_can_look_before_it_asks(server: Server, era: Any) -> None:
    @server.tool
    async def think(ctx: Context) -> str:
        if "sampling" not in ctx.caller.capabilities:
            return "on my own"
        return (await ctx.sample("?")).text

    assert text_of(await Answerer().call(server, era, "think", {})) == "on my own"
    assert text_of(await Answerer(sample=said("together")).call(server, era, "think", {})) == "together"


async def test_an_empty_declaration_of_elicitation_means_forms(greeter: Server, era: Any) -> None:
    client = Answerer(elicit=accept(name="Ada"))
    assert text_of(await client.call(greeter, era, "greet", {"elicitation": {}})) == "Hello Ada"


async def test_an_error_of_the_client_can_be_caught_by_the_tool(server: Server) -> None:
    @server.tool
    async def think(ctx: Context) -> str:
        try:
            return (await ctx.sample("?")).text
        except McpError as error:
            return f"went on without: {error.code} {error.message}"

    def refuse(request: Any) -> Any:
        raise McpError(-1, "User rejected sampling request")

    async with Client(server, era="legacy", on_sample=refuse) as client:
        text = text_of((await client.call_tool("think")).raw)
    assert text == "went on without: -1 User rejected sampling request"
