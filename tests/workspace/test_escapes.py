"""No path, link or race leads out of a workspace, and nothing but a regular file is opened."""

import contextlib
import ctypes
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from toolyard.workspace import Workspace, WorkspaceError
from toolyard.workspace.names import MAX_DEPTH

ROUNDS = 400


def refused(workspace: Workspace, path: str) -> str:
    """The code with which reading, writing, listing and removing refuse a path; it is the same for all."""
    codes: set[str] = set()
    for act in (
        lambda: workspace.read(path),
        lambda: workspace.write(path, b"x"),
        lambda: workspace.list(path),
        lambda: workspace.remove(path),
        lambda: workspace.make_folder(path),
        lambda: workspace.stat(path),
    ):
        with pytest.raises(WorkspaceError) as error:
            act()
        codes.add(error.value.code)
    assert len(codes) == 1, codes
    return codes.pop()


def exchanging(one: Path, other: Path) -> Callable[[], None]:
    """Exchanges two names at once, as nothing in Python does."""
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        act, arguments = library.renamex_np, (first, second, 2)
    else:
        act, arguments = library.renameat2, (-100, first, -100, second, 2)

    def exchange() -> None:
        if act(*arguments):
            raise OSError(ctypes.get_errno(), "the names cannot be exchanged")

    exchange()
    exchange()
    return exchange


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "./../outside/secret.txt",
        "a/b/../../../outside",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "~",
        "~/.ssh/id_rsa",
    ],
)
def test_a_path_out_of_the_workspace_is_refused(workspace: Workspace, path: str) -> None:
    assert refused(workspace, path) == "outside"


def test_an_absolute_path_beside_the_workspace_is_refused(workspace: Workspace, root: Path) -> None:
    for path in (
        f"{root}/../outside/secret.txt",
        f"{root}2/a.txt",
        str(root.parent),
        f"{root.parent}/outside",
    ):
        assert refused(workspace, path) == "outside"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "   ",
        "a\0b",
        "a\nb",
        "a\rb",
        "a\x1b[31mb",
        "a\x7fb",
        "a\u2028b",
        "a\u202egpj.exe",
        "\ud800",
        "..\\outside\\secret.txt",
        "C:\\Windows\\system.ini",
        "\uff0e\uff0e/outside",
        "a\uff0foutside",
        "\u2025/outside",
        "a\uff3cb",
        "x" * 256,
        "é" * 128,
        "a/" * 2000,
        "/".join(["a"] * (MAX_DEPTH + 1)),
        ".toolyard",
        ".toolyard/x",
        ".Toolyard-new-1",
        "a/.toolyard-new-1",
        "https://example.com/a",
        "file:///etc/passwd",
    ],
)
def test_a_name_that_no_file_may_have_is_refused_and_explained(workspace: Workspace, path: str) -> None:
    assert refused(workspace, path) == "bad_name"
    with pytest.raises(WorkspaceError) as error:
        workspace.read(path)
    assert len(error.value.explain("en")) < 400
    assert error.value.explain("pt") != error.value.explain("en")


@pytest.mark.parametrize(
    "path",
    [
        "-i",
        "--help",
        "a b.txt",
        "...",
        "…",
        "日本語/ファイル.txt",
        "AC\u29f8DC\uff1f.mp4",
        "👩‍🚀.md",
        " lead",
        "a.",
        "$(id)",
        "*",
        "CON",
    ],
)
def test_an_odd_but_harmless_name_is_a_file_like_any(workspace: Workspace, path: str) -> None:
    workspace.write(path, b"content")
    assert workspace.read(path) == b"content"
    assert [entry.path for entry in workspace.walk() if entry.kind == "file"] == [path]


@pytest.mark.parametrize("target", ["../outside", "/etc", ".", "inside", "missing"])
def test_a_link_is_not_followed_wherever_it_leads(workspace: Workspace, root: Path, target: str) -> None:
    workspace.write("inside/secret.txt", b"x")
    (root / "link").symlink_to(target)
    for path in ("link/secret.txt", "link/new/deep.txt"):
        for act in (
            lambda path=path: workspace.read(path),
            lambda path=path: workspace.write(path, b"y"),
            lambda path=path: workspace.remove(path),
            lambda path=path: workspace.stat(path),
            lambda path=path: workspace.make_folder(path),
        ):
            with pytest.raises(WorkspaceError) as error:
                act()
            assert error.value.code == "link"
    with pytest.raises(WorkspaceError, match="symbolic link"):
        workspace.list("link")
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret"
    assert workspace.read("inside/secret.txt") == b"x"


def test_a_link_in_the_place_of_a_file_is_neither_read_nor_written(workspace: Workspace, root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside" / "secret.txt")
    for act in (lambda: workspace.read("link.txt"), lambda: workspace.write("link.txt", b"x")):
        with pytest.raises(WorkspaceError) as error:
            act()
        assert error.value.code == "link"
    assert workspace.stat("link.txt").kind == "other"
    workspace.remove("link.txt")
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret"


def test_removing_a_folder_leaves_alone_what_its_links_lead_to(workspace: Workspace, root: Path) -> None:
    workspace.write("a/b/c.txt", b"x")
    (root / "a" / "b" / "out").symlink_to(root.parent / "outside")
    workspace.remove("a")
    assert workspace.list() == []
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret"


def test_walking_does_not_enter_links(workspace: Workspace, root: Path) -> None:
    workspace.write("a/b.txt", b"x")
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "out").symlink_to(root.parent / "outside")
    kinds = {entry.path: entry.kind for entry in workspace.walk()}
    assert kinds == {"a": "folder", "a/b.txt": "file", "a/loop": "other", "a/out": "other"}


