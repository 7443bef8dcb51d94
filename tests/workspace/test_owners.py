"""Each owner and conversation has a workspace; a caller that nobody identified has the folder itself."""

import os
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
    roots = [workspaces.of(one).root for one in ALL]
    assert len(set(roots)) == len(ALL)
    assert not [root for root in roots if set(root.parents) & set(roots)], "none lies below another"


def test_nobody_reaches_the_workspace_of_another(tmp_path: Path, open_file: Open) -> None:
    workspaces = Workspaces(str(tmp_path), open_file=open_file)
    theirs = workspaces.of(caller("acme", "ana"))
    theirs.write("a.txt", b"secret")
    for one in (caller(), caller("acme", "rui"), caller("acme", "ana", "thread")):
        mine: Workspace = workspaces.of(one)
        beside = os.path.relpath(theirs.root, mine.root)
        for path in (f"{theirs.root}/a.txt", f"{beside}/a.txt", beside.removeprefix("../"), "../a.txt"):
            with pytest.raises(WorkspaceError) as error:
                mine.read(path)
            assert error.value.code in ("outside", "bad_name", "missing")
    assert list(workspaces.of(caller()).walk()) == []


def test_a_caller_that_nobody_identified_has_the_folder_itself(tmp_path: Path) -> None:
    workspaces = Workspaces(str(tmp_path / "work"))
    workspaces.of(caller()).write("a.txt", b"x")
    assert (tmp_path / "work" / "a.txt").read_bytes() == b"x"


def as_older_versions_did(folder: Path) -> None:
    """Puts the workspaces of others below the folder, where older versions had them, by the same names."""
    beside = folder.parent / f".toolyard-{folder.name}"
    for owner in [path for path in beside.iterdir() if path.is_dir()]:
        (folder / ".toolyard").mkdir(exist_ok=True)
        owner.rename(folder / ".toolyard" / owner.name)
    (beside / ".toolyard-moved").unlink()
    beside.rmdir()


def test_workspaces_that_older_versions_made_are_moved_with_all_that_is_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    for number, one in enumerate(ALL):
        Workspaces(str(folder)).of(one).write("a.txt", str(number).encode())
    as_older_versions_did(folder)
    agent = folder / ".toolyard" / "agents" / "a.md"  # no workspace, but a project's own
    agent.parent.mkdir()
    agent.write_text("an agent")
    # Whoever comes first, and also if it is cut short when some have moved.
    beside = tmp_path / ".toolyard-work"
    beside.mkdir()
    moved = sorted((folder / ".toolyard").iterdir())[0]
    moved.rename(beside / moved.name)
    workspaces = Workspaces(str(folder))
    for number, one in reversed(list(enumerate(ALL))):
        assert workspaces.of(one).read("a.txt") == str(number).encode()
    assert sorted(path.name for path in (folder / ".toolyard").iterdir()) == ["agents"]
    assert agent.read_text() == "an agent"


def test_what_code_puts_where_older_versions_kept_workspaces_becomes_nobodys(tmp_path: Path) -> None:
    folder, ana = tmp_path / "work", caller("acme", "ana")
    Workspaces(str(folder)).of(ana).write("a.txt", b"forged")
    as_older_versions_did(folder)
    forged = (folder / ".toolyard").rename(tmp_path / "forged")
    # From here on code may run in the folder, and nothing is moved out of it any more.
    Workspaces(str(folder)).shown_to_code(caller())
    forged.rename(folder / ".toolyard")
    assert Workspaces(str(folder)).of(ana).list() == []


def test_code_that_makes_such_a_folder_takes_the_box_from_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    Workspaces(str(folder)).shown_to_code(caller())
    (folder / ".toolyard" / ("b" * 32)).mkdir(parents=True)
    for one in (caller(), *ALL):
        Workspaces(str(folder)).shown_to_code(one).write("a.txt", b"x")
    assert (folder / ".toolyard" / ("b" * 32)).is_dir()


def test_an_owner_with_a_folder_in_both_places_stops_no_other_but_code_does_not_see_it(
    tmp_path: Path,
) -> None:
    folder, beside = tmp_path / "work", tmp_path / ".toolyard-work"
    for one in (caller("ana"), caller("ben")):
        Workspaces(str(folder)).of(one).write("a.txt", one.owner.encode())
    as_older_versions_did(folder)
    name = sorted(path.name for path in (folder / ".toolyard").iterdir())[0]
    (beside / name).mkdir(parents=True)
    (beside / name / "newer.txt").write_text("x")
    workspaces = Workspaces(str(folder))
    for one in (caller("ana"), caller("ben"), caller("cleo")):
        workspaces.shown_to_code(one)
    with pytest.raises(WorkspaceError, match="has folders of other callers"):
        workspaces.shown_to_code(caller())
    (folder / ".toolyard" / name).rename(tmp_path / "decided")
    workspaces.shown_to_code(caller())


def test_without_a_place_beside_the_folder_only_others_are_refused(tmp_path: Path) -> None:
    folder, beside = tmp_path / "work", tmp_path / ".toolyard-work"
    (tmp_path / "elsewhere").mkdir()
    for make in (lambda: beside.symlink_to("elsewhere"), lambda: beside.write_text("")):
        make()
        with pytest.raises(WorkspaceError, match=r"in '.*/\.toolyard-work', which cannot be used") as error:
            Workspaces(str(folder)).of(caller("acme"))
        assert error.value.code == "no_place"
        Workspaces(str(folder)).shown_to_code(caller()).write("a.txt", b"x")
        beside.unlink()
    with pytest.raises(WorkspaceError, match="a disk of its own"):
        Workspaces("/").of(caller("acme"))


def test_code_does_not_see_what_cannot_be_moved(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    Workspaces(str(folder)).of(caller()).write("a.txt", b"x")
    Workspaces(str(folder)).of(caller("acme")).write("a.txt", b"theirs")
    as_older_versions_did(folder)
    (tmp_path / ".toolyard-work").write_text("in the way")
    workspaces = Workspaces(str(folder))
    assert workspaces.of(caller()).read("a.txt") == b"x"
    with pytest.raises(WorkspaceError) as error:
        workspaces.shown_to_code(caller())
    assert error.value.code == "no_place"
    (tmp_path / ".toolyard-work").unlink()
    assert workspaces.shown_to_code(caller()).read("a.txt") == b"x"
    assert workspaces.of(caller("acme")).read("a.txt") == b"theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_place_that_a_stranger_made_is_refused(tmp_path: Path) -> None:
    folder, beside = tmp_path / "work", tmp_path / ".toolyard-work"
    beside.mkdir()
    os.chown(beside, 65533, 65533)
    Workspaces(str(folder)).of(caller("acme"))  # only we could have let them
    (beside / ".toolyard-moved").unlink()
    tmp_path.chmod(0o1777)
    with pytest.raises(WorkspaceError, match="belongs to another user"):
        Workspaces(str(folder)).of(caller("acme"))


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
