"""`toolyard eval` as a process: the shipped tasks, tables, JSON, and what it refuses."""

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.running import PATIENCE, Toolyard

BUNDLED = Path(__file__).parents[2] / "examples" / "evals" / "bundled.toml"
SUITE = """
model = "scripted"

[[cases]]
name = "add"
task = "What is 1 + 2?"
calls = [{ tool = "demo/add" }]
answer_contains = ["3"]
script = [{ tool = "mcp__demo__add", arguments = { a = 1, b = 2 }, search = "add two numbers" }]

[[cases]]
name = "wrong"
task = "What is 1 + 1?"
answer_contains = ["two"]
script = [{ tool = "mcp__demo__add", arguments = { a = 1, b = 1 }, search = "add two numbers" }]
"""


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    command = Toolyard(tmp_path)
    command.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    command.write("suite.toml", SUITE)
    return command


def test_the_twenty_shipped_tasks_pass_in_both_views_and_searching_costs_less(toolyard: Toolyard) -> None:
    done = toolyard("eval", str(BUNDLED), "--compare", "view=all,view=search", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert [one["configuration"] for one in found["configurations"]] == ["view=all", "view=search"]
    for one in found["configurations"]:
        assert (one["total"]["passed"], one["total"]["attempts"], one["missing"]) == (20, 20, 0)
    assert found["comparison"]["input_tokens_change"] < -0.3
    assert found["comparison"]["turns_change"] > 0
    assert found["comparison"]["differences"] == []


def test_a_table_shows_what_passed_and_says_why_the_rest_did_not(toolyard: Toolyard) -> None:
    done = toolyard("eval", "suite.toml", "--times", "2", "--keep", "kept")
    assert done.status == 1
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0][:2] == ["case", "passed"]
    assert [row[:2] for row in rows[1:]] == [["add", "2/2"], ["wrong", "0/2"], ["all", "2/4"]]
    assert "wrong: the answer does not contain 'two'" in done.err
    assert len(list(toolyard.folder.glob("kept/eval-*/1/runs/*/transcript.jsonl"))) == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.toml"], "cannot read none.toml"),
        (["suite.toml", "--case", "ad"], "no case 'ad'"),
        (["suite.toml", "--compare", "view=all"], "does not name two configurations"),
        (["suite.toml", "--compare", "view=all,vew=search"], "'vew=search' is not a setting"),
        (["suite.toml", "--compare", "view=all,view=both"], "no view 'both'"),
        (["suite.toml", "--model", "openai:gpt-x"], "OPENAI_API_KEY is not set"),
        (["suite.toml", "--config", "none.toml"], "none.toml"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_does(
    toolyard: Toolyard, arguments: list[str], says: str
) -> None:
    done = toolyard("eval", *arguments)
    assert done.status == 2
    assert says in done.err
    assert done.out == ""


def test_an_interrupted_eval_prints_what_there_is(toolyard: Toolyard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        arguments = ("eval", "suite.toml", "--model", "openai:silent", "--json")
        process = toolyard.start(*arguments, OPENAI_BASE_URL=url, NO_PROXY="127.0.0.1")
        try:
            connection, _ = silent.accept()  # the model is being asked
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
            connection.close()
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert "interrupted" in err
    (found,) = json.loads(out)["configurations"]
    assert (found["total"]["attempts"], found["missing"]) == (0, 2)


def test_a_recording_answers_in_the_place_of_the_servers(toolyard: Toolyard) -> None:
    words = ("eval", "suite.toml", "--case", "add", "--json")
    recorded = toolyard("record", "kept.jsonl", *words)
    toolyard.write("toolyard.toml", "")
    replayed = toolyard("replay", "kept.jsonl", *words)
    assert (recorded.status, replayed.status) == (0, 0), replayed.err
    before, after = (json.loads(one.out)["configurations"][0]["total"] for one in (recorded, replayed))
    assert (before["passed"], after["passed"]) == (1, 1)
    assert after["input_tokens"] == before["input_tokens"]
