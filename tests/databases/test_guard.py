"""What the guard makes of statements: limits, names that are not to be read, and where the trouble is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.databases.guard.statement import GuardedStatement, guard_statement
from toolyard.databases.model import StatementRefusedError

DIALECTS = ("postgres", "sqlite", "duckdb", "mysql")


def ask(sql: str, dialect: str = "postgres", **more: Any) -> GuardedStatement:
    usual: dict[str, Any] = {"limit": 100}
    return guard_statement(sql, dialect, **usual | more)


def refusal(sql: str, dialect: str = "postgres", **more) -> StatementRefusedError:
    with pytest.raises(StatementRefusedError) as caught:
        ask(sql, dialect, **more)
    return caught.value


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        ("SELECT id FROM t", "SELECT id FROM t LIMIT 100"),
        ("SELECT id FROM t LIMIT 5", "SELECT id FROM t LIMIT 5"),
        ("SELECT id FROM t LIMIT 5000 OFFSET 3", "SELECT id FROM t LIMIT 100 OFFSET 3"),
        ("SELECT id FROM t LIMIT ALL", "SELECT id FROM t LIMIT 100"),
        ("SELECT id FROM t LIMIT 50 + 500", "SELECT id FROM t LIMIT 100"),
        ("SELECT id FROM t FETCH FIRST 5 ROWS WITH TIES", "SELECT id FROM t LIMIT 100"),
        ("SELECT 1 UNION SELECT 2", "SELECT 1 UNION SELECT 2 LIMIT 100"),
        ("(SELECT 1 LIMIT 500)", "(SELECT 1 LIMIT 500) LIMIT 100"),
        (
            "SELECT * FROM (SELECT id FROM t LIMIT 500) q",
            "SELECT * FROM (SELECT id FROM t LIMIT 500) AS q LIMIT 100",
        ),
        (
            "WITH a AS (SELECT 1 LIMIT 1) SELECT * FROM a",
            "WITH a AS (SELECT 1 LIMIT 1) SELECT * FROM a LIMIT 100",
        ),
    ],
)
def test_no_statement_gives_more_rows_than_the_limit(asked: str, run: str):
    assert ask(asked).sql == run


def test_comments_do_not_reach_the_database():
    assert ask("SELECT /* a */ 1 -- b").sql == "SELECT 1 LIMIT 100"
    assert ask("SELECT /*!50000 1, */ 2", "mysql").sql == "SELECT 2 LIMIT 100"


def test_the_tables_and_columns_that_are_used_are_named_without_the_names_that_the_statement_gave():
    found = ask(
        "WITH recent AS (SELECT customer_id FROM archive.orders WHERE day > now()),"
        " c AS (SELECT * FROM recent)"
        " SELECT c.customer_id, customers.name FROM c JOIN customers ON customers.id = c.customer_id"
    )
    assert found.tables == ("archive.orders", "customers")
    assert found.columns == ("customer_id", "day", "name", "id")


def test_a_name_given_within_does_not_hide_a_table_outside():
    found = ask("SELECT * FROM orders WHERE EXISTS (WITH orders AS (SELECT 1 AS x) SELECT x FROM orders)")
    assert found.tables == ("orders",)
    recursive = ask(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n"
    )
    assert recursive.tables == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM secrets",
        "SELECT id FROM SECRETS",
        'SELECT id FROM "secrets"',
        'SELECT id FROM "Secrets"',
        "SELECT id FROM public.secrets",
        "SELECT id FROM ｓｅｃｒｅｔｓ",  # noqa: RUF001
        "SELECT id FROM orders AS o JOIN secrets AS s ON true",
        "SELECT id FROM orders, secrets",
        "SELECT (SELECT max(id) FROM secrets)",
        "SELECT 1 WHERE 1 IN (SELECT id FROM secrets)",
        "WITH a AS (SELECT id FROM secrets) SELECT id FROM a",
        "WITH secrets AS (SELECT 1 AS id) SELECT id FROM secrets",
        "SELECT id FROM orders UNION SELECT id FROM secrets",
        "SELECT id FROM orders, LATERAL (SELECT id FROM secrets) s",
        "TABLE secrets",
        "SELECT id FROM hr.people",
        "SELECT id FROM orders ORDER BY (SELECT max(id) FROM secrets)",
    ],
)
def test_a_blocked_table_is_not_reached_by_any_way(sql: str):
    assert "cannot be read" in refusal(sql, blocked_tables=["secret*", "hr.*"]).reason


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'guess' IN secrets",
        "SELECT 'guess' NOT IN main.secrets",
        "SELECT 'guess' IN [secrets]",
        "SELECT 'guess' IN 'secrets'",
        "SELECT 'guess' IN main.pragma_table_info('secrets')",
        "SELECT (1, 2, 3, 4, 5) IN sqlite_master",
    ],
)
def test_sqlite_is_not_asked_whether_a_value_is_in_a_table_that_only_stands_behind_in(sql: str):
    assert refusal(sql, "sqlite", blocked_tables=["secrets"]).reason


def test_a_value_may_be_looked_for_in_brackets():
    assert ask("SELECT 1 IN (1, 2), 1 IN (SELECT id FROM orders)", "sqlite").tables == ("orders",)


def test_what_duckdb_repeats_is_short_because_nothing_could_stop_it():
    assert ask("SELECT repeat('-', 20), lpad(name, 30, ' '), rpad(name, 9, '.') FROM orders", "duckdb")
    for sql in (
        "SELECT repeat('a', 1000000000)",
        "SELECT repeat('a', number) FROM orders",
        "WITH a AS (SELECT repeat('a', 9999) AS x) SELECT repeat(x, 9999) FROM a",
        "SELECT lpad('a', 1000000000, 'b')",
        "SELECT rpad('a', 5 * 1000000000, 'b')",
    ):
        with pytest.raises(StatementRefusedError, match="at most 10000"):
            ask(sql, "duckdb")


def test_what_sqlite_trims_is_a_short_text_because_nothing_could_stop_it():
    assert ask("SELECT trim(name), trim(name, ' .'), rtrim(name, '/') FROM orders", "sqlite")
    for sql in (
        "SELECT trim(name, other) FROM orders",
        "SELECT rtrim(name, hex(zeroblob(1000000))) FROM orders",
        f"SELECT ltrim(name, '{'x' * 101}') FROM orders",
    ):
        assert "to trim" in refusal(sql, "sqlite").reason
    assert ask("SELECT trim(name, other) FROM orders", "postgres")


def test_blocked_tables_leave_the_others_alone():
    assert ask("SELECT id FROM people", blocked_tables=["secret*", "hr.*"]).tables == ("people",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT password FROM users",
        "SELECT PASSWORD FROM users",
        'SELECT "password" FROM users',
        "SELECT u.password AS p FROM users u",
        "SELECT public.users.password FROM public.users",
        "SELECT id FROM users WHERE password LIKE 'a%'",
        "SELECT id FROM users ORDER BY password",
        "SELECT count(*) FROM users GROUP BY password",
        "SELECT max(password) FROM users",
        "SELECT sum(1) OVER (PARTITION BY password) FROM users",
        "SELECT (u).password FROM users u",
        "SELECT ((u)).password FROM users u",
        "SELECT a.id FROM users a JOIN users b USING (password)",
        "SELECT * FROM users",
        "SELECT u.* FROM users u",
        "SELECT (u).* FROM users u",
        "SELECT q.p FROM (SELECT * FROM users) AS q(i, p)",
        "SELECT p FROM users AS u(i, p)",
        "WITH a AS (SELECT * FROM users) SELECT * FROM a",
        "WITH a(i, p) AS (SELECT * FROM users) SELECT p FROM a",
        "SELECT u FROM users u",
        "SELECT users FROM users",
        "SELECT row_to_json(u) FROM users u",
        "SELECT to_jsonb(users) ->> 'x' FROM users",
        "SELECT u::text FROM users u",
        "SELECT count(u) FROM users u",
        "SELECT json_agg(u) FROM users u",
        "TABLE users",
        "SELECT id FROM orders UNION ALL SELECT password FROM users",
        "SELECT id FROM users NATURAL JOIN orders",
        "SELECT password FROM (SELECT 1 AS password) q, users",
        'WITH "Users" AS (SELECT 1 AS id) SELECT * FROM users',
        "SELECT * FROM users WHERE EXISTS (WITH users AS (SELECT 1 AS id) SELECT id FROM users)",
        "WITH RECURSIVE a AS (SELECT * FROM users), users AS (SELECT 1 AS id) SELECT id FROM a",
        "WITH users AS (SELECT * FROM users) SELECT id FROM users",
        "SELECT * FROM (orders CROSS JOIN users)",
        "SELECT * FROM orders o LEFT JOIN (users) ON true",
        "SELECT id FROM orders WHERE EXISTS (SELECT * FROM users)",
        "SELECT * FROM orders, LATERAL (SELECT * FROM users) AS u",
        "SELECT t.* FROM (users) AS t",
        "SELECT t.* FROM ((users)) AS t",
        "SELECT t.* FROM (orders JOIN users USING (id)) AS t",
        "SELECT t FROM (users CROSS JOIN orders) AS t",
        "SELECT b FROM (users CROSS JOIN orders) AS t(a, b)",
        "SELECT (SELECT t.* FROM (users) AS t)",
    ],
)
@pytest.mark.parametrize("pattern", ["pass*", "users.password", "*.password"])
def test_a_blocked_column_is_not_reached_by_any_way(sql: str, pattern: str):
    reason = refusal(sql, blocked_columns=[pattern]).reason
    assert "cannot be read" in reason or "blocked columns" in reason


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("duckdb", "SELECT COLUMNS('pass.*') FROM users"),
        ("duckdb", "SELECT COLUMNS(*) FROM users"),
        ("duckdb", "FROM users"),
        ("duckdb", "SELECT * EXCLUDE (id) FROM users"),
        ("duckdb", "SELECT #2 FROM users"),
        ("duckdb", "SELECT u FROM users u"),
        ("duckdb", "SELECT main.users FROM main.users"),
        ("duckdb", "SELECT memory.main.users FROM users"),
        ("duckdb", "SELECT struct_pack(a := users) FROM users"),
        ("duckdb", "UNPIVOT users ON id INTO NAME n VALUE v"),
        ("sqlite", "SELECT [password] FROM users"),
        ("sqlite", "SELECT `password` FROM users"),
        ("sqlite", "SELECT u.'password' FROM users u"),
        ("mysql", "SELECT `password` FROM users"),
    ],
)
def test_a_blocked_column_is_not_reached_in_the_ways_of_one_dialect(dialect: str, sql: str):
    assert refusal(sql, dialect, blocked_columns=["password"]).reason


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT u.to_jsonb FROM users u",
        "SELECT users.array_agg FROM users",
        "SELECT public.users.row_to_json FROM public.users",
        "SELECT t.to_json FROM (users CROSS JOIN orders) t",
        "SELECT u.function_of_the_owner FROM users u",
    ],
)
def test_postgresql_is_not_given_a_function_of_a_whole_row_that_looks_like_a_column(sql: str):
    known = {"users": ["id", "password"], "orders": ["id"]}
    assert "whole row" in refusal(sql, blocked_columns=["password"], known=known).reason
    if "owner" not in sql:
        assert "whole row" in refusal(sql, blocked_columns=["password"]).reason


def test_columns_behind_the_name_of_a_table_with_a_blocked_one_are_still_read():
    known = {"users": ["id", "Name", "password"], "orders": ["id", "user_id"]}
    sql = "SELECT u.id, u.NAME, o.anything, q.n FROM users u, orders o, (SELECT id AS n FROM users) q"
    assert ask(sql, blocked_columns=["password"], known=known)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, login FROM users",
        "SELECT count(*) FROM users",
        "SELECT o.* FROM orders o JOIN users u ON u.id = o.user_id",
        "SELECT * FROM orders",
        "SELECT o.password FROM orders o JOIN users u ON u.id = o.user_id",
        "WITH few AS (SELECT id, login FROM users) SELECT * FROM few",
        "SELECT q.* FROM (SELECT id FROM users) AS q",
        "SELECT t.* FROM (orders) AS t JOIN users u ON u.id = t.user_id",
    ],
)
def test_a_blocked_column_of_one_table_leaves_the_others_alone(sql: str):
    assert ask(sql, blocked_columns=["users.password"])


def test_a_star_is_allowed_where_the_columns_are_known_and_none_is_blocked():
    known = {"orders": ["id", "day"], "users": ["id", "password"]}
    assert ask("SELECT * FROM orders", blocked_columns=["password"], known=known)
    assert ask("SELECT o FROM orders o", blocked_columns=["password"], known=known)
    assert (
        "name the columns" in refusal("SELECT * FROM users", blocked_columns=["password"], known=known).reason
    )
    assert ask("SELECT * FROM old.orders", blocked_columns=["password"], known={"old.orders": ["id"]})
    assert refusal("SELECT * FROM orders", blocked_columns=["password"]).reason
    assert refusal("SELECT * FROM others", blocked_columns=["password"], known=known).reason


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("DELETE FROM users", (1, 1)),
        ("SELECT 1;\nDELETE FROM users", (1, 9)),
        ("SELECT id,\n  pg_sleep(1)\nFROM users", (2, 3)),
        ("SELECT id\nFROM users\nFOR UPDATE", (3, 1)),
        ("SELECT *\nFROM a\nJOIN pg_shadow ON true", (3, 6)),
        ("SELECT 1 INTO x FROM t", (1, 10)),
        ("SELECT id\nFROM t WHERE (a = 1", (2, 19)),
    ],
)
def test_a_refusal_says_where(sql: str, place: tuple[int, int]):
    refused = refusal(sql)
    assert refused.position == place
    assert f"line {place[0]}, column {place[1]}" in str(refused)


def test_a_refusal_quotes_what_it_is_about():
    assert "'pg_sleep'" in refusal("SELECT pg_sleep(1)").reason
    assert "'users'" in refusal("SELECT id FROM users", blocked_tables=["users"]).reason
    assert "'delete'" in refusal("delete from users").reason


PIECES = """
1 t.a 'x' "q" 'it''s' \\ $$ $ $1 ? :a @b # -- /* */ ; ( ) [ ] { } , . * + - / % || :: -> ->> = <> := => AS
FROM a
t u.t JOIN ON USING WHERE GROUP BY ORDER LIMIT OFFSET UNION ALL EXCEPT SELECT WITH VALUES CASE WHEN THEN ELSE
END NOT AND OR IN EXISTS BETWEEN LIKE IS NULL OVER PARTITION FILTER LATERAL INTO FOR UPDATE DELETE INSERT SET
TABLE PIVOT count( sum( lower( pg_sleep( CAST( INTERVAL DATE E'\\n' b'1' x'0f' U&'a' N'a' é
"""


@given(st.lists(st.sampled_from(PIECES.split()), max_size=14), st.sampled_from(DIALECTS))
def test_any_text_is_refused_or_becomes_one_question_that_stays_itself(pieces: list[str], dialect: str):
    try:
        sql = guard_statement("SELECT " + " ".join(pieces), dialect, limit=7).sql
    except StatementRefusedError:
        return
    assert guard_statement(sql, dialect, limit=7).sql == sql
