"""Messages of upstreams: the same from memory and from disk, and nothing that only looks like one."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.upstream.texts import cut, objects, styles, texts, tricky, values
from toolyard.upstream.errors import InvalidReplyError
from toolyard.upstream.messages.envelope import read_message, read_outcome
from toolyard.upstream.messages.spool import MalformedTextError, Spool, Spooled

ids = st.integers(-(2**63), 2**63 - 1) | tricky


def spool(pieces: list[bytes], bound: int = 0) -> bytes | Spooled:
    spool = Spool(bound)
    for piece in pieces:
        spool.write(piece)
    return spool.finish()


def plain(result: Any) -> bytes:
    return result.read(0, result.size) if isinstance(result, Spooled) else bytes(result)


def fault(body: bytes | Spooled) -> str:
    with pytest.raises(InvalidReplyError) as caught:
        read_message("up", body)
    return str(caught.value)


@st.composite
def results(draw: st.DrawFn) -> tuple[bytes, Any]:
    """A response in any order of members, with members that nobody asked for."""
    result = draw(objects)
    result["big"] = "b" * 5000  # the largest member must be the result
    strangers = draw(st.dictionaries(tricky, values, max_size=2))
    members = [*strangers.items(), ("jsonrpc", "2.0"), ("id", draw(ids)), ("result", result)]
    known = dict(draw(st.permutations(members)))
    return json.dumps(known, **draw(styles)).encode(), known


@given(case=results(), bound=st.sampled_from([0, 20, 100_000]), data=st.data())
def test_a_result_is_the_same_from_disk_and_however_it_came(case: Any, bound: int, data: st.DataObject):
    text, known = case
    message = read_message("up", spool(data.draw(cut(text)), bound))
    assert message.id == known["id"]
    assert msgspec.json.decode(plain(message.result)) == known["result"]
    assert isinstance(message.result, Spooled) == (len(text) > bound)


@given(text=texts())
def test_what_is_no_message_in_memory_is_none_on_disk(text: bytes):
    fault(text)
    fault(spool([text]))


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"result":%s}',
        b'{"id":1,"result":%s,"jsonrpc":"2.0"}',
        b'{"result":%s,"id":1,"jsonrpc":"2.0"}',
        b' { "result" : %s , "jsonrpc" : "2.0" , "id" : 1 } ',
        b'{"jsonrpc":"2.0","res\\u0075lt":%s,"id":1}',
        b'{"jsonrpc":"2.0","id":1,"_meta":{"result":{}},"result":%s,"list":[[]]}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":%s}',
    ],
)
def test_members_may_stand_in_any_order(text: bytes):
    result = b'{"content":[{"type":"text","text":"\\"}]{\\\\"}],"more":{"id":2,"result":{}}}'
    message = read_message("up", spool([text % result]))
    assert message.id == 1
    assert isinstance(message.result, Spooled)
    assert plain(message.result) == result
    # In memory msgspec decides; the two must agree.
    assert plain(read_message("up", text % result).result) == result


def test_the_file_belongs_to_the_result_alone():
    body = spool([b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'])
    assert isinstance(body, Spooled)
    message = read_message("up", body)
    with pytest.raises(ValueError, match="was closed"):
        _ = body.head
    assert plain(message.result) == b'{"a":1}'


# What is refused

BIG = b'{"big":"%s"}' % (b"b" * 300)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":%s}}', "not in its result"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":%s}', "not in its result"),
        (b'{"jsonrpc":"2.0","method":"m","params":%s}', "not in its result"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"other":%s}', "not in its result"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s,"result":{}}', "not in its result"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s,"result":1}', "not in its result"),
        (b'{"jsonrpc":"2.0","id":1,"result":[%s]}', "not an object"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s', "MalformedTextError"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s}}', "MalformedTextError"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s}{}', "Not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s}{"id":2}', "Not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s,}', "Not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"result":%s %s}', "Not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"result":1%s}', "Not JSON"),
        (b'[{"jsonrpc":"2.0","id":1,"result":%s}]', "Batches"),
        (b'{"jsonrpc":"2.0","result":%s}', "Neither a request"),
        (b'{"jsonrpc":"2.0","id":null,"result":%s}', "'id' must be"),
        (b'{"jsonrpc":"2.0","id":99999999999999999999,"result":%s}', "64 bits"),
        (b'{"jsonrpc":"1.0","id":1,"result":%s}', "Not a JSON-RPC 2.0 message"),
        (b'{"id":1,"result":%s}', "Not a JSON-RPC 2.0 message"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"result":%s}', "Neither a request"),
    ],
)
def test_a_long_text_that_is_no_result_is_refused(text: bytes, reason: str):
    try:
        body = spool([text.replace(b"%s", BIG)])
    except MalformedTextError:
        assert reason == "MalformedTextError"
    else:
        assert reason in fault(body)


def test_an_id_that_is_too_long_is_refused_on_disk_too():
    text = b'{"jsonrpc":"2.0","id":"%s","result":{"a":"%s"}}' % (b"i" * 300, b"b" * 1000)
    assert "longer than 256" in fault(text)
    assert "longer than 256" in fault(spool([text]))


def test_long_members_beside_a_result_are_refused():
    text = b'{"jsonrpc":"2.0","x":"%s","id":1,"result":{"a":"%s"}}' % (b"x" * 70_000, b"b" * 100_000)
    assert "not in its result" in fault(spool([text]))


@pytest.mark.parametrize("result", [b"1", b"null", b'"text"', b"[]", b"[{}]", b"true"])
def test_a_result_must_be_an_object(result: bytes):
    assert "its result is not an object" in fault(b'{"jsonrpc":"2.0","id":1,"result":%s}' % result)


def test_a_refusal_quotes_the_beginning():
    shown = fault(b"Listening on port 3000" + b"!" * 100)
    assert "Not JSON" in shown
    assert "it begins b'Listening on port 3000!!!!" in shown
    assert shown.endswith("…")


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":7,"result":[1]}',
        b'{"jsonrpc":"2.0","id":7,"error":"no"}',
        b'{"id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","data":{"big":"and more"}}}',
    ],
)
def test_a_refusal_tells_whose_answer_it_was(text: bytes):
    bodies = [spool([text])] if b"big" in text else [text, spool([text])]
    for body in bodies:
        with pytest.raises(InvalidReplyError) as caught:
            read_message("up", body)
        assert caught.value.id == 7


def test_deep_nesting_is_refused_in_memory_and_on_disk():
    text = b'{"jsonrpc":"2.0","id":1,"result":{"a":%s%s}}' % (b"[" * 200, b"]" * 200)
    assert "Nested deeper" in fault(text)
    with pytest.raises(MalformedTextError, match="nested deeper than 128 levels"):
        spool([text])


def test_requests_notifications_and_errors_are_read_as_everywhere():
    assert read_message("up", b'{"jsonrpc":"2.0","id":1,"method":"ping"}').is_request
    assert read_message(
        "up", b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
    ).is_notification
    error = read_message("up", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}').error
    assert error is not UNSET
    assert error.code == -32700


# The kind of a result


@given(result=objects, kind=st.none() | st.sampled_from(["complete", "input_required", "task"]), style=styles)
def test_the_kind_is_the_member_of_the_outermost_object(result: dict[str, Any], kind: str | None, style: Any):
    result = {"content": [{"resultType": "no"}], "text": '"resultType":"no"', **result}
    if kind is not None:
        result["resultType"] = kind
    text = json.dumps(result, **style).encode()
    assert read_outcome("up", Raw(text)).kind == (kind or "complete")
    body = spool([text])
    assert isinstance(body, Spooled)
    assert read_outcome("up", body).kind == (kind or "complete")


def test_a_kind_behind_the_head_is_not_looked_for():
    body = spool([b'{"a":"%s","resultType":"input_required"}' % (b"b" * 70_000)])
    assert isinstance(body, Spooled)
    assert read_outcome("up", body).kind == "complete"


def test_a_kind_that_is_no_string_is_refused():
    with pytest.raises(InvalidReplyError, match="is not valid"):
        read_outcome("up", Raw(b'{"resultType":5}'))


def test_a_hostile_head_is_looked_at_once():
    body = spool([b'{"a":[' + b'"resultType":"x",' * 4000 + b"1]}"])
    assert isinstance(body, Spooled)
    # A search that starts anew at each place takes seconds each time; all of them end the test's own limit.
    assert {read_outcome("up", body).kind for _ in range(200)} == {"complete"}
