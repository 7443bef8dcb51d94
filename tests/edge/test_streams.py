"""Kept streams have a total: of those whose call is over, the oldest go first."""

from toolyard.edge.http.legacy import Streams
from toolyard.edge.request import Pace


async def test_the_oldest_finished_stream_makes_room():
    streams = Streams(Pace(), max_total=2500)
    ids: list[str] = []
    for _ in range(3):
        stream = streams.open("s", of_call=True)
        stream.put(b"x" * 1000)
        ids.append(f"{stream.id}.0")
        stream.end()
        streams.expire_later(stream)
    assert [streams.find(id, "s") is not None for id in ids] == [False, True, True]


async def test_what_is_forgotten_is_freed_at_once():
    streams = Streams(Pace(), max_total=500)
    stream = streams.open("s", of_call=True)
    stream.put(b"x" * 1000)
    stream.end()
    streams.expire_later(stream)
    assert stream.size == 0
    assert list(stream.after(0)) == []


async def test_a_stream_whose_call_still_runs_is_not_given_up():
    streams = Streams(Pace(), max_total=500)
    running = streams.open("s", of_call=True)
    running.put(b"x" * 1000)
    over = streams.open("s", of_call=True)
    over.put(b"x" * 1000)
    over.end()
    streams.expire_later(over)
    assert streams.find(f"{running.id}.0", "s") is not None
    assert streams.find(f"{over.id}.0", "s") is None
