"""Each owner and conversation has a workspace; a caller that nobody identified has the folder itself."""

from pathlib import Path

import pytest

from toolyard.wire.call import Caller, Identity, Principal
from toolyard.wire.versions import LATEST_MODERN
from toolyard.workspace import Workspace, WorkspaceError, WorkspaceLimits, Workspaces
from toolyard.workspace.beneath import Open


def caller(tenant: str = "local", subject: str = "", thread: str = "") -> Caller:
    return Caller(LATEST_MODERN, {}, identity=Identity(Principal(tenant=tenant, subject=subject), thread))


ALL = [
    caller(),
    caller(thread="one"),
    caller(thread="two"),
    caller("acme"),
    caller("acme", thread="one"),
    caller("acme", "ana"),
    caller("acme", "ana", "one"),
    caller("acme", "rui", "one"),
    caller("other", "ana", "one"),
    caller("../../etc", "../..", "../x"),
]


def test_every_owner_and_conversation_has_files_of_its_own(tmp_path: Path, open_file: Open) -> None:
    workspaces = Workspaces(str(tmp_path), open_file=open_file)
    for number, one in enumerate(ALL):
        workspaces.of(one).write("a.txt", str(number).encode())
    for number, one in enumerate(ALL):
        found = workspaces.of(one)
        assert found.read("a.txt") == str(number).encode()
        assert [entry.path for entry in found.walk()] == ["a.txt"]
    assert len({workspaces.of(one).root for one in ALL}) == len(ALL)


def test_nobody_reaches_the_workspace_of_another(tmp_path: Path, open_file: Open) -> None:
    workspaces = Workspaces(str(tmp_path), open_file=open_file)
    theirs = workspaces.of(caller("acme", "ana"))
    theirs.write("a.txt", b"secret")
    for one in (caller(), caller("acme", "rui"), caller("acme", "ana", "thread")):
        mine: Workspace = workspaces.of(one)
        inside = theirs.root.relative_to(tmp_path)
        for path in (f"{theirs.root}/a.txt", f"{inside}/a.txt", f"../../{inside}/a.txt", "../a.txt"):
            with pytest.raises(WorkspaceError) as error:
                mine.read(path)
            assert error.value.code in ("outside", "bad_name", "missing")
    assert list(workspaces.of(caller()).walk()) == []


def test_a_caller_that_nobody_identified_has_the_folder_itself(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path / "work"))
    workspaces.of(caller()).write("a.txt", b"x")
    assert (tmp_path / "work" / "a.txt").read_bytes() == b"x"


def test_shared_conversations_of_an_owner_have_the_same_files(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path), shared=True)
    workspaces.of(caller("acme", "ana", "one")).write("a.txt", b"x")
    assert workspaces.of(caller("acme", "ana", "two")).read("a.txt") == b"x"
    assert workspaces.of(caller("acme", "rui", "two")).list() == []


def test_servers_with_the_same_folder_see_the_same_files(tmp_path: Path) -> None:
    one, two = Workspaces(str(tmp_path)), Workspaces(str(tmp_path))
    who = caller("acme", "ana", "one")
    heard: list[str] = []
    two.of(who).subscribe(lambda change: heard.append(change.path))
    one.of(who).write("a.txt", b"x")
    assert two.of(who).read("a.txt") == b"x"
    assert heard == ["a.txt"]


def test_limits_are_those_of_each_workspace(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path), limits=WorkspaceLimits(max_bytes=10, max_files=1))
    for one in ALL:
        workspaces.of(one).write("a.txt", bytes(10))
    for one in ALL:
        with pytest.raises(WorkspaceError):
            workspaces.of(one).write("b.txt", b"x")


def test_a_workspace_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path / "work"))
    for one in (caller(), caller("acme")):
        workspaces.of(one).write("a.txt", b"x")
        if one.tenant == "local":
            (tmp_path / "work" / "a.txt").unlink()
            (tmp_path / "work").rmdir()
        else:
            root = workspaces.of(one).root
            (root / "a.txt").unlink()
            root.rmdir()
        workspaces.of(one).write("a.txt", b"y")
        assert workspaces.of(one).read("a.txt") == b"y"


def test_the_folder_is_the_setting_then_the_variable_then_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLYARD_WORKSPACE", raising=False)
    assert Workspaces().of(caller()).root == tmp_path / "state" / "toolyard" / "workspaces"
    monkeypatch.setenv("TOOLYARD_WORKSPACE", str(tmp_path / "variable"))
    assert Workspaces().of(caller()).root == tmp_path / "variable"
    assert Workspaces(str(tmp_path / "setting")).of(caller()).root == tmp_path / "setting"


def test_many_workspaces_do_not_hold_many_files_open(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path))
    for number in range(600):
        workspaces.of(caller("acme", "ana", str(number))).write("a.txt", b"x")
    handles = Path("/proc/self/fd")
    if handles.exists():
        assert sum(1 for _ in handles.iterdir()) < 400
    assert workspaces.of(caller("acme", "ana", "0")).read("a.txt") == b"x"
