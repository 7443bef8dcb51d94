"""A recording on disk: readable as it grows, and refused with a reason if it is not what it was."""

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recordings.yard import config, recorded, text
from toolyard.recordings.format import (
    DamagedRecordingError,
    HeaderLine,
    NotARecordingError,
    NotificationLine,
    OtherFormatError,
    RecordingError,
    RecordingWriter,
    RequestLine,
    ResponseLine,
    WriteError,
    read_lines,
    seal,
)
from toolyard.recordings.recording import Recording


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    async with recorded(config(tmp_path), path) as client:
        await text(client, "demo__echo", text="one")
        await text(client, "demo__echo", text="two")
    return path


def test_every_line_is_a_json_object_whose_first_members_are_always_the_same(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert list(lines[0])[:4] == ["kind", "format", "toolyard", "at"]
    assert all(list(line)[:3] == ["kind", "seq", "t"] for line in lines[1:-1])
    assert [line["seq"] for line in lines[1:-1]] == list(range(1, len(lines) - 1))
    assert list(lines[-1]) == ["kind", "count", "digest", "status"]
    assert file.stat().st_mode & 0o077 == 0


def test_lines_are_in_the_file_as_soon_as_they_happened(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.jsonl", HeaderLine())
    writer.add(lambda seq, t: RequestLine(seq=seq, t=t, server="s", method="m"))
    assert [type(event) for event in read_lines(tmp_path / "a.jsonl")] == [RequestLine]
    writer.close()


@pytest.mark.parametrize("kept", [0.35, 0.8, 0.999])
def test_a_cut_recording_is_used_as_far_as_it_goes(file: Path, kept: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * kept)])
    recording = Recording(file)
    assert "is cut: it ends after" in recording.cut
    recording.close()


def edited(lines: list[str], what: str) -> list[str]:
    index = next(number for number, line in enumerate(lines) if '"text":"one"' in line)
    return {
        "a value": [line.replace('"one"', '"uno"') for line in lines],
        "a line removed": [*lines[:index], *lines[index + 1 :]],
        "a line twice": [*lines[:index], lines[index], *lines[index:]],
        "lines swapped": [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]],
        "no JSON": [*lines[:index], "{oops", *lines[index + 1 :]],
        "unknown kind": [*lines[:index], '{"kind":"song","seq":1,"t":0}', *lines[index + 1 :]],
        "after the end": [*lines, lines[-2]],
    }[what]


@pytest.mark.parametrize(
    "what",
    [
        "a value",
        "a line removed",
        "a line twice",
        "lines swapped",
        "no JSON",
        "unknown kind",
        "after the end",
    ],
)
def test_an_edited_recording_is_refused_with_the_line_and_what_to_do(file: Path, what: str) -> None:
    lines = edited(file.read_text().splitlines(), what)
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(DamagedRecordingError, match=r"line \d+: .*it was edited") as caught:
        Recording(file)
    assert caught.value.hint == f"to accept it as it is: toolyard record --seal {file}"


@pytest.mark.parametrize("what", ["a value", "after the end"])
def test_sealing_accepts_an_edited_recording(file: Path, what: str) -> None:
    file.write_text("\n".join(edited(file.read_text().splitlines(), what)) + "\n")
    count = seal(file)
    recording = Recording(file)
    assert (recording.cut, recording.file.count) == ("", count)
    recording.close()


def test_sealing_numbers_the_events_anew_after_a_call_was_removed(file: Path) -> None:
    lines = file.read_text().splitlines()
    call = next(json.loads(line)["seq"] for line in lines if '"arguments":{"text":"one"}' in line)
    kept = [line for line in lines if f'"seq":{call},' not in line and f'"of":{call},' not in line]
    file.write_text("\n".join(kept) + "\n")
    assert seal(file) == len(lines) - 4
    recording = Recording(file)
    assert [call.name for call in recording.calls.values() if call.by == "client"] == ["echo"]
    recording.close()


def test_sealing_refuses_an_event_whose_request_is_gone(file: Path) -> None:
    lines = file.read_text().splitlines()
    call = next(json.loads(line)["seq"] for line in lines if '"arguments":{"text":"one"}' in line)
    before = "\n".join(line for line in lines if f'"seq":{call},' not in line)
    file.write_text(before)
    with pytest.raises(RecordingError, match=f"belongs to {call}, which is not before it"):
        seal(file)
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", NotARecordingError, "is empty"),
        (b"hello\n", NotARecordingError, "is not a recording of Toolyard"),
        (b'{"a": 1}\n{"b": 2}\n', NotARecordingError, "is not a recording of Toolyard"),
        (b"\xff\xfe\x00\n", NotARecordingError, "is not a recording of Toolyard"),
        (b'{"kind":"recording","format":99,"toolyard":"9.9"}\n', OtherFormatError, "format 99"),
        (b"[" * 100_000, NotARecordingError, "is not a recording of Toolyard"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, error: type, words: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(error, match=words):
        Recording(tmp_path / "x")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RecordingError, match="cannot read"):
            Recording(path)


def test_a_long_recording_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    writer = RecordingWriter(path, HeaderLine())
    body = json.dumps({"content": [{"type": "text", "text": "x" * 200_000}]}).encode()
    for _ in range(500):
        number = writer.add(lambda seq, t: RequestLine(seq=seq, t=t, server="s", method="tools/call"))
        writer.add(lambda seq, t, of=number: ResponseLine(seq=seq, t=t, of=of, result=raw(body)))
    writer.end(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recording = Recording(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(recording.calls) == 500
    recording.close()
    assert path.stat().st_size > 100_000_000
    assert grown < 20_000  # KiB


def raw(body: bytes):
    from msgspec import Raw

    return Raw(body)


def test_two_recorders_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = RecordingWriter(path, HeaderLine())
    with pytest.raises(WriteError, match="exists"):
        RecordingWriter(path, HeaderLine())
    with pytest.raises(WriteError, match="another command is recording"):
        RecordingWriter(path, HeaderLine(), overwrite=True)
    writer.end(0)
    RecordingWriter(path, HeaderLine(), overwrite=True).end(0)
    assert list(read_lines(path)) == []


@pytest.mark.parametrize("place", ["missing/run.jsonl", "."])
def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path, place: str) -> None:
    with pytest.raises(WriteError, match="cannot write"):
        RecordingWriter(tmp_path / place, HeaderLine(), overwrite=True)


def test_a_full_disk_leaves_whole_lines_and_is_reported_once(
    tmp_path: Path, limit_of_files: Callable[[int], None]
) -> None:
    path = tmp_path / "run.jsonl"
    writer = RecordingWriter(path, HeaderLine())
    faults: list[WriteError] = []
    writer.on_fault = faults.append
    limit_of_files(path.stat().st_size + 500)
    for _ in range(20):
        writer.add(lambda seq, t: NotificationLine(seq=seq, t=t, of=1, method="x" * 40))
    writer.end(0)
    assert len(faults) == 1
    assert "cannot write the recording" in faults[0].message
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 2
    assert all(line.endswith(b"}\n") for line in lines)
