"""The header codec, and the comparison of headers with the body."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.wire.errors import HeaderMismatch
from toolyard.wire.headers import (
    ParamHeader,
    RequestHeaders,
    check_params,
    decode_value,
    encode_value,
    param_headers,
)

# The table of the specification.
EXAMPLES = [
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
]


@pytest.mark.parametrize(("value", "encoded"), EXAMPLES)
def test_the_examples_of_the_specification_encode_and_decode(value: str, encoded: str):
    assert encode_value(value) == encoded
    assert decode_value(encoded) == value


@pytest.mark.parametrize(("value", "encoded"), [(True, "true"), (False, "false"), (42, "42"), (-7, "-7")])
def test_booleans_and_integers_are_written_as_json_writes_them(value: Any, encoded: str):
    assert encode_value(value) == encoded


@given(st.text())
def test_any_text_survives_the_round_trip(text: str):
    assert decode_value(encode_value(text)) == text


@given(st.text())
def test_what_is_encoded_is_safe_in_a_header(text: str):
    encoded = encode_value(text)
    assert encoded.isascii()
    assert all(" " <= character <= "~" or character == "\t" for character in encoded)
    assert encoded == encoded.strip()


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_plain_text_is_not_encoded_unless_it_looks_encoded(text: str):
    looks_encoded = text.startswith("=?base64?") and text.endswith("?=")
    assert (encode_value(text) == text) == (not looks_encoded)


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?!!!!?=",
        "=?base64?YQ?=",
        "=?base64?/w==?=",
        "=?base64?YQ==\n?=",
        "é",
        "a\x00b",
        "a\nb",
        "世界",
    ],
    ids=ascii,
)
def test_a_value_that_no_client_could_mean_is_refused(value: str):
    with pytest.raises(HeaderMismatch):
        decode_value(value)


@pytest.mark.parametrize("value", ["=?BASE64?YQ==?=", "=?base64?YQ==", "base64?YQ==?=", "=?utf-8?B?YQ==?="])
def test_only_the_exact_markers_mean_base64(value: str):
    assert decode_value(value) == value


@given(st.text(st.characters(max_codepoint=0xFF)))
def test_any_header_value_decodes_or_is_a_mismatch(value: str):
    with suppress(HeaderMismatch):
        assert isinstance(decode_value(value), str)


# Reading


def head(*pairs: tuple[str, str]) -> RequestHeaders:
    return RequestHeaders.of([(name.encode(), value.encode("latin-1")) for name, value in pairs])


def test_values_are_trimmed():
    assert head(("mcp-protocol-version", "  2026-07-28 \t")).version == "2026-07-28"


def test_an_absent_header_is_none():
    assert head().version is None
    assert head().get(b"mcp-session-id") is None
    assert head().params() == {}


def test_param_headers_are_collected_by_name():
    assert head(("mcp-param-a", " 1 "), ("mcp-name", "x"), ("mcp-param-b", "")).params() == {
        "mcp-param-a": "1",
        "mcp-param-b": "",
    }


@pytest.mark.parametrize(
    "name",
    [
        "host",
        "origin",
        "content-type",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
        "mcp-param-x",
        "last-event-id",
    ],
)
def test_a_header_that_came_twice_is_noticed_even_with_the_same_value(name: str):
    assert head((name, "a")).duplicate is None
    assert head((name, "a"), ("other", "b"), (name, "a")).duplicate == name


def test_headers_that_are_lists_may_come_twice():
    assert head(("accept", "a/b"), ("accept", "c/d"), ("cookie", "a=1"), ("cookie", "b=2")).duplicate is None


def test_two_lines_of_what_is_accepted_are_one_list():
    assert head(("accept", "a/b"), ("accept", "c/d")).get(b"accept") == "a/b,c/d"


# x-mcp-header


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def annotated(name: Any = "Region", type: Any = "string") -> dict[str, Any]:
    return {"type": type, "x-mcp-header": name}


def test_annotations_are_found_at_any_depth_of_properties():
    found = param_headers(
        schema(a=annotated("A"), b=schema(c=annotated("C", "integer")), d={"type": "string"})
    )
    assert found == [ParamHeader("mcp-param-a", ("a",)), ParamHeader("mcp-param-c", ("b", "c"))]


def test_a_schema_without_annotations_makes_no_headers():
    assert param_headers(schema(a={"type": "string"})) == []
    assert param_headers({"type": "object"}) == []


def test_a_property_may_be_called_like_the_annotation():
    assert param_headers(schema(**{"x-mcp-header": {"type": "string"}})) == []


@pytest.mark.parametrize(
    "bad",
    [
        schema(a=annotated("")),
        schema(a=annotated("two words")),
        schema(a=annotated("line\r\nbreak")),
        schema(a=annotated("colon:")),
        schema(a=annotated("ключ")),
        schema(a=annotated(5)),
        schema(a=annotated(None)),
        schema(a=annotated(["Region"])),
        schema(a=annotated(type="number")),
        schema(a=annotated(type="object")),
        schema(a=annotated(type="array")),
        schema(a=annotated(type=["string", "null"])),
        schema(a={"x-mcp-header": "Region"}),
        schema(a=annotated("Region"), b=annotated("Region")),
        schema(a=annotated("Region"), b=annotated("REGION")),
        schema(a={"type": "array", "items": annotated()}),
        schema(a={"anyOf": [annotated(), {"type": "null"}]}),
        {"type": "object", "allOf": [schema(a=annotated())]},
        {"type": "object", "if": schema(a=annotated()), "then": {}},
        {"type": "object", "$defs": {"x": annotated()}, "properties": {"a": {"$ref": "#/$defs/x"}}},
        {"type": "object", "additionalProperties": annotated()},
        {"type": "object", "not": schema(a=annotated())},
    ],
    ids=lambda bad: json.dumps(bad)[:60],
)
def test_an_annotation_that_breaks_a_rule_makes_the_schema_invalid(bad: Any):
    with pytest.raises(ValueError, match="x-mcp-header"):
        param_headers(bad)


WANTED = [ParamHeader("mcp-param-region", ("where", "region")), ParamHeader("mcp-param-n", ("n",))]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        ({"n": None, "where": {}}, {}),
        ({"n": 42}, {"mcp-param-n": "42"}),
        ({"n": 42}, {"mcp-param-n": "42.0"}),
        ({"n": 42.0}, {"mcp-param-n": "42"}),
        ({"n": -7}, {"mcp-param-n": "-7"}),
        ({"n": 2**53 - 1}, {"mcp-param-n": str(2**53 - 1)}),
        ({"n": True}, {"mcp-param-n": "true"}),
        ({"n": False}, {"mcp-param-n": "false"}),
        ({"where": {"region": "eu"}}, {"mcp-param-region": "eu"}),
        ({"where": {"region": ""}}, {"mcp-param-region": ""}),
        ({"where": {"region": "世界"}}, {"mcp-param-region": encode_value("世界")}),
        ({"where": {"region": "eu"}}, {"mcp-param-region": "=?base64?ZXU=?="}),
        ({"where": "not an object"}, {}),
        ({}, {"mcp-param-unknown": "é"}),
    ],
)
def test_headers_that_agree_with_the_arguments_pass(arguments: Any, sent: dict[str, str]):
    check_params(WANTED, arguments, sent)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"n": 42}, {}),
        ({"n": 42}, {"mcp-param-n": ""}),
        ({"n": 42}, {"mcp-param-n": "43"}),
        ({"n": 42}, {"mcp-param-n": "4_2"}),
        ({"n": 42}, {"mcp-param-n": "=?base64?IDQyIA==?="}),
        ({"n": 42}, {"mcp-param-n": "nan"}),
        ({"n": 42}, {"mcp-param-n": "forty-two"}),
        ({"n": 2**53 + 1}, {"mcp-param-n": str(2**53)}),
        ({"n": 10**400}, {"mcp-param-n": "inf"}),
        ({"n": True}, {"mcp-param-n": "True"}),
        ({"n": True}, {"mcp-param-n": "1"}),
        ({"n": 1}, {"mcp-param-n": "true"}),
        ({"n": [1]}, {"mcp-param-n": "[1]"}),
        ({"where": {"region": "eu"}}, {"mcp-param-region": "EU"}),
        ({"where": {"region": "eu"}}, {"mcp-param-region": "é"}),
        ({"where": {"region": "eu"}}, {}),
        ({}, {"mcp-param-region": "eu"}),
        ({"where": {"region": None}}, {"mcp-param-region": "null"}),
    ],
)
def test_headers_that_disagree_with_the_arguments_are_a_mismatch(arguments: Any, sent: dict[str, str]):
    with pytest.raises(HeaderMismatch) as caught:
        check_params(WANTED, arguments, sent)
    assert caught.value.code == -32020


@given(st.text() | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans())
def test_what_a_client_encodes_agrees_with_its_own_body(value: Any):
    check_params([ParamHeader("mcp-param-a", ("a",))], {"a": value}, {"mcp-param-a": encode_value(value)})
