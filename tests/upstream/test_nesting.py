"""The nesting check of long texts: brackets match, depth is limited, invalid characters are refused."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.texts import cut, each_byte, objects, texts
from toolyard.upstream.messages.slices import MAX_VALUES, NestingCheck, NestingError
from toolyard.wire.messages import MAX_NESTING

noise = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b"\\\\", b'\\"', b"a", b",", b"1", b"\xff"])
)


def weigh(pieces: list[bytes], limit: int = MAX_NESTING) -> NestingCheck:
    balance = NestingCheck(limit)
    for piece in pieces:
        balance.feed(piece)
    balance.finish()
    return balance


def fault(pieces: list[bytes], limit: int = MAX_NESTING) -> str:
    with pytest.raises(NestingError) as caught:
        weigh(pieces, limit)
    return str(caught.value)


def verdict(pieces: list[bytes]) -> Any:
    try:
        return weigh(pieces).values
    except NestingError as error:
        return str(error)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(text=texts(), data=st.data())
def test_json_is_in_balance_however_it_is_cut(text: bytes, data: st.DataObject):
    assert weigh(data.draw(cut(text))).values == weigh([text]).values == weigh(each_byte(text)).values


@given(text=texts(objects))
def test_the_values_of_the_outermost_object_are_found_where_they_are(text: bytes):
    found = [msgspec.json.decode(text[start:end]) for start, end in weigh([text]).values]
    assert found == [value for value in msgspec.json.decode(text).values() if isinstance(value, dict | list)]


@given(text=texts())
def test_the_limit_on_depth_is_exact(text: bytes):
    deep = depth_of(msgspec.json.decode(text))
    assert weigh(each_byte(text), limit=deep)
    if deep:
        assert "nested deeper" in fault([text], limit=deep - 1)
        assert "nested deeper" in fault(each_byte(text), limit=deep - 1)


@given(pieces=noise)
def test_noise_gets_the_same_verdict_however_it_is_cut(pieces: list[bytes]):
    text = b"".join(pieces)
    whole, bytewise = verdict([text]), verdict(each_byte(text))
    # Two faults in one text are met in another order when it comes in other pieces.
    assert whole == bytewise or (isinstance(whole, str) and isinstance(bytewise, str))


@given(pieces=noise)
def test_what_is_let_through_would_be_json_were_its_tokens_in_order(pieces: list[bytes]):
    """Nothing gets through that closes what it did not open, by the word of a slow and simple reader."""
    text = b"".join(pieces)
    if isinstance(verdict([text]), list):
        stack = list[int]()
        at = 0
        while at < len(text):
            if text[at] == ord('"'):
                at += 1
                while text[at] != ord('"'):
                    at += 2 if text[at] == ord("\\") else 1
            elif text[at] in b"{[":
                stack.append(text[at])
            elif text[at] in b"}]":
                assert stack.pop() == text[at] - 2
            else:
                assert text[at] in b"a,1"
            at += 1
        assert not stack


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a":1}}', "do not match"),
        (b'{"a":[1}]', "do not match"),
        (b"]", "do not match"),
        (b'{"a":1', "ends in the middle"),
        (b'{"a":"', "ends in the middle"),
        (b'{"a":"}', "ends in the middle"),
        (b'{"a":"\\"}', "ends in the middle"),
        (b'{"a":\\"b"}', "characters outside strings"),
        (b'{"a":NaN}', "characters outside strings"),
        (b'{"a":<b>}', "characters outside strings"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":"\xc3', "ends in the middle"),
        (b'{"a":' + b'{"b":1},"c":' * (MAX_VALUES + 1) + b"1}", "members"),
        (b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1), "nested deeper"),
    ],
)
def test_what_is_out_of_balance_is_told(text: bytes, reason: str):
    assert reason in fault([text])
    assert reason in fault(each_byte(text))


@pytest.mark.parametrize(
    "unit",
    [
        b"[" * 100 + b"]" * 100,
        b"[{" * 60 + b"}]" * 60,
        b"[]{}" * 50,
        b'"a",' * 50,
        b'"\\\\\\"",' * 50,
        b'"' + b"\\u0041" * 50 + b'",',
    ],
    ids=["deep", "mixed", "flat", "strings", "escapes", "one-string"],
)
def test_hostile_texts_cost_time_in_proportion(unit: bytes):
    # What costs more than that takes hours for so much text, and ends the test's own limit.
    text = b'{"a":[' + unit * (2**24 // len(unit)) + b"]}"
    weigh([text[at : at + 65536] for at in range(0, len(text), 65536)])
