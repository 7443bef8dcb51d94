"""What a model is told of a big result: columns, shapes, headings, levels; and always in few words."""

import json
from typing import Any

import pytest

from tests.results.shelf import Shelf, records, structured, text
from toolyard.results.limits import Limits


async def test_records_are_told_by_their_columns(shelf: Shelf):
    people = [
        {
            "id": at,
            "name": f"Person {at:03}",
            "age": None if at % 4 == 0 else 20 + at % 50,
            "state": ("open", "closed", "late")[at % 3],
            "tags": ["a", "b"],
            "since": f"2024-01-{at % 28 + 1:02}",
        }
        for at in range(400)
    ]
    found = (await shelf.fit(structured(people))).summary
    assert found["kind"] == "list"
    assert found["item_count"] == 400
    assert found["sample_columns"] == ["id", "name", "age", "state", "tags", "since"]
    columns = {column["name"]: column for column in found["columns"]}
    assert columns["id"] == {
        "name": "id",
        "type": "integer",
        "distinct": 400,
        "min": 0,
        "max": 399,
        "example": 0,
    }
    assert columns["age"]["nulls"] == 0.25
    assert (columns["age"]["min"], columns["age"]["max"]) == (20, 69)
    assert columns["state"] == {
        "name": "state",
        "type": "string",
        "distinct": 3,
        "values": ["closed", "late", "open"],
    }
    assert columns["tags"] == {"name": "tags", "type": "list", "example": '["a","b"]'}
    assert (columns["since"]["min"], columns["since"]["max"]) == ("2024-01-01", "2024-01-28")


async def test_of_very_many_records_a_sample_is_looked_at_and_said_so(shelf: Shelf):
    found = (await shelf.fit(structured(records(30_000)))).summary
    assert found["item_count"] == 30_000
    assert found["sampled"] == 2000
    assert found["columns"][0]["max"] == 29_999, "from the first to the last"


async def test_envelopes_are_seen_through_and_what_is_around_is_told(shelf: Shelf):
    value = {"data": {"items": records(30), "total": 30, "next": None}, "ok": True}
    found = await shelf.fit(structured(value))
    assert found.summary["path"] == "data.items"
    assert found.summary["around"] == {"ok": True, "total": 30, "next": None}
    assert found.preview == records(10)
    assert json.loads(await found.whole()) == value, "the envelope is stored too"


async def test_what_page_it_is_leaves_an_envelope_an_envelope(shelf: Shelf):
    page = {"page": {"number": 1, "of": 9}, "links": {"next": "/things?page=2"}, "data": records(30)}
    found = await shelf.fit(structured(page))
    assert (found.summary["path"], found.summary["item_count"]) == ("data", 30)
    assert found.summary["around"]["page"] == '{"number":1,"of":9}'
    # What has parts of its own is a thing of its own.
    found = await shelf.fit(
        structured({"owner": {"teams": ["a"] * 3}, "things": records(30), "n": "x" * 4000})
    )
    assert found.summary["kind"] == "object"


async def test_an_object_is_told_by_its_shape(shelf: Shelf):
    value = {
        "user": {"name": "Ann", "roles": ["admin"]},
        "log": "words " * 900,
        "scores": [1.5, 2.5],
        "more": {f"k{at}": at for at in range(40)},
    }
    found = await shelf.fit(structured(value))
    assert found.summary["kind"] == "object"
    assert found.summary["key_count"] == 4
    assert found.summary["keys"] == ["user", "log", "scores", "more"]
    shape = found.summary["shape"]
    assert shape["user"] == {"name": "string", "roles": ["string", "1 items"]}
    assert shape["scores"] == ["number", "2 items"]
    assert shape["more"]["…"] == "25 more"
    assert found.preview["user"] == value["user"]
    assert found.preview["log"].endswith("…")


async def test_a_list_of_plain_values_is_told_by_their_types_and_bounds(shelf: Shelf):
    found = (await shelf.fit(structured([*range(100), "x", None]))).summary
    assert found["item_types"] == {"integer": 100, "string": 1, "null": 1}
    assert found["items"]["type"] == "integer|string"
    numbers = (await shelf.fit(structured(list(range(100))))).summary
    assert (numbers["items"]["min"], numbers["items"]["max"]) == (0, 99)


async def test_markdown_is_told_by_its_headings(shelf: Shelf):
    words = (
        "# Title\n\nsome words\n\n```\n# no heading\n```\n\n## Part one\n"
        + "words\n" * 30
        + "## Part two\nend"
    )
    found = (await shelf.fit(text(words))).summary
    assert (found["kind"], found["format"]) == ("text", "markdown")
    assert found["headings"] == ["# Title", "## Part one", "## Part two"]
    assert found["first_lines"] == ["# Title", "some words", "```"]
    assert found["last_lines"] == ["words", "## Part two", "end"]
    assert found["line_count"] == words.count("\n") + 1


