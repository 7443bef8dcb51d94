"""`WorkbenchBridge`: files to and from Composio's workbench without a server, as programs have it."""

import asyncio
import os
import sysconfig
from pathlib import Path

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.emulators.peers import ROOT, Official
from toolyard.workbench.bridge import WorkbenchBridge

REPORT = b"<h1>Rela\xf3rio</h1>\0" * 200
REMOTE = "/home/user/out/report.html"


@pytest.fixture(autouse=True)
def surroundings(composio: ComposioEmulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMPOSIO_BASE_URL", composio.url)
    monkeypatch.setenv("COMPOSIO_API_KEY", composio.api_key)
    monkeypatch.delenv("DEFAULT_USER_ID", raising=False)
    (tmp_path / "report.html").write_bytes(REPORT)


async def test_a_file_goes_up_and_comes_back_in_one_session(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    bridge = WorkbenchBridge(user_id="ana")
    local, back = str(tmp_path / "report.html"), tmp_path / "new" / "back.html"
    sent = await asyncio.to_thread(bridge.upload, local, REMOTE)
    assert sent == {"success": True, "local_path": local, "remote_path": REMOTE, "size": len(REPORT)}
    (box,) = composio.sandboxes.values()
    assert box.files[REMOTE] == REPORT
    got = await asyncio.to_thread(bridge.download, REMOTE, str(back))
    assert got == {"success": True, "local_path": str(back), "remote_path": REMOTE, "size": len(REPORT)}
    assert back.read_bytes() == REPORT
    (session,) = composio.sessions.values()
    assert session.user_id == "ana"
    named = WorkbenchBridge(composio.api_key, "ana")
    assert await asyncio.to_thread(named.download, REMOTE, str(back), session.id) == got


async def test_the_user_is_the_one_of_the_environment(
    composio: ComposioEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_USER_ID", "u42")
    await asyncio.to_thread(WorkbenchBridge().upload, str(tmp_path / "report.html"), REMOTE)
    assert [session.user_id for session in composio.sessions.values()] == ["u42"]


async def test_what_goes_wrong_is_in_the_reply_and_leaves_nothing(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    bridge = WorkbenchBridge(user_id="ana")
    back = tmp_path / "back.html"
    for failed in (
        await asyncio.to_thread(bridge.download, "/home/user/none.txt", str(back)),
        await asyncio.to_thread(bridge.upload, str(tmp_path / "none.html"), REMOTE),
        await asyncio.to_thread(
            WorkbenchBridge("wrong", "ana").upload, str(tmp_path / "report.html"), REMOTE
        ),
    ):
        assert failed["success"] is False
        assert failed["error"]
        assert composio.api_key not in failed["error"]
    assert os.listdir(tmp_path) == ["report.html"]


async def test_a_session_that_has_ended_is_begun_anew(composio: ComposioEmulator, tmp_path: Path) -> None:
    bridge = WorkbenchBridge(user_id="ana")
    local = str(tmp_path / "report.html")
    await asyncio.to_thread(bridge.upload, local, REMOTE)
    composio.sessions.clear()
    assert (await asyncio.to_thread(bridge.upload, local, REMOTE))["success"]


def test_without_a_key_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPOSIO_API_KEY")
    with pytest.raises(ValueError, match="set COMPOSIO_API_KEY"):
        WorkbenchBridge()


async def test_the_client_of_the_official_package_is_taken(
    composio: ComposioEmulator, official: Official, tmp_path: Path
) -> None:
    paths = [str(ROOT / "src"), sysconfig.get_path("purelib")]
    sent, got = await official.do(
        composio,
        "bridge",
        environment={"TOOLYARD_PATHS": ":".join(paths)},
        user="ana",
        local=str(tmp_path / "report.html"),
        remote=REMOTE,
        back=str(tmp_path / "back.html"),
    )
    assert (sent["success"], got["success"], got["size"]) == (True, True, len(REPORT)), (sent, got)
    assert (tmp_path / "back.html").read_bytes() == REPORT
    assert {session.user_id for session in composio.sessions.values()} == {"ana"}
