"""Server-sent events of any size, from bytes in any pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.texts import cut, each_byte, texts
from toolyard.upstream.http.events import EventReader, SpooledEvent
from toolyard.upstream.messages.spool import Spooled, SpoolError, SpoolLimitError

KIB = 1024


def read(pieces: list[bytes], bound: int = 2**20, limit: int = 2**30) -> list[SpooledEvent]:
    reader = EventReader(bound, limit)
    return [event for piece in pieces for event in reader.feed(piece)]


def whole(data: bytes | Spooled) -> bytes:
    return data if isinstance(data, bytes) else data.read(0, data.size)


def test_an_event_has_its_data_its_name_its_id_and_when_to_come_back():
    (event,) = read([b"event: greeting\nid: 7\nretry: 250\ndata: {}\n\n"])
    assert event == SpooledEvent(b"{}", "greeting", "7", 250)


def test_what_has_no_name_is_a_message():
    assert read([b"data: {}\n\n"])[0].event == "message"


def test_comments_and_empty_blocks_are_no_events():
    assert read([b": hello\n\n\n\n: still there\n\n"]) == []


def test_an_event_with_an_id_and_no_data_says_where_to_take_up():
    assert read([b"id: 5\ndata:\n\n", b"id: 6\nretry: 10\n\n"]) == [
        SpooledEvent(b"", id="5"),
        SpooledEvent(b"", id="6", retry_ms=10),
    ]


@pytest.mark.parametrize("said", [b"-1", b"1.5", b"soon", b"9" * 20, "\N{ARABIC-INDIC DIGIT ONE}".encode()])
def test_a_time_to_come_back_that_is_no_number_is_ignored(said: bytes):
    assert read([b"retry: " + said + b"\ndata: 1\n\n"]) == [SpooledEvent(b"1")]


def test_an_event_whose_end_has_not_come_is_not_given_out():
    assert read([b"data: {}\n"]) == []


@given(st.data())
def test_events_are_the_same_however_lines_end_and_bytes_are_cut(data: st.DataObject):
    bodies = data.draw(st.lists(texts(), min_size=1, max_size=4))
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    bound = data.draw(st.sampled_from([8, 64, 2**20]))
    stream = b"".join(b"id: %d%sdata: %s%s%s" % (n, end, body, end, end) for n, body in enumerate(bodies))
    events = read(data.draw(cut(stream)), bound)
    assert [event.id for event in events] == [str(number) for number in range(len(bodies))]
    assert [json.loads(whole(event.data)) for event in events] == [json.loads(body) for body in bodies]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_that_come_byte_by_byte_are_the_same(end: bytes):
    stream = end.join([b"event: a", b"data: [1,", b"data: 2]", b"", b"data: 3", b"", b""])
    events = read(each_byte(stream))
    assert [(event.event, json.loads(whole(event.data))) for event in events] == [
        ("a", [1, 2]),
        ("message", 3),
    ]


def test_an_event_too_big_to_hold_lies_on_disk_and_the_next_one_does_not():
    body = b'{"text":"' + b"x" * 200 * KIB + b'"}'
    stream = b"data: " + body + b"\n\ndata: {}\n\n"
    big, small = read([stream[at : at + 10_000] for at in range(0, len(stream), 10_000)], bound=64 * KIB)
    assert isinstance(big.data, Spooled)
    assert whole(big.data) == body
    assert small.data == b"{}"


def test_an_event_over_the_limit_is_refused():
    with pytest.raises(SpoolLimitError):
        read([b"data: [" + b"1," * KIB + b"1]\n\n"], bound=64, limit=KIB)


def test_an_endless_line_that_is_no_data_costs_no_memory_and_harms_nothing():
    stream = [b": " + b"x" * 100 * KIB, *[b"x" * 100 * KIB] * 5, b"\ndata: 1\n\n"]
    assert read(stream, limit=KIB) == [SpooledEvent(b"1")]


def test_a_big_event_that_cannot_be_json_is_refused():
    with pytest.raises(SpoolError):
        read([b"data: " + b"}" * KIB + b"\n\n"], bound=64)
