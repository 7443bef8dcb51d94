"""Results in a folder: a full disk, interruptions, other gateways, and who may read the files."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.artifacts.keeping import JSON, TOOL, keep, read, running, send
from tests.artifacts.places import LocalPlace
from toolyard.artifacts.store import ArtifactStoreError, ArtifactStoreFullError, ArtifactStoreUnreachableError

HOURS_AGO = 7200.0


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def made_old(folder: Path, seconds: float) -> None:
    """As if nobody had touched anything in it for so long; what is inside first."""
    for path in sorted(folder.rglob("*"), reverse=True):
        when = path.stat().st_mtime - seconds
        os.utime(path, (when, when))


def run(program: str) -> int:
    return subprocess.run([sys.executable, "-c", program], check=False).returncode


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of one MiB at a folder, where we may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def small_files(limit: int) -> Iterator[None]:
    """Where no disk can be mounted: no file of this process may grow beyond this, which fails likewise."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


async def test_a_full_disk_is_told_of_and_leaves_nothing_behind(local_place: LocalPlace) -> None:
    folder = local_place.folder / "kept"
    with small_disk(folder) as mounted:
        async with running(local_place.store()) as store:
            id = (await keep(store, b"x" * 1000)).artifact.id
            writing = await store.begin("acme", TOOL, JSON)
            if mounted:
                with pytest.raises(ArtifactStoreFullError, match="the disk is full"):
                    await send(writing, b"x" * 2 * 1024 * 1024)
            else:
                with (
                    small_files(1024 * 1024),
                    pytest.raises(ArtifactStoreFullError, match="the disk is full"),
                ):
                    await send(writing, b"x" * 2 * 1024 * 1024)
            # Already before it is given up: the room is needed.
            assert len(files(folder)) == 2
            with pytest.raises(ArtifactStoreError):
                await writing.finish()
            await writing.discard()
            assert await read(store, "acme", id) == b"x" * 1000
            await keep(store, b"x" * 500_000)


async def test_a_full_disk_at_the_very_end_leaves_nothing_behind(local_place: LocalPlace) -> None:
    async with running(local_place.store()) as store:
        writing = await store.begin("acme", TOOL, JSON)
        with small_files(0), pytest.raises(ArtifactStoreFullError, match="the disk is full"):
            await writing.finish()
        assert files(local_place.folder) == []


async def test_what_a_killed_gateway_was_writing_is_never_found_and_swept_an_hour_later(
    local_place: LocalPlace,
) -> None:
    killed = textwrap.dedent(f"""
        import asyncio, os
        from pathlib import Path
        from toolyard.artifacts.store import ResultLinks
        from toolyard.artifacts.factory import open_store
        from toolyard.config import StoreConfig
        from toolyard.wire.seal import Sealer

        async def main():
            store = open_store(StoreConfig(url={local_place.url!r}), None, ResultLinks(Sealer(), ""))
            await store.start()
            writing = await store.begin("acme", "tool", "application/json")
            await writing.write(b"[1, 2")
            os._exit(9)

        asyncio.run(main())
    """)
    assert run(killed) == 9
    (left,) = files(local_place.folder)
    assert await local_place.keys() == []
    async with running(local_place.store()) as store:
        assert await store.open("acme", left.partition(".")[0]) is None
        await store.sweep()
        assert files(local_place.folder) == [left]
        made_old(local_place.folder / "kept", HOURS_AGO)
        await store.sweep()
        assert files(local_place.folder) == []
        made_old(local_place.folder / "kept", HOURS_AGO)
        await store.sweep()
        assert not (local_place.folder / "kept" / "acme").exists()
        await keep(store, b"[]")


async def test_a_cancelled_writer_leaves_nothing(local_place: LocalPlace) -> None:
    async with running(local_place.store()) as store:
        for _ in range(20):
            writing = await store.begin("acme", TOOL, JSON)
            task = asyncio.create_task(send(writing, b"x" * 3 * 1024 * 1024))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await writing.discard()
            with pytest.raises(ArtifactStoreError, match="discarded"):
                await writing.write(b"x")
        assert files(local_place.folder) == []


async def test_two_gateways_on_one_folder_do_not_disturb_each_other(local_place: LocalPlace) -> None:
    async with running(local_place.store()) as one, running(local_place.store()) as other:
        writing = await one.begin("acme", TOOL, JSON)
        await writing.write(b"[1")

        async def busy() -> list[str]:
            return [(await keep(other, b"[]")).artifact.id for _ in range(50)]

        sweeps = asyncio.gather(*[store.sweep() for store in (one, other) for _ in range(10)])
        ids, _ = await asyncio.gather(busy(), sweeps)
        await writing.write(b"]")
        ids.append((await writing.finish()).artifact.id)
        assert {await read(one, "acme", id) for id in ids} == {b"[]", b"[1]"}
        assert len(files(local_place.folder)) == 2 * len(ids)


async def test_nobody_else_may_read_the_files(local_place: LocalPlace) -> None:
    before = os.umask(0)
    try:
        async with running(local_place.store()) as store:
            await keep(store, b"[]", "Somebody Else")
    finally:
        os.umask(before)
    made = [local_place.folder / "kept", *(local_place.folder / "kept").rglob("*")]
    assert len(made) == 5
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600, 0o700}


async def test_damage_is_no_result_and_is_swept_in_time(local_place: LocalPlace) -> None:
    async with running(local_place.store(ttl=3600.0)) as store:
        short, torn, whole = [(await keep(store, b"[1, 2, 3]")).artifact.id for _ in range(3)]
        folder = local_place.folder / "kept" / "acme" / "mcp"
        (folder / f"{short}.json").write_bytes(b"[1")
        (folder / f"{torn}.about").write_bytes(b'{"id"')
        assert await store.open("acme", short) is None
        assert await store.open("acme", torn) is None
        made_old(folder, HOURS_AGO)
        await store.sweep()
        # What says that its time has not come stays, whatever the file system thinks of its age.
        assert sorted(await local_place.keys()) == sorted(f"acme/mcp/{id}.json" for id in (short, whole))


async def test_a_folder_that_cannot_be_made_is_told_of_and_is_not_fatal(local_place: LocalPlace) -> None:
    (local_place.folder / "kept").write_text("in the way")
    store = local_place.store()
    with pytest.raises(ArtifactStoreUnreachableError, match="the folder of results cannot be used"):
        await store.start()
    with pytest.raises(ArtifactStoreUnreachableError, match="the folder of results cannot be used"):
        await store.begin("acme", TOOL, JSON)
    assert await store.open("acme", "0" * 32) is None
    await store.sweep()
    await store.close()
