"""Calls that a model writes into its text, and texts that only look like some."""

import asyncio
from typing import Any

import pytest

from tests.agents.backends.conversations import text_of, user
from tests.agents.scripted import ScriptedModel, said, use
from toolyard.agents.backends.base import ModelRequest, ToolSpec
from toolyard.agents.backends.text_calls import TextCallsModel, calls_in, writes_calls
from toolyard.agents.messages import ToolUsePart

ADD = ToolSpec(
    "add",
    "Adds.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "number"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["a", "b"],
    },
)
LIST = ToolSpec("files.list", "Lists.", {"type": "object", "properties": {}})
TOOLS = (ADD, LIST)
CALL = '{"name": "add", "arguments": {"a": 20, "b": 22}}'
ARGUMENTS = {"a": 20, "b": 22}


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n  {CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```\n",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>\n{CALL}\n",
        f"I will add them.\n<tool_call>\n{CALL}\n</tool_call>",
        "{" + CALL + "}",
        CALL.replace("{", "{{").replace("}", "}}"),
        '```json\n{{"name": "add", "arguments": {{"a": 20, "b": 22}}}}\n```',
        '{"name": "add", "parameters": {"a": 20, "b": 22}}',
        '{"tool": "add", "arguments": {"a": 20, "b": 22}}',
        '{"name": "add", "arguments": "{\\"a\\": 20, \\"b\\": 22}"}',
        '{"type": "function", "function": {"name": "add", "arguments": {"a": 20, "b": 22}}}',
        f"[{CALL}]",
    ],
)
def test_a_reply_that_is_nothing_but_a_call_is_one(text: str):
    assert calls_in(text, TOOLS) == [("add", ARGUMENTS)]


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"name": "files_list"}}</tool_call>',
        f'[{CALL}, {{"name": "files.list", "arguments": {{}}}}]',
        f'```json\n{CALL}\n```\n```json\n{{"name": "files.list", "arguments": null}}\n```',
    ],
)
def test_several_calls_are_several(text: str):
    names = [name for name, _ in calls_in(text.replace("files_list", "files.list"), TOOLS)]
    assert names == ["add", "files.list"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The sum is 42.",
        f"To add, one writes {CALL}.",
        f"A call looks like this:\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n```\nThat is how it is called.",
        f"Models write <tool_call>{CALL}</tool_call>",
        f"Models write\n<tool_call>{CALL}</tool_call>\nand wait.",
        '{"name": "subtract", "arguments": {"a": 20, "b": 22}}',
        '{"name": "add", "arguments": {"a": 20}}',
        '{"name": "add", "arguments": {"a": 20, "b": 22, "c": 1}}',
        '{"name": "add", "arguments": {"a": "twenty", "b": 22}}',
        '{"name": "add", "arguments": {"a": true, "b": 22}}',
        '{"name": "add", "arguments": [20, 22]}',
        '{"name": "add", "arguments": {"a": 20, "b": 22}, "price": 5}',
        '{"name": "add", "description": "Adds numbers"}',
        '{"sum": 42}',
        f'[{CALL}, {{"sum": 42}}]',
        '"add"',
        "{" * 5000,
        "[" * 5000,
        '{"name": "add", "arguments": ' + '{"a":' * 3000,
    ],
)
def test_a_reply_that_says_more_or_something_else_is_a_text(text: str):
    assert calls_in(text, TOOLS) == []


@pytest.mark.parametrize(
    "name", ["qwen2.5-coder:1.5b", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen25_coder"]
)
def test_models_that_are_known_for_it(name: str):
    assert writes_calls(name)
    assert not writes_calls("gpt-4o-mini")


def asked(*steps: Any) -> tuple[Any, list[str]]:
    shown: list[str] = []
    model = TextCallsModel(ScriptedModel(*steps))
    return asyncio.run(model.respond(ModelRequest("", (user("20 + 22?"),), TOOLS, 100), shown.append)), shown


def test_the_reply_becomes_the_call_and_nothing_of_it_is_shown():
    reply, shown = asked(said(f"```json\n{CALL}\n```"))
    (part,) = reply.message.parts
    assert (part, reply.stop, shown) == (ToolUsePart("call_1", "add", ARGUMENTS), "tool_use", [])


def test_a_text_is_shown_as_it_is():
    reply, shown = asked(said("The sum is 42."))
    assert (text_of(reply), reply.stop, shown) == ("The sum is 42.", "end", ["The sum is 42."])


def test_a_model_that_calls_as_it_should_is_left_alone():
    reply, _ = asked(said(CALL, use("add", a=1, b=2)))
    assert [part.name for part in reply.message.parts if isinstance(part, ToolUsePart)] == ["add"]
    assert text_of(reply) == CALL
