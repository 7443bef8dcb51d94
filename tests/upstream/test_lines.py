"""Lines from pieces of any size: long ones on disk, too long ones skipped and reported once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.texts import cut, each_byte, texts
from toolyard.upstream.messages.spool import Spooled
from toolyard.upstream.stdio.process import LineSplitter, OutputLine, SkippedLine

rows = st.lists(
    texts().filter(lambda text: b"\n" not in text) | st.sampled_from([b"", b" ", b"\r"]), max_size=6
)


def plain(lines: list[OutputLine]) -> list[Any]:
    return [line.read(0, line.size) if isinstance(line, Spooled) else line for line in lines]


def split(pieces: list[bytes], bound: int = 2**20, limit: int = 2**30) -> list[OutputLine]:
    splitter = LineSplitter(bound, limit)
    return [line for piece in pieces for line in splitter.feed(piece)]


@given(rows=rows, bound=st.sampled_from([1, 5, 1000]), data=st.data())
def test_the_lines_are_the_same_however_the_bytes_come(rows: list[bytes], bound: int, data: st.DataObject):
    stream = b"".join(row + b"\n" for row in rows)
    expected = [row for row in rows if row.strip()]
    assert plain(split(data.draw(cut(stream)), bound)) == expected
    assert plain(split(each_byte(stream), bound)) == expected


def test_a_long_line_is_on_disk_and_a_short_one_in_memory():
    short, long = split([b'{"a":1}\n{"a":"12345678901234567890"}\n'], bound=16)
    assert isinstance(short, bytes)
    assert isinstance(long, Spooled)


def test_a_line_without_end_is_kept_until_the_stream_ends():
    splitter = LineSplitter()
    assert splitter.feed(b'{"a"') == []
    assert splitter.feed(b":1}") == []
    assert splitter.finish() == [b'{"a":1}']
    assert splitter.finish() == []


@pytest.mark.parametrize("pieces", [list, each_byte], ids=["whole", "bytewise"])
def test_a_line_over_the_limit_is_told_once_and_the_next_one_is_read(pieces: Any):
    whole = b'{"a":1}\n{"a":"' + b"b" * 100 + b'"}\n{"c":2}\n'
    first, skipped, last = split([whole] if pieces is list else pieces(whole), bound=16, limit=50)
    assert (first, last) == (b'{"a":1}', b'{"c":2}')
    assert isinstance(skipped, SkippedLine)
    assert skipped.reason == "it is longer than the limit of 50 bytes"


def test_a_limit_below_the_bound_holds():
    (skipped,) = split([b"1234567890\n"], bound=100, limit=5)
    assert isinstance(skipped, SkippedLine)


def test_a_long_line_that_is_no_json_is_told_with_the_reason():
    skipped, last = split([b'{"a":1234567890}}\n', b'{"b":1}\n'], bound=10)
    assert isinstance(skipped, SkippedLine)
    assert skipped.reason == "its brackets do not match"
    assert last == b'{"b":1}'


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"%s"}}', 7),
        (b'{ "jsonrpc" : "2.0" , "id" : "x-7" , "result" : {"a":"%s"} }', "x-7"),
        (b'{"result":{"a":"%s"},"jsonrpc":"2.0","id":7}', 7),
        (b'{"result":{"a":"%s"},"id":7,"jsonrpc":"2.0"}', 7),
        (b'{"id":-7,"result":{"a":"%s"}}', -7),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7,"a":"%s"}}', None),
        (b'{"jsonrpc":"2.0","id":{},"result":{"a":"%s"}}', None),
        (b'"id":7 %s', None),
    ],
)
def test_a_skipped_message_still_tells_whose_it_was(line: bytes, id: Any):
    line = line % (b"b" * 100_000) + b"\n"
    for size in (1000, 10**6):
        pieces = [line[at : at + size] for at in range(0, len(line), size)]
        (skipped,) = split(pieces, bound=500, limit=70_000)
        assert isinstance(skipped, SkippedLine)
        assert skipped.id == id


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_small_pieces_cost_no_more_than_their_number(size: int):
    # Copying what has come with each piece would be terabytes, and end the test's own limit.
    line = b'"' + b"a" * 2_000_000 + b'"\n'
    (whole,) = split([line[at : at + size] for at in range(0, len(line), size)], bound=2**22)
    assert whole == line[:-1]
