"""`read_result` over a real store: every part can be reached, and a query has its limits."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.library import TEXT, Library, refused, workers
from tests.results.shelf import records
from tests.thirdparty.mounting import all_gone
from tests.waiting import until
from toolyard.config import ResultsConfig

# Pages


async def test_a_list_is_read_page_by_page(library: Library):
    id = await library.keep(records(100))
    assert await library.pages(id) == records(100)
    assert await library.pages(id, limit=7) == records(100)
    page = await library.ask(id, offset=40, limit=3)
    assert page == {
        "id": id,
        "total": 100,
        "offset": 40,
        "shown": 3,
        "left": 57,
        "next_offset": 43,
        "items": records(100)[40:43],
    }
    assert (await library.ask(id, offset=100))["items"] == []
    assert (await library.ask(id, offset=10**9))["left"] == 0


async def test_a_list_in_an_envelope_is_read_by_its_items(library: Library):
    id = await library.keep(
        json.dumps({"ok": True, "data": {"items": records(50), "n": 50}}, indent=2).encode()
    )
    assert await library.pages(id) == records(50)
    assert (await library.ask(id))["path"] == "data.items"


async def test_an_object_is_read_by_its_members(library: Library):
    value = {f"key {at}": "x" * 500 for at in range(30)}
    id = await library.keep({**value, "long": "y" * 9000})
    found = dict(await library.pages(id))
    assert {key: found[key] for key in value} == value
    assert found["long"].endswith("…")
    cut = await library.ask(id, offset=30)
    assert "query" in cut["cut"]


async def test_lines_of_json_are_read_as_records(library: Library):
    body = "\n".join(json.dumps(item) for item in records(60)).replace("\n", "\n\n", 1) + "\n"
    id = await library.keep(body.encode(), TEXT)
    assert await library.pages(id) == records(60)
    assert (await library.ask(id, query="[?id==`7`].title"))["items"] == ["Thing 7"]
    assert (await library.ask(id, sql="SELECT max(id) AS most FROM result"))["rows"] == [{"most": 59}]


async def test_an_item_that_is_too_big_is_shown_cut_and_its_parts_can_be_asked_for(library: Library):
    id = await library.keep([{"id": 1, "body": "line of text\n" * 900}, {"id": 2, "body": ""}])
    page = await library.ask(id)
    assert page["shown"] == 1
    assert page["items"][0]["id"] == 1
    assert page["items"][0]["body"].endswith("…")
    assert "too big" in page["cut"]
    assert (await library.ask(id, offset=page["next_offset"]))["items"] == [{"id": 2, "body": ""}]
    assert await library.pages(id, query="[0].body") == ["line of text"] * 900


async def test_an_item_of_megabytes_is_not_read_for_a_page(library: Library):
    id = await library.keep([{"id": 1, "body": "x" * 2_000_000}, {"id": 2}])
    assert (await library.ask(id))["items"] == ["it has 2000023 bytes"]
    assert (await library.ask(id, offset=1))["items"] == [{"id": 2}]


async def test_a_line_of_any_length_can_be_read_to_its_end(library: Library):
    id = await library.keep(("short\n" + "é" * 5000 + "\nlast").encode(), TEXT)
    found = await library.pages(id)
    assert (found[0], found[-1]) == ("short", "last")
    assert "".join(found[1:-1]) == "é" * 5000


@settings(max_examples=60)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=80), max_size=60),
    st.booleans(),
)
def test_pages_of_a_text_are_all_of_it(tmp_path_factory: Any, lines: list[str], ends: bool):
    words = "\n".join(lines) + ("\n" if ends else "")

    async def check() -> None:
        library = Library(tmp_path_factory.mktemp("texts"))
        id = await library.keep(words.encode(), TEXT)
        found = await library.pages(id)
        # A text that begins like JSON lines is read as records.
        assert found == words.removesuffix("\n").split("\n") if words else found == []
        await library.close()

    asyncio.run(check())


# Expressions


ANSWERS: dict[str, Any] = {
    "length(@)": {"value": 100},
    "[0]": {"value": records(1)[0]},
    "[?state=='closed'] | [0].id": {"value": 1},
    "nope": {"note": "A list has no 'nope': write [].nope for that of each item.", "value": None},
    "[:3].id": {"total": 3, "offset": 0, "shown": 3, "left": 0, "items": [0, 1, 2]},
    "sum([].id)": {"value": 4950},
}
WRONG_EXPRESSIONS = {
    "[?state=='open'": "at character 16",
    "foo.*bar": "at character 6",
    "nope(@)": "nope",
    "sum(@)": "sum",
    "&id": "gives no value",
    "'open": "at character 1",
}


async def test_expressions_are_answered_and_wrong_ones_told_with_the_place(library: Library):
    id = await library.keep(records(100))
    for query, expected in ANSWERS.items():
        assert await library.ask(id, query=query) == {"id": id, **expected}
    for query, told in WRONG_EXPRESSIONS.items():
        assert told in await refused(library.ask(id, query=query)), query
    assert (await library.ask(id, query="[0].id"))["value"] == 0, "and the next one is answered"


# SQL


@pytest.mark.parametrize(
    "value",
    [records(100), {"data": {"items": records(100)}}],
    ids=["a list", "an envelope"],
)
async def test_sql_asks_for_the_records(value: Any, library: Library):
    id = await library.keep(value)
    found = await library.ask(
        id, sql="SELECT state, count(*) AS n FROM result GROUP BY state ORDER BY state;"
    )
    assert found["rows"] == [{"state": "closed", "n": 50}, {"state": "open", "n": 50}]
    again = await library.ask(id, sql="SELECT id, id FROM result WHERE id = 3")
    assert again["rows"] == [{"id": 3, "id_2": 3}], "no column is lost"
    assert await library.pages(id, sql="SELECT id FROM result ORDER BY id") == [
        {"id": at} for at in range(100)
    ]


async def test_sql_asks_for_lines_tables_values_and_one_object(library: Library):
    lines = await library.keep(b"one\ntwo\nthree\n", TEXT)
    found = await library.ask(lines, sql="SELECT line, text FROM result WHERE text LIKE 't%' ORDER BY line")
    assert found["rows"] == [{"line": 2, "text": "two"}, {"line": 3, "text": "three"}]
    table = await library.keep(b"name;price\na;1.5\nb;2.5\nc;\n", TEXT)
    assert (await library.ask(table, sql="SELECT sum(price) AS s FROM result"))["rows"] == [{"s": 4.0}]
    ragged = await library.keep(b"a,b,c\n" + b"1,2,3\n" * 30 + b"x,y\n", TEXT)
    assert (await library.ask(ragged, sql="SELECT count(*) AS n FROM result"))["rows"] == [{"n": 31}]
    values = await library.keep([3, 1, 2])
    assert (await library.ask(values, sql="SELECT max(value) AS m FROM result"))["rows"] == [{"m": 3}]
    one = await library.keep({"a": {"b": 1}, "c": "x" * 5000, "d": [1, 2]})
    assert (await library.ask(one, sql="SELECT a.b AS b, len(d) AS d FROM result"))["rows"] == [
        {"b": 1, "d": 2}
    ]
    odd = await library.keep([{"id": 1, "x": 10**30, "y": None}, {"ID": 2, "z": {"a": [1, {"b": None}]}}, {}])
    assert len((await library.ask(odd, sql="SELECT * FROM result"))["rows"]) == 3


WRONG_SQL = {
    "SELEC 1": 'at or near "SELEC"',
    "SELECT nope FROM result": "LINE 1: SELECT nope",
    "SELECT 1; SELECT 2": "Only one statement is allowed",
    "DROP TABLE result": "Only SELECT can be run, not DROP",
    "INSERT INTO result SELECT * FROM result": "not INSERT",
    "CREATE TABLE x AS SELECT 1": "not CREATE",
    "COPY result TO '/tmp/toolyard-copy'": "not COPY",
    "ATTACH '/tmp/toolyard.db'": "not ATTACH",
    "SET memory_limit = '1TB'": "not SET",
    "INSTALL httpfs": "not LOAD",
    "PRAGMA database_list": "not PRAGMA",
    "SELECT * FROM read_text('/etc/hostname')": "files and addresses cannot be read",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x')": "cannot be run",
    "SELECT * FROM glob('/*')": "files and addresses cannot be read",
    "SELECT * FROM '/etc/hostname'": "cannot be run",
    "SELECT * FROM request": "cannot be run",
    "": "not empty",
}


async def test_sql_that_is_wrong_or_forbidden_is_told_with_the_reason(library: Library):
    id = await library.keep(records(30))
    for sql, told in WRONG_SQL.items():
        assert told in await refused(library.ask(id, sql=sql)), sql
        assert (await library.ask(id, sql="SELECT count(*) AS n FROM result"))["rows"] == [{"n": 30}]


async def test_times_with_a_zone_are_told_as_text_wherever_they_are(library: Library):
    """As nearly every API writes them; DuckDB by itself needs a package for them that few have."""
    at, by = "2026-03-01T10:00:00Z", {"since": "2025-01-01T00:00:00+02:00", "n": 1}
    id = await library.keep([{"id": 1, "made": at, "by": by}, {"id": 2, "made": None, "by": None}] * 15)
    assert (await library.ask(id, sql="SELECT * FROM result ORDER BY id LIMIT 1"))["rows"] == [
        {"id": 1, "made": "2026-03-01 10:00:00+00", "by": {"since": "2024-12-31 22:00:00+00", "n": 1}}
    ]
    sql = "SELECT made AS a, id AS a, made < now() AS past FROM result ORDER BY id LIMIT 1;"
    assert (await library.ask(id, sql=sql))["rows"] == [
        {"a": "2026-03-01 10:00:00+00", "a_2": 1, "past": True}
    ]
    found = await library.ask(id, sql="SELECT count(*) AS n FROM result WHERE made > '2026-02-01'")
    assert found["rows"] == [{"n": 15}]


async def test_lines_of_json_can_be_asked_though_one_is_broken(library: Library):
    lines = [json.dumps(item) for item in records(100)]
    lines[33] = '{"id": 33, "sta'
    id = await library.keep("\n".join(lines).encode(), TEXT)
    assert (await library.ask(id, query="[32:34]"))["items"] == [records(100)[32], lines[33]]
    assert (await library.ask(id, offset=33, limit=1))["items"] == [lines[33]]
    found = await library.ask(id, sql="SELECT count(id) AS ids, max(value) AS broken FROM result")
    assert found["rows"] == [{"ids": 99, "broken": lines[33]}]


async def test_what_is_no_table_is_told_without_where_it_lies(library: Library, tmp_path: Path):
    id = await library.keep(b'[{"a":1,"a":2}]')
    told = await refused(library.ask(id, sql="FROM result"))
    assert "cannot be read as a table" in told
    assert str(tmp_path) not in told


async def test_there_is_nothing_to_ask_of_an_empty_list(library: Library):
    assert "empty list" in await refused(library.ask(await library.keep([]), sql="SELECT 1"))


# Limits, and the process


FOREVER = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"


async def test_a_query_that_would_run_forever_is_ended(opened: Callable[..., Library]):
    library = opened(sql_seconds=1.5)
    id = await library.keep(records(30))
    assert "more than 1.5 s" in await refused(library.ask(id, sql=FOREVER))
    assert all_gone(workers())
    library.reader.reconfigure(ResultsConfig(sql_seconds=20.0))
    assert (await library.ask(id, sql="SELECT 1 AS one"))["rows"] == [{"one": 1}], (
        "and the next one is answered"
    )


async def test_a_query_that_needs_too_much_memory_is_told_so(opened: Callable[..., Library]):
    library = opened(sql_memory=64 * 2**20, sql_seconds=50.0)
    id = await library.keep([{"id": at, "body": "x" * 1000} for at in range(2000)])
    sql = "SELECT list(a.body || b.body || a.id) FROM result a, result b"
    assert "more than the 64 MiB" in await refused(library.ask(id, sql=sql))
    query = "[].body" + " | join('', @) | [@, @, @, @, @, @, @, @, @, @]" * 3
    assert "more than the 64 MiB" in await refused(library.ask(id, query=query))
    assert (await library.ask(id, query="length(@)"))["value"] == 2000


async def test_a_query_leaves_nothing_on_the_disk(
    opened: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It gets no room there at all: what a killed one has written would stay."""
    place = tmp_path / "where the gateway was started"
    place.mkdir()
    monkeypatch.chdir(place)
    library = opened(sql_memory=64 * 2**20, sql_seconds=50.0)
    id = await library.keep(records(30))
    sql = "SELECT * FROM range(100000000) ORDER BY random()"
    assert "more than the 64 MiB" in await refused(library.ask(id, sql=sql))
    assert (await library.ask(id, sql="SELECT current_setting('temp_directory') AS at"))["rows"] == [
        {"at": ""}
    ]
    assert list(place.rglob("*")) == []


