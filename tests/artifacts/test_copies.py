"""Local copies of remote results: one download however many read, no more disk than allowed, then gone."""

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.artifacts.keeping import keep, running
from tests.artifacts.places import SupabasePlace
from toolyard.artifacts.remote.cache import ArtifactCache
from toolyard.artifacts.store import ArtifactStoreFullError

DAY = 24 * 3600.0


class Source:
    """Content that counts how often it was fetched."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.fetched = 0

    async def fill(self, file: BinaryIO) -> None:
        self.fetched += 1
        await asyncio.sleep(0)
        file.write(self.content)


def found(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def acquired(copies: ArtifactCache, id: str, source: Source) -> Path:
    return await copies.acquire(id, len(source.content), source.fill)


async def test_many_readers_cost_one_download(supabase_place: SupabasePlace) -> None:
    async with running(supabase_place.store()) as store:
        id = (await keep(store, b"[1]" * 1000)).artifact.id
        readings = [await store.open("acme", id) for _ in range(5)]
        paths = await asyncio.gather(*[reading.path() for reading in readings if reading is not None])
        assert len(set(paths)) == 1
        for reading in readings:
            assert reading is not None
            await reading.close()
        again = await store.open("acme", id)
        assert again is not None
        assert (await again.path()).read_bytes() == b"[1]" * 1000
        await again.close()
    downloads = [path for method, path in supabase_place.emulator.asked if method == "GET" and id in path]
    assert len([path for path in downloads if "/info/" not in path]) == 1


async def test_the_longest_unused_copy_makes_room_and_one_in_use_stays(tmp_path: Path) -> None:
    copies = ArtifactCache(tmp_path, 100)
    first, second, third = Source(b"1" * 40), Source(b"2" * 40), Source(b"3" * 40)
    kept = await acquired(copies, "first", first)
    copies.release("first")
    used = await acquired(copies, "second", second)
    await acquired(copies, "third", third)
    assert not kept.exists()
    assert used.read_bytes() == second.content
    with pytest.raises(ArtifactStoreFullError, match="copies in use"):
        await acquired(copies, "first", first)
    copies.release("third")
    await acquired(copies, "first", first)
    assert (first.fetched, second.fetched, third.fetched) == (2, 1, 1)
    await copies.close()
    assert found(tmp_path) == []


async def test_a_download_that_fails_or_is_given_up_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    copies = ArtifactCache(tmp_path, 100)
    source = Source(b"1" * 40)
    waits = asyncio.Event()

    async def fails(file: BinaryIO) -> None:
        file.write(b"half")
        raise ArtifactStoreFullError("no")

    async def hangs(file: BinaryIO) -> None:
        waits.set()
        await asyncio.Event().wait()

    with pytest.raises(ArtifactStoreFullError):
        await copies.acquire("id", 40, fails)
    task = asyncio.create_task(copies.acquire("id", 40, hangs))
    await waits.wait()
    waiting = asyncio.create_task(acquired(copies, "id", source))
    task.cancel()
    assert (await waiting).read_bytes() == source.content
    copies.release("id")
    assert [name for name in found(tmp_path) if not name.startswith("copies-")] == ["id"]
    await copies.close()


async def test_what_a_killed_process_left_behind_goes_a_day_later(tmp_path: Path) -> None:
    for name, age in (("copies-old", 2 * DAY), ("copies-young", 60.0), ("other", 2 * DAY)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "file").write_bytes(b"x")
        when = folder.stat().st_mtime - age
        os.utime(folder, (when, when))
    copies = ArtifactCache(tmp_path, 100)
    await acquired(copies, "id", Source(b"1"))
    await copies.close()
    assert found(tmp_path) == ["copies-young", "file", "file", "other"]
