"""What every store does, whoever keeps the results."""

import asyncio
import json
import random
import time

import aiohttp
import pytest

from tests.artifacts.keeping import JSON, TOOL, keep, read, running, send
from tests.artifacts.places import Place
from toolyard.artifacts.store import ArtifactStoreFullError, folder_of

MIB = 1024 * 1024
# More than two parts of an upload, and nothing that packs well.
BIG = random.Random(5).randbytes(12 * MIB + 321)


async def test_what_is_kept_comes_back_byte_for_byte_whole_in_ranges_and_as_a_file(place: Place) -> None:
    async with running(place.store()) as store:
        before = time.time()
        stored = await keep(store, BIG)
        artifact = stored.artifact
        assert (stored.type, artifact.size, artifact.tool) == (place.kind, len(BIG), TOOL)
        assert stored.key.endswith(f"acme/mcp/{artifact.id}.json")
        assert await place.keys() == [f"acme/mcp/{artifact.id}.json"]
        reading = await store.open("acme", artifact.id)
        assert reading is not None
        found = reading.artifact
        assert (found.size, found.content_type, found.tool) == (len(BIG), JSON, TOOL)
        assert before - 2 <= found.created <= found.expires - 7 * 86400 + 1
        assert await reading.read(0, len(BIG)) == BIG
        assert await reading.read(5 * MIB - 7, 14) == BIG[5 * MIB - 7 : 5 * MIB + 7]
        assert await reading.read(len(BIG) - 3, 100) == BIG[-3:]
        assert await reading.read(len(BIG), 10) == b""
        path = await reading.path()
        assert path.read_bytes() == BIG
        assert path.stat().st_mode & 0o077 == 0
        await reading.close()
    if place.remote:
        assert not path.exists()


async def test_an_empty_result_and_a_small_one_are_kept_too(place: Place) -> None:
    async with running(place.store()) as store:
        for content in (b"", b"[]"):
            stored = await keep(store, content)
            reading = await store.open("acme", stored.artifact.id)
            assert reading is not None
            assert reading.artifact.size == len(content)
            assert (await reading.path()).read_bytes() == content
            await reading.close()


async def test_somebody_elses_id_is_an_unknown_id_and_so_is_one_with_path_tricks(place: Place) -> None:
    async with running(place.store()) as store:
        id = (await keep(store, b"secret")).artifact.id
        assert await read(store, "acme", id) == b"secret"
        for tenant in ("other", "Acme", "acme/", "", "../acme", "acme/mcp"):
            assert await store.open(tenant, id) is None
        for trick in (id.upper(), f"../mcp/{id}", f"{id}.json", f"{id}/..", f"{id}\0", f"%2e/{id}", "", "*"):
            assert await store.open("acme", trick) is None
        assert await store.open("acme", "0" * 32) is None


async def test_tenants_of_any_name_are_kept_apart(place: Place) -> None:
    names = ["", "local", "Local", "a/b", "a%2Fb", "..", "~x", "ñandú 東京", "x" * 300, "_local"]
    assert len({folder_of(name) for name in names}) == len(names)
    async with running(place.store()) as store:
        ids = [(await keep(store, name.encode("utf-8", "replace"), name)).artifact.id for name in names]
        for name, id in zip(names, ids, strict=True):
            assert await read(store, name, id) == name.encode("utf-8", "replace")
        assert await read(store, names[1], ids[2]) is None


async def test_an_expired_result_is_unknown_and_is_swept_away_and_nothing_else(place: Place) -> None:
    async with running(place.store(ttl=-1000.0)) as past, running(place.store()) as present:
        old = (await keep(past, b"old")).artifact.id
        new = (await keep(present, b"new")).artifact.id
        await place.put("acme/mcp/notes.json", b"somebody's own")
        await place.put("elsewhere/file.json", b"somebody's own")
        assert await read(present, "acme", old) is None
        await past.sweep()
        kept = await place.keys()
        assert sorted(kept) == sorted([f"acme/mcp/{new}.json", "acme/mcp/notes.json", "elsewhere/file.json"])
        assert await read(present, "acme", new) == b"new"


async def test_the_quota_holds_for_writers_at_the_same_time_and_for_another_gateway(place: Place) -> None:
    async with running(place.store(quota=100_000)) as store:

        async def attempt() -> bool:
            try:
                await keep(store, b"x" * 40_000)
            except ArtifactStoreFullError:
                return False
            return True

        assert sum(await asyncio.gather(*[attempt() for _ in range(6)])) == 2
        assert len(await place.keys()) == 2
        # What was refused took nothing: there is room for what fits.
        await keep(store, b"x" * 19_000)
        await keep(store, b"x" * 90_000, "other")
        async with running(place.store(quota=100_000)) as another:
            with pytest.raises(
                ArtifactStoreFullError, match="needs more than the 1000 bytes left of the quota"
            ):
                await keep(another, b"x" * 2000)
    async with running(place.store(quota=50_000)) as lowered:
        with pytest.raises(ArtifactStoreFullError, match="quota of 50000 bytes is used up \\(99000 bytes"):
            await lowered.begin("acme", TOOL, JSON)


async def test_what_has_expired_makes_room_before_anybody_is_refused(place: Place) -> None:
    async with running(place.store(ttl=-1000.0, quota=1000)) as store:
        await keep(store, b"x" * 900)
    async with running(place.store(ttl=-1000.0, quota=1000)) as store:
        await keep(store, b"x" * 900)
        assert len(await place.keys()) == 1


@pytest.mark.parametrize("size", [1000, 11 * MIB])
async def test_a_result_that_is_given_up_leaves_nothing(place: Place, size: int) -> None:
    async with running(place.store()) as store:
        writing = await store.begin("acme", TOOL, JSON)
        await send(writing, b"x" * size)
        await writing.discard()
        await writing.discard()
    assert await place.keys() == []


async def test_a_link_opens_the_result_for_whoever_holds_it_and_no_other(remote_place: Place) -> None:
    body = json.dumps([{"id": number} for number in range(1000)]).encode()
    async with running(remote_place.store()) as store, aiohttp.ClientSession() as browser:
        stored = await keep(store, body)
        assert stored.url is not None
        assert stored.bucket == remote_place.bucket
        assert stored.expires_at is not None
        async with browser.get(stored.url) as reply:
            assert reply.status == 200
            assert await reply.read() == body
            assert reply.headers["Content-Type"] == JSON
            assert "no-store" in reply.headers["Cache-Control"]
        other = await keep(store, b"[]")
        async with browser.get(stored.url.replace(stored.artifact.id, other.artifact.id)) as reply:
            # moto does not check signatures.
            assert reply.status in (400, 403) or remote_place.kind == "s3"


async def test_links_through_the_gateway_are_for_buckets_that_only_it_can_reach(remote_place: Place) -> None:
    async with running(remote_place.store(options={"links": "gateway"})) as store:
        stored = await keep(store, b"[1]")
        assert stored.url is not None
        assert stored.url.startswith("https://yard.example/results/")
        opened = remote_place.links.open(stored.url.rpartition("/")[2])
        assert opened == ("acme", stored.artifact.id)
