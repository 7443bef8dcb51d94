"""What a preview shows is what pages, expressions and SQL see, whatever form the server sent it in."""

import asyncio
import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.library import TEXT, Library, refused
from tests.results.shelf import Shelf, local_store, structured, text
from toolyard.config import ResultsConfig
from toolyard.results.query.reader import ResultReader

Records = list[dict[str, Any]]
NAMES = ["id", "name", "amount", "status"]


def orders(count: int) -> Records:
    states = ("open", "paid", "shipped")
    return [{"id": at, "name": f"n{at}", "amount": at * 2, "status": states[at % 3]} for at in range(count)]


def as_grid(records: Records) -> dict[str, Any]:
    columns = list(records[0])
    return {"columns": columns, "rows": [[record[name] for name in columns] for record in records]}


def as_csv(records: Records) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(records[0]))
    writer.writerows([list(record.values()) for record in records])
    return out.getvalue()


FORMS: dict[str, Any] = {
    "a list": lambda records: structured({"result": records}),
    "text": lambda records: text(json.dumps(records)),
    "an envelope": lambda records: structured(
        {"ok": True, "data": {"items": records, "total": len(records)}}
    ),
    "a grid": lambda records: structured({**as_grid(records), "truncated": False}),
    "a grid in an envelope": lambda records: structured({"result": {"data": as_grid(records), "took": 3}}),
    "lines of JSON": lambda records: text("\n".join(map(json.dumps, records))),
    "CSV": lambda records: text(as_csv(records)),
}


class Desk:
    """A shaper and a reader of one store."""

    def __init__(self, folder: Path) -> None:
        self.shelf = Shelf(local_store(folder), folder)
        self.library = Library(folder)

    async def shown(self, result: Any) -> tuple[str, Any]:
        found = await self.shelf.fit(result)
        assert not found.passed
        return found.id, found.preview

    async def __aenter__(self) -> "Desk":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.library.close()
        await self.shelf.store.close()


def begins(preview: Any, records: Records) -> None:
    """The preview of CSV is CSV."""
    if isinstance(preview, str):
        rows = list(csv.DictReader(io.StringIO(preview)))[:5]
        assert rows == [
            {name: "" if cell is None else str(cell) for name, cell in record.items()}
            for record in records[:5]
        ]
    else:
        assert preview
        assert preview == records[: len(preview)]


@pytest.mark.parametrize("form", FORMS)
async def test_a_natural_query_on_what_the_preview_shows_is_answered(form: str, tmp_path: Path):
    """Seen: of a table from a database one such query failed, and another said 0 where 16,472 is true."""
    records = orders(90)
    async with Desk(tmp_path) as desk:
        id, preview = await desk.shown(FORMS[form](records))
        begins(preview, records)
        for query, value in {
            "length(@)": 90,
            "length([?status=='open'])": 30,
            "[?amount > `175`].name": ["n88", "n89"],
            "sum([].amount)": sum(record["amount"] for record in records),
            "max_by(@, &amount).name": "n89",
            "[0]": records[0],
            "[-1].status": "shipped",
            "[?name=='n7'] | [0].id": 7,
        }.items():
            found = await desk.library.ask(id, query=query)
            assert found.get("items", found.get("value")) == value, query
            assert "note" not in found, query
        sql = "SELECT count(*) AS n, sum(amount) AS s FROM result WHERE status = 'open'"
        assert (await desk.library.ask(id, sql=sql))["rows"] == [{"n": 30, "s": 2610}]


@pytest.mark.parametrize(
    ("form", "query", "value"),
    [
        ("an envelope", "data.items[3].name", "n3"),
        ("an envelope", "data.total", 90),
        ("an envelope", "length(data.items[?status=='open'])", 30),
        ("an envelope", "{total: data.total, open: length([?status=='open'])}", {"total": 90, "open": 30}),
        ("an envelope", "ok", True),
        ("a grid", "rows[3].name", "n3"),
        ("a grid", "length(rows)", 90),
        ("a grid", "sum(rows[].amount)", 8010),
        ("a grid", "columns[1]", "name"),
        ("a grid", "truncated", False),
        ("a grid in an envelope", "data.rows[?name=='n3'] | [0].id", 3),
        ("a grid in an envelope", "took", 3),
    ],
)
async def test_the_paths_of_the_server_lead_there_too(form: str, query: str, value: Any, tmp_path: Path):
    async with Desk(tmp_path) as desk:
        id, _ = await desk.shown(FORMS[form](orders(90)))
        found = await desk.library.ask(id, query=query)
        assert found["value"] == value
        assert "note" not in found


