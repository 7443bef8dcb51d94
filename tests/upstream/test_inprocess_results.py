"""Results of servers in this process: short ones as they are, long ones as the same JSON, in slices."""

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.turning import counting_turns
from tests.upstream.texts import tricky
from toolyard.upstream.inprocess import LONG, MANY, spool_if_long
from toolyard.upstream.messages.slices import SLICE
from toolyard.upstream.messages.spool import BOUND, Spooled
from toolyard.wire.messages import encode
from toolyard.wire.types import CallToolResult, Image, Text


async def whole(result: Any) -> bytes:
    found = await spool_if_long(result)
    if isinstance(found, Spooled):
        return b"".join([chunk async for chunk in found.chunks()])
    return bytes(found) if isinstance(found, Raw) else encode(found)


def texts(*values: str) -> CallToolResult:
    return CallToolResult(content=[Text(value) for value in values])


@pytest.mark.parametrize("result", [texts("short"), texts(), texts("a", "b"), texts("x" * (LONG - 1))])
async def test_a_short_result_is_handed_on_as_it_is(result: CallToolResult):
    assert await spool_if_long(result) is result


@pytest.mark.parametrize(
    "result",
    [
        texts("x" * (LONG + 1)),
        texts('é"\\\n€😀' * BOUND),
        texts("before", "x" * BOUND, "between", '"' * BOUND, "after"),
        texts(*("many" for _ in range(MANY + 7))),
        texts(*("x" * (LONG + 1) if n % 600 == 0 else "y" for n in range(MANY + 7))),
        CallToolResult(content=[Image(bytes(range(256)) * (BOUND // 100), "image/png")]),
        CallToolResult(content=[Text("twin")], structured_content=Raw(b'{"a": "%s"}' % (b"x" * BOUND))),
    ],
)
async def test_a_long_result_is_the_same_json(result: CallToolResult):
    assert json.loads(await whole(result)) == json.loads(encode(result))


@given(unit=tricky.filter(bool), times=st.integers(LONG // 8, LONG))
async def test_any_text_is_the_same_however_it_is_cut(unit: str, times: int):
    assert json.loads(await whole(texts(unit * times))) == json.loads(encode(texts(unit * times)))


async def test_what_is_over_the_bound_lies_on_disk_and_what_is_not_in_memory():
    assert isinstance(await spool_if_long(texts("x" * BOUND)), Spooled)
    assert isinstance(await spool_if_long(texts("x" * (LONG + 1))), Raw)


async def test_the_loop_turns_for_every_slice():
    size = 4 * BOUND
    async with counting_turns() as turns:
        found = await spool_if_long(texts("x" * size))
        written = turns.count
        assert sum([len(chunk) async for chunk in found.chunks()]) > size
    assert written >= size // SLICE
    assert turns.count - written >= size // SLICE


async def test_a_text_that_cannot_be_written_is_an_error_and_leaves_nothing_behind():
    with pytest.raises(UnicodeEncodeError):
        await spool_if_long(texts("x" * LONG + "\udcff"))


def test_base64_is_that_of_everybody():
    data = bytes(range(256)) * (LONG // 100)
    written = json.loads(asyncio.run(whole(CallToolResult(content=[Image(data, "image/png")]))))
    assert base64.b64decode(written["content"][0]["data"]) == data
