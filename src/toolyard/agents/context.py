"""The part of a conversation that is sent: within a budget of tokens, its beginning unchanged.

Old tool results are replaced by one line each, with the link of the stored result if there is one. That
happens in batches, down to `REFILL` of the budget, so that between two batches every request begins with the
whole request before it, and the API's prompt cache holds. The newest turn is never touched, and a tool use
keeps its result. If lines in place of results are not enough, the oldest turns are left out as well.
"""

import re
from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from .messages import ChatMessage, ImagePart, Part, TextPart, ToolResultPart, ToolUsePart

REFILL = 0.6
"""What a batch leaves: the more it takes away, the longer the next one is off."""
FULL = 0.8
"""If so much is left without the results, turns go too: otherwise the next batch would come at once."""
CHARS_PER_TOKEN = 3.0
"""Before the first reply tells better; a little pessimistic for English."""
FIXED_CHARS_PER_TOKEN = 4.0
"""The same for system prompt and tools, where a run is refused by it: optimistic."""
MOST_FIXED = 0.8
"""The share of the budget that they may take: with less room, every turn would forget the one before."""
IMAGE_CHARS = 4_500
"""A picture costs about 1,500 tokens, however long its data are."""
SHORT = 400
"""Results up to this many characters are not worth a line in their place."""
_STORED = re.compile(r"toolyard://results/[\w.-]+")
_LEFT_OUT = "[Earlier turns of this conversation were left out to save room.]"


class ContextWindow:
    """What of one agent's conversation is sent. Messages are only ever appended to it."""

    def __init__(self, budget_tokens: int) -> None:
        self._budget = budget_tokens
        self._chars_per_token = CHARS_PER_TOKEN
        self._has_learnt = False
        # By message and id, because some servers begin to count anew with every reply.
        self._replaced: set[tuple[int, str]] = set()
        self._first_kept = 1
        self._sizes: list[int] = []
        self._sent_chars = 0

    def learn(self, input_tokens: int) -> None:
        """Takes the size of the last request as the API counted it."""
        if input_tokens > 200 and self._sent_chars:
            # An API that says nonsense must not let everything through, or nothing.
            self._chars_per_token = min(6.0, max(1.0, self._sent_chars / input_tokens))
            self._has_learnt = True

    def leaves_no_room(self, fixed_chars: int) -> int:
        """How many tokens system prompt and tools are, about, if they leave none for a talk; else 0."""
        each = self._chars_per_token if self._has_learnt else FIXED_CHARS_PER_TOKEN
        tokens = int(fixed_chars / each)
        return tokens if tokens > self._budget * MOST_FIXED else 0

    def shrink(self, budget_tokens: int) -> None:
        """For a request that was too long: the next one is clearly shorter."""
        self._budget = min(budget_tokens, int(self._sent_chars / self._chars_per_token * REFILL))

    def fit(self, messages: Sequence[ChatMessage], fixed_chars: int) -> tuple[ChatMessage, ...]:
        """The messages to send. `fixed_chars` are those of the system prompt and the tools."""
        self._measure(messages)
        room = self._budget * self._chars_per_token - fixed_chars
        if self._size(messages) > room:
            self._replace(messages, room * REFILL)
            if self._size(messages) > room * FULL:
                self._drop(messages, room * REFILL)
        self._sent_chars = int(self._size(messages)) + fixed_chars
        return _joined(self._kept(messages))

    def _measure(self, messages: Sequence[ChatMessage]) -> None:
        for message in messages[len(self._sizes) :]:
            self._sizes.append(sum(map(size_of, message.parts)))

    def _size(self, messages: Sequence[ChatMessage]) -> int:
        first = self._sizes[0] if self._sizes else 0
        return first + sum(self._sizes[self._first_kept : len(messages)])

    def _newest(self, messages: Sequence[ChatMessage]) -> int:
        """Where the newest turn begins: the last reply of the model, or the end."""
        for at in range(len(messages) - 1, 0, -1):
            if messages[at].role == "assistant":
                return at
        return len(messages)

    def _replace(self, messages: Sequence[ChatMessage], room: float) -> None:
        for at in range(self._first_kept, self._newest(messages)):
            for part in messages[at].parts:
                if isinstance(part, ToolResultPart) and (at, part.id) not in self._replaced:
                    size = size_of(part)
                    if size > SHORT:
                        self._replaced.add((at, part.id))
                        self._sizes[at] -= size - size_of(_summarized(part))
            if self._size(messages) <= room:
                return

    def _drop(self, messages: Sequence[ChatMessage], room: float) -> None:
        """Leaves out whole turns after the first message: a reply with the results that answer it."""
        newest = self._newest(messages)
        while self._first_kept < newest and self._size(messages) > room:
            self._first_kept += 1
            while self._first_kept < newest and messages[self._first_kept].role == "user":
                self._first_kept += 1

    def _kept(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        shown = [self._shown(at, messages[at]) for at in range(self._first_kept, len(messages))]
        first = messages[0]
        if self._first_kept > 1:
            first = ChatMessage(first.role, (*first.parts, TextPart(_LEFT_OUT)))
        return [first, *shown]

    def _shown(self, at: int, message: ChatMessage) -> ChatMessage:
        def is_replaced(part: Part) -> TypeGuard[ToolResultPart]:
            return isinstance(part, ToolResultPart) and (at, part.id) in self._replaced

        if not any(map(is_replaced, message.parts)):
            return message
        parts = tuple(_summarized(part) if is_replaced(part) else part for part in message.parts)
        return ChatMessage(message.role, parts)


def size_of(part: Part) -> int:
    """Characters, about as an API counts them."""
    match part:
        case TextPart(text=text):
            return len(text)
        case ImagePart():
            return IMAGE_CHARS
        case ToolUsePart(name=name, arguments=arguments, malformed=malformed):
            return len(name) + len(msgspec.json.encode(arguments)) + len(malformed) + 40
        case ToolResultPart(parts=parts):
            return sum(map(size_of, parts)) + 40
        case _:
            return len(part.text) + len(part.signature)


def _summarized(result: ToolResultPart) -> ToolResultPart:
    text = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
    pictures = sum(isinstance(part, ImagePart) for part in result.parts)
    what = f"{len(text):,} characters" + (f" and {pictures} pictures" if pictures else "")
    stored = _STORED.search(text)
    again = f"read it again at {stored[0]}" if stored else "call the tool again if you need it"
    begin = " ".join(text[:200].split())[:120]
    line = f"[An earlier result of {what} was left out to save room; {again}. It began: {begin}]"
    return ToolResultPart(result.id, (TextPart(line),), result.is_error)


def _joined(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Puts neighbours of one role together, since APIs want them to take turns."""
    found: list[ChatMessage] = []
    for message in messages:
        if found and found[-1].role == message.role:
            found[-1] = ChatMessage(message.role, (*found[-1].parts, *message.parts))
        else:
            found.append(message)
    return tuple(found)
