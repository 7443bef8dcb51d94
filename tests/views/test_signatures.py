"""A tool as one line: what a person would write of its schema, whatever a server calls one."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.views.signatures import MAX_REQUIRED, access, described, purpose, signature

S = {"type": "string"}


def line(properties: dict[str, Any], *required: str, **more: Any) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return signature("t", schema).line


@pytest.mark.parametrize(
    ("properties", "required", "shown"),
    [
        ({}, (), "t()"),
        ({"b": S, "a": S}, ("a",), "t(a, b?)"),
        ({"n": {"type": "integer"}}, ("n",), "t(n: integer)"),
        ({"n": {"type": "integer", "default": 10}}, (), "t(n=10)"),
        ({"n": {"type": "string", "default": "10"}}, (), "t(n='10')"),
        ({"s": {"enum": ["open", "closed", None], "default": "open"}}, (), "t(s: open|closed=open)"),
        ({"s": {"enum": ["string", "two words"]}}, ("s",), "t(s: 'string'|'two words')"),
        ({"l": {"type": "array", "items": S}}, (), "t(l?: string[])"),
        ({"l": {"type": "array", "items": {"enum": ["a", "b"]}}}, (), "t(l?: (a|b)[])"),
        ({"u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, (), "t(u?: integer)"),
        ({"u": {"type": ["string", "null"], "default": None}}, (), "t(u?)"),
        ({"u": {"oneOf": [{"const": "a"}, {"const": 2}]}}, (), "t(u?: a|2)"),
        ({"w": {"type": "string", "format": "date-time"}}, ("w",), "t(w: date-time)"),
        ({"w": {"type": "string", "description": "When, as YYYY-MM-DD."}}, ("w",), "t(w (YYYY-MM-DD))"),
        ({"w": {"type": "number", "description": "Wait, in milliseconds"}}, (), "t(w?: number (ms))"),
        ({"w": {"type": "integer", "description": "Zero-based index"}}, ("w",), "t(w: integer (0-based))"),
        ({"k": {"type": "string", "description": "A key (e.g., 'PROJ-1')"}}, ("k",), "t(k ('PROJ-1'))"),
        ({"p": {"type": "integer", "minimum": 1, "maximum": 50}}, (), "t(p?: integer (1 to 50))"),
        (
            {"o": {"type": "object", "properties": {"x": S, "y": {"type": "number"}}, "required": ["x"]}},
            ("o",),
            "t(o: {x, y?: number})",
        ),
        ({"m": {"type": "object", "additionalProperties": {"type": "number"}}}, (), "t(m?: {…: number})"),
        ({"_fields": S, "a": S}, (), "t(a?)"),
    ],
)
def test_an_argument_is_written_as_a_person_would(properties: Any, required: tuple[str, ...], shown: str):
    assert line(properties, *required) == shown


def test_references_and_parts_of_a_schema_are_followed_and_a_circle_ends():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "name": S}}
    shown = line({"start": {"$ref": "#/$defs/node"}}, "start", **{"$defs": {"node": node}})
    assert shown.startswith("t(start: {next?: {next?: {")
    circle = {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert line({"x": {"$ref": "#/$defs/a"}}, "x", **circle) == "t(x)"
    both = {"allOf": [{"properties": {"a": S}, "required": ["a"]}, {"properties": {"b": S}}]}
    assert signature("t", both).line == "t(a, b?)"


def test_a_line_ends_among_the_optional_arguments_and_says_how_many_are_left():
    many = {f"argument_number_{at}": {"type": "integer"} for at in range(100)}
    shown = line(many)
    assert len(shown) < 460
    left = re.search(r"…(\d+) more\?\)$", shown)
    assert left is not None
    assert int(left[1]) + shown.count("argument_number_") == 100


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("This tool allows you to list issues. It is great.", "List issues"),
        ("Use this tool to send mail, e.g. to a customer.", "Send mail, e.g. to a customer"),
        ("\n  🎯 **Purpose:**\n\n  Lists all workflows.\n", "Lists all workflows"),
        ("## Overview\n\nReads a [file](https://example.org).", "Reads a file"),
        ("", ""),
        (None, ""),
        ("…!?", ""),
    ],
)
def test_the_first_sentence_that_says_something_is_told(description: Any, shown: str):
    assert purpose(description) == shown


def test_a_long_sentence_is_cut_at_a_word():
    cut = purpose("word " * 100)
    assert len(cut) <= 100
    assert cut.endswith("word…")


@pytest.mark.parametrize(
    ("hints", "word"),
    [
        ({"readOnlyHint": True, "destructiveHint": True}, "read"),
        ({"readOnlyHint": False, "destructiveHint": True}, "destructive"),
        ({"readOnlyHint": False}, "write"),
        ({"title": "Pay"}, ""),
        (None, ""),
        ("read", ""),
    ],
)
def test_one_word_says_what_a_tool_may_do_if_it_says_so(hints: Any, word: str):
    assert access(hints) == word


def test_descriptions_of_arguments_come_required_first_without_those_that_repeat_a_name():
    properties = {
        "a": {"type": "string", "description": "First letter. More of it."},
        "userId": {"type": "string", "description": "The user id"},
        "b": {"type": "string", "description": "Second"},
    }
    assert described({"properties": properties, "required": ["b"]}) == ["b: Second", "a: First letter"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "required", "enum", "anyOf", "allOf", "$ref", "default"]
            )
            | st.text(max_size=6),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(schema=values, description=values, hints=values)
def test_whatever_a_server_calls_a_schema_has_a_line(schema: Any, description: Any, hints: Any):
    shown = signature("t", schema, description, hints)
    assert shown == signature("t", schema, description, hints)
    assert shown.line.startswith("t(")
    assert "\n" not in shown.shown()
    assert all(isinstance(one, str) and "\n" not in one for one in described(schema))


names = st.from_regex(r"[a-z_]{1,30}", fullmatch=True)
kinds = st.sampled_from([S, {"type": "integer"}, {"type": "array", "items": S}, {}, {"enum": ["a", "b"]}])


@settings(max_examples=200, deadline=None)
@given(
    properties=st.dictionaries(names, kinds, max_size=60),
    data=st.data(),
)
def test_every_required_argument_is_in_the_line(properties: dict[str, Any], data: st.DataObject):
    required = data.draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    assert len(required) <= MAX_REQUIRED
    for brief in (False, True):
        shown = signature("t", {"properties": properties, "required": required}, brief=brief).line
        inside = shown.removeprefix("t(").removesuffix(")")
        assert {re.split(r"[:?= (]", one)[0] for one in _split(inside)} >= set(required)


def _split(inside: str) -> list[str]:
    return inside.split(", ")