async def test_a_table_that_is_being_made_has_no_file_that_could_be_left_behind(
    opened: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A worker may be killed at any moment."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    library = opened(sql_seconds=50.0)
    id = await library.keep({"columns": ["a", "b"], "rows": [[at, "x" * 20] for at in range(100_000)]})
    asking = asyncio.create_task(library.ask(id, sql="SELECT count(*) AS n FROM result"))
    seen: set[Path] = set()
    while not asking.done():
        seen.update(place.iterdir())
        await asyncio.sleep(0.001)
    assert (await asking)["rows"] == [{"n": 100_000}]
    assert seen == set()


async def test_a_cancelled_query_is_killed_and_answers_nobody_else(library: Library):
    id = await library.keep(records(30))
    assert (await library.ask(id, sql="SELECT 1 AS one"))["rows"] == [{"one": 1}]
    (worker,) = workers()
    asking = asyncio.create_task(library.ask(id, sql=FOREVER))
    await _busy(worker)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert all_gone({worker})
    assert (await library.ask(id, sql="SELECT 2 AS two"))["rows"] == [{"two": 2}]


async def _busy(pid: int) -> None:
    """Until it has run for a while since now."""
    before = _ticks(pid)
    while _ticks(pid) < before + 5:  # noqa: ASYNC110  a process tells nobody
        await asyncio.sleep(0.01)


def _ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11])


