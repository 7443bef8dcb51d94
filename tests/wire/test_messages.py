"""The JSON-RPC envelope: what is a message, what is not, and why."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Struct

from toolyard.wire.errors import InvalidParams, InvalidRequest, McpError, ParseError
from toolyard.wire.messages import (
    MAX_NESTING,
    JsonRpcMessage,
    JsonRpcResponse,
    decode_params,
    encode,
    parse,
    recover_id,
)

ids = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.text(max_size=50))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def result_of(parsed: Any) -> bytes:
    return bytes(parsed.result)


def refusal(body: bytes) -> McpError:
    with pytest.raises(McpError) as caught:
        parse(body)
    return caught.value


# What is a message


@given(id=ids, method=st.text(), params=objects)
def test_a_request_keeps_its_id_and_method_and_its_params_raw(id: Any, method: str, params: Any):
    parsed = parse(message(id=id, method=method, params=params))
    assert parsed.is_request
    assert not parsed.is_notification
    assert (parsed.id, parsed.method) == (id, method)
    assert json.loads(bytes(parsed.params)) == params


def test_a_notification_is_a_method_without_an_id():
    parsed = parse(message(method="notifications/initialized"))
    assert parsed.is_notification
    assert not parsed.is_request


def test_params_that_are_left_out_are_an_empty_object():
    assert bytes(parse(message(id=1, method="ping")).params) == b"{}"


def test_a_response_is_neither_request_nor_notification():
    parsed = parse(message(id="ask-1", result={"roots": []}))
    assert not parsed.is_request
    assert not parsed.is_notification
    assert json.loads(result_of(parsed)) == {"roots": []}


def test_an_error_response_may_have_the_id_null():
    parsed = parse(message(id=None, error={"code": -32700, "message": "what?"}))
    assert parsed.error is not UNSET
    assert parsed.error.code == -32700


def test_members_nobody_knows_are_ignored():
    assert parse(message(id=1, method="ping", more=[1, 2])).method == "ping"


def test_space_around_a_message_does_not_matter():
    assert parse(b" \r\n\t" + message(id=1, method="ping") + b"\n ").id == 1


# What is not, and the code it gets

NOT_JSON = {
    "nothing": b"",
    "space only": b" \n",
    "half an object": b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    "an object and more": message(id=1, method="ping") + b"x",
    "two messages": message(id=1, method="ping") * 2,
    "a trailing comma": b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    "single quotes": b"{'jsonrpc':'2.0'}",
    "a comment": b'{"jsonrpc":"2.0"/* no */}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":NaN}}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":-Infinity}}',
    "a raw control character": b'{"jsonrpc":"2.0","id":1,"method":"a\x01"}',
    "half a surrogate pair": b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    "a byte order mark": b"\xef\xbb\xbf" + message(id=1, method="ping"),
    "UTF-16": '{"jsonrpc":"2.0"}'.encode("utf-16"),
    "invalid UTF-8 in a value": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":"\xff"}}',
    "invalid UTF-8 in the id": b'{"jsonrpc":"2.0","id":"\xff","method":"a"}',
    "UTF-8 cut short": b'{"jsonrpc":"2.0","id":1,"method":"\xe4\xb8"}',
    "overlong UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
}

NOT_A_MESSAGE = {
    "null": b"null",
    "a number": b"17",
    "a string": b'"ping"',
    "an empty object": b"{}",
    "no version": b'{"id":1,"method":"ping"}',
    "another version": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "a version that is a number": b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
    "id null": message(id=None, method="ping"),
    "id true": message(id=True, method="ping"),
    "id a fraction": message(id=1.5, method="ping"),
    "id an object": message(id={}, method="ping"),
    "id a list": message(id=[1], method="ping"),
    "id over 64 bits": message(id=2**64, method="ping"),
    "id of 5,000 digits": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    "id of 300 characters": message(id="x" * 300, method="ping"),
    "method a number": message(id=1, method=5),
    "method null": message(id=1, method=None),
    "params a list": message(id=1, method="ping", params=[1]),
    "params null": message(id=1, method="ping", params=None),
    "params a string": message(id=1, method="ping", params="{}"),
    "neither method nor result": message(id=1),
    "result and error": message(id=1, result={}, error={"code": 1, "message": ""}),
    "method and result": message(id=1, method="ping", result={}),
    "a result for nobody": message(result={}),
    "an error that is text": message(id=1, error="no"),
    "an error without a code": message(id=1, error={"message": "no"}),
    "an error code that is text": message(id=1, error={"code": "1", "message": "no"}),
}

BATCHES = {
    "an empty batch": b"[]",
    "a batch of one": b"[" + message(id=1, method="ping") + b"]",
    "a batch of two": b" [" + message(id=1, method="ping") + b"," + message(method="x") + b"]",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_not_json_is_a_parse_error(body: bytes):
    error = refusal(body)
    assert isinstance(error, ParseError)
    assert error.code == -32700


@pytest.mark.parametrize("body", NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE.keys())
def test_json_that_is_no_message_is_an_invalid_request(body: bytes):
    error = refusal(body)
    assert isinstance(error, InvalidRequest)
    assert error.code == -32600


@pytest.mark.parametrize("body", BATCHES.values(), ids=BATCHES.keys())
def test_a_batch_is_refused_by_name(body: bytes):
    error = refusal(body)
    assert error.code == -32600
    assert "atch" in error.message


@given(st.binary())
def test_any_bytes_are_a_message_or_one_of_the_two_errors(body: bytes):
    with suppress(ParseError, InvalidRequest):
        assert isinstance(parse(body), JsonRpcMessage)


@given(values)
def test_any_json_is_a_message_or_an_invalid_request(value: Any):
    with suppress(InvalidRequest):
        assert isinstance(parse(json.dumps(value).encode()), JsonRpcMessage)


# Limits


def nested(depth: int) -> bytes:
    """A message of exactly this depth: itself, its params, and lists inside."""
    return message(id=1, method="a", params={"a": 0}).replace(
        b"0}}", b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"
    )


def test_a_message_may_be_nested_up_to_the_limit():
    assert parse(nested(MAX_NESTING)).id == 1


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 1000, 100_000])
def test_a_message_nested_deeper_is_refused(depth: int):
    error = refusal(nested(depth))
    assert error.code == -32600
    assert str(MAX_NESTING) in error.message


def test_depth_that_never_closes_is_refused():
    assert refusal(b'{"a":' * 100_000).code in (-32600, -32700)


def test_brackets_inside_strings_are_not_depth():
    assert parse(message(id=1, method="a", params={"a": "[{" * 1000, 'b"': '\\"[' * 1000})).id == 1


def test_many_shallow_values_are_not_depth():
    assert parse(message(id=1, method="a", params={"a": [[] for _ in range(10_000)]})).id == 1


def test_an_unclosed_string_is_refused_in_linear_time():
    # A search that starts anew at each quote takes seconds for 40 kB, and hours for these 4 MB.
    refusal(b"[" * (MAX_NESTING + 1) + b'"' + b'\\"' * 2_000_000)


@pytest.mark.parametrize("id", [0, -1, 2**63 - 1, "", "x" * 256, "ключ", 2**53 + 1])
def test_ids_within_the_limits_are_kept_as_they_are(id: Any):
    assert parse(message(id=id, method="ping")).id == id


# The id of a message that did not parse


@pytest.mark.parametrize(
    ("body", "id"),
    [
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7),
        (b'{"id":"seven","method":5}', "seven"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', 7),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","method":"ping"}', None),
        (b"[]", None),
        (b"not json", None),
        (b'{"id":"\xff"}', None),
        (b'{"id":' + b"[" * 100_000, None),
    ],
)
def test_an_id_that_can_still_be_read_is_recovered(body: bytes, id: Any):
    assert recover_id(body) == id


@pytest.mark.parametrize("id", ["x" * 257, 2**64, -(2**64)])
def test_an_id_beyond_the_limits_is_not_sent_back(id: Any):
    assert recover_id(message(id=id, method="ping")) is None


@given(st.binary())
def test_looking_for_an_id_in_any_bytes_never_fails(body: bytes):
    assert isinstance(recover_id(body), int | str | None)


# Params


class _Params(Struct):
    name: str
    count: int = 0


def test_params_become_a_struct():
    parsed = parse(message(id=1, method="a", params={"name": "x", "count": 3}))
    assert decode_params(parsed.params, _Params) == _Params("x", 3)


@pytest.mark.parametrize(
    ("params", "field"),
    [({}, "name"), ({"name": 5}, "name"), ({"name": "x", "count": "3"}, "count"), ({"name": None}, "name")],
)
def test_wrong_params_are_refused_with_the_name_of_the_field(params: Any, field: str):
    parsed = parse(message(id=1, method="a", params=params))
    with pytest.raises(InvalidParams, match=field) as caught:
        decode_params(parsed.params, _Params)
    assert caught.value.code == -32602


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 5000])
def test_a_number_too_big_for_us_is_invalid_params_and_not_a_crash(number: str):
    parsed = parse(
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","count":%s}}' % number.encode()
    )
    with pytest.raises(InvalidParams):
        decode_params(parsed.params, _Params)
    with pytest.raises(InvalidParams):
        decode_params(parsed.params, dict[str, Any])


@given(id=ids, result=objects)
def test_a_reply_can_be_parsed_as_a_response(id: Any, result: Any):
    parsed = parse(encode(JsonRpcResponse(id, result)))
    assert parsed.id == id
    assert json.loads(result_of(parsed)) == result


@pytest.mark.parametrize(
    "inside",
    [b"[1]," * 900_000 + b"[1]", b'{"a":"["},' * 400_000 + b"1", b"[" * 1_900_000 + b"]" * 1_900_000],
    ids=["many lists", "many strings", "one deep list"],
)
def test_a_big_body_is_measured_without_holding_up_the_loop(inside: bytes):
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + inside + b"]}}"
    # One pass for each level, or for each bracket, takes hours for so many.
    with suppress(InvalidRequest):
        parse(body)
