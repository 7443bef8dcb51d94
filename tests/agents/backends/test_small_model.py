"""A real engine: llama.cpp with a small model, by both of its APIs.

The model knows no tools; how their calls are read is shown with the emulators.
"""

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.agents.backends.conversations import request, text_of, user
from tests.waiting import PATIENCE
from toolyard.agents.backends import open_model
from toolyard.agents.backends.base import ModelError, ModelRequest

PYTHON = Path(__file__).parents[3] / "build/envs/model/bin/python"
SYSTEM = "You are a helpful assistant."

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make setup installs the small model")


@pytest.fixture(scope="module")
def engine() -> Generator[str]:
    """The address of its server, which ends with its input."""
    serving = Path(__file__).with_name("small_model.py")
    with subprocess.Popen(
        [PYTHON, serving], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_real_engine_answers_counts_and_says_what_it_cannot_hold(engine: str, api: str) -> None:
    pieces: list[str] = []
    question = ModelRequest(SYSTEM, (user("What is the capital of France?"),), (), 8)
    environ = {"OPENAI_BASE_URL": f"{engine}/v1", "ANTHROPIC_BASE_URL": engine}
    model = open_model(f"{api}:smollm2", environ=environ)
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await model.respond(question, pieces.append)
            with pytest.raises(ModelError) as raised:
                await model.respond(request(user("word " * 4000)))
    finally:
        await model.close()
    assert "Paris" in text_of(answer)
    assert "".join(pieces) == text_of(answer)
    assert 10 < answer.usage.input < 100
    assert not answer.usage_is_estimated
    assert (raised.value.kind, model.context_tokens) == ("too_long", 2048)
