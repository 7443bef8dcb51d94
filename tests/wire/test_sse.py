"""Server-sent events: what is framed can be read again, however the network cuts it."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.wire.sse import PING, SseDecoder, SseEvent, frame

documents = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=6
).map(lambda value: json.dumps(value, ensure_ascii=False).encode())
event_ids = st.none() | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)
sent = st.lists(st.tuples(documents, event_ids, st.none() | st.integers(0, 10**6)), max_size=6)


def read(*chunks: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def test_an_event_is_its_data_and_a_blank_line():
    assert frame(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_id_and_retry_come_before_the_data():
    assert frame(b"{}", "s.1", 500) == b"id: s.1\nretry: 500\ndata: {}\n\n"


def test_an_empty_event_primes_a_stream_with_its_id():
    framed = frame(b"", "s.1")
    assert framed == b"id: s.1\ndata:\n\n"
    assert read(framed) == [SseEvent("", id="s.1")]


def test_a_ping_is_a_comment_that_no_reader_sees():
    assert PING.startswith(b":")
    assert read(PING + frame(b"1") + PING) == [SseEvent("1")]


@given(sent, st.lists(st.integers(0, 10**6), max_size=12))
def test_what_was_framed_is_read_again_however_it_is_cut(events: Any, places: list[int]):
    data = b"".join(frame(document, id, retry) + PING for document, id, retry in events)
    expected = [SseEvent(document.decode(), "message", id, retry) for document, id, retry in events]
    assert read(*cut(data, places)) == expected


@given(sent, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 10**6), max_size=12))
def test_every_line_ending_of_the_standard_is_understood(events: Any, ending: str, places: list[int]):
    data = b"".join(frame(document, id, retry) for document, id, retry in events)
    # The last blank line may wait for its half of a CRLF, so one more line follows.
    data = data.replace(b"\n", ending.encode()) + b": the end" + ending.encode() + b"x"
    expected = [SseEvent(document.decode(), "message", id, retry) for document, id, retry in events]
    assert read(*cut(data, places)) == expected


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_are_read_without_failing_and_alike_in_one_piece(chunks: list[bytes]):
    assert read(*chunks) == read(b"".join(chunks))


def test_a_big_event_in_many_small_pieces_is_read_in_linear_time():
    data = frame(b'"' + b"x" * 4_000_000 + b'"')
    decoder = SseDecoder()
    # Copying what has come with each piece would be a quarter of a terabyte, and end the test's own limit.
    events = [event for place in range(0, len(data), 32) for event in decoder.feed(data[place : place + 32])]
    assert [len(event.data) for event in events] == [4_000_002]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\ndata: b\n\n", [SseEvent("a\nb")]),
        ("data:no space\n\n", [SseEvent("no space")]),
        ("data:  two spaces\n\n", [SseEvent(" two spaces")]),
        ("event: ping\ndata: x\n\n", [SseEvent("x", "ping")]),
        ("event:\ndata: x\n\n", [SseEvent("x")]),
        ("event: ping\n\ndata: x\n\n", [SseEvent("x")]),
        ("unknown: field\ndata: x\n\n", [SseEvent("x")]),
        ("data: never ended", []),
        ("data: no blank line\n", []),
        (": comment\n\n\n\n", []),
        ("retry: soon\ndata: x\n\n", [SseEvent("x")]),
        ("retry: ²\ndata: x\n\n", [SseEvent("x")]),
        ("retry: -5\ndata: x\n\n", [SseEvent("x")]),
        ("retry: 10\ndata: x\n\n", [SseEvent("x", retry_ms=10)]),
        ("data: 世界\n\n", [SseEvent("世界")]),
    ],
    ids=ascii,
)
def test_streams_of_other_servers_are_read_as_the_standard_says(text: str, expected: list[SseEvent]):
    assert read(text.encode()) == expected
    assert read(*(bytes([byte]) for byte in text.encode())) == expected