def test_a_fifo_a_socket_and_a_device_are_refused_without_waiting(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(root, os.O_RDONLY)
        try:
            # The path of a socket is short on every system.
            server.bind(
                f"/proc/self/fd/{here}/socket" if os.path.exists("/proc/self/fd") else str(root / "socket")
            )
        finally:
            os.close(here)
        names = ["fifo", "socket"]
        with contextlib.suppress(PermissionError):  # only root makes devices
            os.mknod(root / "zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))
            names.append("zero")
        for name in names:
            for act in (workspace.read, workspace.open_read, lambda path: workspace.write(path, b"x")):
                with pytest.raises(WorkspaceError) as error:
                    act(name)
                assert error.value.code == "not_a_file"
            assert workspace.stat(name).kind == "other"


def test_a_hard_link_is_read_and_a_write_does_not_reach_what_it_shares(
    workspace: Workspace, root: Path
) -> None:
    secret = root.parent / "outside" / "secret.txt"
    os.link(secret, root / "shared.txt")
    assert workspace.read("shared.txt") == b"secret"
    workspace.write("shared.txt", b"changed")
    assert workspace.read("shared.txt") == b"changed"
    assert secret.read_text() == "secret"


def test_a_sparse_file_of_ten_gigabytes_is_refused_by_its_size(workspace: Workspace, root: Path) -> None:
    with open(root / "huge.bin", "wb") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(WorkspaceError) as error:
        workspace.read("huge.bin")
    assert error.value.code == "too_large"
    assert workspace.stat("huge.bin").size == 10 * 1024**3
    assert workspace.read("huge.bin", 9 * 1024**3, 4) == bytes(4)
    with pytest.raises(WorkspaceError) as error:
        workspace.take(root / "huge.bin", "copy.bin")
    assert error.value.code == "too_large"


def test_a_workspace_may_be_reached_by_a_link_of_the_operator(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    workspace = Workspace(tmp_path / "link")
    workspace.write(f"{tmp_path}/link/a.txt", b"x")
    assert workspace.read(f"{root}/a.txt") == b"x"
    assert workspace.absolute("a.txt") == str(root / "a.txt")


def test_swapping_a_folder_for_a_link_while_it_is_used_reaches_nothing_outside(
    workspace: Workspace, root: Path
) -> None:
    outside = root.parent / "outside"
    (outside / "sub").mkdir()
    (outside / "sub" / "file.txt").write_text("outside")
    (outside / "sub" / "only_outside.txt").touch()
    workspace.write("folder/sub/file.txt", b"inside")
    finished = threading.Event()

    (root / "link").symlink_to(outside)
    exchange = exchanging(root / "folder", root / "link")

    def swap() -> None:
        while not finished.is_set():
            exchange()

    swapping = threading.Thread(target=swap)
    swapping.start()
    results: set[bytes | str] = set()
    try:
        for number in count():
            # A thread that is not interrupted at the right moment shows nothing: go on until both were met.
            if number >= ROUNDS and (results >= {b"inside", "link"} or number >= 100 * ROUNDS):
                break
            for act in (
                lambda: workspace.read("folder/sub/file.txt"),
                lambda: workspace.write("folder/sub/file.txt", b"inside"),
                lambda number=number: workspace.write(f"folder/sub/new{number % 7}.txt", b"inside"),
                lambda number=number: workspace.remove(f"folder/sub/new{number % 7}.txt"),
                lambda: workspace.list("folder/sub"),
            ):
                try:
                    found = act()
                except WorkspaceError as error:
                    results.add(error.code)
                else:
                    if isinstance(found, bytes):
                        results.add(found)
                    elif isinstance(found, list):
                        assert "only_outside.txt" not in {entry.name for entry in found}
    finally:
        finished.set()
        swapping.join()
    assert results <= {b"inside", "link", "missing", "not_a_folder"}
    assert {b"inside", "link"} <= results, "both were met, or nothing was tried"
    assert sorted(path.name for path in (outside / "sub").iterdir()) == ["file.txt", "only_outside.txt"]
    assert (outside / "sub" / "file.txt").read_text() == "outside"


def test_nothing_is_left_open(workspace: Workspace, root: Path) -> None:
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no list of open files")
    workspace.write("a/b/c.txt", b"x")
    (root / "link").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/c.txt", "a/b/missing", "link/passwd", "a/b/c.txt/d", "a/b", "../x", "."):
        for act in (workspace.read, workspace.list, workspace.stat, lambda path: workspace.write(path, b"x")):
            with contextlib.suppress(WorkspaceError):
                act(path)
    assert len(os.listdir("/proc/self/fd")) == before
