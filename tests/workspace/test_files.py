"""Reading, writing and listing: whole or not at all, private, and within the limits."""

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.small_disks import on_tmpfs
from toolyard.workspace import Workspace, WorkspaceChange, WorkspaceError, WorkspaceLimits

from .conftest import OpenWorkspace


def names(root: Path) -> list[str]:
    """Everything in a folder, unfinished files as well."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_file_is_written_read_listed_and_removed(workspace: Workspace, root: Path) -> None:
    entry = workspace.write("a/b/c.txt", b"hello")
    assert (entry.name, entry.path, entry.kind, entry.size) == ("c.txt", "a/b/c.txt", "file", 5)
    assert workspace.read("./a//b/../b/c.txt") == b"hello"
    assert workspace.read("a/b/c.txt", 1, 3) == b"ell"
    assert workspace.read("a/b/c.txt", 10) == b""
    assert workspace.read(f"{root}/a/b/c.txt") == b"hello"
    assert workspace.relative(f"{root}/a/b/") == "a/b"
    assert workspace.relative(str(root)) == workspace.relative("a/..") == "."
    assert [(entry.path, entry.kind) for entry in workspace.list()] == [("a", "folder")]
    assert [entry.path for entry in workspace.walk()] == ["a", "a/b", "a/b/c.txt"]
    assert workspace.stat(".").kind == "folder"
    assert workspace.exists("a/b")
    workspace.remove("a")
    assert not workspace.exists("a/b/c.txt")
    assert names(root) == []


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda w: w.read("missing"), "missing"),
        (lambda w: w.read("missing/deep"), "missing"),
        (lambda w: w.read("folder"), "not_a_file"),
        (lambda w: w.read("."), "not_a_file"),
        (lambda w: w.write("folder", b"x"), "not_a_file"),
        (lambda w: w.write(".", b"x"), "not_a_file"),
        (lambda w: w.write("folder/file/x", b"x"), "not_a_folder"),
        (lambda w: w.list("folder/file"), "not_a_folder"),
        (lambda w: w.list("missing"), "missing"),
        (lambda w: w.remove("missing"), "missing"),
        (lambda w: w.remove("."), "not_a_file"),
        (lambda w: w.make_folder("folder/file"), "not_a_folder"),
    ],
)
def test_what_cannot_be_done_says_why(workspace: Workspace, act, code: str) -> None:
    workspace.write("folder/file", b"x")
    with pytest.raises(WorkspaceError) as error:
        act(workspace)
    assert error.value.code == code
    assert workspace.read("folder/file") == b"x"


def test_only_this_user_can_read_what_is_written(workspace: Workspace, root: Path) -> None:
    before = os.umask(0)
    try:
        workspace.write("a/b.txt", b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((root / path).stat().st_mode) for path in (".", "a", "a/b.txt")] == [
        0o700,
        0o700,
        0o600,
    ]


def test_a_block_that_fails_leaves_the_old_file(workspace: Workspace, root: Path) -> None:
    workspace.write("a.txt", b"old")

    def fail(file: BinaryIO) -> None:
        file.write(bytes(1_000_000))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), workspace.create("a.txt") as file:
        fail(file)
    assert workspace.read("a.txt") == b"old"
    assert names(root) == ["a.txt"]


def test_a_reader_sees_the_old_content_until_the_new_one_is_whole(workspace: Workspace) -> None:
    workspace.write("a.txt", b"old")
    with workspace.create("a.txt") as file:
        file.write(b"new")
        file.flush()
        assert workspace.read("a.txt") == b"old"
        assert [entry.name for entry in workspace.list()] == ["a.txt"]
    assert workspace.read("a.txt") == b"new"


KILLED = """
import sys
from toolyard.workspace import Workspace
with Workspace(sys.argv[1]).create("a/b.txt") as file:
    file.write(b"new" * 1000000)
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_killed_writer_leaves_the_old_file_and_its_leavings_are_swept(
    open_workspace: OpenWorkspace, root: Path
) -> None:
    open_workspace().write("a/b.txt", b"old")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        unfinished = [name for name in names(root) if ".toolyard-new-" in name]
        assert len(unfinished) == 1
        other = open_workspace()
        other._usage.forget()  # so that it is measured now, as by a process that has just started
        other.write("c.txt", b"x")
        assert unfinished[0] in names(root), "a file that is being written is not swept"
        process.send_signal(signal.SIGKILL)
    assert open_workspace().read("a/b.txt") == b"old"
    later = open_workspace()
    later._usage.forget()
    later.write("c.txt", b"y")
    assert names(root) == ["a", "a/b.txt", "c.txt"]


