"""What only Anthropic's Messages API has: prompt caching, signed thoughts, pauses."""

from tests.agents.backends.conversations import ADD, conversation, request, text_of, user, uses_of
from tests.emulators.scripted import Events, Said, Thinking, ToolUse
from toolyard.agents.backends.base import ToolSpec
from toolyard.agents.messages import ChatMessage, ReasoningPart, TextPart, ToolResultPart

talk = conversation("anthropic")


async def test_tools_system_and_the_last_two_turns_are_marked_for_the_cache() -> None:
    tools = (ADD, ToolSpec("last", "", {}))
    messages = (user("one"), ChatMessage("assistant", (TextPart("two"),)), user("three"))
    async with talk(["ok"]) as (model, api):
        await model.respond(
            request(user("zero"), ChatMessage("assistant", (TextPart("1"),)), *messages, tools=tools)
        )
    body = api.requests[0].body
    blocks = [
        *body["system"],
        *body["tools"],
        *(block for one in body["messages"] for block in one["content"]),
    ]
    marked = [block.get("text") or block.get("name") for block in blocks if "cache_control" in block]
    assert marked == ["Be brief.", "last", "one", "three"]


async def test_cached_tokens_are_part_of_the_input() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 20,
    }
    async with talk([Said("Well.", usage=usage)]) as (model, _):
        reply = await model.respond(request())
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.cache_write) == (60, 30, 20)
    assert not reply.usage_is_estimated


async def test_thoughts_keep_their_signature_and_encrypted_ones_their_data() -> None:
    secret = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "redacted_thinking", "data": "RU5D"},
        },
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "add"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    script = [[Thinking("Hm.", "U0lH"), ToolUse("add")], Events(secret), "ok"]
    async with talk(script) as (model, api):
        messages = [user("Add.")]
        for _ in range(2):
            reply = await model.respond(request(*messages))
            result = ToolResultPart(uses_of(reply)[0].id, (TextPart("3"),))
            messages += [reply.message, ChatMessage("user", (result,))]
        await model.respond(request(*messages))
    sent = [
        block for one in api.requests[2].messages if one["role"] == "assistant" for block in one["content"]
    ]
    assert sent[0] == {"type": "thinking", "thinking": "Hm.", "signature": "U0lH"}
    assert {"type": "redacted_thinking", "data": "RU5D"} in sent


async def test_thoughts_of_another_api_and_empty_texts_are_left_out() -> None:
    said = ChatMessage("assistant", (ReasoningPart("Hm.", "field:reasoning_content"), TextPart(" ")))
    async with talk(["ok"]) as (model, api):
        await model.respond(request(user("One"), said, user("Two", "")))
    assert [one["role"] for one in api.requests[0].messages] == ["user", "user"]


async def test_a_paused_turn_is_taken_up_until_it_is_whole() -> None:
    async with talk([Said("I begin, ", reason="pause_turn"), "and end."]) as (model, api):
        reply = await model.respond(request())
    assert (text_of(reply), reply.stop) == ("I begin, and end.", "end")
    assert api.requests[1].messages[-1]["role"] == "assistant"
    assert reply.usage.input > -(-api.requests[1].size // 4)


async def test_a_token_is_sent_as_a_bearer_and_a_key_as_a_key() -> None:
    environ = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "tok"}
    async with talk(["ok"], environ=environ) as (model, api):
        await model.respond(request())
    headers = api.requests[0].headers
    assert headers["authorization"] == "Bearer tok"
    assert "x-api-key" not in headers
    assert headers["anthropic-version"] == "2023-06-01"
