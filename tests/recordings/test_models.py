"""A model's API is recorded as it answers, and answers again from the recording: whole, refused or cut."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.anthropic_messages import scripted_claude
from tests.emulators.openai_chat import scripted_chat
from tests.emulators.scripted import Cut, Failing, ToolUse
from toolyard.agents.backends import Retries, open_model
from toolyard.agents.backends.base import Model, ModelError, ModelRequest, ToolSpec
from toolyard.agents.backends.transport import PooledModelTransport
from toolyard.agents.messages import ChatMessage, TextPart
from toolyard.recordings.format import HeaderLine, RecordingWriter
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.recordings.recording import Recording
from toolyard.recordings.replayer import Replay, ReplayTransport

KEY = "the-key-of-a-model-123"
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})


def asking(text: str) -> ModelRequest:
    return ModelRequest("Be brief.", (ChatMessage("user", (TextPart(text),)),), (ADD,), 100)


async def at_once(seconds: float) -> None:
    return None


def environ(url: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
    }


Emulator = Callable[[Any], AbstractAsyncContextManager[Any]]
APIS = pytest.mark.parametrize(
    ("emulator", "spec"), [(scripted_chat, "openai:scripted"), (scripted_claude, "anthropic:scripted")]
)


@asynccontextmanager
async def recorded(emulator: Emulator, spec: str, script: Any, file: Path) -> AsyncIterator[Model]:
    writer = RecordingWriter(file, HeaderLine())
    async with emulator(script) as served:
        transport = TrafficRecorder(writer).model(PooledModelTransport({}))
        model = open_model(
            spec, environ=environ(served.url), transport=transport, retries=Retries(wait=at_once)
        )
        yield model
        await model.close()
    writer.end(0)


def replayed(spec: str, file: Path, lenient: bool = False) -> tuple[Model, Replay]:
    replay = Replay(Recording(file), lenient=lenient)
    url = next(iter(replay.recording.model_urls()))
    base = url.removesuffix("/chat/completions").removesuffix("/v1/messages")
    retries = Retries(wait=at_once)
    model = open_model(spec, environ=environ(base), transport=ReplayTransport(replay), retries=retries)
    return model, replay


@APIS
async def test_replies_are_the_same_again_after_the_same_failures(
    emulator: Emulator, spec: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.jsonl"
    script = [Failing(529), Cut("half a"), ["I will add.", ToolUse("add", {"a": 1})], "It is 1."]
    async with recorded(emulator, spec, script, file) as model:
        first = [await model.respond(asking("one")), await model.respond(asking("two"))]
    assert KEY not in file.read_text()
    model, replay = replayed(spec, file)
    heard: list[str] = []
    again = [await model.respond(asking("one"), heard.append), await model.respond(asking("two"))]
    assert again == first
    assert "".join(heard).endswith("I will add.")
    assert [call.match for call in replay.calls] == ["exact"] * 4
    replay.recording.close()


@APIS
async def test_a_request_that_was_not_recorded_is_named_and_not_tried_again(
    emulator: Emulator, spec: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(emulator, spec, ["First.", "Second."], file) as model:
        await model.respond(asking("one"))
        await model.respond(asking("two"))
    model, replay = replayed(spec, file)
    with pytest.raises(ModelError, match=r"'three', recorded 't?[a-z]+'") as caught:
        await model.respond(asking("three"))
    assert caught.value.kind == "invalid"
    assert len(replay.unmatched) == 1
    replay.recording.close()
    model, replay = replayed(spec, file, lenient=True)
    replies = [await model.respond(asking(text)) for text in ("three", "four")]
    assert [reply.message.parts for reply in replies] == [(TextPart("First."),), (TextPart("Second."),)]
    replay.recording.close()