FRUITLESS = {
    "length([?stauts=='open'])": ["no 'stauts'", "id, name, amount, status"],
    '[?status=="open"]': ["no 'open'", "id, name, amount, status"],
    "[?status==open] | length(@)": ["no 'open'"],
    "rows[0][1]": ["[1] was looked up in an object", "id, name, amount, status"],
    "rows[*][2]": ["[2] was looked up in an object"],
    "status": ["write [].status"],
    "data.items[0]": ["A list has no 'data'"],
    "[?id=='7']": ["the number 0 with the text '7'", "`7`"],
    "length([?amount > '10'])": ["the text '10'", "in no order"],
    "[?amount == `true`]": ["never equal"],
    "[500].name": ["no [500] in a list of 90"],
    "[0].name.first": ["no 'first' in a text"],
    "[0][?a=='b']": ["A list was expected"],
    "@.*": ["no object"],
    "[*].address.city": ["no 'address'"],
}


@pytest.mark.parametrize("query", FRUITLESS)
async def test_a_query_that_fits_nothing_says_so_instead_of_answering_nothing(query: str, tmp_path: Path):
    async with Desk(tmp_path) as desk:
        id, _ = await desk.shown(FORMS["a grid"](orders(90)))
        found = await desk.library.ask(id, query=query)
        for words in FRUITLESS[query]:
            assert words in found["note"]


async def test_what_is_there_in_some_needs_no_note(library: Library):
    id = await library.keep([{"id": 1}, {"id": 2, "tag": "x"}, {"id": "c", "tag": None}] * 10)
    for query in (
        "[].tag",
        "length([?tag=='x'])",
        "[?tag!='x'] | length(@)",
        "[?id==`2`]",
        "[0].tag || [1].tag",
    ):
        found = await library.ask(id, query=query)
        assert "note" not in found or query == "[0].tag || [1].tag", query


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sum(rows)", ["sum() wants array of number", "the first is an object with the fields id, name"]),
        (
            "sum(nope)",
            ["got null", "A list has no 'nope'", "a list of 90, the first is an object with the fields"],
        ),
        ("keys(@)", ["keys() wants object", "a list of 90"]),
        ("sum([].name)", ["got a text", "a list of 90"]),
        ("contains([0].nope, 'x')", ["got null", "no 'nope'"]),
        ("nope(@)", ["nope"]),
        ("length(@, @)", ["length"]),
    ],
)
async def test_an_expression_that_does_not_fit_is_told_what_the_data_looks_like(
    query: str, told: list[str], tmp_path: Path
):
    async with Desk(tmp_path) as desk:
        id, _ = await desk.shown(FORMS["a grid"](orders(90)))
        words = await refused(desk.library.ask(id, query=query))
        assert all(part in words for part in told), words
        assert len(words) < 1000


async def test_an_object_in_an_envelope_is_one_thing_for_all(library: Library):
    inner = {f"key {at}": "x" * 300 for at in range(30)}
    id = await library.keep({"ok": True, "data": inner})
    assert dict(await library.pages(id)) == inner
    assert (await library.ask(id))["path"] == "data"
    assert (await library.ask(id, query='"key 3"'))["value"] == "x" * 300
    assert (await library.ask(id, query='data."key 3"'))["value"] == "x" * 300
    assert (await library.ask(id, query="ok"))["value"] is True
    assert (await library.ask(id, sql='SELECT "key 3" AS x FROM result'))["rows"] == [{"x": "x" * 300}]


