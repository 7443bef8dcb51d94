"""How two runs differ: calls, arguments, results, order, definitions, and the figures of agents' runs."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.recordings.yard import config, demo, recorded, text, workshop
from toolyard.recordings.comparison import RunComparison, as_json, compare, read_run
from toolyard.recordings.format import RecordingError


async def run(folder: Path, name: str, *calls: tuple[str, Mapping[str, object]], **options: object) -> Path:
    file = folder / f"{name}.jsonl"
    servers = (demo(**options), workshop())
    async with recorded(config(folder, *servers), file) as client:
        for tool, arguments in calls:
            await text(client, tool, **arguments)
    return file


def differences(found: RunComparison) -> list[tuple[str, str, int | None, int | None]]:
    return [(item.kind, item.title, item.a, item.b) for item in found.differences]


def echo(words: str) -> tuple[str, Mapping[str, object]]:
    return "demo__echo", {"text": words}


async def test_two_recordings_of_the_same_calls_are_the_same(tmp_path: Path) -> None:
    calls = (echo("one"), ("demo__add", {"a": 1, "b": 2}))
    one = await run(tmp_path, "one", *calls)
    other = await run(tmp_path, "other", *calls)
    found = compare(read_run(one), read_run(other))
    assert (found.is_same, found.same_calls, found.differences) == (True, 2, ())


async def test_calls_are_told_apart_by_what_is_different(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = "shop__environment", {"name": "TOOLYARD_DOOR"}
    monkeypatch.setenv("TOOLYARD_DOOR", "open")
    one = await run(tmp_path, "a", look, echo("1"), echo("2"), echo("in May"), ("demo__now", {"zone": "UTC"}))
    monkeypatch.setenv("TOOLYARD_DOOR", "closed")
    other = await run(
        tmp_path, "b", look, echo("2"), echo("1"), echo("in June"), ("demo__add", {"a": 1, "b": 2})
    )
    found = compare(read_run(one), read_run(other))
    assert not found.is_same
    assert [item.kind for item in found.differences] == ["result", "order", "arguments", "only_a", "only_b"]
    assert differences(found)[2:] == [
        ("arguments", "demo/echo", 4, 4),
        ("only_a", "demo/now", 5, None),
        ("only_b", "demo/add", None, 5),
    ]
    by_kind = {item.kind: item.details for item in found.differences}
    assert by_kind["arguments"] == ("text in B: 'in June', in A: 'in May'",)
    assert any("in B: 'closed', in A: 'open'" in sentence for sentence in by_kind["result"])
    assert json.loads(json.dumps(as_json(found)))["same"] is False


async def test_a_tool_that_is_missing_in_one_run_is_named(tmp_path: Path) -> None:
    one = await run(tmp_path, "a", echo("x"))
    other = await run(tmp_path, "b", echo("x"))
    lines = other.read_text().replace("Draw a small square of one colour.", "Draw a circle.")
    other.write_text(lines)
    from toolyard.recordings.format import seal

    seal(other)
    found = compare(read_run(one), read_run(other))
    assert [(item.title, item.details) for item in found.differences] == [
        ("demo tools 'swatch'", ("is defined differently",))
    ]


def write_run(folder: Path, words: str, tokens: int, answer: str) -> Path:
    folder.mkdir()
    base = {"format": "toolyard.run", "run": folder.name, "agent": "main", "name": "main", "turn": 1}
    use = {"type": "tool_use", "id": "use-1", "name": "echo", "arguments": {"text": words}}
    result = {"type": "tool_result", "id": "use-1", "parts": [{"type": "text", "text": words}]}
    lines = [
        {**base, "time": 1.0, "message": {"role": "assistant", "parts": [use]}},
        {**base, "time": 2.5, "result": result},
    ]
    (folder / "transcript.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    record = {"run": folder.name, "turns": 2, "usage": {"input": tokens, "output": 5}, "answer": answer}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_runs_of_agents_are_compared_by_calls_tokens_and_answer(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", "hello", 100, "done"), write_run(tmp_path / "b", "hallo", 120, "done so")
    found = compare(read_run(a), read_run(b))
    assert differences(found) == [("arguments", "main echo", 1, 1), ("answer", "answer", None, None)]
    assert {name: (one, other) for name, one, other in found.totals()}["input tokens"] == (100, 120)
    assert compare(read_run(a), read_run(a / "transcript.jsonl")).is_same


def test_tokens_alone_make_a_difference_and_time_does_not(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", "x", 100, "done"), write_run(tmp_path / "b", "x", 101, "done")
    assert not compare(read_run(a), read_run(b)).is_same


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "transcript.jsonl").write_text('{"time": 1}\n')
    for path, words in ((tmp_path, "cannot read"), (tmp_path / "damaged", "line 1")):
        with pytest.raises(RecordingError, match=words):
            read_run(path)
