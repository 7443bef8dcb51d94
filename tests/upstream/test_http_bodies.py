"""What an upstream's answers look like on the wire: compressed, in pieces, broken off, and of any size."""

import asyncio
import gzip
import hashlib
import json
import os
from typing import Any

import pytest

from tests.app.speaker import READ_ONLY, Exchange, Speaker, speaking, text, tool
from tests.app.yard import Yard, at, yard
from tests.serving import PATIENCE, modern
from toolyard.edge.stdio import serve

ECHO = "mcp__up__echo"
MIB = 2**20


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_nothing_compressed_is_asked_for_and_what_comes_so_is_refused(era: str):
    speaker = Speaker(era)

    async def call(exchange: Exchange) -> None:
        body = gzip.compress(json.dumps(exchange.reply(text("0" * 8 * MIB))).encode())
        await exchange.whole(200, "application/json", body, content_encoding="gzip")

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert "compressed" in (await front.call(ECHO)).error["message"]
        del speaker.on["tools/call"]
        assert await front.says(ECHO, {"text": "plain"}) == "plain"
    assert {item.headers.get("accept-encoding") for item in speaker.seen} == {"identity"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_events_are_read_however_lines_end_and_however_they_are_cut(era: str, end: bytes, size: int):
    speaker = Speaker(era)

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        lines = [b": a comment", b"", b"event: message", b"data: " + json.dumps(said).encode(), b""]
        # Data on two lines is one text with a line break in between, where JSON does not mind one.
        first, second = json.dumps(exchange.reply(text("in pieces é"))).encode().split(b": ", 1)
        lines += [b"id: 1", b"data:" + first + b":", b"data: " + second, b"", b""]
        body = end.join(lines)
        for start in range(0, len(body), size):
            await exchange.write(body[start : start + size])
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO) == "in pieces é"


@pytest.mark.parametrize(
    "said", [b"\n", b": ping\n\n", b"event: x\n\n"], ids=["empty lines", "comments", "no data"]
)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_stream_of_nothing_ends_with_the_time_of_its_call(era: str, said: bytes):
    speaker = Speaker(era)

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        for _ in range(20_000):
            await exchange.write(said * 1000)
            await asyncio.sleep(0)

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url, timeout=1.0)) as front:
        await front.tools()
        calling = asyncio.create_task(front.call(ECHO))
        await speaker.until_heard("tools/call")
        assert (await front.modern("server/discover")).status == 200, "others are served meanwhile"
        assert "1 s" in (await calling).error["message"]


async def test_a_stream_that_breaks_is_taken_up_where_it_stopped():
    speaker = Speaker("legacy")
    resumed: list[str] = []

    async def call(exchange: Exchange) -> None:
        speaker.on["GET"] = lambda again: resume(again, exchange)
        await exchange.stream()
        await exchange.write(b"id: before-1\nretry: 10\ndata:\n\n")
        await exchange.event(
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1},
            },
            id="before-2",
        )
        # And no more: the connection breaks here.

    async def resume(again: Exchange, exchange: Exchange) -> None:
        resumed.append(again.headers["last-event-id"])
        await again.stream()
        await again.event(exchange.reply(text("after all")), id="after-1")
        await again.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        answer = await front.call(ECHO, progress="mine")
        told, last = [event.json for event in answer.events if event.is_message]
        assert told["params"] == {"progressToken": "mine", "progress": 1}
        assert last["result"]["content"][0]["text"] == "after all"
    assert resumed == ["before-2"]
    assert speaker.calls("echo") == 1


async def test_a_stream_that_breaks_without_ids_is_lost_and_the_call_made_once():
    speaker = Speaker("legacy")

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.write(b": working on it\n\n")

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        error = (await front.call(ECHO)).error
        assert "'up'" in error["message"]
        assert "stream ended" in error["message"]
    assert speaker.calls("echo") == 1


