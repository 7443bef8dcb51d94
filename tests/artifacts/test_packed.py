"""`compress = "gzip"`: results that lie packed in the bucket, and that links hand out packed."""

import gzip
import json
import random

import aiohttp
import pytest

from tests.artifacts.keeping import keep, read, running
from tests.artifacts.places import AzurePlace, Place, S3Place
from toolyard.artifacts.store import ArtifactStoreError

ROWS = json.dumps([{"id": number, "title": f"row {number}"} for number in range(200_000)]).encode()


@pytest.fixture(params=["s3", "azure"])
def packing(request: pytest.FixtureRequest) -> S3Place | AzurePlace:
    return request.getfixturevalue(f"{request.param}_place")


async def test_a_packed_result_reads_as_if_it_were_not(packing: Place) -> None:
    async with running(packing.store(options={"compress": "gzip"})) as store:
        stored = await keep(store, ROWS)
        assert (stored.artifact.size, stored.artifact.encoding) == (len(ROWS), "gzip")
        reading = await store.open("acme", stored.artifact.id)
        assert reading is not None
        assert reading.artifact.size == len(ROWS)
        assert await reading.read(1_000_000, 50) == ROWS[1_000_000:1_000_050]
        assert (await reading.path()).read_bytes() == ROWS
        await reading.close()
        for content in (b"", b" " * 20_000_001):
            other = await keep(store, content)
            assert await read(store, "acme", other.artifact.id) == content
    # One that packs nothing reads what another has packed.
    async with running(packing.store()) as store:
        assert await read(store, "acme", stored.artifact.id) == ROWS


async def test_whoever_follows_its_link_gets_it_packed_and_is_told(packing: Place) -> None:
    async with running(packing.store(options={"compress": "gzip"})) as store:
        stored = await keep(store, ROWS)
        assert stored.url is not None
        async with aiohttp.ClientSession(auto_decompress=False) as plain, plain.get(stored.url) as reply:
            assert reply.headers["Content-Encoding"] == "gzip"
            packed = await reply.read()
        assert len(packed) < len(ROWS) / 4
        assert gzip.decompress(packed) == ROWS
        async with aiohttp.ClientSession() as browser, browser.get(stored.url) as reply:
            assert await reply.read() == ROWS


async def test_the_quota_counts_what_lies_there(packing: Place) -> None:
    async with running(packing.store(options={"compress": "gzip"}, quota=len(ROWS) // 2)) as store:
        await keep(store, ROWS)
        with pytest.raises(ArtifactStoreError, match="quota"):
            await keep(store, random.Random(1).randbytes(len(ROWS) // 2))


async def test_damage_is_told_of_and_not_taken_for_content(s3_place: S3Place) -> None:
    async with running(s3_place.store(options={"compress": "gzip"})) as store:
        stored = await keep(store, ROWS)
        where = {"Bucket": s3_place.bucket, "Key": stored.key}
        found = s3_place.client.get_object(**where)
        packed = found["Body"].read()
        for spoilt in (packed[:5000] + packed[-4:], b"\0" * 5000, packed[:-4] + b"\1\0\0\0"):
            s3_place.client.put_object(**where, Body=spoilt, Metadata=found["Metadata"])
            reading = await store.open("acme", stored.artifact.id)
            assert reading is not None
            with pytest.raises(ArtifactStoreError, match="damaged"):
                await reading.path()
            await reading.close()
    assert not list((s3_place.folder / "state").iterdir())
