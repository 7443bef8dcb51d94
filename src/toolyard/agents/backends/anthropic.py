"""Anthropic's Messages API, streamed, with prompt caching.

Owns the form of requests and of events. Thoughts go back with their signatures, as the API demands while
tools are called.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import structs

from ..messages import (
    ChatMessage,
    ImagePart,
    Part,
    ReasoningPart,
    TextPart,
    TokenUsage,
    ToolResultPart,
    ToolUsePart,
)
from .base import ModelError, ModelReply, ModelRequest, StopReason
from .host import JsonObject, ModelHost, ReplyEvents, ShownText, context_size, reply_limit
from .prices import Prices
from .tools import ToolNames, ToolUseIds, fit_name, fit_schema, read_arguments, sent_arguments
from .usage import checked_usage, count_of

MAX_PAUSES = 8
_REDACTED = "redacted:"
"""Marks in a reasoning part's signature that it is a thought the API encrypted. A signature is base64."""
_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}
_CACHED: JsonObject = {"cache_control": {"type": "ephemeral"}}


class AnthropicModel:
    provider = "anthropic"

    def __init__(self, name: str, host: ModelHost, prices: Prices, context_tokens: int) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self._host = host
        self._prices = prices
        self._longest_reply: int | None = None
        """Learnt from a refusal: models differ in what they can be asked for."""

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        """A turn that the API pauses is taken up again, until it is whole."""
        shown = ShownText(on_text)
        reply, is_paused = await self._once(request, shown)
        for _ in range(MAX_PAUSES):
            if not is_paused:
                break
            begun = structs.replace(request, messages=(*request.messages, reply.message))
            more, is_paused = await self._once(begun, shown)
            reply = _joined(reply, more)
        return reply

    async def _once(self, request: ModelRequest, shown: ShownText) -> tuple[ModelReply, bool]:
        if self._longest_reply is not None and request.max_tokens > self._longest_reply:
            request = structs.replace(request, max_tokens=self._longest_reply)
        body = msgspec.json.encode(messages_body(self.name, request))

        async def read(events: ReplyEvents) -> tuple[ModelReply, bool]:
            shown.begin()
            reply = _MessageReply(request, shown)
            async for event in events:
                reply.add(event)
            return reply.finish(self._prices, self.name, len(body)), reply.reason == "pause_turn"

        try:
            return await self._host.ask(body, read)
        except ModelError as error:
            if error.kind == "too_long":
                self.context_tokens = context_size(error.message) or self.context_tokens
            longest = reply_limit(error.message)
            if error.kind != "invalid" or longest is None or longest >= request.max_tokens:
                raise
            self._longest_reply = longest
        return await self._once(request, shown)

    async def close(self) -> None:
        await self._host.close()


def _joined(one: ModelReply, other: ModelReply) -> ModelReply:
    costs = None if one.cost is None or other.cost is None else one.cost + other.cost
    return structs.replace(
        other,
        message=ChatMessage("assistant", (*one.message.parts, *other.message.parts)),
        usage=one.usage + other.usage,
        usage_is_estimated=one.usage_is_estimated or other.usage_is_estimated,
        cost=costs,
    )


# The request


def messages_body(model: str, request: ModelRequest) -> JsonObject:
    """Marks what repeats for the prompt cache: tools, system, and the conversation up to its last turns."""
    tools = [
        {
            "name": fit_name(tool.name),
            "description": tool.description,
            "input_schema": fit_schema(tool.input_schema),
        }
        for tool in request.tools
    ]
    messages = [found for message in request.messages if (found := _message(message))["content"]]
    for message in [one for one in messages if one["role"] == "user"][-2:]:
        _mark(message["content"])
    body: JsonObject = {"model": model, "max_tokens": request.max_tokens, "stream": True}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, **_CACHED}]
    if tools:
        body["tools"] = [*tools[:-1], {**tools[-1], **_CACHED}]
    body["messages"] = messages
    return body


def _mark(blocks: list[JsonObject]) -> None:
    blocks[-1] = {**blocks[-1], **_CACHED}


def _message(message: ChatMessage) -> JsonObject:
    if message.role == "assistant":
        return {"role": "assistant", "content": [*_assistant_blocks(message.parts)]}
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    others = [part for part in message.parts if isinstance(part, TextPart | ImagePart)]
    return {"role": "user", "content": [*map(_result, results), *_shown(others)]}


def _assistant_blocks(parts: Sequence[Part]) -> Iterable[JsonObject]:
    for part in parts:
        if isinstance(part, TextPart) and part.text.strip():
            yield {"type": "text", "text": part.text}
        elif isinstance(part, ToolUsePart):
            yield {
                "type": "tool_use",
                "id": part.id,
                "name": fit_name(part.name),
                "input": sent_arguments(part),
            }
        elif isinstance(part, ReasoningPart) and part.signature.startswith(_REDACTED):
            yield {"type": "redacted_thinking", "data": part.signature.removeprefix(_REDACTED)}
        elif isinstance(part, ReasoningPart) and part.signature and ":" not in part.signature:
            yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _result(part: ToolResultPart) -> JsonObject:
    found: JsonObject = {"type": "tool_result", "tool_use_id": part.id, "content": [*_shown(part.parts)]}
    return {**found, "is_error": True} if part.is_error else found


