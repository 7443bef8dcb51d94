"""Servers that deviate from OpenAI's chat completions, as llama.cpp, vLLM, Ollama and others do."""

import json
from typing import Any

import pytest

from tests.agents.backends.conversations import conversation, request, text_of, user, uses_of
from tests.emulators.scripted import Events, Failing, Garbage, Said, ToolUse
from toolyard.agents.backends.base import ModelError, ModelReply
from toolyard.agents.messages import ChatMessage, ImagePart, TextPart, ToolResultPart, ToolUsePart

talk = conversation("openai")


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    name = {"name": fields.pop("name")} if "name" in fields else {}
    return delta(tool_calls=[{**fields, "function": {**name, "arguments": arguments}}])


async def reply_to(*script: Any, **more: Any) -> ModelReply:
    async with talk(script, **more) as (model, _):
        return await model.respond(request())


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param(
            [call('{"a": 1}', name="add", index=0), call('{"a": 2}', name="add", index=1)],
            [{"a": 1}, {"a": 2}],
            id="without ids",
        ),
        pytest.param(
            [call({"a": 1}, name="add", index=0, id="x"), delta("stop")],
            [{"a": 1}],
            id="arguments as an object",
        ),
        pytest.param(
            [call('{"a": 1}', name="add", id="x", index=0), call('{"a": 2}', name="add", id="y", index=0)],
            [{"a": 1}, {"a": 2}],
            id="every call has index 0",
        ),
        pytest.param(
            [call('{"a"', name="add"), call(": 1}"), call('{"a": 2}', name="add")],
            [{"a": 1}, {"a": 2}],
            id="without an index",
        ),
        pytest.param(
            [call("", name="add", id="x", index=0), call('{"a": 1}', name="add", id="x", index=0)],
            [{"a": 1}],
            id="name and id in every piece",
        ),
        pytest.param(
            [call('"{\\"a\\": 1}"', name="add", id="x", index=0)], [{"a": 1}], id="arguments encoded twice"
        ),
        pytest.param([call(None, name="add", id="x", index=0)], [{}], id="no arguments"),
        pytest.param(
            [call("{}", name="add", id="x", index=0), call("{}", name="add", id="x", index=1)],
            [{}, {}],
            id="the same id twice",
        ),
    ],
)
async def test_tool_calls_in_every_form_are_read(events: list[Any], found: list[Any]) -> None:
    reply = await reply_to(Events([*events, delta("stop")]))
    uses = uses_of(reply)
    assert [use.arguments for use in uses] == found
    assert len({use.id for use in uses}) == len(uses)
    assert all(use.id for use in uses)
    assert reply.stop == "tool_use"


async def test_made_up_ids_are_the_same_in_every_run_and_new_in_every_turn() -> None:
    events = Events([call("{}", name="add", index=0), delta("tool_calls")])
    async with talk([events, events]) as (model, _):
        first = uses_of(await model.respond(request()))[0]
        said = ChatMessage("assistant", (first,))
        result = ChatMessage("user", (ToolResultPart(first.id, (TextPart("3"),)),))
        second = uses_of(await model.respond(request(user("Add."), said, result)))[0]
    assert (first.id, second.id) == ("call_1", "call_2")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("tool_calls", "end"),
        ("eos", "end"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
    ],
)
async def test_reasons_for_the_end_are_understood(reason: str, stop: str) -> None:
    assert (await reply_to(Said("Well.", reason=reason))).stop == stop


async def test_an_end_without_reason_is_an_end_if_the_stream_says_that_it_is_done() -> None:
    assert text_of(await reply_to(Events([delta(content="Well.")]))) == "Well."


async def test_an_end_without_reason_and_without_done_is_a_cut() -> None:
    with pytest.raises(ModelError) as raised:
        await reply_to(*[Events([delta(content="Well.")], is_done=False)] * 3)
    assert raised.value.kind == "cut"


async def test_a_stream_without_any_choice_is_empty() -> None:
    with pytest.raises(ModelError) as raised:
        await reply_to(Events([{"choices": []}]))
    assert raised.value.kind == "empty"


async def test_a_server_that_does_not_stream_is_read_whole() -> None:
    body = {"choices": [{"message": {"content": "Well.", "tool_calls": None}, "finish_reason": None}]}
    reply = await reply_to(Garbage(json.dumps(body).encode()))
    assert (text_of(reply), reply.usage_is_estimated) == ("Well.", True)


async def test_content_in_blocks_is_read() -> None:
    reply = await reply_to(Events([delta(content=[{"type": "text", "text": "Well."}]), delta("stop")]))
    assert text_of(reply) == "Well."


@pytest.mark.parametrize(
    ("refusal", "gone", "there"),
    [
        ("Unknown parameter: 'stream_options'.", "stream_options", "stream"),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("unknown field max_tokens", "max_tokens", "stream"),
        ("Cannot use tools with stream", "stream", "tools"),
    ],
)
async def test_a_parameter_that_the_server_refuses_is_left_out_from_then_on(
    refusal: str, gone: str, there: str
) -> None:
    async with talk([Failing(400, message=refusal), "One.", "Two."]) as (model, api):
        one, two = await model.respond(request()), await model.respond(request())
    assert (text_of(one), text_of(two)) == ("One.", "Two.")
    for asked in api.requests[1:]:
        assert gone not in asked.body
        assert there in asked.body


async def test_a_server_without_pictures_is_told_of_them() -> None:
    picture = ImagePart("image/png", "aGk=")
    use = ChatMessage("assistant", (ToolUsePart("1", "look", {}),))
    result = ChatMessage("user", (ToolResultPart("1", (picture,)),))
    refusal = Failing(400, message="This model does not support image input")
    async with talk([refusal, "I see none."]) as (model, api):
        await model.respond(request(user("See", picture), use, result))
    assert "aGk=" not in str(api.requests[1].body)
    assert "image/png that this model cannot be shown" in api.requests[1].tool_results[0]


async def test_a_model_without_tools_says_so() -> None:
    with pytest.raises(ModelError) as raised:
        await reply_to(Failing(400, message='"scripted-1" does not support tools'))
    assert "choose a model that can call tools" in raised.value.hint


async def test_cached_tokens_and_a_cost_that_the_server_names_are_taken() -> None:
    usage = {
        "prompt_tokens": 90,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 64},
        "cost": 0.25,
    }
    reply = await reply_to(Said("Well.", usage=usage))
    assert (reply.usage.input, reply.usage.cache_read, reply.cost) == (90, 64, 0.25)


async def test_arguments_cut_off_by_the_limit_are_malformed() -> None:
    reply = await reply_to(Said(ToolUse("add", '{"a": 1, '), reason="length"))
    assert (reply.stop, uses_of(reply)[0].malformed) == ("max_tokens", '{"a": 1, ')
