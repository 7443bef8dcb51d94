"""The local trace store: what is kept, by whom, for how long, and what happens when it cannot be."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest

from tests.waiting import PATIENCE
from toolyard.telemetry.conventions import Attributes, SpanFailure
from toolyard.telemetry.trace_file import (
    NAME,
    PlainSpan,
    TraceLimits,
    TraceReader,
    TraceStore,
    TraceStoreError,
)


def span(trace: int, id: int = 1, parent: int = 0, *, duration: int = 5, size: int = 0) -> PlainSpan:
    attributes: Attributes = {"gen_ai.operation.name": "chat", "note": "x" * size}
    return PlainSpan(trace, id, parent, "chat small", "client", time.perf_counter_ns(), attributes, duration)


def kept(folder: Path) -> list[str]:
    return [str(int(id, 16)) for id in TraceReader(folder).recent(10_000)]


def test_what_was_added_is_read_back_after_a_close(tmp_path: Path):
    store = TraceStore(tmp_path)
    before = time.time_ns()
    failed = span(7, 2, 1)
    failed.failure = SpanFailure("timeout", "too late")
    store.add(span(7, 1))
    store.add(failed)
    store.close()
    (first, second) = TraceReader(tmp_path).spans([f"{7:032x}"])[f"{7:032x}"]
    assert (first.id, first.parent, first.name, first.kind) == (f"{1:016x}", "", "chat small", "client")
    assert first.attributes["gen_ai.operation.name"] == "chat"
    assert first.duration == 5
    assert before - 10**9 < first.start < time.time_ns()
    assert (second.parent, second.error, second.text) == (first.id, "timeout", "too late")


def test_a_closed_store_takes_more_and_writes_it_too(tmp_path: Path):
    store = TraceStore(tmp_path)
    for trace in (1, 2):
        store.add(span(trace))
        store.close()
    assert kept(tmp_path) == ["2", "1"]


def test_a_span_that_was_written_open_is_there_once_and_ended(tmp_path: Path):
    store = TraceStore(tmp_path)
    for duration in (-1, 40):
        store.add(span(1, duration=duration))
        store.close()
    (found,) = TraceReader(tmp_path).spans([f"{1:032x}"])[f"{1:032x}"]
    assert found.duration == 40


def test_beyond_its_bytes_the_oldest_go_first(tmp_path: Path):
    limits = TraceLimits(bytes=400_000)
    store = TraceStore(tmp_path, limits)
    for trace in range(1, 61):
        store.add(span(trace, size=20_000))
        store.close()
    left = [int(id) for id in kept(tmp_path)]
    assert left == list(range(60, 60 - len(left), -1))
    assert 5 < len(left) < 25
    with sqlite3.connect(tmp_path / NAME) as file:
        (size,) = file.execute(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        ).fetchone()
    assert size <= limits.bytes


def test_what_is_too_old_is_deleted_when_a_process_begins(tmp_path: Path):
    store = TraceStore(tmp_path)
    store.add(span(1))
    store.close()
    with sqlite3.connect(tmp_path / NAME) as file:
        file.execute("UPDATE segments SET at = at - 2 * 86400 * 1000000000")
    again = TraceStore(tmp_path, TraceLimits(seconds=86_400))
    again.add(span(2))
    again.close()
    assert kept(tmp_path) == ["2"]


def test_one_trace_can_be_deleted_from_among_others(tmp_path: Path):
    store = TraceStore(tmp_path)
    for trace in (1, 2, 3):
        store.add(span(trace, size=10))
    store.close()
    reader = TraceReader(tmp_path)
    reader.delete([f"{2:032x}"])
    assert kept(tmp_path) == ["3", "1"]
    assert reader.spans([f"{2:032x}"]) == {f"{2:032x}": []}
    assert len(reader.spans([f"{3:032x}"])[f"{3:032x}"]) == 1
    reader.delete(None)
    assert kept(tmp_path) == []


def test_an_absent_file_is_an_empty_store(tmp_path: Path):
    reader = TraceReader(tmp_path / "nowhere")
    assert reader.recent(5) == []
    reader.delete(None)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be taken for one" * 100, b"SQLite f"]
)
def test_a_damaged_file_loses_spans_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
):
    (tmp_path / NAME).write_bytes(content)
    store = TraceStore(tmp_path)
    for trace in range(3):
        store.add(span(trace + 1))
        store.close()
    assert store.dropped == 3
    told = [record for record in caplog.records if "traces are not kept" in record.message]
    assert len(told) == 1
    assert (tmp_path / NAME).read_bytes() == content
    with pytest.raises(TraceStoreError, match="cannot be read"):
        TraceReader(tmp_path).recent(5)


def test_a_folder_that_cannot_be_written_loses_spans_and_nothing_else(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    store = TraceStore(tmp_path / "file" / "below")
    store.add(span(1))
    store.close()
    assert store.dropped == 1


def test_a_full_disk_loses_spans_until_there_is_room_again(tmp_path: Path):
    # A limit on the size of files is what a process can be given of a full disk.
    done = run(
        f"""
        import resource, signal
        from pathlib import Path
        from tests.telemetry.test_trace_store import kept, span
        from toolyard.telemetry.trace_file import TraceStore
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        folder = Path({str(tmp_path)!r})
        store = TraceStore(folder)
        for trace, limit in ((1, -1), (2, 100_000), (3, -1)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
            store.add(span(trace, size=1000 if limit < 0 else 300_000))
            store.close()
        print(store.dropped, kept(folder))
        """
    )
    assert done.stdout.strip() == "1 ['3', '1']"


def test_several_processes_write_the_same_file(tmp_path: Path):
    program = f"""
        import sys
        from pathlib import Path
        from tests.telemetry.test_trace_store import span
        from toolyard.telemetry.trace_file import TraceStore
        first = int(sys.argv[1])
        store = TraceStore(Path({str(tmp_path)!r}))
        for trace in range(first, first + 20):
            store.add(span(trace))
            store.close()
    """
    started = [start(program, str(number)) for number in (100, 200, 300)]
    for process in started:
        assert process.wait(30) == 0
    expected = {first + at for first in (100, 200, 300) for at in range(20)}
    assert {int(id) for id in kept(tmp_path)} == expected


def test_a_killed_process_leaves_what_it_wrote_and_a_run_its_root(tmp_path: Path):
    process = start(
        f"""
        import sys, time
        from pathlib import Path
        from toolyard.config import TelemetryConfig
        from toolyard.telemetry.trace_file import TraceReader
        from toolyard.telemetry.tracing import agent_telemetry, open_run_spans
        folder = Path({str(tmp_path)!r})
        spans = open_run_spans(agent_telemetry(TelemetryConfig(), {{}}), folder)
        with spans.open("invoke_agent", "main"):
            while not TraceReader(folder).recent(1):
                time.sleep(0.01)
            print("written", flush=True)
            sys.stdin.read()
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    (trace,) = TraceReader(tmp_path).recent(5, runs_only=True)
    (root,) = TraceReader(tmp_path).spans([trace])[trace]
    assert root.name == "invoke_agent main"
    assert root.duration is None


def test_the_file_is_for_this_user_only(tmp_path: Path):
    store = TraceStore(tmp_path / "state")
    store.add(span(1))
    store.close()
    assert os.stat(tmp_path / "state" / NAME).st_mode & 0o077 == 0


def start(program: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )


def test_a_segment_whose_parts_do_not_fit_each_other_cannot_be_read(tmp_path: Path):
    store = TraceStore(tmp_path)
    store.add(span(7))
    store.close()
    with sqlite3.connect(tmp_path / NAME) as file:
        (packed,) = file.execute("SELECT spans FROM segments").fetchone()
        shared, (kept_span, *_) = msgspec.msgpack.decode(packed)
        kept_span[3] = 9  # the position of its shared part
        file.execute("UPDATE segments SET spans = ?", [msgspec.msgpack.encode([shared, [kept_span]])])
    with pytest.raises(TraceStoreError, match="cannot be read"):
        TraceReader(tmp_path).spans([f"{7:032x}"])
