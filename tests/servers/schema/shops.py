"""The same awkward little database in SQLite, DuckDB and PostgreSQL."""

import sqlite3
from pathlib import Path

AWKWARD = 'we"ird `table`; DROP TABLE people --'
AWKWARD_COLUMN = "a\"b`c'd; DELETE FROM people"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def statements() -> list[str]:
    people = [
        f"({n}, 'person {n:02}', {('TRUE', 'FALSE', 'NULL')[n % 3]}, 'pin{n}', NULL)" for n in range(1, 61)
    ]
    return [
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, active BOOLEAN,"
        " secret_pin VARCHAR(9), boss_id INTEGER REFERENCES people (id))",
        "CREATE TABLE secret_salaries (person_id INTEGER PRIMARY KEY REFERENCES people (id),"
        " grade VARCHAR(9))",
        f"CREATE TABLE {_quoted(AWKWARD)} (id INTEGER PRIMARY KEY, {_quoted(AWKWARD_COLUMN)} VARCHAR(20),"
        " person_id INTEGER REFERENCES people (id))",
        'CREATE TABLE "order" ("from" VARCHAR(20), "Ação" VARCHAR(20), n INTEGER)',
        "CREATE VIEW active_people AS SELECT id, name FROM people WHERE active",
        f"INSERT INTO people VALUES {', '.join(people)}",
        f"INSERT INTO {_quoted(AWKWARD)} VALUES (1, 'it''s', 1), (2, NULL, 2), (3, 'été', 3)",
        "INSERT INTO \"order\" VALUES ('here', 'sim', 1)",
    ]


def in_sqlite(folder: Path) -> str:
    path = folder / "awkward.db"
    with sqlite3.connect(path) as connection:
        for statement in statements():
            connection.execute(statement)
    connection.close()
    return f"sqlite:{path}"


MORE_OF_DUCKDB = [
    "CREATE TABLE shapes (record STRUCT(a VARCHAR), list VARCHAR[], map MAP(VARCHAR, INTEGER),"
    " mood ENUM('happy', 'tired'), number DECIMAL(9, 2))",
    "INSERT INTO shapes VALUES ({'a': 'x'}, ['x'], MAP {'x': 1}, 'tired', 1.5)",
]


def in_duckdb(folder: Path) -> str:
    import duckdb

    path = folder / "awkward.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in [*statements(), *MORE_OF_DUCKDB]:
            connection.execute(statement)
    return f"duckdb:{path}"


MORE_OF_POSTGRES = [
    "COMMENT ON TABLE people IS 'Who works here'",
    "COMMENT ON COLUMN people.name IS 'As on the door'",
    "CREATE UNIQUE INDEX one_pin ON people (secret_pin)",
    "CREATE TYPE mood AS ENUM ('happy', 'tired')",
    "ALTER TABLE people ADD COLUMN mood mood DEFAULT 'happy'",
    "CREATE SCHEMA audit",
    "CREATE TABLE audit.log (id BIGINT PRIMARY KEY, what TEXT, person_id INTEGER REFERENCES people (id))",
    "INSERT INTO audit.log VALUES (1, 'came', 1), (2, 'left', 2)",
    "CREATE VIEW slow AS SELECT CASE WHEN pg_sleep(60) IS NULL THEN 'a' ELSE 'b' END AS word",
    "ANALYZE",
]


def in_postgres(url: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in [*statements(), *MORE_OF_POSTGRES]:
            connection.execute(statement.encode())
    return url