@pytest.mark.parametrize("module", ["toolyard.results.query.worker", "toolyard.databases.embedded.worker"])
def test_a_worker_starts_without_what_it_does_not_need(module: str):
    """Seen: 80 ms for a start, half of it for asyncio. The first page of a long result waits for it."""
    command = f"import {module}, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert module in found.stdout.split()
    heavy = {"asyncio", "duckdb", "sqlite3", "jmespath", "toolyard.config", "toolyard.artifacts"}
    assert heavy & set(found.stdout.split()) == set()


async def test_a_worker_that_somebody_killed_costs_nobody_an_answer(
    library: Library, caplog: pytest.LogCaptureFixture
):
    id = await library.keep(records(30))
    await library.ask(id, query="length(@)")
    (worker,) = workers()
    os.kill(worker, signal.SIGKILL)
    assert (await library.ask(id, query="length(@)"))["value"] == 30
    assert workers() != {worker}
    assert caplog.text == ""


async def test_a_query_that_ends_one_process_after_the_other_is_told(opened: Callable[..., Library]):
    library = opened(sql_seconds=50.0)
    id = await library.keep(records(30))
    asking = asyncio.create_task(library.ask(id, sql=FOREVER))
    killed: set[int] = set()
    for _ in range(2):
        worker = await _started(killed)
        await _busy(worker)
        os.kill(worker, signal.SIGKILL)
        killed.add(worker)
    assert "crashed its process" in await refused(asking)
    assert (await library.ask(id, query="length(@)"))["value"] == 30


