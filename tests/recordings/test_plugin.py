"""The fixture `toolyard_replay`, in a pytest of somebody else's: one line in their conftest.py is enough."""

import subprocess
import sys
from pathlib import Path

from tests.recordings.yard import config, recorded, text
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.pytest_plugin import ServeRecording
from toolyard.recordings.recording import Recording

THEIRS = """
import asyncio

import pytest

from toolyard import Client


async def echo(target, words):
    async with Client(target) as client:
        return (await client.call_tool("mcp__demo__echo", {"text": words})).content[0].text


def test_over_http(toolyard_replay):
    served = toolyard_replay("run.jsonl")
    assert asyncio.run(echo(served.url, "hello")) == "hello"
    assert [(call.name, call.arguments) for call in served.calls] == [("echo", {"text": "hello"})]


def test_what_is_not_recorded(toolyard_replay):
    served = toolyard_replay("run.jsonl")
    with pytest.raises(Exception):
        asyncio.run(echo(served.url, "hallo"))


def test_what_need_not_be_recorded(toolyard_replay):
    served = toolyard_replay("run.jsonl", strict=False)
    with pytest.raises(Exception):
        asyncio.run(echo(served.url, "hallo"))
    assert len(served.unmatched) == 1


def test_what_is_alike(toolyard_replay):
    assert asyncio.run(echo(toolyard_replay("run.jsonl", lenient=True).url, "hallo")) == "hello"


def test_another_file(toolyard_replay):
    toolyard_replay("none.jsonl")


def test_again(toolyard_replay):
    served = toolyard_replay("again.jsonl", config="toolyard.toml")
    assert asyncio.run(echo(served.server, "anew")) == "anew"
"""


def pytest_of_theirs(folder: Path, *words: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *words,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE).stdout


async def test_tests_of_others_use_recordings_and_fail_for_calls_that_are_not_in_them(tmp_path: Path) -> None:
    async with recorded(config(tmp_path), tmp_path / "run.jsonl") as client:
        await text(client, "demo__echo", text="hello")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["toolyard.pytest_plugin"]\n')
    (tmp_path / "test_theirs.py").write_text(THEIRS)
    (tmp_path / "toolyard.toml").write_text('[gateway]\nview = "all"\n[servers.demo]\nmodule = "demo"\n')
    done = pytest_of_theirs(tmp_path, "--toolyard-record")
    assert "2 failed, 4 passed" in done, done
    assert 'calls that were not recorded:\n- demo/echo with {"text":"hallo"} was not recorded' in done
    assert "none.jsonl': No such file or directory" in done
    Recording(tmp_path / "again.jsonl").close()


async def test_a_client_in_this_process_uses_the_recording_without_a_port(
    toolyard_replay: ServeRecording, tmp_path: Path
) -> None:
    heard: list[object] = []
    async with recorded(config(tmp_path), tmp_path / "run.jsonl", on_progress=heard.append) as client:
        await text(client, "demo__countdown", steps=2, pause=0)
    before = list(heard)
    heard.clear()
    async with Client(toolyard_replay(tmp_path / "run.jsonl").server, on_progress=heard.append) as client:
        await client.call_tool("mcp__demo__countdown", {"steps": 2, "pause": 0})
    assert heard == before
    assert heard


def test_loading_the_plugin_imports_nothing_else_of_toolyard() -> None:
    program = (
        "import sys, pytest, toolyard.pytest_plugin;"
        "print(sorted(name for name in sys.modules if name.startswith('toolyard')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolyard', 'toolyard._version', 'toolyard.pytest_plugin']"
