"""`_fields` and `_max_bytes`: what is asked of a result."""

import json
from typing import Any

import pytest
from msgspec import Raw

from tests.results.shelf import NAME, Shelf, records, structured, text
from toolyard.results.limits import NO_OPTIONS, Limits, ResultOptions, take_options
from toolyard.wire.errors import InvalidParams

USERS = [{"id": at, "user": {"login": f"u{at}", "name": "x" * 300}, "body": "y" * 300} for at in range(30)]


async def test_only_the_fields_that_are_asked_for_are_sent(shelf: Shelf):
    found = await shelf.fit(structured(USERS[:15]), fields=("id", "user.login"))
    assert found.answer == {
        "tool_name": NAME,
        "truncated": False,
        "fields": ["id", "user.login"],
        "result": [{"id": at, "user": {"login": f"u{at}"}} for at in range(15)],
    }
    assert shelf.files == []


@pytest.mark.parametrize(
    ("value", "fields", "expected"),
    [
        ({"data": {"items": [{"id": 1, "x": 2}], "total": 3}}, ("id",), {"data": {"items": [{"id": 1}]}}),
        ({"a": {"b": {"c": 1, "d": 2}}}, ("a.b.c", "a.b.d"), {"a": {"b": {"c": 1, "d": 2}}}),
        ({"a": [{"b": 1, "c": 2}, {"b": 3}]}, ("a.b", "a.c"), {"a": [{"b": 1, "c": 2}, {"b": 3}]}),
        ({"a": {"b": 1, "c": 2}}, ("a", "a.b"), {"a": {"b": 1, "c": 2}}),
        ({"a.b": 1, "a": {"b": 2}}, ("a.b",), {"a.b": 1}),
        ([{"id": 1}, {"x": 1}], ("id",), [{"id": 1}, None]),
        ({"id": None, "x": 1}, ("id",), {"id": None}),
    ],
)
async def test_fields_are_found_where_they_are(
    value: Any, fields: tuple[str, ...], expected: Any, shelf: Shelf
):
    for form in (structured(value), text(json.dumps(value)), structured({"result": value})):
        assert (await shelf.fit(form, fields=fields)).answer["result"] == expected


async def test_fields_that_are_still_too_much_are_shaped(shelf: Shelf):
    found = await shelf.fit(structured(USERS), fields=("id", "body"))
    assert found.answer["truncated"] is True
    assert json.loads(await found.whole()) == [{"id": item["id"], "body": item["body"]} for item in USERS]


async def test_where_there_are_no_such_fields_the_result_is_as_without_them(shelf: Shelf):
    assert (await shelf.fit(structured({"a": 1}), fields=("nope",))).passed
    assert (await shelf.fit(text("just words"), fields=("nope",))).passed
    assert (await shelf.fit(structured(USERS), fields=("nope",))).summary["item_count"] == 30
    assert (await shelf.fit(text("it failed", isError=True), fields=("id",))).passed


async def test_fields_are_heeded_where_results_pass_as_they_are(shelf: Shelf):
    found = await shelf.fit(structured(USERS), None, fields=("id",))
    assert found.answer["result"] == [{"id": at} for at in range(30)]
    assert (await shelf.fit(structured(USERS), None)).passed


async def test_as_many_bytes_are_sent_as_are_asked_for(shelf: Shelf):
    size = len(json.dumps(records(100), ensure_ascii=False))
    assert (await shelf.fit(structured(records(100)), max_bytes=size)).passed
    found = await shelf.fit(structured(records(100)), max_bytes=size - 1)
    assert len(found.text) <= size - 1
    assert not (await shelf.fit(text("some word " * 300), None, max_bytes=2000)).passed
    assert (await shelf.fit(text("x" * 3000), None, max_bytes=2000)).passed, "it costs less than a summary"
    assert (await shelf.fit(text("x\n" * 900), Limits(), max_bytes=2000)).passed


def params(**arguments: Any) -> Raw:
    return Raw(json.dumps({"name": "t", "arguments": arguments, "_meta": {"a": 1}}).encode())


def test_they_are_taken_out_of_the_arguments():
    left, options = take_options(params(x=1, _fields="id, user.login", _max_bytes=9000))
    assert json.loads(bytes(left)) == {"name": "t", "arguments": {"x": 1}, "_meta": {"a": 1}}
    assert options == ResultOptions(("id", "user.login"), 9000)
    assert take_options(params(_fields=["a"]))[1] == ResultOptions(("a",))


def test_null_asks_for_nothing_and_is_taken_out_too():
    left, options = take_options(params(x=1, _fields=None, _max_bytes=None))
    assert json.loads(bytes(left))["arguments"] == {"x": 1}
    assert options == NO_OPTIONS


def test_what_a_tool_calls_so_itself_is_left_to_it():
    given = params(_fields="mine", _max_bytes=5)
    left, options = take_options(given, ["_fields"])
    assert json.loads(bytes(left))["arguments"] == {"_fields": "mine"}
    assert options == ResultOptions(max_bytes=5)
    assert take_options(given, ["_fields", "_max_bytes"]) == (given, NO_OPTIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"_fields": []},
        {"_fields": [1]},
        {"_fields": ""},
        {"_fields": {"a": 1}},
        {"_fields": ["a"] * 51},
        {"_max_bytes": 0},
        {"_max_bytes": "9"},
        {"_max_bytes": True},
        {"_max_bytes": 2**30},
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(wrong: dict[str, Any]):
    with pytest.raises(InvalidParams, match=next(iter(wrong))):
        take_options(params(**wrong))


def test_elsewhere_in_the_arguments_they_are_the_tools_own():
    given = params(inner={"_fields": ["a"]})
    assert take_options(given) == (given, NO_OPTIONS)
