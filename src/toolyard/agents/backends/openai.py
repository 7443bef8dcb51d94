"""OpenAI's chat completions, and the many servers that imitate them: llama.cpp, vLLM, Ollama, OpenRouter.

Owns the form of requests and of streamed replies. Where servers deviate, it reads what they send, and learns
from a refusal which parameter to leave out.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

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
from .tools import ToolNames, ToolUseIds, fit_name, fit_schema, read_arguments, sent_arguments, tool_uses
from .usage import checked_usage, count_of

REASONING_FIELDS = ("reasoning_content", "reasoning")
_FIELD = "field:"
"""Marks in a reasoning part's signature which field of the API it came in."""


class ChatDialect(Struct, frozen=True):
    """What a server takes. It is learnt from its refusals."""

    limit: str = "max_tokens"
    """The parameter that limits the reply; empty to leave it out."""
    with_usage: bool = True
    with_stream: bool = True
    with_images: bool = True
    longest_reply: int | None = None

    def learn(self, error: ModelError) -> "ChatDialect | None":
        """The dialect to try next; None if the refusal has another reason."""
        if error.kind != "invalid" or error.status not in (400, 422):
            return None
        words = error.message
        longest = reply_limit(words)
        if longest is not None and longest < (self.longest_reply or longest + 1):
            return structs.replace(self, longest_reply=longest)
        if self.with_usage and "stream_options" in words:
            return structs.replace(self, with_usage=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in words:
            return structs.replace(self, limit="max_completion_tokens")
        if (
            self.limit
            and self.limit in words
            and re.search(r"unsupported|unknown|unrecognized|extra|not perm", words, re.I)
        ):
            other = "max_tokens" if self.limit == "max_completion_tokens" else ""
            return structs.replace(self, limit=other)
        if self.with_stream and re.search(r"\bstream(?:ing)?\b", words, re.I):
            return structs.replace(self, with_stream=False, with_usage=False)
        if self.with_images and re.search(r"image|multimodal|must be a string|content.*string", words, re.I):
            return structs.replace(self, with_images=False)
        return None


class OpenAiModel:
    """One model of one server."""

    provider = "openai"

    def __init__(
        self, name: str, host: ModelHost, prices: Prices, context_tokens: int, dialect: ChatDialect
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self._host = host
        self._prices = prices
        self._dialect = dialect

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        shown = ShownText(on_text)
        while True:
            body = msgspec.json.encode(chat_body(self.name, request, self._dialect))

            async def read(events: ReplyEvents, body: bytes = body) -> ModelReply:
                shown.begin()
                reply = _ChatReply(request, shown)
                async for event in events:
                    reply.add(event)
                return reply.finish(self._prices, self.name, len(body))

            try:
                return await self._host.ask(body, read)
            except ModelError as error:
                learnt = self._dialect.learn(error)
                if learnt is None:
                    if error.kind == "too_long":
                        self.context_tokens = context_size(error.message) or self.context_tokens
                    raise
                self._dialect = learnt

    async def close(self) -> None:
        await self._host.close()


# The request


def chat_body(model: str, request: ModelRequest, dialect: ChatDialect) -> JsonObject:
    body: JsonObject = {"model": model, "messages": list(_messages(request, dialect))}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": fit_name(tool.name),
                    "description": tool.description,
                    "parameters": fit_schema(tool.input_schema),
                },
            }
            for tool in request.tools
        ]
    if dialect.limit:
        body[dialect.limit] = min(request.max_tokens, dialect.longest_reply or request.max_tokens)
    if dialect.with_stream:
        body["stream"] = True
    if dialect.with_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _messages(request: ModelRequest, dialect: ChatDialect) -> Iterable[JsonObject]:
    if request.system:
        yield {"role": "system", "content": request.system}
    begun = max((at for at, message in enumerate(request.messages) if _is_question(message)), default=0)
    for at, message in enumerate(request.messages):
        if message.role == "assistant":
            yield _assistant(message, in_turn=at > begun)
        else:
            yield from _user(message, dialect)


def _is_question(message: ChatMessage) -> bool:
    return message.role == "user" and not any(isinstance(part, ToolResultPart) for part in message.parts)


def _assistant(message: ChatMessage, *, in_turn: bool) -> JsonObject:
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": use.id,
            "type": "function",
            "function": {
                "name": fit_name(use.name),
                "arguments": msgspec.json.encode(sent_arguments(use)).decode(),
            },
        }
        for use in tool_uses(message)
    ]
    found: JsonObject = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        found["tool_calls"] = calls
    if in_turn:  # servers that send thoughts want them back while the tools are being called, and not later
        for part in message.parts:
            if isinstance(part, ReasoningPart) and part.signature.startswith(_FIELD):
                field = part.signature.removeprefix(_FIELD)
                found[field] = found.get(field, "") + part.text
    return found


def _user(message: ChatMessage, dialect: ChatDialect) -> Iterable[JsonObject]:
    """Tool results are messages of their own and take text only, so their pictures follow as the user's."""
    shown: list[JsonObject] = []
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            yield {"role": "tool", "tool_call_id": part.id, "content": _result_text(part, dialect)}
            shown += [_image(image) for image in part.parts if isinstance(image, ImagePart)]
    if not dialect.with_images:
        shown.clear()
    for part in message.parts:
        if isinstance(part, TextPart):
            shown.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            told = {"type": "text", "text": _NOT_SHOWN.format(part.mime_type)}
            shown.append(_image(part) if dialect.with_images else told)
    if all(part["type"] == "text" for part in shown):
        text = "\n\n".join(part["text"] for part in shown)
        if text:
            yield {"role": "user", "content": text}
    else:
        yield {"role": "user", "content": shown}


