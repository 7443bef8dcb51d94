"""A model that says what a test tells it to, and remembers what it was asked."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from toolyard.agents.backends.base import ModelReply, ModelRequest, StopReason
from toolyard.agents.loop import ModelLoop
from toolyard.agents.messages import ChatMessage, Part, TextPart, TokenUsage, ToolResultPart, ToolUsePart

_ids = count(1)

Step = ModelReply | Exception | Callable[[ModelRequest], Awaitable[ModelReply] | ModelReply]


def use(name: str, /, **arguments: object) -> ToolUsePart:
    return ToolUsePart(f"use_{next(_ids)}", name, arguments)


def call(tool: str, /, **arguments: object) -> ToolUsePart:
    """As a model calls a tool of a server in the default view."""
    return use("call_tool", tool=tool, arguments=arguments)


def said(
    *parts: Part | str, stop: StopReason | None = None, tokens: int = 100, cost: float | None = 0.001
) -> ModelReply:
    found = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    has_use = any(isinstance(part, ToolUsePart) for part in found)
    usage = TokenUsage(input=tokens, output=10)
    return ModelReply(
        ChatMessage("assistant", found), stop or ("tool_use" if has_use else "end"), usage, cost=cost
    )


def results_in(request: ModelRequest) -> list[ToolResultPart]:
    """The tool results of the newest message."""
    return [part for part in request.messages[-1].parts if isinstance(part, ToolResultPart)]


def text_of(result: ToolResultPart) -> str:
    return "\n".join(part.text for part in result.parts if isinstance(part, TextPart))


class ScriptedModel:
    """Obeys the protocol `Model`. Each agent has steps of its own, found by a word of its system prompt."""

    name = "scripted-1"
    provider = "scripted"

    def __init__(self, *steps: Step, context_tokens: int = 100_000, **by_agent: Sequence[Step]) -> None:
        self.context_tokens = context_tokens
        self.requests: list[ModelRequest] = []
        self.is_closed = False
        self._steps = {"": list(steps), **{word: list(steps) for word, steps in by_agent.items()}}

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        self.requests.append(request)
        word = next((word for word in self._steps if word and word in request.system), "")
        step = self._steps[word].pop(0) if self._steps[word] else said("nothing more to say")
        if isinstance(step, Exception):
            raise step
        if not isinstance(step, ModelReply):
            found = step(request)
            step = found if isinstance(found, ModelReply) else await found
        if on_text is not None:
            for part in step.message.parts:
                if isinstance(part, TextPart):
                    on_text(part.text)
        return step

    async def close(self) -> None:
        self.is_closed = True


def backend_of(model: ScriptedModel) -> Callable[[str], ModelLoop]:
    return lambda spec: ModelLoop(model)
