"""Three tasks for a real model that writes its calls as text: `make model` fetches it and runs them.

Not among the tests: the model is 1 GB, and each task takes a minute on two cores.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Toolyard

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / "build/envs/model/bin/python"
MODEL = ROOT / "build/coder/model.gguf"
CONFIG = """\
[gateway]
view = "all"

[servers.demo]
module = "demo"

[servers.files]
module = "local_toolkit"
"""
HELPER = """\
---
name: helper
description: Does small tasks.
tools: demo/add, demo/text_statistics, files/write_local_file
---
Do the task with your tools, one call at a time. When it is done, answer in one sentence.
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    serving = Path(__file__).with_name("serving.py")
    with subprocess.Popen(
        [PYTHON, serving, MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    command = Toolyard(tmp_path)
    command.patience = 900
    command.write("toolyard.toml", CONFIG)
    (tmp_path / "agents").mkdir()
    command.write("agents/helper.md", HELPER)
    return command


def done(toolyard: Toolyard, engine: str, task: str) -> tuple[str, list[str]]:
    """The answer, and the tools that were called."""
    environment = {"OPENAI_BASE_URL": f"{engine}/v1", "TOOLYARD_MODEL": "openai:qwen2.5-coder-1.5b"}
    options = ["--agents", "agents", "--agent", "helper", "--context-tokens", "3500", "--max-turns", "6"]
    outcome = toolyard(
        "agent", task, *options, "--max-reply", "300", "--workspace", "run", "--json", **environment
    )
    record = json.loads(outcome.out)
    assert (outcome.status, record["status"]) == (0, "done"), outcome.err
    lines = (toolyard.folder / "run" / "transcript.jsonl").read_text().splitlines()
    parts = [part for line in lines for part in json.loads(line).get("message", {}).get("parts", [])]
    return record["answer"], [part["name"] for part in parts if part.get("type") == "tool_use"]


def test_it_adds(toolyard: Toolyard, engine: str):
    answer, called = done(toolyard, engine, "Add 1234.5 and 8765.5 and say the sum.")
    assert called == ["mcp__demo__add"]
    assert "10000" in answer.replace(",", "")


def test_it_counts_words(toolyard: Toolyard, engine: str):
    task = "How many words has this text: 'the quick brown fox jumps over the lazy dog and the river'?"
    answer, called = done(toolyard, engine, task)
    assert called == ["mcp__demo__text_statistics"]
    assert "12" in answer or "twelve" in answer.lower()


def test_it_writes_a_file(toolyard: Toolyard, engine: str):
    task = "Write the text 'hello from a small model' into the file work_products/hello.txt."
    _, called = done(toolyard, engine, task)
    assert "mcp__files__write_local_file" in called
    assert "hello from a small model" in (toolyard.folder / "run/work_products/hello.txt").read_text()
