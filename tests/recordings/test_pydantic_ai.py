"""An agent of Pydantic AI works with a recording as it worked with the servers: the fixture's purpose."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Served, Toolyard
from tests.waiting import PATIENCE
from toolyard.pytest_plugin import ServeRecording

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build/envs/agents/bin/python"
AGENT = Path(__file__).parent / "pydantic_agent.py"


def ask(url: str, question: str) -> Any:
    """What the agent did, in an environment of its own."""
    done = subprocess.run([PYTHON, AGENT, url, question], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A recording of the agent with the real server, and what it did."""
    toolyard = Toolyard(tmp_path_factory.mktemp("pydantic"))
    process = toolyard.start("record", "run.jsonl", "serve", "demo", "--port", "0")
    try:
        served = Served(process)
        did = ask(served.url, "to be or not to be")
        assert served.stop(signal.SIGTERM).status == 0
    finally:
        process.kill()
        process.wait()
    return toolyard.folder / "run.jsonl", did


def test_the_agent_does_the_same_over_the_recording(
    toolyard_replay: ServeRecording, recorded: tuple[Path, Any]
) -> None:
    file, did = recorded
    served = toolyard_replay(file)
    assert ask(served.url, "to be or not to be") == did
    assert "42" in did["results"][0]
    assert sorted(call.name or "" for call in served.calls) == ["add", "echo", "text_statistics"]
    assert served.unused == []


def test_an_agent_that_asks_something_else_is_found_out(
    toolyard_replay: ServeRecording, recorded: tuple[Path, Any]
) -> None:
    served = toolyard_replay(recorded[0], strict=False)
    ask(served.url, "something else")  # the model of the script goes on, whatever the tools say
    assert "demo/echo" in served.unmatched[0].message
    assert "arguments.text is 'something else', recorded 'to be or not to be'" in served.unmatched[0].message
