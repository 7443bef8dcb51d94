"""Files as resources: read, in ranges, completed; a subscriber hears of changes in their own files."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.servers.local_toolkit.talking import Bench, User
from tests.waiting import PATIENCE
from toolyard.client.subscriptions import Changes
from toolyard.wire.errors import McpError
from toolyard.workspace import Workspace, WorkspaceWatcher
from toolyard.workspace import watching as watching_module


async def test_a_file_is_read_by_its_uri_with_its_type(bench: Bench):
    ana = bench.user()
    await ana.write("notes/olá mundo?.md", "# Olá")
    (bench.folder / "data.bin").write_bytes(b"\0\1\2")
    found = await ana.read("workspace:///notes/ol%C3%A1%20mundo%3F.md")
    assert (found.text, found.mime_type) == ("# Olá", "text/markdown")
    assert found.uri == "workspace:///notes/ol%C3%A1%20mundo%3F.md"
    blob = await ana.read("workspace:///data.bin")
    assert (blob.blob, blob.mime_type) == (b"\0\1\2", "application/octet-stream")
    index = json.loads((await ana.read("workspace:///")).text)
    assert [(one["path"], one["size"]) for one in index["files"]] == [
        ("data.bin", 3),
        ("notes/olá mundo?.md", 6),
    ]
    assert index["files"][1]["uri"] == "workspace:///notes/ol%C3%A1%20mundo%3F.md"


async def test_a_large_file_is_read_by_ranges(bench: Bench):
    ana = bench.user(resource_bytes=1000)
    await ana.write("a.txt", "0123456789" * 200)
    with pytest.raises(
        McpError, match=r"2000 bytes, and at most 1000 .* workspace:///a.txt\?start=0&size=1000"
    ):
        await ana.read("workspace:///a.txt")
    part = await ana.read("workspace:///a.txt?start=1995&size=100")
    assert (part.blob, part.uri) == (b"56789", "workspace:///a.txt?start=1995&size=100")
    assert len((await ana.read("workspace:///a.txt?start=0&size=99999")).blob) == 1000
    (bench.folder / "huge.bin").touch()
    os.truncate(bench.folder / "huge.bin", 10 * 1024**3)
    assert (await ana.read(f"workspace:///huge.bin?start={9 * 1024**3}&size=3")).blob == bytes(3)
    for query in ("start=-1&size=1", "start=x&size=1", "start=0&size=0"):
        with pytest.raises(McpError):
            await ana.read(f"workspace:///a.txt?{query}")


async def test_paths_are_completed_from_the_callers_own_files(bench: Bench):
    server = bench.server()
    ana, rui = bench.user(server, "ana"), bench.user(server, "rui")
    for path in ("report.md", "research/one.md", "research/two.md", "other.txt"):
        await ana.write(path, "x")

    async def completed(user: User, value: str) -> list[str]:
        async with user.client() as client:
            return (await client.complete("path", value, resource="workspace:///{+path}")).values

    assert await completed(ana, "re") == ["report.md", "research/"]
    assert await completed(ana, "research/t") == ["research/two.md"]
    assert await completed(ana, "../") == []
    assert await completed(ana, "missing/") == []
    assert await completed(rui, "re") == []


@asynccontextmanager
async def hearing(user: User, *uris: str, era: str = "modern") -> AsyncIterator[Changes]:
    async with user.client(era=era) as client, client.listen(uris=uris) as changes:
        yield changes


async def next_uri(changes: Changes) -> str | None:
    async with asyncio.timeout(PATIENCE):
        return (await anext(changes)).uri


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_subscriber_hears_of_changes_by_tools_and_by_others(bench: Bench, era: str):
    server = bench.server()
    ana = bench.user(server, "ana")
    await ana.write("a.txt", "x")
    root = next(bench.folder.parent.rglob("a.txt")).parent
    async with hearing(ana, "workspace:///a.txt", era=era) as changes:
        await ana.write("a.txt", "y")
        assert await next_uri(changes) == "workspace:///a.txt"
    async with hearing(ana, "workspace:///new/deep.txt", era=era) as changes:
        (root / "new").mkdir()
        (root / "new" / "deep.txt").write_text("by somebody else")
        assert await next_uri(changes) == "workspace:///new/deep.txt"
        (root / "new" / "deep.txt").unlink()
        assert await next_uri(changes) == "workspace:///new/deep.txt"
    async with hearing(ana, "workspace:///", era=era) as changes:
        program = [sys.executable, "-c", "open('b.txt', 'w').write('b')"]
        await asyncio.to_thread(subprocess.run, program, cwd=root, check=True)
        assert await next_uri(changes) == "workspace:///"


async def test_another_server_that_writes_into_the_workspace_is_heard(bench: Bench):
    here, there = bench.user(name="ana"), bench.user(name="ana")
    async with hearing(here, "workspace:///a.txt") as changes:
        await there.write("a.txt", "x")
        assert await next_uri(changes) == "workspace:///a.txt"


async def test_nobody_hears_of_anothers_files_of_the_same_name(bench: Bench):
    server = bench.server()
    ana, rui = bench.user(server, "ana", "one"), bench.user(server, "rui", "one")
    other = bench.user(server, "ana", "two")
    uris = ("workspace:///a.txt", "workspace:///")
    async with (
        hearing(ana, *uris) as of_ana,
        hearing(rui, *uris) as of_rui,
        hearing(other, *uris) as of_other,
    ):
        await ana.write("a.txt", "x")
        assert {await next_uri(of_ana), await next_uri(of_ana)} == set(uris)
        # What comes next to the others is their own: nothing of Ana's came before.
        for user, changes in ((rui, of_rui), (other, of_other)):
            await user.write("mine.txt", "x")
            assert await next_uri(changes) == "workspace:///"
            await user.write("a.txt", "x")
            assert await next_uri(changes) == "workspace:///a.txt"


@pytest.mark.parametrize("inotify", [True, False])
async def test_a_watcher_reports_what_anybody_changes(
    tmp_path: Path, inotify: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watching_module, "LOOK_SECONDS", 0.01)
    workspace = Workspace(tmp_path)
    workspace.write("a/b.txt", b"x")
    heard: asyncio.Queue[str] = asyncio.Queue()
    watcher = WorkspaceWatcher(lambda found, path: heard.put_nowait(path), use_inotify=inotify)
    if inotify and not watcher.is_immediate:
        pytest.skip("this system has no inotify")
    watcher.watch(workspace)
    watcher.watch(workspace)

    async def until(path: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await heard.get() != path:
                pass

    async def settled() -> None:
        """Looking needs a first look to compare with."""
        if not inotify:
            workspace.write("first.txt", os.urandom(8))
            async with asyncio.timeout(PATIENCE):
                while heard.empty():
                    (tmp_path / "first.txt").write_bytes(os.urandom(os.urandom(1)[0]))
                    await asyncio.sleep(0.01)

    await settled()
    (tmp_path / "a" / "b.txt").write_text("changed")
    await until("a/b.txt")
    (tmp_path / "a" / "c" / "d").mkdir(parents=True)
    (tmp_path / "a" / "c" / "d" / "e.txt").write_text("x")
    await until("a/c/d/e.txt")
    (tmp_path / "a" / "c" / "d" / "e.txt").write_text("longer")
    await until("a/c/d/e.txt")
    (tmp_path / "a" / "b.txt").rename(tmp_path / "z.txt")
    await until("z.txt")
    (tmp_path / "z.txt").unlink()
    await until("z.txt")
    with workspace.create("unfinished.txt") as file:
        file.write(b"x")
    await until("unfinished.txt")
    watcher.close()


def opened_below(folder: Path) -> int:
    handles = Path("/proc/self/fd").iterdir()
    return sum(str(path.resolve()).startswith(str(folder)) for path in handles)


async def test_watching_many_workspaces_holds_few_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching_module, "MAX_WORKSPACES", 5)
    heard: asyncio.Queue[str] = asyncio.Queue()
    watcher = WorkspaceWatcher(lambda found, path: heard.put_nowait(f"{found.root.name}/{path}"))
    if not watcher.is_immediate:
        pytest.skip("this system has no inotify")
    for number in range(20):
        watcher.watch(Workspace(tmp_path / str(number)))
    assert opened_below(tmp_path) <= 6
    (tmp_path / "0" / "a.txt").write_text("x")
    (tmp_path / "19" / "a.txt").write_text("x")
    async with asyncio.timeout(PATIENCE):
        assert await heard.get() == "19/a.txt"
    watcher.close()
