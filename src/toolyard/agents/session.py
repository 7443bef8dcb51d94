"""One agent of one run, as a backend sees it: its conversation, its tools, its limits.

`Backend` is what drives a session to its end. Our own is `loop.ModelLoop`; one with a loop of its own, such
as the Claude Agent SDK, is its sibling. A session owns the record of the conversation and the execution of
tools; which request goes to which model is the backend's business.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from ..telemetry.run_spans import NO_SPANS, RunSpans
from .backends.base import ToolSpec
from .definition import AgentDefinition
from .events import (
    ModelReplied,
    OnEvent,
    RunWarning,
    TextArrived,
    TurnBegan,
)
from .limits import EndKind, RunStoppedError, Spending
from .messages import ChatMessage, TextPart, TokenUsage, ToolResultPart, ToolUsePart
from .runs import AgentNode


class AgentEnding(Struct, frozen=True):
    """How an agent ended, and its last words."""

    kind: EndKind
    text: str = ""
    reason: str = ""
    """Why it ended, if it is not done."""
    hint: str = ""

    @property
    def is_done(self) -> bool:
        return self.kind == "done"


class ConversationLog(Protocol):
    """Keeps what is said as it is said. Raises RunStoppedError if it cannot."""

    def message(self, agent: str, turn: int, message: ChatMessage) -> None: ...

    def result(self, agent: str, turn: int, result: ToolResultPart) -> None:
        """A tool result, as soon as it is there: those of one turn become one message."""
        ...


ExecuteTool = Callable[[ToolUsePart], Awaitable[ToolResultPart]]
"""Runs one tool. Whatever goes wrong with it is a result that says so; raises nothing but cancellation."""


class AgentSession:
    """What a backend works with. `messages` is the conversation so far; a user's message is the last."""

    def __init__(
        self,
        *,
        id: str,
        definition: AgentDefinition,
        system: str,
        tools: tuple[ToolSpec, ...],
        model: str,
        messages: list[ChatMessage],
        execute: ExecuteTool,
        spending: Spending,
        log: ConversationLog,
        on_event: OnEvent,
        spans: RunSpans = NO_SPANS,
        turn: int = 0,
        node: AgentNode | None = None,
    ) -> None:
        """`model` is its name without the backend's, empty for the backend's own choice.

        `node` is its place in the tree of the run, where what it uses is counted too.
        """
        self.id = id
        self.definition = definition
        self.system = system
        self.tools = tools
        self.model = model
        self.messages = messages
        self.spending = spending
        self.spans = spans
        self.turn = turn
        self.node = node or AgentNode(id=id, name=definition.name, model=model)
        self.is_stopping: RunStoppedError | None = None
        """Why the agent has to end before its next turn."""
        self._first_turn = turn
        self._execute = execute
        self._log = log
        self._emit = on_event

    # A turn: begin_turn, ask the model, reply, call_tools, and again

    def begin_turn(self) -> int:
        """Counts a turn and returns its number. Raises RunStoppedError if there may be none."""
        if self.is_stopping is not None:
            raise self.is_stopping
        self.spending.check()
        own = self.definition.max_turns
        if own is not None and self.turn - self._first_turn >= own:
            raise RunStoppedError("limit", f"limit of turns of {self.definition.name!r}: {own} turns")
        self.turn += 1
        self.spending.turns += 1
        self.node.turns += 1
        self._emit(TurnBegan(self.id, self.turn))
        return self.turn

    def reply(
        self,
        message: ChatMessage,
        usage: TokenUsage,
        cost: float | None = None,
        *,
        model: str = "",
        is_estimated: bool = False,
        seconds: float = 0.0,
    ) -> None:
        """Takes what the model said: into the conversation, the transcript and the count."""
        self.spending.charge(usage, cost, is_estimated)
        self.node.usage += usage
        self.node.cost += cost or 0.0
        self.add(message)
        self._emit(ModelReplied(self.id, self.turn, model, usage, cost, seconds, _text(message)))

    def add(self, message: ChatMessage) -> None:
        """Appends a message of the user, or one that costs nothing."""
        if message.parts:
            self.messages.append(message)
            self._log.message(self.id, self.turn, message)

    async def call_tools(self, uses: Sequence[ToolUsePart]) -> tuple[ToolResultPart, ...]:
        """Runs the tools of one reply at once, and appends the message with their results, in order."""
        if not uses:
            return ()
        running = [asyncio.ensure_future(self.call_tool(use)) for use in uses]
        try:
            results = tuple(await asyncio.gather(*running))
        except BaseException:
            # Nothing goes on unseen: neither after a cancellation nor after a full disk.
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise
        self.messages.append(ChatMessage("user", results))
        return results

    async def call_tool(self, use: ToolUsePart) -> ToolResultPart:
        """Runs one tool and writes its result into the transcript, not into `messages`.

        For backends that keep the conversation themselves. Ours takes `call_tools`.
        """
        result = await self._execute(use)
        self._log.result(self.id, self.turn, result)
        return result

    def note_result(self, result: ToolResultPart) -> None:
        """Writes a result that the backend itself gave into the transcript."""
        self._log.result(self.id, self.turn, result)

    def show_text(self, text: str) -> None:
        """Text of the model as it arrives."""
        self._emit(TextArrived(self.id, text))

    def warn(self, text: str) -> None:
        """Something that the person at the terminal should know."""
        self._emit(RunWarning(self.id, text))


class Backend(Protocol):
    """Drives sessions, several at once if there are sub-agents."""

    @property
    def name(self) -> str:
        """As in a model's specification: "openai", "anthropic" or "claude"."""
        ...

    async def run(self, session: AgentSession) -> AgentEnding:
        """Goes on until the agent ends. RunStoppedError may be raised in the place of an ending."""
        ...

    async def close(self) -> None: ...


def _text(message: ChatMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