def test_a_file_over_its_limit_is_refused_and_nothing_is_left(
    open_workspace: OpenWorkspace, root: Path
) -> None:
    workspace = open_workspace(max_file_bytes=1000)
    workspace.write("a.bin", bytes(1000))
    with pytest.raises(WorkspaceError) as error:
        workspace.write("a.bin", bytes(1001))
    assert (error.value.code, error.value.limit) == ("too_large", 1000)
    with pytest.raises(WorkspaceError, match="too large"), workspace.create("b.bin") as file:
        file.writelines(bytes(1000) for _ in range(10_000))
    with pytest.raises(WorkspaceError, match="too large"), workspace.create("b.bin") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(WorkspaceError, match="too large"), workspace.create("b.bin") as file:
        os.write(file.fileno(), bytes(2000))  # as a child process does, past our count
    assert names(root) == ["a.bin"]
    assert workspace.stat("a.bin").size == 1000


def test_the_bytes_of_a_workspace_are_limited(open_workspace: OpenWorkspace, root: Path) -> None:
    workspace = open_workspace(max_bytes=10_000)
    for number in range(4):
        workspace.write(f"{number}.bin", bytes(2500))
    with pytest.raises(WorkspaceError) as error:
        workspace.write("more.bin", b"x")
    assert (error.value.code, error.value.limit) == ("full", 10_000)
    with pytest.raises(WorkspaceError) as error, workspace.create("more.bin") as file:
        file.write(bytes(1_000_000))
    assert error.value.code == "full"
    workspace.remove("0.bin")
    workspace.write("more.bin", bytes(2500))
    (root / "1.bin").unlink()  # by somebody else: seen before a write is refused
    workspace.write("again.bin", bytes(2500))


def test_the_files_of_a_workspace_are_limited(open_workspace: OpenWorkspace) -> None:
    workspace = open_workspace(max_files=4)
    workspace.write("a/b/c.txt", b"")
    workspace.write("d.txt", b"")
    workspace.write("d.txt", b"again")
    for path in ("e.txt", "f/g.txt"):
        with pytest.raises(WorkspaceError) as error:
            workspace.write(path, b"")
        assert error.value.code == "too_many"
    with pytest.raises(WorkspaceError, match="too many"):
        workspace.make_folder("g")


def test_writers_at_once_cannot_pass_the_limit_together(open_workspace: OpenWorkspace) -> None:
    workspace = open_workspace(max_bytes=10_000)
    barrier = threading.Barrier(8)
    ended: list[str] = []

    def write(number: int) -> None:
        barrier.wait()
        try:
            with workspace.create(f"{number}.bin") as file:
                for _ in range(4):
                    file.write(bytes(1000))
                    file.flush()
            ended.append("written")
        except WorkspaceError as error:
            ended.append(error.code)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ended) <= {"written", "full"}
    assert sum(entry.size for entry in workspace.walk()) == 4000 * ended.count("written") <= 10_000


