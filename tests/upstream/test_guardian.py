"""When we are killed nobody is left: the guardian sees to it, and somebody sees to the guardian."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.kin import PATIENCE, children, is_gone, open_files, until
from toolyard.upstream.stdio import groups
from toolyard.upstream.stdio.guardian import Guardian

ROOT = Path(__file__).parents[2]
CHILD = str(Path(__file__).with_name("child.py"))
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Gateway:
    """A process with children of its own, told apart by number."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.upstream.gateway", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.pids: list[int] = told["pids"]
        self.guardian: int = told["guardian"]
        self.copy: int | None = told["copy"]

    def is_empty(self) -> bool:
        return all(map(is_gone, [*self.pids, self.guardian]))

    def close(self) -> None:
        for pid in [*self.pids, self.guardian, *([self.copy] if self.copy else [])]:
            if not is_gone(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def gateway() -> Iterator[Callable[..., Gateway]]:
    made = list[Gateway]()

    def make(*args: str) -> Gateway:
        made.append(Gateway(*args))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    guardian = Guardian()
    yield guardian
    guardian.close()


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who leads a group and ignores SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-S", CHILD, "stubborn"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


# When we are gone


def test_killed_we_leave_no_child_and_no_grandchild(gateway: Callable[..., Gateway]):
    yard = gateway()
    assert not any(map(is_gone, yard.pids))
    yard.process.kill()
    assert until(yard.is_empty, seconds=5)


def test_a_guardian_that_was_asked_to_end_stays_at_its_post(gateway: Callable[..., Gateway]):
    yard = gateway()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(yard.guardian, number)
    yard.process.kill()
    assert until(yard.is_empty, seconds=5)


def test_a_copy_of_us_that_lives_on_does_not_keep_the_children_alive(gateway: Callable[..., Gateway]):
    yard = gateway("copy")
    yard.process.kill()
    assert until(yard.is_empty, seconds=5)
    assert yard.copy is not None
    assert not is_gone(yard.copy)


def test_when_we_end_in_order_there_is_nothing_left_to_guard(gateway: Callable[..., Gateway]):
    yard = gateway()
    yard.process.communicate(timeout=PATIENCE)
    assert yard.process.returncode == 0
    assert until(yard.is_empty, seconds=2)


@linux
def test_neither_the_guardian_nor_the_children_hold_what_is_ours(gateway: Callable[..., Gateway]):
    yard = gateway()
    for pid in (yard.guardian, *yard.pids[:3]):
        held = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")} - {0, 1, 2}
        # `family` holds a pipe to the grandchild it waited for.
        assert len(held) <= (1 if pid in yard.pids[1:3] else 0)
    assert len({os.getsid(pid) for pid in (yard.guardian, yard.process.pid, *yard.pids[:3])}) == 5


# What it is told


def test_it_ends_the_groups_it_was_told_of_and_no_others(
    guardian: Guardian, stubborn: subprocess.Popen[bytes]
):
    spared = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        guardian.add(spared.pid)
        guardian.add(stubborn.pid)
        guardian.remove(spared.pid)
        guardian.close()
        assert stubborn.wait(PATIENCE) == -signal.SIGKILL
        assert spared.poll() is None
    finally:
        spared.kill()
        spared.wait()


def test_its_death_is_noticed_and_another_takes_over(
    guardian: Guardian, stubborn: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
):
    guardian.add(stubborn.pid)
    first = guardian.pid
    assert first is not None
    guardian.check()
    assert guardian.pid == first
    os.kill(first, signal.SIGKILL)
    assert until(lambda: is_gone(first))
    guardian.check()
    assert guardian.pid not in (None, first)
    assert first not in children(), "a zombie"
    assert "starting another" in caplog.text
    guardian.close()
    assert stubborn.wait(PATIENCE) == -signal.SIGKILL


def test_its_death_is_noticed_when_it_is_told_something(
    guardian: Guardian, stubborn: subprocess.Popen[bytes]
):
    guardian.add(stubborn.pid)
    first = guardian.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert until(lambda: is_gone(first))
    guardian.add(2**22 + 1)  # nobody has that number
    assert guardian.pid not in (None, first)
    guardian.close()
    assert stubborn.wait(PATIENCE) == -signal.SIGKILL


def test_one_that_was_stopped_does_not_hold_us(guardian: Guardian, stubborn: subprocess.Popen[bytes]):
    guardian.add(stubborn.pid)
    first = guardian.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    for group in range(2**22 + 1, 2**22 + 10_000):
        guardian.add(group)
        guardian.remove(group)
    assert guardian.pid != first
    guardian.close()
    assert stubborn.wait(PATIENCE) == -signal.SIGKILL


def test_it_costs_one_process_and_one_descriptor(guardian: Guardian, stubborn: subprocess.Popen[bytes]):
    before, files = children(), open_files()
    for _ in range(50):
        guardian.add(stubborn.pid)
        guardian.remove(stubborn.pid)
    assert len(children() - before) == 1
    assert len(open_files()) == len(files) + 1
    guardian.close()
    assert (children(), open_files()) == (before, files)


def test_where_it_cannot_be_started_we_do_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    guardian = Guardian()
    with caplog.at_level(logging.WARNING):
        guardian.add(2**22 + 1)
    assert "child processes may outlive the gateway" in caplog.text
    guardian.remove(2**22 + 1)
    guardian.check()
    guardian.close()


@linux
def test_it_is_small(guardian: Guardian, stubborn: subprocess.Popen[bytes]):
    guardian.add(stubborn.pid)
    status = Path(f"/proc/{guardian.pid}/status")

    def resident() -> int:
        return next(
            int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS")
        )

    assert until(lambda: resident() > 4096)
    assert resident() < 16 * 1024
    guardian.remove(stubborn.pid)


# Numbers that others have now


@linux
def test_a_group_whose_number_has_a_new_owner_is_left_alone(stubborn: subprocess.Popen[bytes]):
    started = groups.start_time(stubborn.pid)
    assert started is not None
    groups.send(stubborn.pid, started - 1, signal.SIGKILL)
    groups.send(stubborn.pid, None, signal.SIGKILL)
    assert stubborn.poll() is None
    groups.send(stubborn.pid, started, signal.SIGKILL)
    assert stubborn.wait(PATIENCE) == -signal.SIGKILL


@linux
def test_the_census_has_everybody_of_a_session_with_their_memory(stubborn: subprocess.Popen[bytes]):
    ((pid, group, memory),) = groups.census()[stubborn.pid]
    assert (pid, group) == (stubborn.pid, stubborn.pid)
    assert 2**20 < memory < 2**28
    stubborn.kill()
    os.waitid(os.P_PID, stubborn.pid, os.WEXITED | os.WNOWAIT)
    assert stubborn.pid not in groups.census(), "the dead are not counted"
