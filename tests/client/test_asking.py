"""What a server asks its client, in the way of either era, and who answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Connect
from toolyard.client import Elicitation, ElicitResult, McpError, SampleRequest, SampleResult


async def test_a_form_is_filled_and_its_defaults_are_added(connect: Connect) -> None:
    asked: list[Elicitation] = []

    def fill(form: Elicitation) -> ElicitResult:
        asked.append(form)
        return form.accept(name="Ada")

    async with connect(on_elicit=fill) as client:
        said = (await client.call_tool("greet")).text
    assert said == "accept: {'manner': 'warmly', 'name': 'Ada'}"
    assert [(form.message, form.url) for form in asked] == [("Your name?", None)]
    assert asked[0].schema is not None


async def test_a_handler_may_take_its_time(connect: Connect) -> None:
    async def fill(form: Elicitation) -> ElicitResult:
        await asyncio.sleep(2.1)  # longer than the server may be silent: it is not the server who is slow
        return form.accept(name="Ada", manner="slowly")

    async with connect(on_elicit=fill, timeout=2.0) as client:
        assert "slowly" in (await client.call_tool("greet", timeout=2.0)).text


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_form_may_be_declined_or_left(connect: Connect, action: str) -> None:
    async with connect(on_elicit=lambda form: getattr(form, action)()) as client:
        assert (await client.call_tool("greet")).text == f"{action}: None"


async def test_a_link_is_shown_and_agreed_to(connect: Connect) -> None:
    links: list[str | None] = []

    def agree(link: Elicitation) -> ElicitResult:
        links.append(link.url)
        return link.accept()

    async with connect(on_elicit=agree) as client:
        assert (await client.call_tool("pay")).text == "accept"
    assert links == ["https://pay.example/7"]


async def test_the_clients_model_is_asked(connect: Connect) -> None:
    asked: list[SampleRequest] = []

    async def write(request: SampleRequest) -> SampleResult:
        asked.append(request)
        return SampleResult("What a lamp!", "example-model")

    async with connect(on_sample=write) as client:
        assert (await client.call_tool("praise")).text == "What a lamp!"
    (request,) = asked
    assert (request.max_tokens, request.system) == (20, "Be brief")
    assert request.messages[0]["content"]["text"] == "Praise the lamp"


async def test_folders_are_told_and_may_change(connect: Connect, tmp_path: Path) -> None:
    async with connect(roots=[tmp_path, "file:///other"]) as client:
        assert (await client.call_tool("folders")).structured == {
            "result": [tmp_path.as_uri(), "file:///other"]
        }
        await client.set_roots([])
        assert (await client.call_tool("folders")).structured == {"result": []}


async def test_several_questions_come_one_after_the_other(connect: Connect) -> None:
    def bid(form: Elicitation) -> ElicitResult:
        return form.accept(name=form.message)

    async with connect(on_elicit=bid) as client:
        assert (await client.call_tool("haggle")).text == "Bid 1?, Bid 2?, Bid 3?"


async def test_a_question_that_nobody_answers_fails_the_call_with_what_is_missing(connect: Connect) -> None:
    async with connect() as client:
        try:
            result = await client.call_tool("greet")
        except McpError as error:  # modern
            said, failed = error.message, True
        else:
            said, failed = result.text, result.is_error
    assert failed
    assert "elicitation" in said


async def test_an_answer_in_its_wire_form_will_do(connect: Connect) -> None:
    def fill(form: Elicitation) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": "Bob"}}

    async with connect(on_elicit=fill) as client:
        assert "Bob" in (await client.call_tool("greet")).text