async def test_cells_of_csv_are_the_same_values_for_all(library: Library):
    table = "zip,n,x,note\n01234,1,1.5,a\n98765,-2,2,\n00001,3,1e5,true\n"
    rows = [
        {"zip": "01234", "n": 1, "x": 1.5, "note": "a"},
        {"zip": 98765, "n": -2, "x": 2, "note": None},
        {"zip": "00001", "n": 3, "x": "1e5", "note": "true"},
    ]
    for body in (table, table.replace("\n", "\r\n"), table.replace(",a\n", ',"a"\n'), "\ufeff" + table):
        id = await library.keep(body.encode(), TEXT)
        assert await library.pages(id) == rows
        assert (await library.ask(id, query="[*]"))["items"] == rows
        assert (await library.ask(id, sql="FROM result"))["rows"] == rows
    ragged = await library.keep(("a,b\n" + "1,2\n" * 30 + "3\n4,5,6\n").encode(), TEXT)
    last = [{"a": 3, "b": None}, {"a": 4, "b": 5, "column_3": 6}]
    assert (await library.ask(ragged, query="[-2:]"))["items"] == last
    assert (await library.pages(ragged))[-2:] == last


async def test_a_log_with_commas_is_lines_for_all(library: Library):
    body = "".join(f"2026-01-01 10:00:{at:02d},123 INFO start, done\n" for at in range(40))
    id = await library.keep(body.encode(), TEXT)
    lines = body.splitlines()
    assert await library.pages(id) == lines
    assert (await library.ask(id, query="[0]"))["value"] == lines[0]
    assert (await library.ask(id, sql="SELECT text FROM result WHERE line = 2"))["rows"] == [
        {"text": lines[1]}
    ]


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
cells = st.one_of(
    st.none(),
    st.integers(-(10**17), 10**17),
    st.integers(1, 10**6).map(lambda n: n / 64),
    # No times, which SQL tells in its own way; no spaces around, which CSV loses.
    words.map(lambda word: f"x{word}"),
)


@st.composite
def tables(draw: st.DrawFn) -> Records:
    names = draw(st.lists(words.map(lambda word: f"c{word}".lower()), min_size=2, max_size=5, unique=True))
    kinds = [
        draw(st.sampled_from([cells, st.integers(-99, 99), words.map(lambda w: f"x{w}")])) for _ in names
    ]
    few = draw(st.lists(st.tuples(*kinds), min_size=3, max_size=8))
    return [dict(zip(names, row, strict=True)) for row in few * (-(-21 // len(few)))]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(tables(), st.sampled_from(sorted(FORMS))), min_size=8, max_size=8))
def test_pages_expressions_and_sql_give_the_records_of_the_preview(several: list[tuple[Records, str]]):
    """Eight tables at a time: processes have to start for them."""

    async def check(desk: Desk, records: Records, form: str) -> None:
        id, preview = await desk.shown(FORMS[form](records))
        if form == "CSV" and "lines" in await desk.library.ask(id):
            assert isinstance(preview, str), "its names are none, so it is no table for anybody"
            return
        if form != "CSV":
            assert preview == records[: len(preview)]
        assert await desk.library.pages(id) == records
        assert await desk.library.pages(id, query="[*]") == records
        assert await desk.library.pages(id, sql="FROM result") == records

    async def check_all(folder: Path) -> None:
        async with Desk(folder) as desk:
            for records, form in several:
                await check(desk, records, form)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_all(Path(folder)))


async def test_the_reader_of_another_gateway_sees_the_same(tmp_path: Path):
    """Nothing of the form is kept beside what was stored."""
    async with Desk(tmp_path) as desk:
        id, _ = await desk.shown(FORMS["a grid"](orders(90)))
        other = ResultReader(local_store(tmp_path), ResultsConfig())
        assert (await other.read("acme", {"id": id, "query": "[3].name"}))["value"] == "n3"
        await other.close()


async def test_what_a_summary_tells_from_around_the_items_is_found_by_its_name(library: Library):
    """Seen: `total` of {"data": {"items": …, "total": 7}} was null, with a hint to ask each item."""
    items = [{"id": at} for at in range(40)]
    id = await library.keep({"version": 3, "data": {"items": items, "total": 7}})
    for query, value in (("total", 7), ("data.total", 7), ("version", 3), ("items[1].id", 1), ("[1].id", 1)):
        assert (await library.ask(id, query=query))["value"] == value
