"""Whatever comes in: what goes out is within the limits and valid and never costs a model more, and what was
stored is all of it."""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema.validators import validator_for
from referencing import Registry

from tests.results.shelf import Fitted, Shelf, seen, shelf_in, structured, text, tokens
from toolyard.results.formats.truncation import excerpt
from toolyard.results.limits import Limits
from toolyard.results.measure import estimate_tokens, find_oversized
from toolyard.results.payload import parse_payload
from toolyard.results.preview import either_schema
from toolyard.results.shaper import surely_fits
from toolyard.wire.text import SUSPECT_CLOSE as CLOSE
from toolyard.wire.text import SUSPECT_OPEN as OPEN

texts = st.text(st.characters(codec="utf-8"), max_size=60)
names = st.one_of(
    texts, st.just("key" * 900), st.sampled_from(["id", "items", "data", "result", "…", "$ref"])
)
numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([10**40, -(10**300), 1e308]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, st.just("long " * 900))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(names, inner, max_size=6)),
    max_leaves=12,
)
containers = st.one_of(
    st.lists(values, min_size=1, max_size=8), st.dictionaries(names, values, min_size=1, max_size=8)
)


@st.composite
def many(draw: st.DrawFn) -> Any:
    """A list or object, often a long one, sometimes in an envelope."""
    value: Any = draw(containers)
    times = draw(st.sampled_from([1, 5, 25]))
    if isinstance(value, list):
        value = value * times
    elif times > 1:
        value = {f"{name}{at}": item for at in range(times) for name, item in value.items()}
    return {"data": {"items": value, "total": 3}} if draw(st.booleans()) else value


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def holds(found: Fitted, limits: Limits) -> None:
    written = json.dumps(found.answer, ensure_ascii=False, separators=(",", ":"))
    assert len(written.encode()) <= max(limits.max_bytes, 1500)
    assert len(json.dumps(found.summary, ensure_ascii=False, separators=(",", ":")).encode()) <= 2000
    assert found.summary["approx_size_bytes"] > 0
    for validator in LISTED:
        assert next(validator.iter_errors(found.answer), None) is None


def made(schema: dict[str, Any]) -> Any:
    """What the `mcp` client holds a result against."""
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, registry=Registry())


def valid(schema: dict[str, Any], value: Any) -> bool:
    return next(made(schema).iter_errors(value), None) is None


def runs(folder_of: Any) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with shelf_in(Path(folder)) as shelf:
                await folder_of(shelf)

    asyncio.run(run())


CHEAP = 2 * 2_000
"""Tokens, estimated. What takes the place of a result is 4,000 bytes at most and costs half of it at most."""


def small(value: Any) -> bool:
    few = not isinstance(value, list | dict) or len(value) <= 20
    return (len(dumped(value).encode()) <= 4000 and few) or estimate_tokens(dumped(value)) <= CHEAP


@given(many(), st.sampled_from(["text", "structured", "both", "wrapped"]), st.sampled_from([100, 4000]))
def test_json_goes_out_within_the_limits_and_is_stored_value_for_value(value: Any, form: str, size: int):
    result = {
        "text": text(dumped(value)),
        "structured": structured(value),
        "both": structured(value, json.dumps(value, indent=2)),
        "wrapped": structured({"result": value}, dumped(value)),
    }[form]
    limits = Limits(max_bytes=size)

    async def check(shelf: Shelf) -> None:
        found = await shelf.fit(result, limits)
        if found.passed:
            assert small(value)
        else:
            holds(found, limits)
            assert json.loads(await found.whole()) == value

    runs(check)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=200), max_size=40), st.sampled_from([1, 30]))
def test_text_goes_out_within_the_limits_and_is_stored_byte_for_byte(lines: list[str], times: int):
    words = "\n".join(lines * times)

    async def check(shelf: Shelf) -> None:
        found = await shelf.fit(text(words), Limits())
        if found.passed:
            assert estimate_tokens(words) <= CHEAP
        else:
            holds(found, Limits())
            assert json.loads(found.text) == found.answer
            assert await found.whole() == words.encode()

    runs(check)