async def _started(besides: set[int]) -> int:
    async def is_there() -> bool:
        return bool(workers() - besides)

    await until(is_there)
    return (workers() - besides).pop()


async def test_several_queries_run_side_by_side_and_who_waits_too_long_is_told(
    opened: Callable[..., Library],
):
    library = opened(sql_seconds=3.0)
    id = await library.keep(records(30))
    slow = [asyncio.create_task(library.ask(id, sql=FOREVER)) for _ in range(2)]
    many = [asyncio.create_task(library.ask(id, query="length(@)")) for _ in range(2)]
    told = {str(error) for error in await asyncio.gather(*slow, return_exceptions=True)}
    assert told == {"It took more than 3 s; ask for less"}
    answers = await asyncio.gather(*many, return_exceptions=True)
    assert all("value" in str(one) or "Other queries" in str(one) for one in answers)
    assert (await library.ask(id, query="length(@)"))["value"] == 30


# Whose it is


BAD_IDS = [
    "",
    "../../etc/passwd",
    "..%2f..",
    "0" * 32,
    "a" * 31,
    "A" * 32,
    "x/y",
    "\x00",
    "toolyard://results/",
    "é" * 32,
]


@pytest.mark.parametrize("id", BAD_IDS)
async def test_an_id_with_tricks_is_an_unknown_id(id: str, library: Library):
    await library.keep(records(30))
    told = await refused(library.ask(id))
    assert "No result" in told or "'id' is missing" in told


async def test_another_tenants_id_is_an_unknown_id(library: Library):
    id = await library.keep(records(30), tenant="other")
    theirs = await refused(library.ask(id))
    assert theirs == f"No result {id!r}: it has expired or never existed"
    assert (await library.ask(id, tenant="other"))["total"] == 30
    assert await refused(library.ask(id)) == theirs, "though it has been read"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"limit": 0}, "'limit' must be a whole number from 1"),
        ({"limit": 1001}, "to 1000"),
        ({"offset": -1}, "'offset' must be"),
        ({"offset": True}, "'offset' must be"),
        ({"query": "a", "sql": "b"}, "not both"),
        ({"query": 1}, "must be a text"),
        ({"page": 1}, "unknown argument 'page'"),
        ({"query": "a" * 20_001}, "over 20000 characters"),
    ],
)
async def test_what_makes_no_sense_is_told(arguments: dict[str, Any], told: str, library: Library):
    assert told in await refused(library.ask("0" * 32, **arguments))
