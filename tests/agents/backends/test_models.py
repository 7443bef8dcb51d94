"""What both APIs have in common: turns with tools, failures, retries and counts of tokens."""

import asyncio

import pytest

from tests.agents.backends.conversations import (
    ADD,
    KEY,
    Conversation,
    Waits,
    conversation,
    request,
    retries,
    text_of,
    user,
    uses_of,
)
from tests.emulators.scripted import (
    Cut,
    Erring,
    Failing,
    Garbage,
    Hanging,
    Refusing,
    Said,
    Silent,
    Thinking,
    ToolUse,
)
from toolyard.agents.backends import Prices, open_model
from toolyard.agents.backends.base import ModelError, ToolSpec
from toolyard.agents.messages import ChatMessage, ImagePart, TextPart, TokenUsage, ToolResultPart, ToolUsePart

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(params=["openai", "anthropic"])
def talk(request: pytest.FixtureRequest) -> Conversation:
    return conversation(request.param)


async def failure(talk: Conversation, *script: object, **options: object) -> ModelError:
    async with talk(script, **options) as (model, _):
        with pytest.raises(ModelError) as raised:
            await model.respond(request())
    return raised.value


async def test_text_arrives_in_pieces_and_whole(talk: Conversation) -> None:
    pieces: list[str] = []
    async with talk(["The sum is 3."]) as (model, _):
        reply = await model.respond(request(), pieces.append)
    assert (text_of(reply), reply.stop, reply.model) == ("The sum is 3.", "end", "scripted-1")
    assert "".join(pieces) == "The sum is 3."
    assert len(pieces) > 1


async def test_parallel_tool_calls_and_their_results_go_through_two_turns(talk: Conversation) -> None:
    script = [["Let me see.", ToolUse("add", {"a": 1, "b": 2}), ToolUse("add", {"a": 3, "b": 4})], "3 and 7."]
    async with talk(script) as (model, api):
        first = await model.respond(request())
        one, two = uses_of(first)
        results = ChatMessage(
            "user",
            (
                ToolResultPart(one.id, (TextPart("3"),)),
                ToolResultPart(two.id, (TextPart("no"),), is_error=True),
            ),
        )
        last = await model.respond(request(user("Add."), first.message, results))
    assert first.stop == "tool_use"
    assert text_of(first) == "Let me see."
    assert [one.arguments, two.arguments] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert one.id != two.id
    assert text_of(last) == "3 and 7."
    given = [getattr(result, "text", result) for result in api.requests[1].tool_results]
    assert given in (["3", "no"], ["3", "Error: no"])


async def test_names_that_the_api_refuses_are_mapped_both_ways(talk: Conversation) -> None:
    names = ["files.read/all", "files_read_all", "a" * 90, "größe", ""]
    tools = tuple(ToolSpec(name, "", {}) for name in names)

    def call_all(asked: object) -> list[ToolUse]:
        return [ToolUse(name) for name in asked.tool_names]  # type: ignore[attr-defined]

    async with talk([call_all, "ok"]) as (model, api):
        reply = await model.respond(request(tools=tools))
        results = tuple(ToolResultPart(use.id, (TextPart("x"),)) for use in uses_of(reply))
        await model.respond(request(user("go"), reply.message, ChatMessage("user", results), tools=tools))
    assert [use.name for use in uses_of(reply)] == names
    sent = api.requests[0].tool_names
    assert len(set(sent)) == len(names)
    assert all(0 < len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in sent)


async def test_pictures_of_users_and_of_tools_are_sent(talk: Conversation) -> None:
    async with talk(["A dot."]) as (model, api):
        picture = ImagePart("image/png", DOT)
        use = ChatMessage("assistant", (ToolUsePart("call_1", "look", {}),))
        result = ChatMessage("user", (ToolResultPart("call_1", (TextPart("here"), picture)),))
        await model.respond(request(user("See", picture), use, result))
    assert str(api.requests[0].body).count(DOT) == 2


async def test_arguments_that_are_no_object_are_marked_and_can_be_sent_back(talk: Conversation) -> None:
    script = [[ToolUse("add", '{"a": 1, "b"'), ToolUse("add", "[1, 2]"), ToolUse("add", "")], "Sorry."]
    async with talk(script) as (model, api):
        reply = await model.respond(request())
        results = tuple(ToolResultPart(use.id, (TextPart("no"),), is_error=True) for use in uses_of(reply))
        await model.respond(request(user("Add."), reply.message, ChatMessage("user", results)))
    assert [use.malformed for use in uses_of(reply)] == ['{"a": 1, "b"', "[1, 2]", ""]
    assert all(use.arguments == {} for use in uses_of(reply))
    assert "malformed_arguments" in str(api.requests[1].body)