@given(many(), st.text(st.characters(codec="utf-8"), min_size=1, max_size=3000), st.integers(1, 3))
def test_texts_and_other_structured_content_beside_them_are_each_stored_or_stay_as_they_are(
    value: Any, words: str, count: int
):
    words += "!"  # no JSON, and so no twin
    said = words if count == 1 else [words] * count

    async def check(shelf: Shelf) -> None:
        came = structured(value, *[words] * count)
        found = await shelf.fit(came, Limits())
        if found.passed:
            assert small(value)
            assert estimate_tokens(words) <= CHEAP
            return
        holds(found, Limits())
        if found.result["structuredContent"] != value:
            assert json.loads(await found.whole()) == value
        if found.result["content"] != came["content"]:
            found.answer = json.loads(found.text)
            whole = await found.whole()
            assert (whole.decode() if count == 1 else json.loads(whole)) == said

    runs(check)


@settings(max_examples=80)
@given(st.binary(max_size=3000), st.integers(1, 5))
def test_bytes_that_are_no_result_never_raise(rubbish: bytes, times: int):
    async def check(shelf: Shelf) -> None:
        found = await shelf.fit(b'{"content":' + rubbish * times, Limits())
        if not found.passed:
            holds(found, Limits())
            assert rubbish * times in await found.whole()

    runs(check)


def spelt(value: Any) -> bytes:
    """As JSON of which commas and line breaks inside of strings are written by their numbers."""
    return re.sub(
        rb'"(?:[^"\\\\]|\\\\.)*"',
        lambda found: found[0].replace(b",", b"\\u002c").replace(b"\\n", b"\\u000a"),
        dumped(value).encode(),
    )


