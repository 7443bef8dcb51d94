"""Links to stored results: whoever holds one gets all of it, until it expires."""

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.app.yard import Yard, yard
from tests.results.shelf import records
from tests.results.stock import mounted
from tests.serving import Answer, http
from toolyard.config import ResultsConfig, StoreConfig


@asynccontextmanager
async def front(folder: Path, **store: Any) -> AsyncIterator[Yard]:
    kept = StoreConfig(url=f"local:{folder}", public_url="https://yard.example.com/behind", **store)
    async with mounted("inprocess") as up, yard(up, results=ResultsConfig(), tables={"store": kept}) as found:
        yield found


def empty(folder: Path) -> None:
    for file in list(folder.rglob("*.json")):
        file.unlink()


async def link_of(front: Yard, count: int = 2000) -> str:
    result = (await front.call("mcp__up__things", {"count": count})).result
    url: str = result["structuredContent"]["storage"]["url"]
    assert url.startswith("https://yard.example.com/behind/results/")
    return urlsplit(url).path.removeprefix("/behind")


async def get(front: Yard, path: str, method: str = "GET", **headers: str) -> Answer:
    return await front.client.raw(asking(front, path, method, **headers))


def asking(front: Yard, path: str, method: str = "GET", **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http(method, path, named, host=f"127.0.0.1:{front.client.port}")


async def test_a_link_gives_the_whole_result(tmp_path: Path):
    async with front(tmp_path) as yard:
        path = await link_of(yard)
        plain = await get(yard, path)
        assert plain.status == 200
        assert json.loads(plain.body) == records(2000)
        assert plain.headers["content-type"] == "application/json"
        assert plain.headers["content-length"] == str(len(plain.body))
        assert plain.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in plain.headers["content-security-policy"]
        line = await yard.client.connect()
        await line.send(asking(yard, path, "HEAD") + asking(yard, "/results/x"))
        assert await line.head() == 200
        assert line.headers["content-length"] == str(len(plain.body))
        assert await line.head() == 404, "what comes next is the next answer: there was no body"


async def test_a_link_is_packed_for_those_who_can_unpack(tmp_path: Path):
    async with front(tmp_path) as yard:
        path = await link_of(yard)
        packed = await get(yard, path, accept_encoding="br, gzip;q=0.8")
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "accept-encoding"
        assert json.loads(zlib.decompress(packed.body, wbits=31)) == records(2000)
        assert len(packed.body) < len(json.dumps(records(2000))) / 4
        for unwilling in ("gzip;q=0", "br", "identity"):
            plain = await get(yard, path, accept_encoding=unwilling)
            assert "content-encoding" not in plain.headers
            assert json.loads(plain.body) == records(2000)


async def test_a_link_that_is_forged_has_expired_or_leads_nowhere_gives_nothing(tmp_path: Path):
    async with front(tmp_path) as yard:
        path = await link_of(yard)
        changed = path[:-6] + ("A" if path[-6] != "A" else "B") + path[-5:]
        for wrong in (changed, "/results/", "/results/../../etc/passwd", "/results/%2e%2e%2fx", path + "x"):
            refused = await get(yard, wrong)
            assert refused.status == 404, wrong
            assert b"Thing" not in refused.body
        posted = await get(yard, path, "POST")
        assert posted.status == 405
        assert posted.headers["allow"] == "GET, HEAD"
        empty(tmp_path)
        assert (await get(yard, path)).status == 404
    async with front(tmp_path, ttl=0.0) as yard:
        assert (await get(yard, await link_of(yard))).status == 404


async def test_without_an_address_of_its_own_a_gateway_gives_no_links():
    async with mounted("inprocess") as up, yard(up, results=ResultsConfig()) as front:
        storage = (await front.call("mcp__up__things")).result["structuredContent"]["storage"]
        assert "url" not in storage
        assert "resource" in storage