async def test_arguments_that_are_nested_too_deeply_are_marked(talk: Conversation) -> None:
    deep = '{"a":' + "[" * 500 + "]" * 500 + "}"
    async with talk([[ToolUse("add", deep)]]) as (model, _):
        (use,) = uses_of(await model.respond(request()))
    assert (use.arguments, use.malformed) == ({}, deep)


async def test_a_reply_of_nothing_is_a_reply(talk: Conversation) -> None:
    async with talk([Said(())]) as (model, _):
        reply = await model.respond(request())
    assert reply.message.parts == ()
    assert reply.stop == "end"


async def test_a_model_that_declines_stops_with_refusal(talk: Conversation) -> None:
    async with talk([Refusing("I will not.")]) as (model, _):
        reply = await model.respond(request())
    assert (reply.stop, text_of(reply)) == ("refusal", "I will not.")


async def test_a_schema_with_alternatives_at_its_top_is_made_a_plain_object(talk: Conversation) -> None:
    schema = {"anyOf": [{"properties": {"id": {"type": "string"}}}, {"properties": {"name": {}}}]}
    async with talk(["ok"]) as (model, api):
        await model.respond(request(tools=(ToolSpec("find", "", schema),)))
    sent = api.requests[0].body["tools"][0]
    sent = sent.get("input_schema") or sent["function"]["parameters"]
    assert sent == {"type": "object", "properties": {"id": {"type": "string"}, "name": {}}}


async def test_thoughts_go_back_while_tools_are_called(talk: Conversation) -> None:
    script = [[Thinking("Add them."), ToolUse("add", {"a": 1, "b": 2})], "3."]
    async with talk(script) as (model, api):
        first = await model.respond(request())
        result = ChatMessage("user", (ToolResultPart(uses_of(first)[0].id, (TextPart("3"),)),))
        await model.respond(request(user("Add."), first.message, result))
    assert "Add them." in str(api.requests[1].body)


# Retries


async def test_an_overloaded_api_is_asked_again_after_the_time_it_names(talk: Conversation) -> None:
    waits = Waits()
    script = [
        Failing(429, {"retry-after": "7"}),
        Failing(529, {"retry-after-ms": "250", "retry-after": "9"}),
        Failing(
            503, {"retry-after": "Fri, 31 Dec 2027 23:59:59 GMT", "date": "Fri, 31 Dec 2027 23:59:48 GMT"}
        ),
        Failing(500),
        "There.",
    ]
    async with talk(script, retries=retries(waits)) as (model, api):
        reply = await model.respond(request())
    assert text_of(reply) == "There."
    assert len(api.requests) == 5
    assert waits.seconds == [7, 0.25, 11, 4]


async def test_an_api_that_stays_overloaded_is_given_up_with_its_reason(talk: Conversation) -> None:
    waits = Waits()
    error = await failure(talk, *[Failing(529, message="Busy")] * 3, retries=retries(waits, attempts=3))
    assert error.kind == "overloaded"
    assert "Busy" in error.message
    assert "3 attempts" in error.message
    assert waits.seconds == [0.5, 1]


async def test_a_wait_longer_than_a_run_waits_is_not_begun(talk: Conversation) -> None:
    waits = Waits()
    error = await failure(talk, Failing(429, {"retry-after": "86400"}), retries=retries(waits))
    assert (error.kind, error.retry_after, waits.seconds) == ("rate_limited", 86400, [])
    assert "86400 s" in error.hint


@pytest.mark.parametrize("wait", ["soon", "-5", "nan", "inf", ""])
async def test_a_wait_that_makes_no_sense_is_left_out(talk: Conversation, wait: str) -> None:
    waits = Waits()
    async with talk([Failing(429, {"retry-after": wait}), "ok"], retries=retries(waits)) as (model, _):
        await model.respond(request())
    assert waits.seconds == [0.5]


async def test_a_long_wait_is_told(talk: Conversation, caplog: pytest.LogCaptureFixture) -> None:
    async with talk([Failing(529, {"retry-after": "30"}, "Busy"), "ok"]) as (model, _):
        await model.respond(request())
    (line,) = [record for record in caplog.records if record.name == "toolyard.agents"]
    assert line.levelname == "WARNING"
    assert line.getMessage().endswith("Busy; trying again in 30.0 s")