def big_text(size: int) -> str:
    """Nothing that compresses, and everything that has to be escaped."""
    return (os.urandom(size // 4).hex() + '"\\é€😀\n' * (size // 20))[:size]


async def answer_in_json(exchange: Exchange, words: str) -> None:
    body = json.dumps(exchange.reply(text(words))).encode()
    await exchange.head(200, "application/json")
    for start in range(0, len(body), 100_000):
        await exchange.write(body[start : start + 100_000])
    await exchange.end()


async def answer_in_events(exchange: Exchange, words: str) -> None:
    await exchange.stream()
    await exchange.event(exchange.reply(text(words)))
    await exchange.end()


ANSWERS = {"json": answer_in_json, "events": answer_in_events}


def mark(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_result_of_several_mebibytes_reaches_clients_of_both_eras_as_it_was(era: str, answer: str):
    words = big_text(3 * MIB)
    speaker = Speaker(era)
    speaker.on["tools/call"] = lambda exchange: ANSWERS[answer](exchange, words)
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert mark(await front.says(ECHO)) == mark(words)
        session = await front.legacy()
        assert mark((await session.call(ECHO)).result["content"][0]["text"]) == mark(words)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_big_result_reaches_a_client_whose_answer_is_a_stream_already(era: str):
    words = big_text(3 * MIB)
    speaker = Speaker(era)

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.progress(1, "nearly there")
        await exchange.event(exchange.reply(text(words)))
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        answer = await front.call(ECHO, progress="p")
        told, last = [event.json for event in answer.events if event.is_message]
        assert told["params"]["message"] == "Server 'up': nearly there"
        assert mark(last["result"]["content"][0]["text"]) == mark(words)


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_big_result_reaches_a_client_on_standard_output_in_one_line(answer: str):
    words = big_text(3 * MIB)
    speaker = Speaker("modern")
    speaker.on["tools/call"] = lambda exchange: ANSWERS[answer](exchange, words)
    async with speaking(speaker) as url, yard(at(url)) as front:
        line = await over_stdio(front, modern("tools/call", {"name": ECHO, "arguments": {}})[1])
        assert mark(json.loads(line)["result"]["content"][0]["text"]) == mark(words)


async def over_stdio(front: Yard, message: Any) -> bytes:
    """One request to the gateway's view on pipes; the line that answers it."""
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    running = asyncio.create_task(serve(front.gateway.view(), their_in, their_out))
    reader = asyncio.StreamReader(limit=64 * MIB)
    file = os.fdopen(our_in, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    try:
        os.write(our_out, json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            return await reader.readline()
    finally:
        os.close(our_out)
        await asyncio.wait_for(running, PATIENCE)
        os.close(their_in)
        os.close(their_out)
        transport.close()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_result_over_the_limit_is_refused_by_name_and_the_next_call_works(era: str, answer: str):
    speaker = Speaker(era)
    speaker.on["tools/call"] = lambda exchange: ANSWERS[answer](exchange, "x" * 3 * MIB)
    async with speaking(speaker) as url, yard(at(url, max_result=2 * MIB)) as front:
        error = (await front.call(ECHO)).error
        assert "'up'" in error["message"]
        assert "2 MiB" in error["message"]
        del speaker.on["tools/call"]
        assert await front.says(ECHO, {"text": "small"}) == "small"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b"null",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":"another","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[}}',
        b'"' + b"x" * 2 * MIB,
    ],
    ids=["nothing", "html", "empty", "list", "null", "no-result", "other-id", "broken", "endless-string"],
)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_that_makes_no_sense_is_named_and_the_next_one_is_read(era: str, body: bytes):
    speaker = Speaker(era)

    async def call(exchange: Exchange) -> None:
        await exchange.whole(200, "application/json", body)

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        error = (await front.call(ECHO)).error
        assert error["code"] == -32603
        assert "'up'" in error["message"]
        del speaker.on["tools/call"]
        assert await front.says(ECHO, {"text": "sense"}) == "sense"
    assert speaker.calls("echo") == 2


async def test_an_answer_that_makes_no_sense_is_asked_for_again_where_that_does_no_harm():
    speaker = Speaker("modern", [tool("echo", **READ_ONLY)])

    async def call(exchange: Exchange) -> None:
        if speaker.calls("echo") == 1:
            await exchange.whole(200, "application/json", b"<html>")
        else:
            await exchange.result(text("now it does"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO) == "now it does"
