"""Results too long to hold: read off the disk in pieces, and stored while they are read."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.results.shelf import GENEROUS, LEGACY, Shelf, records
from tests.results.test_fitting import Failing
from toolyard.artifacts.store import ArtifactStoreFullError
from toolyard.bridge.translation import PrefixedResult
from toolyard.results.limits import Limits
from toolyard.upstream.messages.spool import Spool, Spooled
from toolyard.wire.call import StreamedResult

LONG = Limits(shape_always=True, max_bytes=1500)


def spooled(body: bytes) -> Spooled:
    """A file of its own, as an upstream leaves one."""
    spool = Spool(bound=1000, limit=GENEROUS)
    spool.write(body)
    found = spool.finish()
    assert isinstance(found, Spooled)
    return found


class Cut(StreamedResult):
    """A text in pieces of the sizes that a test wants."""

    def __init__(self, body: bytes, sizes: int) -> None:
        self._body = body
        self._random = random.Random(sizes)
        self._most = sizes
        self.size = len(body)
        self.closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        at = 0
        while at < len(self._body):
            size = self._random.randint(1, self._most)
            yield self._body[at : at + size]
            at += size

    def close(self) -> None:
        self.closed = True


LETTERS = 'é☃\U0001f600\n\t"\\\x00 plain words, and more of them'


@pytest.mark.parametrize("ascii", [True, False], ids=["escaped", "as they are"])
@pytest.mark.parametrize("sizes", [700, 70_000])
async def test_letters_that_are_cut_in_two_come_out_whole(sizes: int, ascii: bool, shelf: Shelf):
    written = LETTERS * 8000
    block = {"type": "text", "text": written}
    body = json.dumps({"content": [block], "_meta": {"a": {"b": 1}}}, ensure_ascii=ascii).encode()
    result = Cut(body, sizes)
    found = await shelf.fit(result, LONG)
    assert await found.whole() == written.encode()
    assert found.summary["char_count"] == len(written)
    assert found.summary["approx_size_bytes"] == len(written.encode())
    assert found.result["_meta"] == {"a": {"b": 1}}
    assert result.closed
    assert shelf.noted == [(found.answer["tool_name"], len(body), shelf.noted[0][2])]


FORMS: dict[str, tuple[Any, Any]] = {
    "a list as text": ({"content": [{"type": "text", "text": json.dumps(records(9000))}]}, records(9000)),
    "a list as structured content": (
        {"content": [], "structuredContent": {"result": records(9000)}},
        records(9000),
    ),
    "both": (
        {
            "content": [{"type": "text", "text": json.dumps(records(9000))}],
            "structuredContent": {"items": records(9000)},
        },
        records(9000),
    ),
    "two texts": (
        {"content": [{"type": "text", "text": "a " * 90_000}, {"type": "text", "text": "b " * 90_000}]},
        ["a " * 90_000, "b " * 90_000],
    ),
    "a text, and more behind it": (
        {"content": [{"type": "text", "text": "a " * 90_000}], "structuredContent": {"b": 1}},
        {"text": "a " * 90_000, "structured": {"b": 1}},
    ),
}


@pytest.mark.parametrize("form", FORMS)
async def test_what_is_no_single_text_is_read_as_a_whole(form: str, shelf: Shelf):
    result, expected = FORMS[form]
    found = await shelf.fit(spooled(json.dumps(result).encode()), LONG)
    assert json.loads(await found.whole()) == expected
    assert len(found.text) <= 1500
    assert len(shelf.files) == 2, "nothing is left of a first try"


async def test_a_legacy_servers_result_with_something_put_in_front_is_streamed_too(shelf: Shelf):
    written = "line of words\n" * 20_000
    body = json.dumps({"content": [{"type": "text", "text": written}]}).encode()
    whole = spooled(body)
    found = await shelf.fit(PrefixedResult(b'{"resultType":"complete",', whole.window(1, whole.size)))
    assert await found.whole() == written.encode()
    assert found.summary["line_count"] == 20_000


async def test_pictures_beside_a_long_text_stay(shelf: Shelf):
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    block = {"type": "text", "text": "words " * 90_000}
    found = await shelf.fit(spooled(json.dumps({"content": [block, image]}).encode()))
    assert found.result["content"][-1] == image


async def test_a_long_result_that_may_pass_passes(shelf: Shelf):
    result = spooled(json.dumps({"content": [{"type": "text", "text": "words " * 90_000}]}).encode())
    assert (await shelf.fit(result, None)).passed
    assert (await shelf.fit(result, Limits(max_bytes=600_000))).passed
    assert b"".join([chunk async for chunk in result.chunks()]), "and can still be sent"


async def test_a_long_question_passes(shelf: Shelf):
    body = {"resultType": "input_required", "inputRequests": {"a": "x" * 90_000}}
    assert (await shelf.fit(spooled(json.dumps(body).encode()))).passed
    assert not (
        await shelf.fit(spooled(json.dumps({**body, "content": "x" * 90_000}).encode()), version=LEGACY)
    ).passed


async def test_a_store_that_fails_in_the_middle_costs_the_link_only(shelf: Shelf):
    failing = Shelf(Failing(shelf.store, "write", ArtifactStoreFullError("the disk is full")), shelf.folder)  # type: ignore[arg-type]
    written = "line of words\n" * 90_000
    found = await failing.fit(spooled(json.dumps({"content": [{"type": "text", "text": written}]}).encode()))
    assert found.summary["line_count"] == 90_000, "it was read to the end"
    assert "the disk is full" in found.answer["storage"]["error"]
    assert shelf.files == []


class Endless(Cut):
    """Goes on until somebody has enough."""

    def __init__(self) -> None:
        super().__init__(b"", 1)
        self.size = 2**40
        self.begun = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b'{"content":[{"type":"text","text":"'
        while True:
            yield b"words and words " * 10_000
            self.begun.set()
            await asyncio.sleep(0)


async def test_who_cancels_in_the_middle_leaves_no_file_behind(tmp_path: Path, shelf: Shelf):
    endless = Endless()
    fitting = asyncio.create_task(shelf.fit(endless))
    await endless.begun.wait()
    assert shelf.files != []
    fitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fitting
    assert shelf.files == []
    assert endless.closed
