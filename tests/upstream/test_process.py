"""Child processes as we keep them: started, heard, and ended with all they started, on both event loops."""

import asyncio
import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from msgspec import Struct

from tests.upstream.kin import PATIENCE, children, is_gone, open_files, until
from tests.upstream.loops import on_both_loops
from toolyard.upstream.messages.spool import Spooled
from toolyard.upstream.stdio.guardian import guardian
from toolyard.upstream.stdio.launch import StartError
from toolyard.upstream.stdio.process import (
    MAX_WAITING,
    OutputLine,
    Process,
    ProcessCongestedError,
    ProcessGoneError,
    SkippedLine,
)
from toolyard.upstream.stdio.stderr import ErrorStream

CHILD = str(Path(__file__).with_name("child.py"))
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Program(Struct, frozen=True, kw_only=True):
    command: str = sys.executable
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    max_memory: int = 2 * 2**30


class Kept:
    """A process with all it has said."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[OutputLine] = asyncio.Queue()
        self.reasons = list[str]()
        self.over = asyncio.Event()
        self.process: Process = None  # type: ignore[assignment]

    def end(self, reason: str) -> None:
        assert self.process is None or self.process.ended
        self.reasons.append(reason)
        self.over.set()

    async def start(self, program: Program, limit: int = 2**30) -> "Kept":
        self.process = await Process.start(
            "kid", program, on_line=self.lines.put_nowait, on_end=self.end, limit=limit
        )
        return self

    async def hear(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            line = await self.lines.get()
        return json.loads(line) if isinstance(line, bytes) else line

    async def reason(self) -> str:
        """Why it ended, when it has."""
        async with asyncio.timeout(PATIENCE):
            await self.over.wait()
        assert len(self.reasons) == 1
        assert self.process.ended
        assert is_gone(self.process.pid)
        assert self.process.pid not in children(), "a zombie"
        assert self.reasons[0] == self.process.reason
        return self.reasons[0]


async def kept(*args: str, limit: int = 2**30, **settings: Any) -> Kept:
    return await Kept().start(Program(args=("-S", CHILD, *args), **settings), limit)


# Talking


@on_both_loops
async def test_lines_go_there_and_back():
    kid = await kept("echo")
    kid.process.write(b'{"a":1}')
    kid.process.write(b'{"b":"\xc3\xa9"}')
    assert [await kid.hear(), await kid.hear()] == [{"echo": {"a": 1}}, {"echo": {"b": "é"}}]
    await kid.process.stop()
    assert await kid.reason() == "was stopped"
    assert kid.process.last_lines == ["end of input"]


@on_both_loops
async def test_a_line_of_nearly_a_megabyte_is_written_whole():
    kid = await kept("echo")
    kid.process.write(b'"%s"' % (b"x" * 1_000_000))
    assert await kid.hear() == {"echo": "x" * 1_000_000}
    await kid.process.stop()


@on_both_loops
async def test_a_long_line_comes_spooled():
    kid = await kept("big", str(9 * 2**20))
    line = await kid.hear()
    assert isinstance(line, Spooled)
    assert line.tail.endswith(b'xx"}}')
    await kid.process.stop()


@on_both_loops
async def test_a_line_over_the_limit_comes_as_an_error_and_tells_its_id():
    kid = await kept("big", str(9 * 2**20), limit=2**20)
    line = await kid.hear()
    assert isinstance(line, SkippedLine)
    assert (line.reason, line.id) == ("it is longer than the limit of 1 MiB", 1)
    await kid.process.stop()


@on_both_loops
async def test_a_last_line_without_a_line_break_is_heard():
    kid = await kept("unfinished")
    assert [await kid.hear(), await kid.hear()] == [{"a": 1}, {"b": 2}]
    assert await kid.reason() == "exited with code 0"


@on_both_loops
async def test_a_listener_who_fails_does_not_end_the_conversation(caplog: pytest.LogCaptureFixture):
    kid = Kept()
    original = kid.lines.put_nowait

    def picky(line: OutputLine) -> None:
        if line == b'{"echo": 1}':
            raise RuntimeError("not this one")
        original(line)

    kid.lines.put_nowait = picky  # type: ignore[method-assign]
    await kid.start(Program(args=("-S", CHILD, "echo")))
    kid.process.write(b"1")
    kid.process.write(b"2")
    assert await kid.hear() == {"echo": 2}
    assert "a line of its output could not be handled" in caplog.text
    await kid.process.stop()


@on_both_loops
async def test_writing_to_one_who_does_not_read_is_refused_in_time():
    kid = await kept("deaf")
    assert await kid.hear() == "ready"
    with pytest.raises(ProcessCongestedError, match=r"does not read its input: 1[67]"):  # noqa: PT012
        for _ in range(20):
            kid.process.write(b"x" * 2**20)
            await asyncio.sleep(0)
    assert MAX_WAITING == 16 * 2**20
    await kid.process.stop(grace=0.1)
    assert await kid.reason() == "was stopped"


@on_both_loops
async def test_writing_to_one_who_is_gone_tells_why():
    kid = await kept("leave", "3", "out of paper")
    assert await kid.reason() == "exited with code 3: out of paper"
    with pytest.raises(ProcessGoneError, match="exited with code 3: out of paper"):
        kid.process.write(b"{}")


# Where it runs


@on_both_loops
async def test_it_has_what_it_needs_of_our_environment_and_no_secret_of_others(
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("TOOLYARD_KEY", "DOCS_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "pt_BR.UTF-8")
    monkeypatch.setenv("SHARED", "ours")
    kid = await kept("show", env={"OWN": "its", "SHARED": "its too"})
    env = (await kid.hear())["env"]
    assert (env["OWN"], env["SHARED"], env["PATH"]) == ("its", "its too", os.environ["PATH"])
    assert env["LC_TIME"] == "pt_BR.UTF-8"
    assert "secret" not in env.values()
    await kid.process.stop()


@on_both_loops
async def test_it_leads_a_group_of_its_own_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "src").mkdir()
    kid = await kept("show", cwd="~/src")
    shown = await kid.hear()
    assert shown["pid"] == shown["group"] == kid.process.pid
    assert shown["cwd"] == str(tmp_path / "src")
    await kid.process.stop()


@on_both_loops
async def test_a_command_is_looked_up_on_the_path_it_will_have(tmp_path: Path):
    script = tmp_path / "greet"
    script.write_text("#!/bin/sh\necho '\"hello\"'\n")
    script.chmod(0o755)
    kid = await Kept().start(Program(command="greet", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}))
    assert await kid.hear() == "hello"
    await kid.reason()


@on_both_loops
async def test_a_command_with_a_slash_is_taken_from_its_folder(tmp_path: Path):
    script = tmp_path / "greet"
    script.write_text("#!/bin/sh\necho '\"hello\"'\n")
    script.chmod(0o755)
    kid = await Kept().start(Program(command="./greet", cwd=str(tmp_path)))
    assert await kid.hear() == "hello"
    await kid.reason()


def oom_score_adj(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@on_both_loops
@linux
async def test_it_goes_before_us_when_memory_runs_out():
    kid = await kept("echo")
    assert oom_score_adj(kid.process.pid) > oom_score_adj(os.getpid())
    await kid.process.stop()


# What cannot be started


async def refusal(**settings: Any) -> str:
    files = open_files()
    with pytest.raises(StartError) as caught:
        await Kept().start(Program(**settings))
    assert open_files() == files
    return str(caught.value)


@on_both_loops
async def test_a_missing_command_is_told_with_what_to_do():
    await (await kept("leave", "0")).reason()  # the event loop opens files of its own with its first child
    told = await refusal(command="uvx", env={"PATH": "/nowhere"})
    assert told.startswith("command 'uvx' was not found on PATH; install uv")
    assert "does not exist" in await refusal(command="/no/such/program")
    assert "its command is empty" in await refusal(command="")


@on_both_loops
async def test_a_file_that_cannot_be_run_is_told(tmp_path: Path):
    await (await kept("leave", "0")).reason()
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    assert "is not executable (permission denied); try `chmod +x" in await refusal(command=str(script))
    script.chmod(0o755)
    assert "does the interpreter in its first line exist?" in await refusal(command=str(script))
    script.write_bytes(b"\x00\x01\x02")
    assert "could not be run (Exec format error)" in await refusal(command=str(script))
    assert "is a folder" in await refusal(command=str(tmp_path))
    assert "could not be run" in await refusal(args=("a\0b",))


@on_both_loops
async def test_a_missing_folder_is_told(tmp_path: Path):
    await (await kept("leave", "0")).reason()
    assert "its working folder '/no/such/folder' does not exist" in await refusal(cwd="/no/such/folder")
    (tmp_path / "file").touch()
    assert "is not a folder" in await refusal(cwd=str(tmp_path / "file"))


# How it ends


@on_both_loops
async def test_one_that_exits_at_once_is_told_with_its_last_words():
    kid = await kept("leave", "1", "Traceback …", "ModuleNotFoundError: No module named 'x'")
    assert await kid.reason() == "exited with code 1: ModuleNotFoundError: No module named 'x'"
    await kid.process.stop()
    assert len(kid.reasons) == 1


@on_both_loops
async def test_one_that_dies_of_a_signal_is_told_with_its_name():
    assert await (await kept("die", str(int(signal.SIGSEGV)))).reason() == "killed by SIGSEGV"
    assert await (await kept("die", str(int(signal.SIGKILL)))).reason() == "killed by SIGKILL"


@on_both_loops
async def test_one_that_ignores_the_end_of_its_input_is_asked_to_leave():
    kid = await kept("polite")
    assert await kid.hear() == "ready"
    await kid.process.stop(grace=0.3)
    assert await kid.reason() == "was stopped"
    assert kid.process.last_lines == ["asked to leave"]


@on_both_loops
async def test_one_that_ignores_all_requests_is_made_to_leave():
    kid = await kept("stubborn")
    assert await kid.hear() == "ready"
    await kid.process.stop(grace=0.2)
    assert await kid.reason() == "was stopped"
    assert is_gone(kid.process.pid)


@on_both_loops
async def test_stopping_is_for_everybody_and_as_often_as_they_like():
    kid = await kept("stubborn")
    assert await kid.hear() == "ready"
    impatient = asyncio.ensure_future(kid.process.stop(grace=0.2))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(*(kid.process.stop(grace=0.2) for _ in range(5)))
    await kid.process.stop()
    assert await kid.reason() == "was stopped"


@on_both_loops
@pytest.mark.parametrize("kind", ["same-group", "own-group"])
@pytest.mark.parametrize("leader", ["stays", "exits"])
async def test_nobody_of_its_family_is_left(leader: str, kind: str):
    if kind == "own-group" and sys.platform != "linux":
        pytest.skip("sessions are looked through in /proc")
    kid = await kept("family", leader, kind, "quiet")
    grandchild = (await kid.hear())["grandchild"]
    if leader == "stays":
        assert not is_gone(grandchild)
        await kid.process.stop(grace=0.2)
        assert await kid.reason() == "was stopped"
    else:
        assert await kid.reason() == "exited with code 0"
    assert is_gone(grandchild)


@on_both_loops
async def test_a_daemon_that_holds_the_pipes_does_not_hold_us():
    kid = await kept("daemon")
    daemon = (await kid.hear())["daemon"]
    try:
        assert await kid.reason() == "exited with code 0"
    finally:
        os.kill(daemon, signal.SIGKILL)


@on_both_loops
async def test_where_there_are_no_pidfds_it_ends_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert await (await kept("leave", "3", "out of paper")).reason() == "exited with code 3: out of paper"
    assert await (await kept("die", "11")).reason() == "killed by SIGSEGV"
    kid = await kept("family", "stays", "quiet")
    grandchild = (await kid.hear())["grandchild"]
    await kid.process.stop(grace=0.1)
    assert await kid.reason() == "was stopped"
    assert is_gone(grandchild)


@on_both_loops
@pytest.mark.parametrize("stream", ["stdin", "stdout"])
async def test_one_that_closes_a_stream_is_ended(stream: str):
    kid = await kept("close", stream)
    assert await kid.hear() == "ready"
    if stream == "stdin":  # some loops notice only when they write
        with suppress(ProcessGoneError):
            kid.process.write(b"{}")
    told = "closed its standard input" if stream == "stdin" else "closed its standard output"
    assert await kid.reason() == told


@on_both_loops
@linux
async def test_one_that_eats_too_much_is_ended_with_its_children():
    kid = await kept("eat", str(300 * 2**20), max_memory=100 * 2**20)
    assert re.fullmatch(r"used [\d.]+ MiB of memory, over its limit of 100 MiB", await kid.reason())


@on_both_loops
async def test_a_start_that_is_abandoned_leaves_nobody():
    await (await kept("leave", "0")).reason()
    before, files = children(), open_files()
    for _ in range(10):
        starting = asyncio.ensure_future(kept("stubborn"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    async with asyncio.timeout(PATIENCE):
        while children() != before or open_files() != files:  # noqa: ASYNC110 (nobody is left who could tell)
            await asyncio.sleep(0.02)


@on_both_loops
async def test_two_hundred_lives_leave_no_descriptor_and_no_zombie():
    await (await kept("leave", "0")).reason()
    gc.collect()
    before, files = children(), open_files()

    async def live(number: int) -> None:
        kid = await Kept().start(Program(command="cat" if number % 2 else "true"))
        await kid.process.stop()
        await kid.reason()

    for first in range(0, 200, 10):
        await asyncio.gather(*map(live, range(first, first + 10)))
    gc.collect()
    assert children() == before
    assert open_files() == files


def test_a_loop_that_ends_takes_its_children_along():
    """Nobody stopped them; their tasks are cancelled with the loop, or never began."""

    async def main() -> int:
        kid = await kept("stubborn")
        assert await kid.hear() == "ready"
        asyncio.ensure_future(kid.process.stop(grace=60))  # noqa: RUF006
        await asyncio.sleep(0)
        return kid.process.pid

    pid = uvloop.run(main())
    assert until(lambda: is_gone(pid))


# What it says on standard error


@on_both_loops
async def test_standard_error_goes_to_the_log_of_that_server(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "toolyard.upstream.kid")
    kid = await kept("dirty")
    assert await kid.hear() == "ready"
    await kid.process.stop()
    first, long, last = [r.getMessage() for r in caplog.records if r.name == "toolyard.upstream.kid"]
    assert first == "red �� bell  tab end"
    assert long == "long" * 500 + "…"
    assert last == "last"
    assert kid.process.last_lines == [first, long, last]


@on_both_loops
async def test_a_flood_on_standard_error_is_cut(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "toolyard.upstream.kid")
    kid = await kept("flood", "200000")
    assert await kid.hear() == "flooded"
    await kid.process.stop()
    lines = [r.getMessage() for r in caplog.records if r.name == "toolyard.upstream.kid"]
    assert lines[0] == "line 0"
    assert len(lines) < 1500
    left_out = sum(int(line.split()[1]) for line in lines if line.startswith("…"))
    assert left_out + sum(line.startswith("line") for line in lines) == 200_000
    assert kid.process.last_lines[-1] == "line 199999"


@on_both_loops
async def test_a_flood_on_standard_error_leaves_us_time_for_others():
    flooder = await kept("flood", str(10**9))
    kid = await kept("echo")
    for number in range(100):
        kid.process.write(b"%d" % number)
        assert await kid.hear() == {"echo": number}
    await asyncio.gather(flooder.process.stop(grace=0.1), kid.process.stop())


def test_200_mb_on_standard_error_without_the_end_of_a_line_stop_no_reading():
    errors = ErrorStream("kid")
    assert [errors.feed(b"x" * 2**16) for _ in range(3200)] == [0.0] * 3200
    assert errors.latest.startswith("x")


# Memory


@linux
def test_a_line_of_100_mib_does_not_pass_through_memory():
    """In a process of its own, whose peak is nobody else's."""
    shown = subprocess.run(
        [sys.executable, "-m", "tests.upstream.measure", str(100 * 2**20)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    measured = json.loads(shown.stdout)
    assert measured["size"] > 100 * 2**20
    assert measured["grown"] < 40 * 2**20


def teardown_module() -> None:
    guardian.close()