def _shown(parts: Sequence[TextPart | ImagePart]) -> Iterable[JsonObject]:
    for part in parts:
        if isinstance(part, ImagePart):
            source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
            yield {"type": "image", "source": source}
        elif part.text.strip():  # the API refuses empty ones
            yield {"type": "text", "text": part.text}


# The reply


class _BlockDraft:
    """A block of content as its pieces arrive."""

    def __init__(self, block: JsonObject) -> None:
        self.block = block
        self.kind = str(block.get("type"))
        self.text = _text(block.get("text")) or _text(block.get("thinking"))
        self.signature = _text(block.get("signature"))
        self.json = ""


class _MessageReply:
    """Puts a reply together from events, or from one whole message."""

    def __init__(self, request: ModelRequest, shown: ShownText) -> None:
        self._request = request
        self._shown = shown
        self._drafts: dict[int, _BlockDraft] = {}
        self._usage: JsonObject = {}
        self._model = ""
        self._has_begun = False
        self._is_whole = False
        self.reason = ""

    def add(self, event: JsonObject) -> None:
        match event.get("type"):
            case "message_start":
                self._begin(_object(event.get("message")))
            case "message":
                self._begin(event)
                self._is_whole = True
            case "content_block_start":
                self._open(_index(event), _object(event.get("content_block")))
            case "content_block_delta":
                self._extend(_index(event), _object(event.get("delta")))
            case "message_delta":
                self.reason = _text(_object(event.get("delta")).get("stop_reason")) or self.reason
                self._count(_object(event.get("usage")))
            case "message_stop":
                self._is_whole = True
            case _:  # pings, and what is added to the API later
                pass

    def _begin(self, message: JsonObject) -> None:
        self._has_begun = True
        self._model = _text(message.get("model"))
        self.reason = _text(message.get("stop_reason"))
        self._count(_object(message.get("usage")))
        content: Any = message.get("content")
        for index, block in enumerate(cast("list[object]", content) if isinstance(content, list) else ()):
            self._open(index, _object(block))

    def _count(self, usage: JsonObject) -> None:
        self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _open(self, index: int, block: JsonObject) -> None:
        draft = self._drafts[index] = _BlockDraft(block)
        if draft.kind == "text":
            self._shown.add(draft.text)

    def _extend(self, index: int, delta: JsonObject) -> None:
        draft = self._drafts.get(index)
        if draft is None:
            draft = self._drafts[index] = _BlockDraft({"type": "text"})
        match delta.get("type"):
            case "text_delta":
                draft.text += _text(delta.get("text"))
                self._shown.add(_text(delta.get("text")))
            case "thinking_delta":
                draft.text += _text(delta.get("thinking"))
            case "signature_delta":
                draft.signature += _text(delta.get("signature"))
            case "input_json_delta":
                draft.json += _text(delta.get("partial_json"))
            case _:
                pass

    def finish(self, prices: Prices, asked: str, body_bytes: int) -> ModelReply:
        if not self._has_begun:
            raise ModelError("cut", f"the answer of {asked!r} ended before it began")
        if not self._is_whole and not self.reason:
            raise ModelError("cut", f"the answer of {asked!r} broke off")
        message = ChatMessage("assistant", tuple(self._parts()))
        usage, is_estimated = checked_usage(self._said(), self._request, body_bytes, message)
        cost = prices.cost(asked, usage)
        return ModelReply(message, self._stop(message), usage, is_estimated, self._model or asked, cost)

    def _parts(self) -> Iterable[Part]:
        names, ids = ToolNames(self._request), ToolUseIds(self._request)
        for _, draft in sorted(self._drafts.items()):
            match draft.kind:
                case "text" if draft.text:
                    yield TextPart(draft.text)
                case "thinking":
                    yield ReasoningPart(draft.text, draft.signature)
                case "redacted_thinking":
                    yield ReasoningPart("", f"{_REDACTED}{_text(draft.block.get('data'))}")
                case "tool_use":
                    given: Any = draft.block.get("input")
                    text = draft.json or (msgspec.json.encode(given).decode() if given else "")
                    arguments, malformed = read_arguments(text)
                    name = names.original(_text(draft.block.get("name")))
                    yield ToolUsePart(ids.claim(_text(draft.block.get("id"))), name, arguments, malformed)
                case _:
                    pass

    def _stop(self, message: ChatMessage) -> StopReason:
        found = _STOPS.get(self.reason)
        if found in ("max_tokens", "refusal"):
            return found
        return "tool_use" if any(isinstance(part, ToolUsePart) for part in message.parts) else "end"

    def _said(self) -> TokenUsage | None:
        fields = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        fresh, output, read, written = (count_of(self._usage.get(name, 0)) for name in fields)
        if fresh is None or output is None or read is None or written is None:
            return None
        return TokenUsage(fresh + read + written, output, read, written)


def _index(event: JsonObject) -> int:
    index: Any = event.get("index")
    return index if isinstance(index, int) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}
