"""Whether an API's count of tokens can be true, and an estimate where it cannot.

Limits and costs of a run are computed from these numbers, so that a wrong one is not passed on.
"""

from typing import Any

from ..messages import (
    ChatMessage,
    ImagePart,
    ReasoningPart,
    TextPart,
    TokenUsage,
    ToolResultPart,
    ToolUsePart,
)
from .base import ModelRequest

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
HIDDEN_INPUT = 20_000
"""Tokens that an API may add to a request by itself, such as instructions of its own."""
HIDDEN_OUTPUT = 200_000
"""Tokens that a model may think without showing them."""


def count_of(value: Any) -> int | None:
    """A number of tokens as an API sent it; None if it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None


def checked_usage(
    said: TokenUsage | None, request: ModelRequest, body_bytes: int, answer: ChatMessage
) -> tuple[TokenUsage, bool]:
    """The usage, and whether any of it is an estimate. A token is at least one byte."""
    has_answer = bool(answer.parts)
    output_bytes = _output_bytes(answer)
    said_input = said.input if said is not None else 0
    said_output = said.output if said is not None else 0
    input_is_true = 0 < said_input <= body_bytes + HIDDEN_INPUT
    most = max(request.max_tokens, output_bytes) + HIDDEN_OUTPUT
    output_is_true = said is not None and (not has_answer or said_output > 0) and said_output <= most
    read, written = (said.cache_read, said.cache_write) if said is not None else (0, 0)
    if not input_is_true or read + written > said_input:
        read = written = 0
    usage = TokenUsage(
        said_input if input_is_true else estimated_input(request, body_bytes),
        said_output if output_is_true else -(-output_bytes // BYTES_PER_TOKEN),
        read,
        written,
    )
    return usage, not (input_is_true and output_is_true)


def estimated_input(request: ModelRequest, body_bytes: int) -> int:
    images = [
        image
        for message in request.messages
        for part in message.parts
        for image in (part.parts if isinstance(part, ToolResultPart) else (part,))
        if isinstance(image, ImagePart)
    ]
    text_bytes = max(0, body_bytes - sum(len(image.data) for image in images))
    return max(1, text_bytes // BYTES_PER_TOKEN + IMAGE_TOKENS * len(images))


def _output_bytes(answer: ChatMessage) -> int:
    size = 0
    for part in answer.parts:
        if isinstance(part, TextPart | ReasoningPart):
            size += len(part.text.encode())
        elif isinstance(part, ToolUsePart):
            size += len(part.name) + len(part.malformed) + len(str(part.arguments))
    return size
