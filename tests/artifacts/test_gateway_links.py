"""The gateway serves whole results of any store to whoever holds a link, packed for those who can unpack."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests.artifacts.keeping import keep, running
from tests.artifacts.places import Place
from toolyard.app.http import Downloads
from toolyard.artifacts.store import StoredArtifact

ROWS = json.dumps([{"id": number} for number in range(50_000)]).encode()


async def fetched(downloads: Downloads, url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()  # the client stays until it has everything

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": "GET",
        "path": url.removeprefix("https://yard.example"),
        "headers": pairs,
    }
    await downloads(scope, receive, send)
    told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("compress", ["identity", "gzip"])
async def test_the_gateway_serves_what_lies_in_a_bucket(s3_place: Place, compress: str) -> None:
    options = {"links": "gateway", "compress": compress}
    async with running(s3_place.store(options=options)) as store:
        await _served_in_both_ways(Downloads(store, s3_place.links), await keep(store, ROWS))


async def test_the_gateway_serves_what_lies_in_a_folder(local_place: Place) -> None:
    async with running(local_place.store()) as store:
        await _served_in_both_ways(Downloads(store, local_place.links), await keep(store, ROWS))


async def _served_in_both_ways(downloads: Downloads, stored: StoredArtifact) -> None:
    assert stored.url is not None
    status, headers, body = await fetched(downloads, stored.url)
    assert (status, body, headers["content-length"]) == (200, ROWS, str(len(ROWS)))
    status, headers, body = await fetched(downloads, stored.url, accept_encoding="br, gzip")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert len(body) < len(ROWS) / 4
    assert gzip.decompress(body) == ROWS
    assert (await fetched(downloads, f"{stored.url}x"))[0] == 404
