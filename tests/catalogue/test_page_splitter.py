"""Long pages in pieces of whole items: the same items, however the page is written and cut."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.texts import cut, each_byte, objects, styles, tricky, values
from toolyard.catalogue.lists import LONGEST_ITEM, MAX_AROUND_ITEMS, PageSplitError, PageSplitter


def items_and_rest(pieces: list[bytes]) -> tuple[list[Any], Any]:
    cutter = PageSplitter("tools")
    items: list[Any] = []
    for piece in pieces:
        items += msgspec.json.decode(b"[%s]" % cutter.feed(piece))
    return items, msgspec.json.decode(cutter.finish())


lists = st.lists(objects | st.lists(values, max_size=3), max_size=6)
others = st.dictionaries(tricky.filter(lambda name: name != "tools"), values, max_size=3)


@given(before=others, tools=lists, after=others, style=styles, data=st.data())
def test_the_items_and_the_rest_are_those_of_the_page(
    before: Any, tools: Any, after: Any, style: Any, data: st.DataObject
):
    page = {**before, "tools": tools, **{name: value for name, value in after.items() if name not in before}}
    text = json.dumps(page, **style).encode()
    for pieces in (data.draw(cut(text)), each_byte(text)):
        assert items_and_rest(pieces) == (tools, {**page, "tools": []})


def test_scalars_among_the_items_are_kept_together_with_their_neighbours():
    text = b'{"tools": [1, "a,]b", null, {"a": 1}, true , 12345, [2]], "x": 1}'
    assert items_and_rest(each_byte(text)) == (
        [1, "a,]b", None, {"a": 1}, True, 12345, [2]],
        {"tools": [], "x": 1},
    )


def test_a_member_deeper_down_or_a_text_of_that_name_is_not_the_list():
    text = b'{"_meta": {"tools": [1]}, "note": "tools", "tools": [{"tools": [2]}]}'
    items, _ = items_and_rest(each_byte(text))
    assert items == [{"tools": [2]}]


def test_a_page_without_the_list_has_no_items():
    assert items_and_rest([b'{"other": ', b"[1]}"]) == ([], {"other": [1]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"x": "%s", "tools": []}' % (b"x" * 2 * MAX_AROUND_ITEMS), "do not begin"),
        (b'{"tools": [], "x": "%s"}' % (b"x" * MAX_AROUND_ITEMS), "after its items"),
        (b'{"tools": ["%s"]}' % (b"x" * 2 * LONGEST_ITEM), "an item is over"),
        (b'{"tools": [{}', "no end"),
        (b'{"tools": [{]}', "brackets"),
    ],
)
def test_what_is_no_page_is_told(text: bytes, reason: str):
    cutter = PageSplitter("tools")
    with pytest.raises(PageSplitError, match=reason):  # noqa: PT012 (some are known only when they end)
        for start in range(0, len(text), 10_000):
            cutter.feed(text[start : start + 10_000])
        cutter.finish()