def test_a_disk_that_takes_no_more_is_said_and_the_old_file_stays(
    open_workspace: OpenWorkspace, root: Path
) -> None:
    workspace = open_workspace()
    workspace.write("a.bin", b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(WorkspaceError) as error:
            workspace.write("a.bin", bytes(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert error.value.code == "too_large"
    assert workspace.read("a.bin") == b"old"
    assert names(root) == ["a.bin"]


FULL = """
import sys
from toolyard.workspace import Workspace, WorkspaceError
from toolyard.workspace.beneath import open_by_steps, openat2
workspace = Workspace(sys.argv[1], open_file={"steps": open_by_steps, "openat2": openat2()}[sys.argv[2]])
workspace.write("a.bin", b"old")
try:
    workspace.write("a.bin", bytes(8 * 1024 * 1024))
except WorkspaceError as error:
    print(error.code, workspace.read("a.bin"), [entry.name for entry in workspace.list()])
"""


def test_a_full_disk_is_said_and_the_old_file_stays(root: Path) -> None:
    alone = on_tmpfs(root)
    for way in ("steps", "openat2"):
        done = subprocess.run(
            [*alone, sys.executable, "-c", FULL, str(root), way], capture_output=True, text=True, check=True
        )
        assert done.stdout == "disk_full b'old' ['a.bin']\n"


def test_a_zip_is_written_into_a_file_that_is_created(workspace: Workspace) -> None:
    with workspace.create("a.zip") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.txt", "hello")
    with workspace.open_read("a.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("x.txt") == b"hello"


def test_a_finished_file_is_moved_in(workspace: Workspace, tmp_path: Path, root: Path) -> None:
    made = tmp_path / "made.bin"
    made.write_bytes(b"content")
    made.chmod(0o755)
    inode = made.stat().st_ino
    entry = workspace.take(made, "results/made.bin")
    assert (entry.path, entry.size) == ("results/made.bin", 7)
    assert not made.exists()
    assert (root / "results/made.bin").stat().st_ino == inode
    assert stat.S_IMODE((root / "results/made.bin").stat().st_mode) == 0o600


def test_a_file_behind_a_handle_or_on_another_disk_is_copied_in(workspace: Workspace, tmp_path: Path) -> None:
    made = tmp_path / "made.bin"
    made.write_bytes(b"content" * 100_000)
    with made.open("rb") as file:
        assert workspace.take(file.fileno(), "copy.bin").size == 700_000
    assert made.exists()
    if Path("/dev/shm").is_dir() and Path("/dev/shm").stat().st_dev != tmp_path.stat().st_dev:
        far = Path(f"/dev/shm/toolyard-test-{os.getpid()}")
        far.write_bytes(b"far")
        assert workspace.take(far, "far.bin").size == 3
        assert not far.exists()


def test_a_link_in_a_scratch_folder_is_not_taken(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "made").symlink_to(tmp_path / "outside" / "secret.txt")
    with pytest.raises(WorkspaceError) as error:
        workspace.take(tmp_path / "made", "a.txt")
    assert error.value.code == "link"
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(WorkspaceError) as error:
        workspace.take(tmp_path / "fifo", "a.txt")
    assert error.value.code == "not_a_file"
    assert workspace.list() == []


def test_a_taken_file_counts_against_the_limits(open_workspace: OpenWorkspace, tmp_path: Path) -> None:
    workspace = open_workspace(max_bytes=100)
    made = tmp_path / "made.bin"
    made.write_bytes(bytes(101))
    with pytest.raises(WorkspaceError) as error:
        workspace.take(made, "made.bin")
    assert error.value.code == "full"
    assert made.exists()


def test_changes_are_told_to_every_workspace_of_the_folder(
    open_workspace: OpenWorkspace, tmp_path: Path
) -> None:
    here, there = open_workspace(), open_workspace(max_bytes=100)
    heard: list[WorkspaceChange] = []
    end = here.subscribe(heard.append)
    there.write("a/b.txt", b"x")
    there.write("a/b.txt", b"y")
    (tmp_path / "made").write_text("z")
    there.take(tmp_path / "made", "made")
    there.remove("a")
    with pytest.raises(WorkspaceError):
        there.write("c.txt", bytes(101))
    end()
    there.write("d.txt", b"x")
    assert heard == [
        WorkspaceChange("a/b.txt", "created"),
        WorkspaceChange("a/b.txt", "updated"),
        WorkspaceChange("made", "created"),
        WorkspaceChange("a", "removed"),
    ]


def test_a_listener_that_fails_does_not_fail_the_write(workspace: Workspace) -> None:
    workspace.subscribe(lambda change: 1 / 0)
    workspace.write("a.txt", b"x")
    assert workspace.read("a.txt") == b"x"


def test_a_list_can_be_limited(workspace: Workspace) -> None:
    for number in range(5):
        workspace.write(f"{number}.txt", b"")
    assert len(workspace.list(limit=3)) == 3


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError) as error:
        Workspace(tmp_path / "file" / "work", WorkspaceLimits())
    assert error.value.code == "no_folder"
    assert "Not a directory" in str(error.value)
