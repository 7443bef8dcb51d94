"""A model that follows a case's script, so that evals run without any API and cost nothing.

It behaves as a model would in any view: a tool that is listed is called directly; one that is not is called
through `call_tool`, after a search that finds it where there is one. Its tokens are counted from the
requests that a real model would be sent.
"""

from collections.abc import Callable, Iterator

import msgspec

from ..backends.base import ModelReply, ModelRequest
from ..backends.openai import ChatDialect, chat_body
from ..messages import ChatMessage, Part, TextPart, TokenUsage, ToolResultPart, ToolUsePart
from .cases import EvalCase, ScriptedStep

SCRIPTED = "scripted"
"""The model's specification."""
BYTES_PER_TOKEN = 4
MAX_SAID = 2000
SEARCH, CALL = "search_tools", "call_tool"


class ScriptedCaseModel:
    name = SCRIPTED
    provider = SCRIPTED
    context_tokens = 1_000_000

    def __init__(self, case: EvalCase) -> None:
        self._case = case

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        part = self._next(request)
        if isinstance(part, TextPart) and on_text is not None:
            on_text(part.text)
        body = msgspec.json.encode(chat_body(self.name, request, ChatDialect()))
        written = part.text if isinstance(part, TextPart) else f"{part.name}{part.arguments}"
        usage = TokenUsage(_tokens(len(body)), _tokens(len(written.encode())))
        stop = "tool_use" if isinstance(part, ToolUsePart) else "end"
        return ModelReply(ChatMessage("assistant", (part,)), stop, usage, model=self.name)

    async def close(self) -> None:
        """There is nothing to close."""

    def _next(self, request: ModelRequest) -> TextPart | ToolUsePart:
        exchanges = list(_exchanges(request))
        done = sum(use.name != SEARCH for use, _ in exchanges)
        if done >= len(self._case.script):
            last = exchanges[-1][1] if exchanges else ""
            return TextPart(self._case.says.replace("{result}", last[:MAX_SAID]) or "Done.")
        step = self._case.script[done]
        id = f"call_{len(exchanges) + 1}"
        listed = {tool.name for tool in request.tools}
        if step.tool in listed:
            return ToolUsePart(id, step.tool, step.arguments)
        if SEARCH not in listed or any(step.tool in text for use, text in exchanges if use.name == SEARCH):
            return ToolUsePart(id, CALL, {"tool": step.tool, "arguments": step.arguments})
        query = self._query(step, [use for use, _ in exchanges])
        if query is None:
            return TextPart(f"I found no tool for this: {step.search or self._case.task}")
        return ToolUsePart(id, SEARCH, {"queries": [{"use_case": query}]})

    def _query(self, step: ScriptedStep, uses: list[ToolUsePart]) -> str | None:
        """In the case's words, then in the task's; None once both were tried."""
        tried = [use.arguments["queries"][0]["use_case"] for use in uses if use.name == SEARCH]
        return next((one for one in (step.search, self._case.task) if one and one not in tried), None)


def _exchanges(request: ModelRequest) -> Iterator[tuple[ToolUsePart, str]]:
    """Each call so far, and the text of its result."""
    parts: list[Part] = [part for message in request.messages for part in message.parts]
    results = {part.id: part for part in parts if isinstance(part, ToolResultPart)}
    for part in parts:
        if isinstance(part, ToolUsePart) and part.id in results:
            texts = [one.text for one in results[part.id].parts if isinstance(one, TextPart)]
            yield part, "\n".join(texts)


def _tokens(size: int) -> int:
    return max(1, -(-size // BYTES_PER_TOKEN))
