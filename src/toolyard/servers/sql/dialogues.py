"""How two APIs are spoken to: Anthropic's messages, and chat completions as OpenAI began them.

Anthropic's models fill the form as a tool that they must use. The others are asked for JSON in words, because
not every server that speaks chat completions knows tools.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from .forms import Form, Unreadable, read

T = TypeVar("T")

MOST_TOKENS = 1_000


class Anthropic:
    url = "https://api.anthropic.com"
    path = "/v1/messages"
    variable = "ANTHROPIC_API_KEY"
    model = "claude-haiku-4-5-20251001"
    fallback_model = "claude-sonnet-4-5-20250929"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def body(self, model: str, system: str, text: str, form: Form) -> dict[str, Any]:
        return {
            "model": model,
            "max_tokens": MOST_TOKENS,
            "system": system,
            "messages": [{"role": "user", "content": text}],
            "tools": [{"name": form.name, "description": form.description, "input_schema": form.schema}],
            "tool_choice": {"type": "tool", "name": form.name},
        }

    def answer(self, reply: Any, form: Form) -> dict[str, Any]:
        said = _typed(reply, _Message)
        if said.stop_reason == "max_tokens":  # half a statement may be another one
            raise Unreadable
        for block in said.content:
            if block.type == "tool_use" and block.name == form.name:
                return block.input
        if said.stop_reason == "refusal":
            raise Unreadable(is_refusal=True)
        return read("\n".join(block.text for block in said.content if block.type == "text"), form)


class OpenAi:
    url = "https://api.openai.com/v1"
    path = "/chat/completions"
    variable = "OPENAI_API_KEY"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, model: str, system: str, text: str, form: Form) -> dict[str, Any]:
        # No limit of tokens and no temperature: there is no name, and no value, that all servers take.
        wanted = msgspec.json.encode(form.schema).decode()
        system = f"{system}\n\n{form.description} Answer with one JSON object and nothing else: {wanted}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return {"model": model, "messages": messages}

    def answer(self, reply: Any, form: Form) -> dict[str, Any]:
        choices = _typed(reply, _Completion).choices
        if not choices:
            raise Unreadable
        message = choices[0].message
        if message.refusal:
            raise Unreadable(is_refusal=True)
        return read(message.content or "", form)


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] = {}


class _Message(Struct):
    content: list[_Block]
    stop_reason: str | None = None


class _Said(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Said


class _Completion(Struct):
    choices: list[_Choice]


def _typed(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise Unreadable from None
