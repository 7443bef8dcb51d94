"""Our own loop: asks a model, runs the tools it calls, and asks again until it answers or has to end.

Owns what happens between the model and the tools: when a reply is the answer, when it is asked for again, and
what is sent of a long conversation (`context`). Tools, limits and the record are the session's.
"""

import time
from collections.abc import Mapping
from typing import TypedDict, Unpack

import msgspec

from .backends import Retries, open_model
from .backends.base import Model, ModelError, ModelReply, ModelRequest, ModelTransport
from .backends.text_calls import TextCallsModel, writes_calls
from .context import ContextWindow
from .limits import RunStoppedError
from .messages import ChatMessage, TextPart, ToolUsePart
from .session import AgentEnding, AgentSession, Backend

MAX_CUT = 3
"""How often in a row a reply may be cut at its longest."""
CONTEXT_SHARE = 0.85
"""Of what the model takes, besides the reply: our count of tokens is an estimate."""
EMPTY = "Your last reply was empty. Answer the task, or call a tool."
GO_ON = "Your last reply was cut off because it was too long. Go on from there, in shorter steps."


CLAUDE = "claude"
"""The backend that is Claude Code, through the Claude Agent SDK."""


class ModelOptions(TypedDict, total=False):
    """What `open_model` can be given."""

    environ: Mapping[str, str]
    transport: ModelTransport
    retries: Retries


def open_backend(spec: str, text_calls: bool = False, **options: Unpack[ModelOptions]) -> Backend:
    """The backend of `openai:MODEL`, `anthropic:MODEL` or `claude:MODEL`. Raises ModelError.

    `text_calls`: the model writes calls into its text, as some are known to. The other options are those of
    `open_model`; Claude Code has a way of its own to its model.
    """
    backend, _, model = spec.partition(":")
    if backend != CLAUDE:
        opened = open_model(spec, **options)
        return ModelLoop(TextCallsModel(opened) if text_calls or writes_calls(model) else opened)
    from .backends.claude import ClaudeBackend  # 0.6 s of CPU, most of it pydantic models of the SDK

    return ClaudeBackend(model)


class ModelLoop:
    """A `Backend` over one model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.provider

    async def close(self) -> None:
        await self._model.close()

    async def run(self, session: AgentSession) -> AgentEnding:
        window = ContextWindow(self._budget(session))
        fixed = len(session.system) + len(msgspec.json.encode(session.tools))
        empty = cut = 0
        while True:
            turn = session.begin_turn()
            with session.spans.open("turn", str(turn), {"toolyard.turn": turn}):
                reply = await self._respond(session, window, fixed)
                uses = [part for part in reply.message.parts if isinstance(part, ToolUsePart)]
                cut = cut + 1 if reply.stop == "max_tokens" else 0
                if reply.stop == "refusal":
                    return AgentEnding("refusal", _text(reply), "the model declined to go on")
                if cut >= MAX_CUT:
                    reason = f"{MAX_CUT} replies in a row were cut at their longest"
                    return AgentEnding("cut", _text(reply), reason, "--max-reply allows longer replies")
                if uses:
                    empty = 0
                    await session.call_tools(uses)
                    continue
            if cut:
                session.add(ChatMessage("user", (TextPart(GO_ON),)))
            elif text := _text(reply):
                return AgentEnding("done", text)
            elif empty:
                return AgentEnding("empty", "", "the model answered nothing, twice")
            else:
                empty = 1
                session.add(ChatMessage("user", (TextPart(EMPTY),)))

    def _budget(self, session: AgentSession) -> int:
        limits = session.spending.limits
        takes = int(self._model.context_tokens * CONTEXT_SHARE) - limits.reply_tokens
        wanted = limits.context_tokens
        # A small model may take less than the longest reply that we would like. Who knows the model, which we
        # may not, says so by --context-tokens.
        return max(takes, self._model.context_tokens // 2) if wanted is None else wanted

    async def _respond(self, session: AgentSession, window: ContextWindow, fixed: int) -> ModelReply:
        """One reply, into the conversation. A request that is too long is made shorter once."""
        try:
            return await self._ask(session, window, fixed)
        except ModelError as error:
            if error.kind != "too_long":
                raise _stopped(error) from error
            window.shrink(self._budget(session))
        try:
            return await self._ask(session, window, fixed)
        except ModelError as error:
            raise _stopped(error) from error

    async def _ask(self, session: AgentSession, window: ContextWindow, fixed: int) -> ModelReply:
        model = self._model
        if tokens := window.leaves_no_room(fixed):
            raise RunStoppedError(
                "limit",
                f"{len(session.tools)} tools and the prompt are about {tokens:,} tokens, of "
                f"{self._budget(session):,} that are sent to {model.name}: no room is left for a talk",
                "--view search shows a few tools that find the others; `tools` of an agent's file chooses; "
                "--context-tokens N if the model takes more",
            )
        request = ModelRequest(
            system=session.system,
            messages=window.fit(session.messages, fixed),
            tools=session.tools,
            max_tokens=min(session.spending.limits.reply_tokens, max(1, model.context_tokens // 2)),
        )
        attributes = {"gen_ai.request.model": model.name, "gen_ai.provider.name": model.provider}
        started = time.monotonic()
        with session.spans.open("chat", model.name, attributes) as span:
            try:
                reply = await model.respond(request, session.show_text)
            except ModelError as error:
                span.fail(error.kind, error.message)
                raise
            usage = reply.usage
            span.set("gen_ai.response.model", reply.model or model.name)
            span.set("gen_ai.response.finish_reasons", [reply.stop])
            span.set("gen_ai.usage.input_tokens", usage.input)
            span.set("gen_ai.usage.output_tokens", usage.output)
            span.set("gen_ai.usage.cache_read.input_tokens", usage.cache_read)
            if reply.cost is not None:
                span.set("toolyard.cost", reply.cost)
        if not reply.usage_is_estimated:
            window.learn(usage.input)
        session.reply(
            reply.message,
            usage,
            reply.cost,
            model=reply.model or model.name,
            is_estimated=reply.usage_is_estimated,
            seconds=time.monotonic() - started,
        )
        return reply


def _text(reply: ModelReply) -> str:
    return "".join(part.text for part in reply.message.parts if isinstance(part, TextPart)).strip()


def _stopped(error: ModelError) -> RunStoppedError:
    return RunStoppedError("model_error", error.message, error.hint)
