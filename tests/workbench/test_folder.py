"""What a box is given of the disk: whose files are handed over, and what is looked at while code runs."""

import ctypes
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.conftest import caller, fails, needs_root, workbenches
from toolyard.workbench.box import NOBODY, BoxName
from toolyard.workbench.folder import BoxFolder, DiskLimits
from toolyard.workbench.local import LocalLimits, LocalWorkbench, LocalWorkbenches
from toolyard.workspace import Workspace, Workspaces

STRANGER = 65533
NEW_MOUNTS, BIND, PRIVATE = 0x20000, 0x1000, 0x44000


def hand_over(workspace: Workspace) -> None:
    limits = DiskLimits(bytes=1024**2, files=100)
    BoxFolder(workspace, limits, NOBODY, is_path_open=False).hand_over()


def with_mounts_of_its_own(act: Callable[[Callable[[Path, Path], None]], None]) -> None:
    """Calls `act` in a thread whose mounts nobody else sees, and which end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed: list[BaseException] = []

    def mounted(source: Path, target: Path) -> None:
        assert libc.mount(bytes(source), bytes(target), None, BIND, None) == 0, os.strerror(
            ctypes.get_errno()
        )

    def run() -> None:
        try:
            if libc.unshare(NEW_MOUNTS) != 0 or libc.mount(None, b"/", None, PRIVATE, None) != 0:
                pytest.skip(f"no mounts of its own: {os.strerror(ctypes.get_errno())}")
            act(mounted)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


@needs_root
def test_root_hands_over_its_files_and_nothing_that_is_elsewhere_too(tmp_path: Path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work / "own" / "deep", work / "mounted", outside / "folder"):
        folder.mkdir(parents=True)
    for path in (work / "own" / "deep" / "a", work / "a", work / "closed", outside / "folder" / "a"):
        path.write_text("")
    (work / "closed").chmod(0)
    (outside / "program").write_text("")
    os.link(outside / "program", work / "linked")
    (outside / "target").write_text("")
    (work / "link").symlink_to(outside / "target")
    (work / "links").symlink_to(outside)
    (work / "theirs").write_text("")
    os.chown(work / "theirs", STRANGER, STRANGER)
    os.mkfifo(work / "fifo")
    (work / "mounted-file").write_text("")
    (outside / "file").write_text("")

    def act(mount: Callable[[Path, Path], None]) -> None:
        mount(outside / "folder", work / "mounted")
        mount(outside / "file", work / "mounted-file")
        hand_over(Workspaces(str(work)).of(caller()))

    with_mounts_of_its_own(act)
    given = {path.name for path in (work, *work.rglob("*")) if path.lstat().st_uid == NOBODY}
    assert given == {"work", "own", "deep", "a", "closed"}
    assert {path.stat().st_uid for path in outside.rglob("*")} == {0}
    assert (work / "theirs").stat().st_uid == STRANGER


@needs_root
async def test_what_a_gateway_of_another_user_left_has_a_box_under_root_too(
    benches: LocalWorkbenches, folder: Path
):
    others = (caller(thread="t"), caller("ana"), caller("ana", "t"))
    for one in others:
        await benches.of(one).run("open('a.txt', 'w').write('mine')")
    for path in ((beside := folder.parent / ".toolyard-work"), *beside.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
        path.chmod(0o700 if path.is_dir() else 0o600)
    for one in others:
        read = "open('a.txt').read(), open('a.txt', 'a').write('.')"
        assert (await benches.of(one).run(read, session="new")).value == "('mine', 1)"


async def test_a_workspace_that_is_removed_is_made_again_for_the_next_cell(box: BoxName, folder: Path):
    async with workbenches(box, folder, LocalLimits(seconds=20, warm=1)) as benches:
        for one in (caller(), caller("ana")):
            bench = benches.of(one)
            await bench.run("x = 1")
            await benches.ready()  # the next box has the folder already

            async def remove(_name: str, _arguments: dict[str, Any]) -> None:
                for path in (folder, folder.parent / ".toolyard-work"):
                    shutil.rmtree(path, ignore_errors=True)

            assert (await bench.run("run_tool('remove')", call_tool=remove)).fault is None
            again = await bench.run("open('a.txt', 'w').write('new')")
            assert (again.fault, again.is_new) == (None, True)
            assert [path.read_text() for path in folder.parent.rglob("a.txt")] == ["new"]


CLOSED = {"closed": ("d", 0), "not entered": ("d", 0o400), "all": (".", 0)}


@pytest.mark.parametrize("case", CLOSED)
async def test_what_code_closes_to_us_it_does_not_hide(bench: LocalWorkbench, folder: Path, case: str):
    name, mode = CLOSED[case]
    code = f"""
import os, time
os.mkdir('d')
held = [open(f'd/f{{i}}', 'wb') for i in range(5)]
os.fchmod(os.open({name!r}, os.O_RDONLY), {mode})
for file in held:
    file.write(bytes(3 * 1024**2))
    file.flush()
time.sleep(1000)
"""
    failed = await fails(bench, code)
    (folder / name).chmod(0o700)
    # Root looks into it all the same.
    assert (failed.fault, "cannot be looked into" in str(failed.error)) == ("disk", os.geteuid() != 0)


async def test_folders_with_long_names_are_not_hidden_either(bench: LocalWorkbench):
    code = """
import os, time
for _ in range(20):
    os.mkdir('n' * 250)
    os.chdir('n' * 250)
for i in range(5):
    open(f'f{i}', 'wb').write(bytes(3 * 1024**2))
time.sleep(1000)
"""
    assert (await fails(bench, code)).fault == "disk"
