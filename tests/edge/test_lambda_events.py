"""Events as AWS sends them, and as anybody else might: what is read from them, and how they are answered."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.edge.aws.events import BadEventError, kind_of, read_event, to_reply

URL = {
    "version": "2.0",
    "rawPath": "/mcp",
    "rawQueryString": "a=1",
    "headers": {"content-type": "application/json", "x-forwarded-for": "1.2.3.4,5.6.7.8"},
    "requestContext": {"http": {"method": "post", "path": "/mcp"}, "stage": "$default"},
    "body": '{"é":1}',
    "isBase64Encoded": False,
}
BALANCER = {
    "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:…"}},
    "httpMethod": "POST",
    "path": "/mcp",
    "queryStringParameters": {},
    "headers": {"Content-Type": "application/json"},
    "body": "{}",
    "isBase64Encoded": False,
}
MANY = {name: value for name, value in BALANCER.items() if name != "headers"} | {
    "multiValueHeaders": {"accept": ["application/json", "text/event-stream"], "X-One": ["1"]}
}
REST = {"httpMethod": "GET", "path": "/health", "headers": None, "multiValueHeaders": None, "body": None}


def gateway(path: str, stage: str) -> dict[str, Any]:
    context = {"http": {"method": "POST", "path": path}, "stage": stage}
    return URL | {"rawPath": path, "requestContext": context}


def test_an_event_of_a_function_url_is_a_request():
    request = read_event(URL)
    assert (request.method, request.path, request.kind) == ("POST", "/mcp", "v2")
    assert request.body == '{"é":1}'.encode()
    assert (b"x-forwarded-for", b"1.2.3.4,5.6.7.8") in request.headers


def test_names_of_headers_are_lower_case_and_those_that_came_twice_stay_two():
    assert read_event(BALANCER).headers == [(b"content-type", b"application/json")]
    assert read_event(MANY).headers == [
        (b"accept", b"application/json"),
        (b"accept", b"text/event-stream"),
        (b"x-one", b"1"),
    ]
    assert read_event(URL | {"headers": {"X-Key": "a", "x-key": "b"}}).headers == [
        (b"x-key", b"a"),
        (b"x-key", b"b"),
    ]


def test_cookies_that_stand_beside_the_headers_are_one_header():
    assert read_event(URL | {"headers": {}, "cookies": ["a=1", "b=2"]}).headers == [(b"cookie", b"a=1; b=2")]
    assert read_event(URL | {"headers": {"cookie": "a=1"}, "cookies": ["a=1"]}).headers == [
        (b"cookie", b"a=1")
    ]
    with pytest.raises(BadEventError, match="cookie"):
        read_event(URL | {"cookies": [1]})


@pytest.mark.parametrize(
    ("path", "stage", "seen"),
    [
        ("/prod/mcp", "prod", "/mcp"),
        ("/prod", "prod", "/"),
        ("/production/mcp", "prod", "/production/mcp"),
        ("/mcp", "$default", "/mcp"),
        ("", "$default", "/"),
    ],
)
def test_the_stage_of_an_api_is_no_part_of_the_path(path: str, stage: str, seen: str):
    assert read_event(gateway(path, stage)).path == seen


def test_a_body_in_base64_is_decoded_and_a_missing_one_is_empty():
    encoded = base64.b64encode(b"\x89PNG\0").decode()
    assert read_event(URL | {"body": encoded, "isBase64Encoded": True}).body == b"\x89PNG\0"
    assert read_event(REST).body == b""


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (None, "object"),
        ([], "object"),
        ({}, "requestContext.http.method"),
        ({"requestContext": None, "headers": []}, "requestContext.http.method"),
        (URL | {"requestContext": {"http": {"method": 3}}}, "requestContext.http.method"),
        (URL | {"rawPath": None}, "rawPath"),
        (BALANCER | {"httpMethod": None}, "httpMethod"),
        (BALANCER | {"path": 7}, "path"),
        (URL | {"headers": {"accept": 1}}, "accept"),
        (URL | {"headers": {"x-☃": "1"}}, "x-"),
        (URL | {"headers": {"x": "\ud800"}}, "x"),
        (MANY | {"multiValueHeaders": {"accept": [None]}}, "accept"),
        (URL | {"body": {"jsonrpc": "2.0"}}, "body"),
        (URL | {"body": "\ud800"}, "body"),
        (URL | {"body": "e30", "isBase64Encoded": True}, "base64"),
        (URL | {"body": "{}", "isBase64Encoded": True}, "base64"),
        (URL | {"body": "é", "isBase64Encoded": True}, "body"),
    ],
)
def test_what_is_wrong_with_an_event_is_named(event: Any, named: str):
    with pytest.raises(BadEventError, match=named):
        read_event(event)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)


@given(st.sampled_from([URL, BALANCER, MANY, REST]), st.data())
def test_an_event_with_anything_anywhere_is_read_or_refused(event: dict[str, Any], data: st.DataObject):
    changed = dict(event)
    for name in data.draw(st.lists(st.sampled_from([*event, "requestContext", "httpMethod"]), max_size=3)):
        changed[name] = data.draw(JSON)
    try:
        assert read_event(changed).path
    except BadEventError as error:
        json.dumps(to_reply(400, [], str(error).encode("utf-8", "replace"), kind_of(changed)))


def test_each_sender_gets_its_own_form_of_reply():
    headers = [(b"content-type", b"application/json"), (b"vary", b"origin"), (b"vary", b"accept")]
    plain = {"statusCode": 401, "body": '{"é":1}', "isBase64Encoded": False}
    body = '{"é":1}'.encode()
    one_each = {"content-type": "application/json", "vary": "origin, accept"}
    assert to_reply(401, headers, body, "v2") == plain | {"headers": one_each}
    told = plain | {"statusDescription": "401 Unauthorized"}
    assert to_reply(401, headers, body, kind_of(BALANCER)) == told | {"headers": one_each}
    many = {"content-type": ["application/json"], "vary": ["origin", "accept"]}
    assert to_reply(401, headers, body, kind_of(MANY)) == told | {"multiValueHeaders": many}
