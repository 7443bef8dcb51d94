"""Texts of any size: in memory while they are small, on disk and checked when they are not."""

import errno
import gc
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.texts import cut, texts
from tests.waiting import PATIENCE
from toolyard.upstream.messages.slices import SLICE, slices
from toolyard.upstream.messages.spool import (
    BOUND,
    HEAD,
    TAIL,
    CheckedText,
    MalformedTextError,
    Spool,
    Spooled,
    SpoolFullError,
    SpoolLimitError,
    format_size,
)


def open_fds() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


def spooled(text: bytes, bound: int = 10) -> Spooled:
    spool = Spool(bound)
    spool.write(text)
    whole = spool.finish()
    assert isinstance(whole, Spooled)
    return whole


async def content(text: Spooled, size: int = 7) -> bytes:
    return b"".join([chunk async for chunk in text.chunks(size)])


BIG = b'{"a":"' + bytes(range(35, 91)) * 4000 + b'"}'


def test_a_text_up_to_the_bound_stays_in_memory():
    spool = Spool(bound=10)
    spool.write(b'{"a":')
    spool.write(b"1234}")
    assert spool.finish() == b'{"a":1234}'


async def test_a_text_over_the_bound_comes_back_from_disk():
    text = spooled(b'{"a":12345}')
    assert text.size == 11
    assert await content(text) == b'{"a":12345}'
    assert await content(text) == b'{"a":12345}', "it can be read twice"


@given(text=texts(), data=st.data())
async def test_it_does_not_matter_how_a_text_is_cut(text: bytes, data: st.DataObject):
    spool = Spool(bound=5)
    for piece in data.draw(cut(text)):
        spool.write(piece)
    whole = spool.finish()
    assert (await content(whole) if isinstance(whole, Spooled) else whole) == text


def test_head_and_tail_are_the_ends():
    text = spooled(BIG)
    assert (text.head, text.tail) == (BIG[:HEAD], BIG[-TAIL:])
    small = spooled(b'{"a":"bcdefg"}')
    assert small.head == small.tail == b'{"a":"bcdefg"}'


async def test_a_window_is_a_part_of_the_same_file():
    text = spooled(b'{"a":{"b":"cdefghi"},"z":1}')
    window = text.window(5, 20)
    assert await content(window) == b'{"b":"cdefghi"}'
    assert (window.head, window.tail, window.size) == (b'{"b":"cdefghi"}', b'{"b":"cdefghi"}', 15)
    assert await content(window.window(1, 4)) == b'"b"'
    with pytest.raises(ValueError, match="no part of 15 bytes"):
        window.window(3, 16)


async def test_line_breaks_become_spaces_on_disk():
    text = spooled(b'{\r\n  "a":\n 12345\n}')
    assert await content(text) == b'{    "a":  12345 }'


# Ownership


async def test_the_file_is_open_until_the_last_view_is_closed():
    before = open_fds()
    text = spooled(BIG)
    window = text.window(0, 5)
    text.close()
    text.close()
    assert open_fds() == before + 1
    assert await content(window) == BIG[:5]
    window.close()
    assert open_fds() == before


def test_a_text_that_nobody_closed_goes_with_its_last_reference():
    before = open_fds()
    text = spooled(BIG)
    window = text.window(0, 5)
    del text, window
    assert open_fds() == before


async def test_who_is_reading_may_read_to_the_end():
    text = spooled(BIG)
    chunks = text.chunks(100_000)
    read = await anext(chunks)
    text.close()
    async for chunk in chunks:
        read += chunk
    assert read == BIG


def test_a_closed_text_says_so():
    text = spooled(BIG)
    text.close()
    with pytest.raises(ValueError, match="was closed"):
        _ = text.head


def test_a_discarded_spool_leaves_no_file():
    before = open_fds()
    spool = Spool(bound=10)
    spool.write(BIG)
    assert open_fds() == before + 1
    spool.discard()
    assert open_fds() == before


# Refusals


def test_a_text_over_the_limit_is_refused_with_the_limit():
    spool = Spool(bound=10, limit=2 * 2**20)
    spool.write(b'"' + b"a" * 2**20)
    with pytest.raises(SpoolLimitError, match="longer than the limit of 2 MiB"):
        spool.write(b"a" * 2**20)


@pytest.mark.parametrize("text", [b'{"a":1}}}}}}}', b'{"a":"1234567', b'{"a":[[[[[[}', b"<html><body>no"])
def test_a_text_for_disk_must_be_well_nested(text: bytes):
    spool = Spool(bound=10)
    with pytest.raises(MalformedTextError):  # noqa: PT012 (some are known only when they end)
        spool.write(text)
        spool.finish()


def test_a_short_text_is_not_judged():
    spool = Spool()
    spool.write(b"]" * 1000)
    whole = spool.finish()
    assert whole == b"]" * 1000
    assert not isinstance(whole, CheckedText)


@pytest.mark.parametrize("size", [SLICE, SLICE + 1, BOUND])
def test_a_longer_text_in_memory_is_known_to_be_well_nested(size: int):
    text = b'{"a":"' + b"x" * (size - 8) + b'"}'
    spool = Spool()
    for piece in slices(text, 1000):
        spool.write(piece)
    whole = spool.finish()
    assert isinstance(whole, CheckedText)
    assert whole == text


@pytest.mark.parametrize("end", [b"", b"]", b"}}", b'}"'])
def test_a_longer_text_in_memory_that_cannot_be_json_is_told(end: bytes):
    spool = Spool()
    with pytest.raises(MalformedTextError):  # noqa: PT012 (some are known only when they end)
        for piece in slices(b'{"a":"' + b"x" * 2 * SLICE + b'"' + end, 1000):
            spool.write(piece)
        spool.finish()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path):
    """A file that may not grow is as good as a full disk; a process of its own, because limits stay."""
    program = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from toolyard.upstream.messages.spool import Spool, SpoolFullError\n"
        "spool = Spool(bound=10)\n"
        "try: spool.write(b'{\"a\":\"' + b'a' * 10000)\n"
        "except SpoolFullError as error: print(error)\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert f"could not be written to {tmp_path} ({os.strerror(errno.EFBIG)})" in shown.stdout
    assert "TMPDIR" in shown.stdout


def test_running_out_of_descriptors_is_an_error_of_ours():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spool = Spool(bound=10)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(SpoolFullError, match="Too many open files"):
            spool.write(BIG)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (2 * 2**30, "2 GiB"),
        (int(2.1 * 2**30), "2.1 GiB"),
    ],
)
def test_sizes_are_told_in_words(size: int, words: str):
    assert format_size(size) == words