async def test_a_wait_can_be_cancelled(talk: Conversation) -> None:
    begun = asyncio.Event()

    async def wait(seconds: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with talk([Failing(529)], retries=retries(wait)) as (model, _):  # type: ignore[arg-type]
        task = asyncio.create_task(model.respond(request()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_stream_cut_before_or_after_its_first_text_is_begun_again(talk: Conversation) -> None:
    pieces: list[str] = []
    async with talk([Cut(), Cut("The sum "), "The sum is 3."]) as (model, api):
        reply = await model.respond(request(), pieces.append)
    assert text_of(reply) == "The sum is 3."
    assert len(api.requests) == 3
    assert "".join(pieces) == "The sum is 3."


async def test_another_answer_after_a_cut_is_shown_on_a_new_line(talk: Conversation) -> None:
    pieces: list[str] = []
    async with talk([Cut("One"), "Two, then."]) as (model, _):
        await model.respond(request(), pieces.append)
    assert "".join(pieces) == "One\nTwo, then."


async def test_a_stream_that_is_always_cut_ends_as_cut(talk: Conversation) -> None:
    error = await failure(talk, *[Cut("The sum")] * 3)
    assert error.kind == "cut"
    assert "3 attempts" in error.message


async def test_a_cut_tool_call_is_never_half_a_call(talk: Conversation) -> None:
    script = [Cut([ToolUse("add", {"a": 1, "b": 2})]), ToolUse("add", {"a": 5, "b": 6})]
    async with talk(script) as (model, _):
        reply = await model.respond(request())
    assert [use.arguments for use in uses_of(reply)] == [{"a": 5, "b": 6}]


async def test_an_error_within_a_stream_is_tried_again(talk: Conversation) -> None:
    async with talk([Erring("The"), "The sum is 3."]) as (model, _):
        assert text_of(await model.respond(request())) == "The sum is 3."


async def test_a_stream_that_falls_silent_is_given_up_and_its_connection_closed(talk: Conversation) -> None:
    async with talk([Silent("The")] * 3, silent_seconds=0.05) as (model, api):
        with pytest.raises(ModelError, match="said nothing for") as raised:
            await model.respond(request())
        await api.left.wait()
    assert raised.value.kind == "cut"


async def test_a_request_that_is_cancelled_closes_its_connection(talk: Conversation) -> None:
    async with talk([Hanging()]) as (model, api):
        task = asyncio.create_task(model.respond(request()))
        await api.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await api.left.wait()


async def test_a_server_that_is_not_there_is_unreachable(talk: Conversation) -> None:
    dead = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    error = await failure(talk, environ=dead, retries=retries(attempts=2))
    assert error.kind == "unreachable"
    assert "127.0.0.1" in error.message


# What cannot be tried again


@pytest.mark.parametrize(
    ("turn", "kind", "says"),
    [
        (Failing(401, message="invalid x-api-key"), "unauthorized", "_API_KEY"),
        (Failing(403, message="not allowed"), "unauthorized", "_API_KEY"),
        (Failing(404, message="model: scripted-1 does not exist"), "invalid", "'scripted-1'"),
        (Failing(404, message="no such page"), "invalid", ""),
        (
            Failing(400, message="prompt is too long: 210000 tokens > 200000 maximum"),
            "too_long",
            "larger context",
        ),
        (Failing(400, message="This model's maximum context length is 8192 tokens."), "too_long", ""),
        (Failing(413, message="too big"), "too_long", ""),
        (Failing(400, message="Your credit balance is too low"), "refused", "credit"),
        (Failing(429, message="You exceeded your quota", kind="insufficient_quota"), "refused", "credit"),
        (Failing(400, message="filtered", kind="content_filter"), "refused", "declines"),
        (Failing(400, message="temperature is odd"), "invalid", ""),
        (Failing(307, {"location": "https://elsewhere.example/"}), "invalid", "_BASE_URL"),
        (Garbage(b"<!doctype html><h1>Welcome</h1>", "text/html"), "invalid", "_BASE_URL"),
        (Garbage(b"<html>No such page</html>", "text/html", 404), "invalid", "_BASE_URL"),
    ],
)
async def test_a_refused_request_is_not_repeated_and_says_what_to_do(
    talk: Conversation, turn: object, kind: str, says: str
) -> None:
    waits = Waits()
    error = await failure(talk, turn, retries=retries(waits))
    assert error.kind == kind
    assert says in error.hint
    assert waits.seconds == []


async def test_a_key_that_the_api_repeats_is_not_passed_on(talk: Conversation) -> None:
    error = await failure(talk, Failing(401, message=f"Incorrect API key: {KEY}"))
    assert KEY not in f"{error.message} {error.hint}"
    assert "Incorrect API key: …" in error.message


@pytest.mark.parametrize("body", [b"", b"data: {\n\n", b'{"choices": ', b"hello", b"data: [1]\n\n", b"[]"])
async def test_a_body_that_is_not_an_answer_ends_as_cut(talk: Conversation, body: bytes) -> None:
    error = await failure(talk, *[Garbage(body)] * 3)
    assert error.kind == "cut"


async def test_a_request_that_is_too_long_teaches_the_size_of_the_context(talk: Conversation) -> None:
    async with talk([Failing(400, message="This model's maximum context length is 8192 tokens.")]) as (
        model,
        _,
    ):
        with pytest.raises(ModelError):
            await model.respond(request())
        assert model.context_tokens == 8192


@pytest.mark.parametrize(
    "refusal",
    [
        "max_tokens: 1000 > 400, which is the maximum allowed number of output tokens for scripted-1",
        "max_tokens is too large: 1000. This model supports at most 400 completion tokens.",
    ],
)
async def test_a_reply_longer_than_the_model_gives_is_not_asked_for_again(
    talk: Conversation, refusal: str
) -> None:
    async with talk([Failing(400, message=refusal), "One.", "Two."]) as (model, api):
        await model.respond(request())
        await model.respond(request())
    asked = [one.body.get("max_tokens") for one in api.requests]
    assert asked == [1000, 400, 400]


# Tokens and prices


async def test_usage_is_that_of_the_api_and_has_a_price(talk: Conversation) -> None:
    prices = Prices.parse(["other=1/1", "scripted-*=3/15"])
    async with talk(["The sum is 3."], prices=prices) as (model, api):
        reply = await model.respond(request())
    size = api.requests[0].size
    assert reply.usage.input == -(-size // 4)
    assert not reply.usage_is_estimated
    assert reply.cost == pytest.approx((reply.usage.input * 3 + reply.usage.output * 15) / 1e6)


async def test_without_a_price_a_cost_is_unknown(talk: Conversation) -> None:
    async with talk(["ok"]) as (model, _):
        assert (await model.respond(request())).cost is None


@pytest.mark.parametrize(
    ("read", "written"), [(-5, 3), (10**9, 3), (0, 0), (30, 10**9), ("12", "x"), (None, None), (1.5, True)]
)
async def test_impossible_counts_of_tokens_are_estimated_and_marked(
    talk: Conversation, read: object, written: object
) -> None:
    usage = {"prompt_tokens": read, "completion_tokens": written}
    usage |= {"input_tokens": read, "output_tokens": written}
    async with talk([Said("The sum is 3.", usage=usage)]) as (model, api):
        reply = await model.respond(request())
    assert reply.usage_is_estimated
    assert 0 < reply.usage.input < api.requests[0].size
    assert 0 < reply.usage.output < 50


async def test_a_missing_usage_is_estimated(talk: Conversation) -> None:
    async with talk([Said("The sum is 3.", usage={})]) as (model, _):
        reply = await model.respond(request())
    assert reply.usage_is_estimated
    assert reply.usage.output == 4


@pytest.mark.parametrize(
    "text", ["gpt", "gpt=1", "=1/2", "gpt=a/b", "gpt=-1/2", "gpt=1/2/3/4/5", "gpt=nan/1"]
)
def test_a_price_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ModelError, match="is not a price"):
        Prices.parse([text])


def test_cached_tokens_have_prices_of_their_own() -> None:
    usage = TokenUsage(input=1000, output=100, cache_read=600, cache_write=200)
    assert Prices.parse(["m=10/20/1/12.5"]).cost("m", usage) == pytest.approx(
        (200 * 10 + 100 * 20 + 600 * 1 + 200 * 12.5) / 1e6
    )


# Opening


@pytest.mark.parametrize(
    ("spec", "environ", "says"),
    [
        ("gpt-x", {}, "openai:gpt-x"),
        ("claude-x", {}, "anthropic:claude-x"),
        ("", {}, "anthropic:MODEL"),
        ("openai:", {}, "openai:MODEL"),
        ("open-ai:gpt-x", {}, "openai:gpt-x"),
        ("gemini:flash", {}, "OPENAI_BASE_URL"),
        ("openai:gpt-x", {}, "OPENAI_BASE_URL"),
        ("anthropic:claude-x", {}, "ANTHROPIC_AUTH_TOKEN"),
        ("openai:gpt-x", {"OPENAI_BASE_URL": "localhost:8080"}, "https://"),
        ("openai:gpt-x", {"OPENAI_BASE_URL": "http://me:pw@localhost/v1"}, "https://"),
        ("openai:gpt-x", {"OPENAI_API_KEY": "sk-\nsecret"}, "copy"),
        ("openai:gpt-x", {"OPENAI_API_KEY": "k", "TOOLYARD_PRICES": "gpt-x"}, "per million"),
    ],
)
def test_a_model_that_cannot_be_opened_says_what_to_write(
    spec: str, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(ModelError) as raised:
        open_model(spec, environ=environ)
    assert says in raised.value.hint
    assert "pw" not in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_a_server_of_ones_own_needs_no_key() -> None:
    async with conversation("openai")(["ok"], environ={"OPENAI_API_KEY": ""}) as (model, api):
        await model.respond(request())
    assert "Authorization" not in api.requests[0].headers
    assert ADD.name in api.requests[0].tool_names