_NOT_SHOWN = "[a picture of type {} that this model cannot be shown]"


def _result_text(part: ToolResultPart, dialect: ChatDialect) -> str:
    texts = [
        one.text
        if isinstance(one, TextPart)
        else "[a picture; see the next message]"
        if dialect.with_images
        else _NOT_SHOWN.format(one.mime_type)
        for one in part.parts
    ]
    text = "\n\n".join(texts) or "(no output)"
    return f"Error: {text}" if part.is_error else text


def _image(part: ImagePart) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}


# The reply


class _CallDraft:
    """A tool call as its pieces arrive."""

    def __init__(self, index: object, id: str) -> None:
        self.index = index
        self.id = id
        self.name = ""
        self.arguments = ""


class _ChatReply:
    """Puts a reply together from chunks, or from one whole completion."""

    def __init__(self, request: ModelRequest, shown: ShownText) -> None:
        self._request = request
        self._shown = shown
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._refusal = ""
        self._calls: list[_CallDraft] = []
        self._reason: str | None = None
        self._is_done = False
        self._has_choice = False
        self._model = ""
        self._usage: JsonObject = {}

    def add(self, event: JsonObject) -> None:
        self._is_done = self._is_done or event.get("done") is True
        if isinstance(model := event.get("model"), str):
            self._model = model
        self._usage = _object(event.get("usage")) or self._usage
        choices = _list(event.get("choices"))
        if not choices:
            return
        choice = _object(choices[0])
        self._has_choice = True
        reason: Any = choice.get("finish_reason")
        if reason:
            self._reason = str(reason).lower()
        delta = _object(choice.get("delta")) or _object(choice.get("message"))
        if "message" in choice:  # a whole completion
            self._is_done = True
        self._add_texts(delta)
        for call in _list(delta.get("tool_calls")):
            self._add_call(_object(call))

    def _add_texts(self, delta: JsonObject) -> None:
        content: Any = delta.get("content")
        for text in [content] if isinstance(content, str) else map(_text_of, _list(content)):
            self._texts.append(text)
            self._shown.add(text)
        for field in REASONING_FIELDS:
            if isinstance(thought := delta.get(field), str) and thought:
                self._thoughts.append(thought)
                self._thought_field = field
                break
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal += refusal

    def _add_call(self, piece: JsonObject) -> None:
        function = _object(piece.get("function"))
        draft = self._draft(piece, function)
        draft.name = draft.name or str(function.get("name") or "")
        arguments: Any = function.get("arguments")
        if isinstance(arguments, str):
            draft.arguments += arguments
        elif arguments is not None:  # some servers send the object itself
            draft.arguments = msgspec.json.encode(arguments).decode()

    def _draft(self, piece: JsonObject, function: JsonObject) -> _CallDraft:
        """The call that a piece belongs to. Some servers give every call index 0, or no index."""
        index: Any = piece.get("index")
        id = str(piece.get("id") or "")
        for draft in reversed(self._calls):
            is_same = draft.index == index if index is not None else draft is self._calls[-1]
            if is_same:
                begins = (id and draft.id and id != draft.id) or (
                    index is None and bool(function.get("name")) and not (id and id == draft.id)
                )
                if begins:
                    break
                draft.id = draft.id or id
                return draft
        draft = _CallDraft(index, id)
        self._calls.append(draft)
        return draft

    def finish(self, prices: Prices, asked: str, body_bytes: int) -> ModelReply:
        if not self._has_choice:
            if self._is_done:
                raise ModelError("empty", f"{asked!r} answered without a choice")
            raise ModelError("cut", f"the answer of {asked!r} ended before it began")
        if self._reason is None and not self._is_done:
            raise ModelError("cut", f"the answer of {asked!r} broke off")
        message = ChatMessage("assistant", tuple(self._parts()))
        said = _usage(self._usage)
        usage, is_estimated = checked_usage(said, self._request, body_bytes, message)
        price: Any = self._usage.get("cost")  # OpenRouter says what it charges
        is_price = isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price < 1e6
        cost = float(price) if is_price else prices.cost(asked, usage)
        return ModelReply(message, self._stop(), usage, is_estimated, self._model or asked, cost)

    def _parts(self) -> Iterable[Part]:
        if self._thoughts:
            yield ReasoningPart("".join(self._thoughts), f"{_FIELD}{self._thought_field}")
        if text := "".join(self._texts) or self._refusal:
            yield TextPart(text)
        names, ids = ToolNames(self._request), ToolUseIds(self._request)
        for draft in self._calls:
            if draft.name or draft.arguments:
                arguments, malformed = read_arguments(draft.arguments)
                yield ToolUsePart(ids.claim(draft.id), names.original(draft.name), arguments, malformed)

    def _stop(self) -> StopReason:
        if self._refusal or self._reason == "content_filter":
            return "refusal"
        if self._reason in ("length", "max_tokens", "model_length"):
            return "max_tokens"
        # Not by the reason: some servers say "stop" with calls, or "tool_calls" without any.
        return "tool_use" if self._calls else "end"


def _usage(usage: JsonObject) -> TokenUsage | None:
    read, written = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    if read is None and written is None:
        return None
    details = _object(usage.get("prompt_tokens_details"))
    cached = count_of(details.get("cached_tokens", usage.get("prompt_cache_hit_tokens")))
    return TokenUsage(read or 0, written or 0, cached or 0)


def _text_of(block: object) -> str:
    text: Any = _object(block).get("text")
    return text if isinstance(text, str) else ""


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else ()