@st.composite
def results(draw: st.DrawFn) -> bytes:
    """Small ones, in all the ways that they are sent in."""
    value: Any = draw(many())
    indent = draw(st.sampled_from([None, 1]))
    said = [draw(texts), dumped(value), " " + json.dumps(value, indent=indent), "\n".join(map(dumped, value))]
    blocks = draw(st.lists(st.sampled_from(said), max_size=3))
    body: dict[str, Any] = {"content": [{"type": "text", "text": words} for words in blocks]}
    inner = draw(st.sampled_from([value, *said]))
    body |= draw(
        st.sampled_from(
            [
                {},
                {"structuredContent": value},
                {"structuredContent": {"result": inner}},
                {"structuredContent": {"a": 1, "b": {"c": inner}}},
                {"structuredContent": None},
                {"isError": True},
                {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": said[1]}}]},
                {"content": [{"type": "resource_link", "uri": "a:b", "name": "b"}] * len(value)},
            ]
        )
    )
    return spelt(body) if draw(st.booleans()) else json.dumps(body, ensure_ascii=draw(st.booleans())).encode()


@settings(max_examples=120)
@given(results(), st.builds(Limits, st.just(4000), st.sampled_from([3, 20]), st.sampled_from([3, 20])))
def test_what_a_glance_lets_pass_would_have_passed_when_measured(body: bytes, limits: Limits):
    if surely_fits(body, limits):
        payload = parse_payload(body)
        assert find_oversized(payload, limits.by_bytes_alone() if payload.is_error else limits) == ()


WORDS = st.text(st.sampled_from('ab =-\n\t.éж中😀0\x00"\\{}[],:'), max_size=40)


@st.composite
def long_results(draw: st.DrawFn) -> bytes:
    """Of all sizes around what is shaped and what is not, the texts and the data alike or not."""
    times = draw(st.sampled_from([1, 7, 30, 200, 900]))
    value: Any = draw(many())
    if isinstance(value, list) and len(dumped(value)) * times < 50_000:
        value = value * times
    said = [
        dumped(value),
        json.dumps(value, indent=draw(st.sampled_from([None, 2, 8]))),
        draw(st.one_of(texts, WORDS)) * times,
        "\n".join(draw(st.lists(texts, max_size=2)) * times),
    ]
    blocks = draw(st.lists(st.sampled_from(said), min_size=1, max_size=2))
    body: dict[str, Any] = {"content": [{"type": "text", "text": words} for words in blocks]}
    body |= draw(
        st.sampled_from(
            [
                {},
                {"structuredContent": value},
                {"structuredContent": {"result": blocks[0]}},
                {"isError": True},
                {"content": [{"type": "resource_link", "uri": "a:b", "name": "b"}] * min(times, 60)},
            ]
        )
    )
    return json.dumps(body, ensure_ascii=draw(st.booleans())).encode()


pieces = st.one_of(
    texts,
    st.sampled_from(
        ["<page-1a2b3c4d> x\n", "\n</page-1a2b3c4d>\n", "<page-ffffffff>\n", f"{OPEN}so", CLOSE, "w " * 400]
    ),
)


@given(st.lists(pieces, max_size=30), st.integers(50, 3_000))
def test_an_excerpt_fits_and_closes_the_marks_that_it_opens(parts: list[str], room: int):
    whole = "".join(parts)
    shown = excerpt(whole, 1_200, room)
    assert len(json.dumps(shown, ensure_ascii=False).encode()) <= max(room, 120)
    if shown != whole:
        assert shown.rfind(CLOSE) >= shown.rfind(OPEN)
        for mark in ("page-1a2b3c4d", "page-ffffffff"):
            if re.search(f"^<{mark}>", shown, re.MULTILINE):
                assert f"</{mark}>" in shown


@settings(max_examples=60)
@given(long_results(), st.sampled_from([100, 4000, 20_000]), st.sampled_from(["off", "auto"]))
def test_no_result_costs_a_model_more_than_it_did_whichever_form_it_reads(
    body: bytes, size: int, compact: str
):
    came = json.loads(body)

    async def check(shelf: Shelf) -> None:
        found = await shelf.fit(body, Limits(max_bytes=size, compact=compact))
        if not found.passed:
            for form in ("text", "structured"):
                assert tokens(seen(found.result, form)) <= 1.03 * tokens(seen(came, form)), form
            if not found.answer["truncated"] and isinstance(found.preview, list | dict):
                assert found.preview == json.loads(await found.whole())

    runs(check)


TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
REQUIRED = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
SCHEMAS: list[dict[str, Any]] = [
    {**REQUIRED, "additionalProperties": False},
    {**TREE, "required": ["children"]},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "$defs": {"A": REQUIRED},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "required": ["a"],
        "definitions": {"A": REQUIRED},
    },
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/thing",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "thing#/$defs/A"}},
        "required": ["a"],
        "$defs": {"A": REQUIRED},
    },
    {
        "type": "object",
        "properties": {"a": {"$ref": "#named"}, "default": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "$defs": {"A": {"$anchor": "named", **REQUIRED}},
    },
    {"type": "object", "properties": {"a": {"const": {"$ref": "#/x"}}}, "required": ["a"]},
    {"oneOf": [REQUIRED, {"type": "array"}]},
    {"$ref": "#/$defs/A", "$defs": {"A": REQUIRED}},
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
        "required": ["children"],
    },
    {
        "type": "object",
        "properties": {"a": {"$id": "https://example.com/a", "$ref": "#/$defs/B", "$defs": {"B": REQUIRED}}},
        "required": ["a"],
    },
]
"""Each refuses the shaped form by itself."""
LISTED = [made(either_schema(schema)) for schema in SCHEMAS]
GOOD: list[Any] = [
    {"id": 1},
    {"children": [{"children": []}]},
    {"a": {"id": 1}},
    {"a": {"id": 1}},
    {"a": {"id": 1}, "b": {"id": 2}},
    {"a": {"id": 1}, "default": {"id": 2}},
    {"a": {"$ref": "#/x"}},
    [1],
    {"id": 1},
    {"children": [{"children": []}]},
    {"a": {"id": 1}},
]
BAD: list[Any] = [
    {"id": "1"},
    {"children": [{"children": 1}]},
    {"a": {"id": "1"}},
    {"a": {"id": "1"}},
    {"a": {"id": 1}, "b": {"id": "2"}},
    {"a": {"id": 1}, "default": {"id": "2"}},
    {"a": {"$ref": "#/anyOf/0/x"}},
    1,
    {"id": "1"},
    None,
    {"a": {"id": "1"}},
]


def test_a_listed_schema_admits_what_its_own_admits_and_refuses_what_it_refuses():
    for schema, good, bad in zip(SCHEMAS, GOOD, BAD, strict=True):
        listed = either_schema(schema)
        assert valid(schema, good), schema
        assert valid(listed, good), schema
        if bad is not None:
            assert not valid(schema, bad), schema
            assert not valid(listed, bad), schema
        assert not valid(schema, {"tool_name": "a", "truncated": True}), schema
        assert valid(listed, {"tool_name": "a", "truncated": True}), schema
        assert listed.get("type") == schema.get("type"), "legacy clients want it at the top"