async def test_html_is_told_by_its_title_and_headings(shelf: Shelf):
    page = "<!DOCTYPE html><html><head><title>A <b>page</b></title></head>\n<h1 class=x>One</h1><h2>Two</h2>"
    found = (await shelf.fit(text(page + "<p>words</p>\n" * 30))).summary
    assert found["format"] == "html"
    assert found["title"] == "A page"
    assert found["headings"] == ["One", "Two"]


async def test_a_part_of_a_page_and_what_comes_late_in_it_are_html_too(shelf: Shelf):
    late = "<!DOCTYPE html>\n<html><head><style>\n" + "p { margin: 0 }\n" * 2_000 + "</style>\n"
    late += "<title>Late</title>\n</head><body>\n<h1>A &amp; B</h1>\n</body></html>\n"
    found = await shelf.fit(text(late))
    assert (found.summary["format"], found.summary["title"]) == ("html", "Late")
    assert found.summary["headings"] == ["A &amp; B"]
    for part in ("<div>\n<h2>One</h2>\n{}</div>", "<!-- made by hand --><p></p><h2>One</h2>{}"):
        found = await shelf.fit(text(part.format("<p>and so on</p>\n" * 30)))
        assert (found.summary["format"], found.summary["headings"]) == ("html", ["One"])
    found = await shelf.fit(text("<p><h2>One</h2>" + "<p>all in one line</p>" * 300))
    assert found.summary["headings"] == ["One"]
    assert (await shelf.fit(text("<pre-amble>\n" * 30))).summary["format"] == "plain"


async def test_line_breaks_of_windows_are_no_part_of_lines(shelf: Shelf):
    assert (await shelf.fit(text("a\r\n" * 30))).summary["last_lines"] == ["a", "a", "a"]


async def test_rows_of_a_table_are_counted_though_cells_have_line_breaks(shelf: Shelf):
    rows = "".join(f'{at},"said ""so""\nand left, {at}"\n' for at in range(40))
    assert (await shelf.fit(text("id,note\n" + rows))).summary["row_count"] == 40
    # One that has quotes for inches has as many rows as lines.
    rows = "".join(f'{at},5" pipe\n' for at in range(41))
    assert (await shelf.fit(text("id,note\n" + rows))).summary["row_count"] == 41


async def test_a_log_is_told_by_its_levels(shelf: Shelf):
    levels = ["INFO"] * 30 + ["warn"] * 5 + ["ERROR"] * 2
    lines = [f"2024-05-01T10:00:{at:02} {level} something at {at}" for at, level in enumerate(levels)]
    found = (await shelf.fit(text("\n".join([*lines, "a line without one"])))).summary
    assert found["format"] == "log"
    assert found["levels"] == {"INFO": 30, "WARNING": 5, "ERROR": 2}
    assert found["last_lines"][-1] == "a line without one"


@pytest.mark.parametrize("separator", [",", "\t", ";"])
async def test_csv_is_told_by_its_columns(separator: str, shelf: Shelf):
    rows = [["name", "price"], *([f"thing {at}", f"{at}.5"] for at in range(40))]
    found = (await shelf.fit(text("\n".join(separator.join(row) for row in rows) + "\n"))).summary
    assert found["format"] == "csv"
    assert found["row_count"] == 40
    assert found["sample_columns"] == ["name", "price"]
    assert found["columns"][1]["type"] == "number"


async def test_lines_of_json_are_told_as_records(shelf: Shelf):
    body = "\n".join(json.dumps(item) for item in records(30)) + "\n"
    found = await shelf.fit(text(body))
    assert found.summary["format"] == "ndjson"
    assert found.summary["item_count"] == 30
    assert found.summary["sample_columns"] == ["id", "state", "title"]
    assert found.preview == records(10)
    assert await found.whole() == body.encode()


async def test_records_are_a_table_though_one_of_them_is_none(shelf: Shelf):
    lines = [json.dumps(item) for item in records(30)]
    found = await shelf.fit(text("\n".join([*lines, '{"id": 30, "st'])))
    assert (found.summary["format"], found.summary["item_count"]) == ("ndjson", 31)
    assert found.summary["sample_columns"] == ["id", "state", "title"]
    assert found.summary["other_items"] == 1
    found = await shelf.fit(structured({"result": [*records(30), None]}))
    assert (found.summary["sample_columns"], found.summary["other_items"]) == (["id", "state", "title"], 1)
    # Lines of code with as many commas each are no table.
    found = await shelf.fit(text("\n".join(f'call("{at}", {{x}})' for at in range(30))))
    assert found.summary["format"] == "plain"


