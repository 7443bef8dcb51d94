"""Models of both APIs against their emulators, and requests to send them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.emulators.anthropic_messages import ScriptedClaude, scripted_claude
from tests.emulators.openai_chat import ScriptedChat, scripted_chat
from toolyard.agents.backends import Retries, open_model
from toolyard.agents.backends.base import Model, ModelReply, ModelRequest, ToolSpec
from toolyard.agents.backends.transport import PooledModelTransport
from toolyard.agents.messages import ChatMessage, Part, TextPart, ToolUsePart

ADD = ToolSpec(
    "add",
    "Adds two numbers.",
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
)
KEY = "sk-secret-0123456789"

Emulator = ScriptedClaude | ScriptedChat
Conversation = Callable[..., AbstractAsyncContextManager[tuple[Model, Any]]]


class Waits:
    """Stands in for sleeping, and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def request(
    *messages: ChatMessage, tools: tuple[ToolSpec, ...] = (ADD,), system: str = "Be brief."
) -> ModelRequest:
    return ModelRequest(system, messages or (user("What is 1 + 2?"),), tools, 1000)


def user(*parts: Part | str) -> ChatMessage:
    return ChatMessage("user", tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def text_of(reply: ModelReply) -> str:
    return "".join(part.text for part in reply.message.parts if isinstance(part, TextPart))


def uses_of(reply: ModelReply) -> list[ToolUsePart]:
    return [part for part in reply.message.parts if isinstance(part, ToolUsePart)]


def retries(waits: Waits | None = None, **more: Any) -> Retries:
    return Retries(wait=waits or Waits(), spread=lambda: 0.0, **more)


def conversation(api: str) -> Conversation:
    @asynccontextmanager
    async def open_one(
        script: Any, silent_seconds: float = 60, **options: Any
    ) -> AsyncGenerator[tuple[Model, Emulator]]:
        options.setdefault("retries", retries())
        serve = scripted_chat(script) if api == "openai" else scripted_claude(script, only_with_tools=False)
        async with serve as emulator:
            environ = {"OPENAI_BASE_URL": emulator.url, "ANTHROPIC_BASE_URL": emulator.url}
            environ |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, **options.pop("environ", {})}
            transport = PooledModelTransport(environ, silent_seconds)
            model = open_model(f"{api}:scripted-1", environ=environ, transport=transport, **options)
            try:
                yield model, emulator
            finally:
                await model.close()

    return open_one
