"""Real databases with awkward names in them: what is shown, what is hidden, and what is only a name."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.schema.shops import AWKWARD, AWKWARD_COLUMN, in_duckdb, in_postgres, in_sqlite
from tests.servers.schema.talking import talking
from tests.stores import PostgresServer

KINDS = ["sqlite", "duckdb", "postgres"]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("shops")
    with PostgresServer() as server:
        yield {
            "sqlite": in_sqlite(folder),
            "duckdb": in_duckdb(folder),
            "postgres": in_postgres(server.url),
        }


@pytest.mark.parametrize("kind", KINDS)
async def test_all_is_found_whatever_it_is_called(kind: str, addresses: dict[str, str]):
    async with talking(database=addresses[kind]) as talk:
        assert set(await talk.names()) >= {"people", AWKWARD, "order", "active_people", "secret_salaries"}
        people = (await talk.describe("people")).structured
        assert people["primary_key"] == ["id"]
        assert {(one["direction"], one["table"]) for one in people["relationships"]} >= {
            ("out", "people"),
            ("in", "people"),
            ("in", AWKWARD),
            ("in", "secret_salaries"),
        }
        assert (await talk.describe("active_people")).structured["kind"] == "view"

        awkward = (await talk.describe(AWKWARD)).structured
        assert [field["name"] for field in awkward["fields"]] == ["id", AWKWARD_COLUMN, "person_id"]
        assert awkward["fields"][2]["references"] == "people.id"
        assert (await talk.values(AWKWARD, AWKWARD_COLUMN)).structured["values"] == ["it's", "été"]
        assert (await talk.values("order", "from")).structured["values"] == ["here"]
        assert (await talk.values("order", "Ação")).structured["values"] == ["sim"]
        assert (await talk.values("people", "active")).structured["values"] == ["false", "true"]
        names = (await talk.values("PEOPLE", "Name")).structured
        assert (names["table"], names["field"]) == ("people", "name")
        assert names["values"] == [f"person {n:02}" for n in range(1, 51)]
        assert (names["value_count"], names["has_more"]) == (50, True)
        assert (await talk.values("active_people", "name")).structured["value_count"] == 20

        listed = {one.name: str(one.uri) for one in (await talk.client.list_resources()).resources}
        for name in (AWKWARD, "order"):
            assert (await talk.read(listed[name]))[1].text.startswith(f"# {name}\n")


HOSTILE = {
    "people; DROP TABLE people": "people",
    "people'--": "people",
    '"people"': "people",
    "people\x00": "people",
    "people UNION SELECT * FROM secret_salaries": "people",
    "p\u0435\u043eple": "people",  # Cyrillic ones among the letters
    "\uff50\uff45\uff4f\uff50\uff4c\uff45": "people",
    "peöple": "people",
    "peo\u200bple": "people",
    "../people": "people",
    "ordem": "order",
    "ORDÉR": "order",
    "people " * 2000: "people",
    "\ud7ff\U0001f600": "",
    "%s%s%n": "",
    "*": "",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_hostile_name_is_an_unknown_name_and_nothing_happens(kind: str, addresses: dict[str, str]):
    async with talking(database=addresses[kind]) as talk:
        for name, meant in HOSTILE.items():
            said = await talk.describe(name)
            assert said.structured["found"] is False, name
            suggestions = said.structured.get("suggestions", [])
            assert meant in suggestions if meant else not suggestions, (name, suggestions)
            assert len(said.text) < 1000
            assert (await talk.values(name, "name")).failed
            assert (await talk.values("people", f"{name} FROM people; --")).failed
            assert (await talk.draw(name)).failed
        assert (await talk.values("people", "name")).structured["value_count"] == 50


async def test_what_is_blocked_does_not_exist(addresses: dict[str, str]):
    for kind in KINDS:
        blocked = {
            "blocked_tables": "Secret_*, order",
            "blocked_columns": ["*_pin", f"{AWKWARD.split()[0]}*.id"],
        }
        async with talking(database=addresses[kind], **blocked) as talk:
            assert not {"secret_salaries", "order"} & set(await talk.names())
            hidden = await talk.describe("secret_salaries")
            assert hidden.structured == {"found": False, "table": "secret_salaries"}
            absent = await talk.describe("zzzzzz")
            assert hidden.text.replace("secret_salaries", "zzzzzz") == absent.text
            people = await talk.describe("people")
            assert "secret" not in people.text
            assert "secret" not in str(people.structured)
            assert "has no column 'secret_pin'" in (await talk.values("people", "secret_pin")).text
            assert (await talk.values("secret_salaries", "grade")).text.startswith("There is no table")
            assert [field["name"] for field in (await talk.describe(AWKWARD)).structured["fields"]] == [
                AWKWARD_COLUMN,
                "person_id",
            ]
            drawn = await talk.draw()
            assert "secret" not in drawn.text
            assert "secret" not in str(drawn.structured)
            assert "secret_salaries" not in await talk.complete("secr")
            assert "secret" not in str((await talk.client.list_resources()).resources)


async def test_postgresql_says_more_of_its_tables(addresses: dict[str, str]):
    async with talking(database=addresses["postgres"], seconds=0.3) as talk:
        people = (await talk.describe("public.people")).structured
        assert (people["table"], people["description"]) == ("people", "Who works here")
        assert people["row_estimate"] == 60
        assert {"name": "one_pin", "columns": ["secret_pin"], "unique": True} in people["indices"]
        fields = {field["name"]: field for field in people["fields"]}
        assert fields["name"]["description"] == "As on the door"
        assert fields["mood"]["type"] == "enum('happy', 'tired')"
        assert (await talk.values("people", "mood")).structured["values"] == ["happy"]
        assert not fields["name"]["nullable"]
        assert (await talk.describe("audit.log")).structured["field_count"] == 3
        assert (await talk.values("audit.log", "what")).structured["values"] == ["came", "left"]
        slow = await talk.values("slow", "word")
        assert slow.failed
        assert slow.text.startswith("The database took longer than 0.3 s to find the values of slow.word.")
        assert 'people |o--o{ "audit.log" : "person_id"' in (await talk.draw()).structured["mermaid"]


async def test_only_words_are_listed_of_what_duckdb_has(addresses: dict[str, str]):
    async with talking(database=addresses["duckdb"]) as talk:
        assert (await talk.values("shapes", "mood")).structured["values"] == ["tired"]
        for column in ("record", "list", "map", "number"):
            said = await talk.values("shapes", column)
            assert said.failed, column
            assert "Columns that can be listed: mood." in said.text


async def test_a_pattern_may_name_the_schema_and_relations_keep_its_secret(addresses: dict[str, str]):
    blocked: Any = {"blocked_tables": ["public.people"], "blocked_columns": ["audit.log.what"]}
    async with talking(database=addresses["postgres"], **blocked) as talk:
        assert "people" not in await talk.names()
        log = await talk.describe("audit.log")
        assert [field["name"] for field in log.structured["fields"]] == ["id", "person_id"]
        assert "relationships" not in log.structured
        assert "people" not in log.text
    async with talking(database=addresses["postgres"], blocked_columns="people.id") as talk:
        # Whoever may not see a column does not learn of it from those that refer to it.
        assert "relationships" not in (await talk.describe("audit.log")).structured


async def test_values_that_are_books_are_not_listed(tmp_path: Path):
    path = tmp_path / "library.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE books (title TEXT, body TEXT)")
        connection.executemany(
            "INSERT INTO books VALUES (?, ?)",
            [(f"{n:02}" + "t" * 5000, f"{n}" * 500_000) for n in range(1, 40)],
        )
    connection.close()
    async with talking(database=f"sqlite:{path}") as talk:
        body = await talk.values("books", "body")
        assert body.failed
        assert body.text == "The values of books.body are too long to list; query them with SQL instead."
        titles = (await talk.values("books", "title")).structured
        assert titles["has_more"]
        assert 0 < titles["value_count"] < 39


async def test_a_database_that_is_not_there_is_said_and_costs_no_list(tmp_path: Path):
    async with talking(database=f"sqlite:{tmp_path}/nothing.db") as talk:
        said = await talk.describe()
        assert said.failed
        assert said.text == "The database cannot be used: there is no file 'nothing.db'"
        assert [str(one.uri) for one in (await talk.client.list_resources()).resources] == ["schema://tables"]
        assert await talk.complete("x") == []
    async with talking(database=f"sqlite:{tmp_path}/nothing.db", locale="pt") as talk:
        assert (await talk.describe()).text.startswith("O banco de dados não pode ser usado: ")
