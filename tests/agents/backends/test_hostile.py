"""Whatever an API sends, a reply or a ModelError comes of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.backends.conversations import request, retries
from toolyard.agents.backends import open_model
from toolyard.agents.backends.base import ModelError, ModelHttpRequest, ModelHttpResponse

ENVIRON = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
FIELDS = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "index",
    "finish_reason",
    "usage",
    "type",
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "text",
    "thinking",
    "signature",
    "partial_json",
    "content_block",
    "stop_reason",
    "error",
    "code",
    "refusal",
    "reasoning",
    "model",
]
WORDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
    "message",
    "tool_use",
    "text",
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "redacted_thinking",
    "thinking",
    "stop",
    "length",
    "add",
    "pause_turn",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
events = st.lists(st.dictionaries(st.sampled_from(FIELDS), values, max_size=5), max_size=6)


class Sent:
    """A transport that answers with what it was given, in pieces of any size."""

    def __init__(self, body: bytes, piece: int) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {}
        self._body = body
        self._piece = piece

    @asynccontextmanager
    async def post(self, request: ModelHttpRequest) -> AsyncGenerator[ModelHttpResponse]:
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), self._piece):
            yield self._body[at : at + self._piece]

    async def close(self) -> None:
        pass


async def _ask(api: str, body: bytes, piece: int) -> None:
    model = open_model(f"{api}:m", environ=ENVIRON, transport=Sent(body, piece), retries=retries(attempts=1))
    pieces: list[str] = []
    try:
        reply = await model.respond(request(), pieces.append)
    except ModelError:
        return
    assert msgspec.json.encode(reply)
    assert reply.usage.input > 0


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@given(found=events, piece=st.integers(1, 40))
async def test_any_events_make_a_reply_or_an_error(api: str, found: list[dict[str, Any]], piece: int) -> None:
    body = b"".join(b"data: " + msgspec.json.encode(event) + b"\r\n\r\n" for event in found)
    await _ask(api, body + b"data: [DONE]\n\n", piece)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@given(body=st.binary(max_size=60), piece=st.integers(1, 40))
async def test_any_bytes_make_an_error(api: str, body: bytes, piece: int) -> None:
    await _ask(api, body, piece)
