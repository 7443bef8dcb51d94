"""Results made to cost time: reading them takes work in proportion to their size, and has a limit."""

import asyncio
import importlib
import json
import pkgutil
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolyard.results
from tests.results.library import TEXT, Library, refused, workers
from tests.results.shelf import Shelf, records, shelf_in, text
from tests.results.test_streaming import Cut
from tests.thirdparty.mounting import all_gone
from toolyard.results.formats.json_parts import items_of, object_of
from toolyard.results.formats.tables import distinct
from toolyard.results.formats.truncation import select_fields
from toolyard.results.limits import Limits
from toolyard.results.measure import find_oversized
from toolyard.results.payload import PayloadPart, parse_payload
from toolyard.results.query.content import index_file
from toolyard.results.summary import summarize

SIZE = 400_000


def calls(work: Callable[[], object]) -> int:
    """How many functions were called, Python's own too: work that no clock has to be asked for."""
    count = 0

    def noted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(noted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def repeated(start: str, what: str, end: str = "") -> Callable[[int], bytes]:
    return lambda size: (start + what * (size // len(what)) + end).encode()


LISTS: dict[str, Callable[[int], bytes]] = {
    "what looks like the list before it": lambda size: (
        b'{"a":"%s","items":[%s]}'
        % (
            (b"[[" + b"0," * 511) * (size // 2100),
            b",".join([b"[" + b"0," * 3000 + b"0]"] * (size // 6000 + 1)),
        )
    ),
    "spaces": repeated("[1,", " ", "2]"),
    "line breaks": repeated('{"items": [1,', "\n", "2]}"),
    "escapes": repeated('["', '\\"', '"]'),
    "brackets in a string": repeated('["', "[", '"]'),
    "a string without an end": repeated('["', '\\"'),
    "names again and again": lambda size: (
        b'{"columns":[%s],"rows":[%s]}'
        % (b",".join([b'"a"'] * (size // 16)), b",".join([b'["%s"]' % (b"x" * 200)] * (size // 200)))
    ),
}
TEXTS: dict[str, Callable[[int], bytes]] = {
    "empty lines": repeated("", "\n"),
    "short lines": repeated("", "a\n"),
    "lines just short enough": repeated("", "a" * 1000 + "\n"),
    "one line": repeated("", "a"),
    "no letters": lambda size: b"\x80" * size,
    "nothing but spaces": repeated("", " "),
}


@pytest.mark.parametrize("form", [*LISTS, *TEXTS])
def test_the_places_of_a_page_are_found_with_few_calls_whatever_the_bytes_are(form: str, tmp_path: Path):
    """Seen: 35 s for a list of 32 MiB, for which a copy of it was made at each thing that looked like it."""
    made = {**LISTS, **TEXTS}[form]
    counted: list[int] = []
    for size in (SIZE, SIZE * 4):
        path = tmp_path / str(size)
        path.write_bytes(made(size))
        index_file(path, form in LISTS)  # what is compiled and imported is so from here on
        counted.append(calls(lambda path=path: index_file(path, form in LISTS)))
    assert counted[0] < SIZE / 5
    assert counted[1] <= counted[0] * 4.5


@pytest.mark.parametrize("form", LISTS)
def test_a_summary_is_made_with_few_calls_whatever_the_bytes_are(form: str):
    body = LISTS[form](SIZE)
    summarize(PayloadPart(body, True))
    assert calls(lambda: summarize(PayloadPart(body, True))) < SIZE / 5


def test_a_name_that_comes_again_gets_the_next_number():
    assert distinct(["a", "b", "a", "a_2", "a"]) == ("a", "b", "a_2", "a_2_2", "a_3")
    names = distinct(["a"] * 100_000)
    assert len(set(names)) == 100_000
    assert names[-1] == "a_100000"


def test_a_field_is_looked_for_once_in_each_place_however_deep():
    """Seen: the work doubled with each name of a path, for each level that was an envelope too."""
    value: Any = {"b": 1}
    for _ in range(60):
        value = {"a": [value]}
    few = calls(lambda: select_fields(value, ("x.y",)))
    assert calls(lambda: select_fields(value, (".".join(["a"] * 12 + ["x"]),))) < few * 200


# Patterns


def _patterns() -> dict[str, re.Pattern[Any]]:
    """All that `results` looks through what servers send with."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in pkgutil.walk_packages(toolyard.results.__path__, "toolyard.results."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern) and not module.name.endswith(".measure"):  # for previews alone
                found[f"{module.name}.{name}"] = value
    return found


MOST_TRIED = 16
LETTERS = (parser.IN, parser.LITERAL, parser.NOT_LITERAL, parser.ANY)


def _gives_back(tree: Any) -> list[str]:
    """Runs of letters that try again with fewer, more often than a few times. Of groups that is cheap where
    each begins in one way only, and Python before 3.11.5 cannot do without."""
    found: list[str] = []
    for operation, argument in tree:
        if operation in (parser.MAX_REPEAT, parser.MIN_REPEAT) and (
            argument[1] > max(MOST_TRIED, argument[0])
            and len(argument[2]) == 1
            and argument[2][0][0] in LETTERS
        ):
            found.append(str(argument[2]))
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            if isinstance(part, parser.SubPattern):
                found += _gives_back(part)
            elif isinstance(part, list):
                found += [
                    one
                    for inner in part
                    if isinstance(inner, parser.SubPattern)
                    for one in _gives_back(inner)
                ]
    return found


@pytest.mark.parametrize("name", sorted(_patterns()))
def test_no_pattern_takes_back_what_it_has_read(name: str):
    """`<h1><h1>…` cost 400 steps for each tag: 1.1 s a MiB, in which nobody else was answered."""
    pattern = _patterns()[name]
    assert _gives_back(parser.parse(pattern.pattern, pattern.flags)) == []


async def test_headings_and_titles_are_found_in_markup_of_every_kind(shelf: Shelf):
    page = (
        "<!-- a - b --> <!-- c --> <html><head><TITLE lang='en'>All <b>of</b> it</TITLE></head>\n"
        "<h1 class='a'>One <em>thing</em></h1>\n<h2>Two</h3></h2><h2>Three</h2><h4>no</h4>\n"
        "<h1><h3>Nested</h3></h1><h1>" + "long " * 60 + "</h1>\n<h3\n>Last\n word</h3>" + "<p>x</p>\n" * 900
    )
    summary = (await shelf.fit(text(page))).summary
    assert summary["title"] == "All of it"
    assert summary["headings"] == ["One thing", "Three", "Nested", "Last word"]


# Limits


async def test_a_page_that_takes_too_long_is_told_while_others_are_answered(opened: Callable[..., Library]):
    """Nothing reads 16 MiB in a hundredth of a second, so this one is never in time."""
    library = opened(sql_seconds=0.01)
    long = await library.keep(json.dumps(records(160_000)).encode())
    small = await library.keep(records(30))
    asking = asyncio.create_task(library.ask(long))
    assert (await library.ask(small))["total"] == 30
    assert "more than 0.01 s" in await refused(asking)
    assert all_gone(workers())


async def test_a_page_that_needs_too_much_memory_is_told_so(opened: Callable[..., Library]):
    library = opened(sql_memory=2**20, sql_seconds=50.0)
    id = await library.keep(b"[{}%s]" % (b",{}" * 8_000_000))
    assert "MiB that a query may take" in await refused(library.ask(id))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3)), max_size=9),
    st.sampled_from(["a", "items", "rows", "é", '"', "\\", "a\nb"]),
    st.integers(0, 3),
    st.sampled_from([None, 1]),
)
def test_items_are_found_where_they_are_though_others_look_like_them(
    tmp_path_factory: Any, few: list[Any], name: str, depth: int, indent: int | None
):
    items = few * 30 or [1]
    value: Any = items
    for at in range(depth):
        decoy = json.dumps(items, indent=indent)[: 900 // depth]
        value = {"before": decoy, name + str(at): value, "after": decoy}
    path = tmp_path_factory.mktemp("items") / "result"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    index = index_file(path, True)
    if index.kind == "items" and len(index.path) == depth:
        begins, ends, skipped = index.span(len(items) // 2, 1)
        part = path.read_bytes()[begins:ends].rstrip(b" \n,")
        assert json.loads(b"[" + part + b"]")[skipped] == items[len(items) // 2]
        assert index.count == len(items)


async def test_a_name_twice_is_read_as_the_value_that_counts(library: Library):
    body = b'{"items":[%s],"items":[%s]}' % (b",".join([b"1"] * 20), b",".join([b"2"] * 4000))
    id = await library.keep(body)
    assert (await library.ask(id, limit=3))["items"] == [2, 2, 2]


async def test_lines_of_every_length_are_counted_and_found(library: Library):
    lines = ["x" * length for length in [0, 1, 999, 1000, 1001, 2500, 0, 3, 4096, 0, 0]] * 40
    id = await library.keep(("\n".join(lines) + "\n").encode(), TEXT)
    found = await library.pages(id, limit=50)
    assert "".join(found) == "".join(lines)
    assert found[:4] == lines[:4]


# Millions of parts

LONG = 8 * 2**20
MANY: dict[str, bytes] = {
    "items behind a long one": b'["%s"%s]' % (b"x" * 70_000, b",1" * (LONG // 2)),
    "items in an envelope": b'{"page":1,"items":[%s1]}' % (b"1," * (LONG // 2)),
    "keys": b"{%s}" % b",".join(b'"%d":1' % at for at in range(LONG // 10)),
    "keys behind a long one": b'{"a":"%s"%s}' % (b"x" * 70_000, b',"b":1' * (LONG // 6)),
    "lists in each item": b"[%s]" % b",".join([b"[%s1]" % (b"[]," * 2_000)] * (LONG // 6_000)),
    "objects in two members": b'{"a":[%s1],"b":[%s1]}' % (b"{}," * (LONG // 6), b"{}," * (LONG // 6)),
    "lists in lists": b"[%s1]" % (b"[1,[1,[1,1]]]," * (LONG // 14)),
    "lines of many parts": b'{"a":[%s1]}\n{"a":1}\n' % (b"{}," * (LONG // 3)),
}


def _taken(work: Callable[[], object]) -> int:
    """Bytes that Python had set aside for its objects at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", MANY)
def test_a_summary_takes_little_memory_however_many_parts_there_are(form: str):
    """Seen: 16 million objects of 32 MiB, in the gateway's own process. Copies of the bytes are fine."""
    said = PayloadPart(MANY[form], not form.startswith("lines"))
    summarize(PayloadPart(b'["x"]', True))
    assert _taken(lambda: summarize(said)) < 5 * LONG


@pytest.mark.parametrize("form", MANY)
def test_both_forms_of_a_result_are_compared_in_little_memory_however_many_parts_there_are(form: str):
    body = MANY[form] if not form.startswith("lines") else b"[]"
    result = b'{"content":[{"type":"text","text":"x"}],"structuredContent":{"result":%s}}' % body
    assert _taken(lambda: find_oversized(parse_payload(result), Limits())) < 5 * LONG


def test_millions_of_blocks_are_one_text():
    body = b'{"content":[%s{}]}' % (b"{}," * (LONG // 3))
    assert _taken(lambda: parse_payload(body)) < 5 * LONG
    assert parse_payload(body).texts[0].body == body


def test_parts_are_counted_without_making_them():
    found = items_of(MANY["items behind a long one"])
    assert found is not None
    assert (found.count, found.exact, len(found.parts)) == (LONG // 2 + 1, True, 2_000)
    members = object_of(MANY["keys behind a long one"])
    assert members is not None
    assert (members.count, members.exact) == (LONG // 6 + 1, True)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.recursive(
            st.one_of(st.integers(), st.text(alphabet='ab\\"[]{},é', max_size=6)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text('a"\\,', max_size=3), inner, max_size=3)
            ),
            max_leaves=9,
        ),
        min_size=1,
        max_size=7,
    )
)
def test_a_count_is_what_decoding_would_give(few: list[Any]):
    unit = json.dumps(few, ensure_ascii=False)[1:-1].encode() + b","
    times = 2_200_000 // len(unit) + 1
    body = b"[" + unit * times + b"1" + b",1" * 1_000_000 + b"]"
    found = items_of(body)
    assert found is not None
    if found.exact:
        assert found.count == len(few) * times + 1_000_001


async def test_a_result_that_takes_too_long_is_kept_as_it_came_and_only_its_size_is_told(tmp_path: Path):
    """With no time at all every long one is too late."""
    async with shelf_in(tmp_path, seconds=0) as shelf:
        body = json.dumps(text("x" * 300_000)).encode()
        fitted = await shelf.fit(body, Limits())
        assert fitted.summary == {"approx_size_bytes": len(body), "kind": "result"}
        assert fitted.answer["truncated"] is True
        assert await fitted.whole() == body
        on_disk = await shelf.fit(Cut(json.dumps(text(f"[{'1,' * 200_000}1]")).encode(), 65536), Limits())
        assert on_disk.summary["kind"] == "result"
        assert (await shelf.fit(text("short"), Limits())).passed