async def test_binary_called_text_is_told_as_what_it_is(shelf: Shelf):
    found = await shelf.fit(text("".join(chr(at % 32) for at in range(5000))))
    assert found.summary["format"] == "binary"
    assert "first_lines" not in found.summary
    assert found.preview


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, Any] = {
    "keys of 10 kB": structured([{f"{at}" * 10_000: at} for at in range(30)]),
    "an envelope of 10 kB": structured({"e" * 10_000: {"f" * 10_000: records(30)}}),
    "1,000 columns": structured([{f"column {at}": at for at in range(1000)}] * 30),
    "other columns in each": structured([{f"{at} {n}": n for n in range(50)} for at in range(200)]),
    "nested 100 deep": structured({"a": deep(100), "b": "x" * 5000}),
    "JSON in text nested 100,000 deep": text("[" * 100_000 + "]" * 100_000),
    "JSON in text nested 500 deep": text(json.dumps([deep(500)] * 30)),
    "a number of 9,000 digits": b'{"content":[],"structuredContent":[%s]}' % (b"1" * 9000),
    "numbers of 4,000 digits": b'{"content":[],"structuredContent":[%s]}' % b",".join([b"1" * 4000] * 3),
    "numbers that no machine holds": b'{"content":[],"structuredContent":[%s]}' % b",".join([b"1e999"] * 900),
    "NaN": text("[" + ",".join(["NaN"] * 2000) + "]"),
    "halves of letters in JSON in text": text('["\\ud800"' + ',"\\udc00"' * 900 + "]"),
    "a line of 100 kB": text("x" * 100_000),
    "control characters": text("\x01\x02" * 4000),
    "headings of 10 kB": text("\n".join("# " + "h" * 10_000 for _ in range(30))),
    "a table of 5,000 columns": text("\n".join(",".join(f"c{n}" for n in range(5000)) for _ in range(9))),
    "tags without end": text("<html>" + "<h1>" * 3000),
    "the same key a thousand times": b'{"content":[],"structuredContent":{%s}}'
    % b",".join([b'"a":1'] * 1000),
    "many levels of lists": structured([[[[[[n] * 9] * 9] * 9] * 9] for n in range(2)]),
}


@pytest.mark.parametrize("compact", ["off", "auto"])
@pytest.mark.parametrize("case", HOSTILE)
async def test_hostile_results_are_told_in_few_words(case: str, compact: str, shelf: Shelf):
    found = await shelf.fit(HOSTILE[case], Limits(shape_always=True, compact=compact))
    assert len(found.text.encode()) <= 4000
    assert len(json.dumps(found.summary, ensure_ascii=False, separators=(",", ":")).encode()) <= 2000
    assert found.summary["approx_size_bytes"] > 0
    assert await found.whole()


async def test_previews_of_records_can_be_compact(shelf: Shelf):
    plain = await shelf.fit(structured(records(30)))
    csv = await shelf.fit(structured(records(30)), Limits(shape_always=True, compact="csv"))
    assert csv.answer["preview_format"] == "csv"
    assert csv.preview.splitlines()[:2] == ["id,state,title", "0,open,Thing 0"]
    assert len(csv.preview.splitlines()) == 11
    table = await shelf.fit(structured(records(30)), Limits(shape_always=True, compact="table"))
    assert table.preview.splitlines()[1] == "0 | open | Thing 0"
    auto = await shelf.fit(structured(records(30)), Limits(shape_always=True, compact="auto"))
    assert auto.answer["preview_format"] == "csv", "it costs the fewest tokens here"
    assert len(csv.text) < len(plain.text)


async def test_cells_of_a_plain_table_keep_what_is_in_them(shelf: Shelf):
    odd = {"a": "x|y", "b": "two\nlines", "c": "back\\slash", "d": "  two  spaces", "e": None, "f": [1, "|"]}
    table = await shelf.fit(structured([odd] * 30), Limits(shape_always=True, compact="table"))
    assert table.answer["preview_format"] == "table"
    row = table.preview.splitlines()[1]
    assert row == r'x\|y | two\nlines | back\\slash |   two  spaces |  | [1,"\|"]'


async def test_a_compact_form_that_shows_fewer_records_is_not_cheaper(shelf: Shelf):
    wide = [{f"column_{at}_{n}": n for n in range(12)} for at in range(30)]
    found = await shelf.fit(structured(wide), Limits(shape_always=True, compact="auto"))
    assert "preview_format" not in found.answer, (
        "no two of them share a column: a table would be mostly empty"
    )


async def test_the_preview_has_as_many_whole_items_as_fit(shelf: Shelf):
    items = [{"id": at, "body": "x" * 700} for at in range(30)]
    found = await shelf.fit(structured(items))
    assert 1 <= len(found.preview) < 10
    assert found.preview == items[: len(found.preview)]
    one = await shelf.fit(structured([{"id": 1, "body": "x" * 9000}] * 3))
    assert one.preview[0]["id"] == 1
    assert one.preview[0]["body"].endswith("…")
