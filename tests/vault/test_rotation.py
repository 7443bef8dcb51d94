"""No key that wraps something leaves the file: with two rotations at once, killed ones, and new tenants."""

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from tests.vault.conftest import Another
from tests.vault.interrupted import interrupted
from tests.vault.rotating import KEY, address, fill, lost, rotate_once
from toolyard.vault import VaultKeyError
from toolyard.vault.envelope import TENANTS
from toolyard.vault.master_keys import FileSource
from toolyard.vault.rotation import rotate

SCRIPT = [sys.executable, "-m", "tests.vault.rotating"]


def keys_in(folder: Path) -> list[str]:
    return [key.id for key in FileSource(folder / KEY).load()]


async def test_a_second_rotation_is_refused_while_one_runs(another: Another, tmp_path: Path):
    tenants = [str(number) for number in range(4)]
    await fill(tmp_path, tenants)
    seconds: list[dict[str, str]] = []

    def meanwhile(done: int, total: int) -> None:
        if done == 2:
            with ThreadPoolExecutor(1) as thread:
                seconds.append(thread.submit(lambda: asyncio.run(rotate_once(tmp_path))).result())

    done = await rotate(another(), on_progress=meanwhile)
    assert "another rotation" in seconds[0]["refused"]
    assert keys_in(tmp_path)[0] == done.master
    assert await lost(tmp_path, tenants) == []


def test_processes_that_rotate_at_the_same_moment_lose_nothing(tmp_path: Path):
    tenants = [f"tenant {number}" for number in range(40)]
    asyncio.run(fill(tmp_path, tenants))
    with ExitStack() as stack:
        pipes: list[tuple[IO[str], IO[str]]] = []
        for _ in range(3):
            command = [*SCRIPT, "lines", str(tmp_path)]
            process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(process)
            assert process.stdin
            assert process.stdout
            pipes.append((process.stdin, process.stdout))
        assert [said.readline() for _, said in pipes] == ["ready\n"] * 3
        for _ in range(5):
            for words, _ in pipes:
                words.write("go\n")
                words.flush()
            outcomes = [json.loads(said.readline()) for _, said in pipes]
            assert asyncio.run(lost(tmp_path, tenants)) == []
            printed = {one["master"] for one in outcomes if "master" in one}
            assert printed
            assert printed <= set(keys_in(tmp_path))


@pytest.mark.parametrize("forget", [(), ("forget",)], ids=["kept", "forgotten"])
def test_a_rotation_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path, forget: tuple[str, ...]):
    done = subprocess.run([*SCRIPT, "killed", tmp_path, *forget], text=True, capture_output=True)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["status"] for one in runs[-1:]] == [0], done.stderr
    assert len(runs) > 10
    for number, one in enumerate(runs):
        assert (one["lost"], one["left"]) == ([], []), (number, one)
        assert set(one["files"]) <= {KEY, f"{KEY}.lock"}, (number, one)


async def test_a_tenant_that_is_new_during_a_rotation_keeps_its_key(another: Another, tmp_path: Path):
    await fill(tmp_path, ["old"])
    gateway = interrupted(tmp_path / KEY, "swap", TENANTS, lambda: rotate(another(), forget=True))
    await gateway.put(address("new"), b"new")
    await gateway.close()
    assert len(keys_in(tmp_path)) == 1
    assert await lost(tmp_path, ["old", "new"]) == []


async def test_a_read_during_a_rotation_finds_the_new_key(another: Another, tmp_path: Path):
    await fill(tmp_path, ["old"])
    gateway = interrupted(tmp_path / KEY, "get", TENANTS, lambda: rotate(another(), forget=True))
    found = await gateway.read(address("old"))
    await gateway.close()
    assert found is not None


async def test_the_status_of_a_process_that_runs_for_long_knows_of_a_rotation(
    another: Another, tmp_path: Path
):
    await fill(tmp_path, ["a"])
    running = another()
    await running.read(address("a"))
    master = (await rotate(another())).master
    status = await running.status()
    assert (status.master, status.earlier, status.unknown) == (master, {}, ())


async def test_a_key_file_that_somebody_replaces_meanwhile_gets_the_key_in_use_back(
    another: Another, tmp_path: Path
):
    await fill(tmp_path, ["a", "b"])
    old = (tmp_path / KEY).read_bytes()

    def restore(done: int, total: int) -> None:
        if done == total:
            (tmp_path / KEY).write_bytes(old)

    with pytest.raises(VaultKeyError, match="somebody else"):
        await rotate(another(), on_progress=restore)
    assert await lost(tmp_path, ["a", "b"]) == []


async def test_a_machine_with_another_copy_of_the_key_file_does_not_rotate(another: Another, tmp_path: Path):
    await fill(tmp_path, ["a", "b"])
    other = FileSource(tmp_path / "other.key")
    other.path.write_bytes((tmp_path / KEY).read_bytes())
    other.path.chmod(0o600)
    before = other.path.read_bytes()
    master = (await rotate(another())).master
    with pytest.raises(VaultKeyError, match=f"{master!r} wraps .* not known here"):
        await rotate(another(other))
    assert other.path.read_bytes() == before


async def test_two_stores_with_one_key_file_are_rotated_one_after_the_other(another: Another, tmp_path: Path):
    await fill(tmp_path, ["a"])
    key, elsewhere = FileSource(tmp_path / KEY), f"sqlite://{tmp_path}/elsewhere.db"
    await another(key, url=elsewhere).put(address("b"), b"b")
    for _ in range(3):
        await rotate(another())
    assert await another(key, url=elsewhere).read(address("b"))


async def test_a_link_to_the_key_file_stays_a_link_and_shares_its_lock(another: Another, tmp_path: Path):
    await fill(tmp_path, ["a"])
    link = FileSource(tmp_path / "link.key")
    link.path.symlink_to(tmp_path / KEY)
    master = (await rotate(another(link))).master
    assert link.path.is_symlink()
    assert keys_in(tmp_path)[0] == master
    with link.changing(), pytest.raises(VaultKeyError, match="another rotation"):
        await rotate(another())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
async def test_the_key_file_of_a_user_that_root_rotates_stays_that_users(another: Another, tmp_path: Path):
    await fill(tmp_path, ["a"])
    os.chown(tmp_path / KEY, 65534, 65534)
    await rotate(another())
    owners = {name: (tmp_path / name).stat().st_uid for name in (KEY, f"{KEY}.lock")}
    assert owners == {KEY: 65534, f"{KEY}.lock": 65534}
