# ruff: noqa: E501 RUF001 -- a statement is read best in one line; some look like what they are not
"""Statements that no caller may run, and questions that every caller may.

An attack is for one or more dialects; `FOLDER` in it is a folder that anybody may write to. Each is refused by
the guard, and does nothing when it is sent past the guard. They name tables of the warehouse, so that each would
work on a database that nothing protects.
"""

from typing import NamedTuple

ALL = ("postgres", "sqlite", "duckdb", "mysql")
PG, LITE, DUCK, MY = (("postgres",), ("sqlite",), ("duckdb",), ("mysql",))
EMBEDDED = ("sqlite", "duckdb")


class Attack(NamedTuple):
    name: str
    sql: str
    dialects: tuple[str, ...] = ALL


STACKED = [
    Attack("two statements", "SELECT 1; DROP TABLE users"),
    Attack("two questions", "SELECT 1; SELECT 2"),
    Attack("a write after a comment", "SELECT 1; -- harmless\nDELETE FROM users"),
    Attack("a write between semicolons", ";;SELECT 1;;DELETE FROM users;;"),
    Attack("a write hidden by a string that is not one", "SELECT 'a''; DELETE FROM users --"),
    Attack("a write after an escaped quote", "SELECT 'it''s'; UPDATE users SET login = ''"),
    Attack("a backslash that ends no string", r"SELECT '\'; DELETE FROM users; --'", PG + EMBEDDED),
    Attack("a write after a dollar string", "SELECT $$a$$; DELETE FROM users", PG),
    Attack("a write after a tagged dollar string", "SELECT $x$ $$ $x$; DROP TABLE users; SELECT $$ $$", PG),
    Attack("a write after a nested comment", "SELECT 1 /* /* */ */; DELETE FROM users", PG),
    Attack(
        "a write after a comment that nests in one dialect only",
        "SELECT 1 /* /* */; DELETE FROM users -- */",
        LITE + MY,
    ),
    Attack("the end of a wrapping", "SELECT 1) AS asked; DELETE FROM users; --"),
    Attack("the end of a wrapping, and another", "SELECT 1) q; DELETE FROM users; SELECT * FROM (SELECT 2"),
    Attack("a transaction that is ended first", "COMMIT; DELETE FROM users"),
    Attack("a transaction of one's own", "ROLLBACK; BEGIN; DELETE FROM users; COMMIT"),
    Attack("a carriage return that ends a comment somewhere", "SELECT 1 --\r; DELETE FROM users", PG + DUCK),
]
WRITES = [
    Attack("insert", "INSERT INTO users VALUES (99, 'x', 'x', 1)"),
    Attack("insert from a question", "INSERT INTO users SELECT 98, 'y', 'y', 2"),
    Attack("insert or replace", "INSERT OR REPLACE INTO users VALUES (1, 'x', 'x', 1)", EMBEDDED),
    Attack(
        "insert on conflict",
        "INSERT INTO users VALUES (1, 'x', 'x', 1) ON CONFLICT (id) DO UPDATE SET login = 'x'",
    ),
    Attack("replace", "REPLACE INTO users VALUES (1, 'x', 'x', 1)", LITE + MY),
    Attack("update", "UPDATE users SET salary = 0"),
    Attack("update with returning", "UPDATE users SET salary = 0 RETURNING *", PG + EMBEDDED),
    Attack("delete", "DELETE FROM users"),
    Attack("delete with returning", "DELETE FROM users RETURNING id", PG + EMBEDDED),
    Attack("truncate", "TRUNCATE users", PG + DUCK + MY),
    Attack(
        "merge",
        "MERGE INTO users u USING (SELECT 1 AS id) s ON u.id = s.id WHEN MATCHED THEN DELETE",
        PG + DUCK,
    ),
    Attack("odd case", "dElEtE fRoM users"),
    Attack("a comment before it", "/* SELECT */ DELETE FROM users"),
    Attack("a comment within it", "DELETE/**/FROM/**/users"),
    Attack("a parenthesis before it", "(DELETE FROM users)"),
    Attack("WITH before delete", "WITH a AS (SELECT 1) DELETE FROM users", PG + EMBEDDED + MY),
    Attack(
        "WITH before insert",
        "WITH a AS (SELECT 97) INSERT INTO users SELECT 97, 'z', 'z', 3 FROM a",
        PG + EMBEDDED,
    ),
    Attack("WITH before update", "WITH a AS (SELECT 1) UPDATE users SET salary = 0", PG + EMBEDDED + MY),
    Attack(
        "a delete in WITH", "WITH gone AS (DELETE FROM users RETURNING *) SELECT * FROM gone", PG + EMBEDDED
    ),
    Attack(
        "an update in WITH", "WITH u AS (UPDATE users SET salary = 0 RETURNING id) SELECT count(*) FROM u", PG
    ),
    Attack(
        "an insert in WITH",
        "WITH u AS (INSERT INTO users VALUES (96, 'a', 'b', 1) RETURNING id) SELECT 1",
        PG,
    ),
    Attack(
        "a delete in a WITH in a WITH",
        "WITH a AS (WITH b AS (DELETE FROM users RETURNING id) SELECT * FROM b) SELECT * FROM a",
        PG,
    ),
    Attack("a delete in FROM", "SELECT * FROM (DELETE FROM users RETURNING id) q", PG + EMBEDDED),
    Attack("a delete in a condition", "SELECT 1 WHERE EXISTS (DELETE FROM users RETURNING 1)", PG),
    Attack(
        "a merge in WITH",
        "WITH m AS (MERGE INTO users u USING users s ON u.id = s.id WHEN MATCHED THEN DELETE) SELECT 1",
        PG,
    ),
]
DEFINITIONS = [
    Attack("create table", "CREATE TABLE stolen (i integer)"),
    Attack("create table as", "CREATE TABLE stolen AS SELECT * FROM users"),
    Attack("create temporary table", "CREATE TEMPORARY TABLE stolen AS SELECT * FROM users"),
    Attack("create view", "CREATE VIEW stolen AS SELECT * FROM users"),
    Attack(
        "create or replace view", "CREATE OR REPLACE VIEW open_shipments AS SELECT 1 AS id", PG + DUCK + MY
    ),
    Attack("create function", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$SELECT 1$$", PG),
    Attack("create macro", "CREATE MACRO f() AS 1", DUCK),
    Attack("create trigger", "CREATE TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM users; END", LITE),
    Attack("create index", "CREATE INDEX stolen ON users (salary)"),
    Attack("create role", "CREATE ROLE thief SUPERUSER", PG),
    Attack("create extension", "CREATE EXTENSION dblink", PG),
    Attack("create schema", "CREATE SCHEMA stolen", PG + DUCK + MY),
    Attack("drop table", "DROP TABLE users"),
    Attack("drop view", "DROP VIEW open_shipments"),
    Attack("alter table", "ALTER TABLE users ADD COLUMN x integer"),
    Attack("rename a table", "ALTER TABLE users RENAME TO stolen"),
    Attack("alter role", "ALTER ROLE yard PASSWORD 'x'", PG),
    Attack("alter system", "ALTER SYSTEM SET work_mem = '1GB'", PG),
    Attack("grant", "GRANT ALL ON users TO PUBLIC", PG + MY),
    Attack("comment", "COMMENT ON TABLE users IS 'x'", PG + DUCK),
    Attack("select into", "SELECT * INTO stolen FROM users", PG + DUCK + MY),
    Attack("select into temporary", "SELECT 1 AS a INTO TEMP stolen", PG),
    Attack("select into in WITH", "WITH a AS (SELECT 1 AS x INTO stolen) SELECT * FROM a", PG),
    Attack("reindex", "REINDEX TABLE users", PG + LITE),
    Attack("refresh", "REFRESH MATERIALIZED VIEW stolen", PG),
]
FILES = [
    Attack("copy to a file", "COPY users TO 'FOLDER/copied'", PG + DUCK),
    Attack("copy a question to a file", "COPY (SELECT * FROM users) TO 'FOLDER/copied'", PG + DUCK),
    Attack("copy to a program", "COPY (SELECT 1) TO PROGRAM 'touch FOLDER/copied'", PG),
    Attack("copy from a file", "COPY users FROM '/etc/passwd'", PG + DUCK),
    Attack("copy to standard output", "COPY users TO STDOUT", PG),
    Attack("a large object to a file", "SELECT lo_export(lo_from_bytea(0, 'x'), 'FOLDER/exported')", PG),
    Attack("a file to a large object", "SELECT lo_import('/etc/passwd')", PG),
    Attack("read a file", "SELECT pg_read_file('/etc/passwd')", PG),
    Attack("read a file as bytes", "SELECT pg_read_binary_file('/etc/passwd')", PG),
    Attack("list a folder", "SELECT pg_ls_dir('/')", PG),
    Attack("look at a file", "SELECT (pg_stat_file('/etc/passwd')).size", PG),
    Attack("a file as a set", "SELECT * FROM pg_ls_logdir()", PG),
    Attack("into outfile", "SELECT * FROM users INTO OUTFILE 'FOLDER/out'", MY),
    Attack("into outfile in the middle", "SELECT 1 INTO OUTFILE 'FOLDER/out' FROM users", MY),
    Attack("into dumpfile", "SELECT 'x' INTO DUMPFILE 'FOLDER/dump'", MY),
    Attack("load file", "SELECT LOAD_FILE('/etc/passwd')", MY),
    Attack("load data", "LOAD DATA INFILE '/etc/passwd' INTO TABLE users", MY),
    Attack("attach", "ATTACH DATABASE 'FOLDER/attached' AS stolen", EMBEDDED),
    Attack("attach in memory", "ATTACH ':memory:' AS stolen", EMBEDDED),
    Attack("detach", "DETACH DATABASE main", EMBEDDED),
    Attack("vacuum into", "VACUUM INTO 'FOLDER/vacuumed'", LITE),
    Attack("export", "EXPORT DATABASE 'FOLDER/exported'", DUCK),
    Attack("import", "IMPORT DATABASE 'FOLDER'", DUCK),
    Attack("a file as a table", "SELECT * FROM '/etc/passwd'", DUCK),
    Attack("a quoted file as a table", 'SELECT * FROM "/etc/passwd.csv"', DUCK),
    Attack("an address as a table", "SELECT * FROM 'https://example.com/a.parquet'", DUCK),
    Attack("read_csv", "SELECT * FROM read_csv('/etc/passwd', header = false)", DUCK),
    Attack("read_text", "SELECT content FROM read_text('/etc/passwd')", DUCK),
    Attack("read_blob", "SELECT * FROM read_blob('/etc/*')", DUCK),
    Attack("read_parquet", "SELECT * FROM read_parquet('FOLDER/x.parquet')", DUCK),
    Attack("read_json", "SELECT * FROM read_json_auto('FOLDER/x.json')", DUCK),
    Attack("glob", "SELECT * FROM glob('/etc/*')", DUCK),
    Attack("readfile", "SELECT readfile('/etc/passwd')", LITE),
    Attack("writefile", "SELECT writefile('FOLDER/written', 'x')", LITE),
    Attack("edit", "SELECT edit('x', 'touch FOLDER/edited')", LITE),
    Attack("install", "INSTALL httpfs", DUCK),
    Attack("load", "LOAD httpfs", DUCK),
    Attack("load extension", "SELECT load_extension('FOLDER/evil')", LITE),
    Attack("tokenizer pointers", "SELECT fts3_tokenizer('simple')", LITE),
]
EFFECTS = [
    Attack("sleep", "SELECT pg_sleep(0.01)", PG),
    Attack("sleep by its schema", "SELECT pg_catalog.pg_sleep(0.01)", PG),
    Attack("sleep quoted", 'SELECT "pg_sleep"(0.01)', PG),
    Attack("sleep quoted by its quoted schema", 'SELECT "pg_catalog"."pg_sleep"(0.01)', PG),
    Attack("sleep in FROM", "SELECT * FROM pg_sleep(0.01)", PG),
    Attack("sleep in ROWS FROM", "SELECT * FROM ROWS FROM (pg_sleep(0.01)) AS s", PG),
    Attack("sleep in a lateral", "SELECT * FROM users, LATERAL pg_sleep(0.01)", PG),
    Attack("sleep in a limit", "SELECT 1 LIMIT (SELECT 1 FROM pg_sleep(0.01))", PG),
    Attack("sleep in ORDER BY", "SELECT 1 ORDER BY pg_sleep(0.01)", PG),
    Attack("sleep in a window", "SELECT sum(1) OVER (ORDER BY pg_sleep(0.01))", PG),
    Attack("sleep in a filter", "SELECT count(*) FILTER (WHERE pg_sleep(0.01) IS NULL)", PG),
    Attack("sleep for a while", "SELECT pg_sleep_for('10 milliseconds')", PG),
    Attack("sleep in MySQL", "SELECT SLEEP(0.01)", MY),
    Attack("benchmark", "SELECT BENCHMARK(10, MD5('x'))", MY),
    Attack("sleep in DuckDB", "SELECT sleep_ms(10)", DUCK),
    Attack("a lock", "SELECT pg_advisory_lock(1)", PG),
    Attack("a named lock", "SELECT GET_LOCK('x', 1)", MY),
    Attack("end a session", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE false", PG),
    Attack("reload the configuration", "SELECT pg_reload_conf()", PG),
    Attack("turn the log", "SELECT pg_rotate_logfile()", PG),
    Attack("a setting", "SELECT set_config('statement_timeout', '0', false)", PG),
    Attack("writing allowed again", "SELECT set_config('transaction_read_only', 'off', false)", PG),
    Attack("another role", "SELECT set_config('role', 'yard', true)", PG),
    Attack("read a setting", "SELECT current_setting('data_directory')", PG + DUCK),
    Attack("a sequence", "SELECT nextval('users_id_seq')", PG + DUCK),
    Attack("set a sequence", "SELECT setval('users_id_seq', 1)", PG),
    Attack("notify", "SELECT pg_notify('x', 'y')", PG),
    Attack("a question in a text", "SELECT query_to_xml('SELECT * FROM users', true, true, '')", PG),
    Attack("a table in a text", "SELECT table_to_xml('users', true, true, '')", PG),
    Attack(
        "statistics of a question in a text",
        "SELECT * FROM ts_stat('SELECT to_tsvector(login) FROM users')",
        PG,
    ),
    Attack("another server", "SELECT * FROM dblink('host=127.0.0.1', 'SELECT 1') AS t(a int)", PG),
    Attack("another server, run", "SELECT dblink_exec('host=127.0.0.1', 'DELETE FROM users')", PG),
    Attack("forget statistics", "SELECT pg_stat_reset()", PG),
    Attack("a snapshot for others", "SELECT pg_export_snapshot()", PG),
    Attack("make a large object", "SELECT lo_create(4242)", PG),
    Attack("write a log", "SELECT write_log('x')", DUCK),
    Attack("an environment variable", "SELECT getenv('PATH')", DUCK),
    Attack("a question in a text, DuckDB", "SELECT * FROM query('SELECT * FROM users')", DUCK),
    Attack("a table in a text, DuckDB", "SELECT * FROM query_table('users')", DUCK),
    Attack("a function nobody knows", "SELECT do_something_bad()"),
    Attack("a function of somebody's schema", "SELECT evil.lower('X')", PG + DUCK + MY),
    Attack("a variable set", "SELECT @a := 1", MY),
    Attack("a variable of the server", "SELECT @@datadir", MY),
    Attack("an XML document from elsewhere", "SELECT EXTRACTVALUE('<a/>', CONCAT(0x7e, VERSION()))", MY),
    Attack("the last id", "SELECT LAST_INSERT_ID(5)", MY),
]
COMMANDS = [
    Attack("explain", "EXPLAIN SELECT 1"),
    Attack("explain that runs a write", "EXPLAIN ANALYZE DELETE FROM users", PG + DUCK),
    Attack("explain with options", "EXPLAIN (ANALYZE, BUFFERS) UPDATE users SET salary = 0", PG),
    Attack("pragma", "PRAGMA user_version = 7", LITE),
    Attack("pragma that allows writes", "PRAGMA query_only = OFF", LITE),
    Attack("pragma of the schema", "PRAGMA writable_schema = ON", LITE),
    Attack("pragma as a table", "SELECT * FROM pragma_table_info('users')", LITE),
    Attack("pragma in DuckDB", "PRAGMA enable_profiling", DUCK),
    Attack("set", "SET statement_timeout = 0", PG),
    Attack("set the session", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", PG),
    Attack("set the transaction", "SET TRANSACTION READ WRITE", PG + MY),
    Attack("set the role", "SET ROLE yard", PG),
    Attack("set in DuckDB", "SET enable_external_access = true", DUCK),
    Attack("set globally", "SET GLOBAL general_log = 1", MY),
    Attack("reset", "RESET ALL", PG),
    Attack("show", "SHOW data_directory", PG),
    Attack("show tables", "SHOW TABLES", DUCK + MY),
    Attack("describe", "DESCRIBE users", DUCK + MY),
    Attack("summarize", "SUMMARIZE users", DUCK),
    Attack("a block", "DO $$ BEGIN DELETE FROM users; END $$", PG),
    Attack(
        "a block with another role", "DO $$ BEGIN RESET ROLE; COPY (SELECT 1) TO 'FOLDER/copied'; END $$", PG
    ),
    Attack("call", "CALL do_something()", PG + DUCK + MY),
    Attack("prepare", "PREPARE p AS DELETE FROM users", PG + DUCK),
    Attack("prepare from a text", "PREPARE p FROM 'DELETE FROM users'", MY),
    Attack("execute", "EXECUTE p", PG + DUCK + MY),
    Attack("a cursor", "DECLARE c CURSOR FOR SELECT * FROM users", PG),
    Attack("listen", "LISTEN x", PG),
    Attack("notify as a command", "NOTIFY x", PG),
    Attack("lock", "LOCK TABLE users", PG),
    Attack("lock tables", "LOCK TABLES users WRITE", MY),
    Attack("begin", "BEGIN", PG + EMBEDDED + MY),
    Attack("commit", "COMMIT", PG + EMBEDDED + MY),
    Attack("savepoint", "SAVEPOINT a", PG + LITE + MY),
    Attack("vacuum", "VACUUM", PG + EMBEDDED),
    Attack("analyze", "ANALYZE", PG + EMBEDDED),
    Attack("checkpoint", "CHECKPOINT", PG + DUCK),
    Attack("discard", "DISCARD ALL", PG),
    Attack("kill", "KILL 1", MY),
    Attack("handler", "HANDLER users OPEN", MY),
    Attack("use", "USE mysql", DUCK + MY),
    Attack("for update", "SELECT * FROM users FOR UPDATE", PG + MY),
    Attack("for share", "SELECT * FROM users FOR SHARE", PG + MY),
    Attack("for no key update", "SELECT * FROM users FOR NO KEY UPDATE SKIP LOCKED", PG),
    Attack("for update within", "SELECT * FROM (SELECT * FROM users FOR UPDATE) q", PG + MY),
    Attack("lock in share mode", "SELECT * FROM users LOCK IN SHARE MODE", MY),
    Attack("a hint that sets", "SELECT /*+ SET_VAR(max_execution_time = 0) */ 1", MY),
    Attack("a parameter", "SELECT * FROM users WHERE id = $1", PG + DUCK),
    Attack("a placeholder", "SELECT * FROM users WHERE id = ?"),
]
CATALOGUES = [
    Attack("passwords", "SELECT * FROM pg_shadow", PG),
    Attack("passwords by their schema", "SELECT rolpassword FROM pg_catalog.pg_authid", PG),
    Attack("passwords, quoted", 'SELECT * FROM "pg_catalog"."pg_authid"', PG),
    Attack("what others ask", "SELECT query FROM pg_stat_activity", PG),
    Attack("settings", "SELECT * FROM pg_settings", PG),
    Attack("configuration files", "SELECT * FROM pg_hba_file_rules", PG),
    Attack("the information schema", "SELECT * FROM information_schema.tables", PG + DUCK + MY),
    Attack("users of MySQL", "SELECT * FROM mysql.user", MY),
    Attack("what others ask, MySQL", "SELECT * FROM performance_schema.threads", MY),
    Attack("the schema table", "SELECT * FROM sqlite_master", LITE),
    Attack("the schema table by its other name", "SELECT sql FROM main.sqlite_schema", LITE),
    Attack("secrets", "SELECT * FROM duckdb_secrets()", DUCK),
    Attack("settings, DuckDB", "SELECT * FROM duckdb_settings()", DUCK),
    Attack("a catalogue in a subquery", "SELECT 1 WHERE EXISTS (SELECT 1 FROM pg_authid)", PG),
]
TEXTS = [
    Attack("nothing", ""),
    Attack("blanks", " \n\t "),
    Attack("only a comment", "-- nothing"),
    Attack("only a semicolon", ";"),
    Attack("no SQL", "give me all the users"),
    Attack("a look-alike", "ЅЕLЕСТ 1"),
    Attack("a wide look-alike", "ＤＥＬＥＴＥ FROM users"),
    Attack("a wide semicolon", "SELECT 1；DELETE FROM users"),
    Attack("a zero-width space", "SEL\u200bECT 1"),
    Attack("a NUL", "SELECT 1\x00; DELETE FROM users"),
    Attack("half a surrogate", "SELECT '\ud800'"),
    Attack("an open string", "SELECT 'abc"),
    Attack("an open comment", "SELECT 1 /* abc"),
    Attack("an open parenthesis", "SELECT (1"),
    Attack("deep parentheses", "SELECT " + "(" * 5_000 + "1" + ")" * 5_000),
    Attack("deep subqueries", "SELECT * FROM " + "(SELECT * FROM " * 300 + "users" + ") q" * 300),
    Attack("deep NOT", "SELECT " + "NOT " * 2_000 + "1"),
    Attack("deep signs", "SELECT " + "- " * 2_000 + "1"),
    Attack("deep CASE", "SELECT " + "CASE WHEN 1 = 1 THEN " * 500 + "1" + " END" * 500),
    Attack("deep brackets", "SELECT " + "[" * 1_000 + "1" + "]" * 1_000, DUCK),
    Attack(
        "brackets that double the time of a parser", "SELECT " + "[" * 30 + "1" + "]" * 30, PG + LITE + MY
    ),
    Attack(
        "braces that double the time of a parser", "SELECT " + "{'a': " * 30 + "1" + "}" * 30, PG + LITE + MY
    ),
    Attack("deep WITH", "WITH a AS (" * 200 + "SELECT 1" + ") SELECT * FROM a" * 200),
    Attack("deep functions", "SELECT " + "abs(" * 500 + "1" + ")" * 500),
    Attack("a huge text", "SELECT '" + "x" * 200_000 + "'"),
    Attack("a huge list", "SELECT 1 WHERE 1 IN (" + ", ".join(["1"] * 5_000) + ")"),
    Attack("a huge union", " UNION ALL ".join(["SELECT 1"] * 2_100), PG + LITE + MY),
]
ATTACKS = [*STACKED, *WRITES, *DEFINITIONS, *FILES, *EFFECTS, *COMMANDS, *CATALOGUES, *TEXTS]

QUESTIONS: list[tuple[str, tuple[str, ...]]] = [
    ("SELECT 1", ALL),
    ("SELECT 1;", ALL),
    ("SELECT count(*) FROM shipments", ALL),
    ("SELECT status, count(*) AS n, sum(price) AS total FROM shipments GROUP BY status ORDER BY status", ALL),
    ("SELECT DISTINCT status FROM shipments ORDER BY 1 LIMIT 3 OFFSET 1", ALL),
    ("SELECT 'a;b -- c /* d */' AS text", ALL),
    ("/* a comment */ SELECT -- another\n 1", ALL),
    ("SELECT replace('update', 'up', 'down') AS word", ALL),
    ('SELECT id AS "update" FROM users ORDER BY id LIMIT 2', PG + EMBEDDED),
    (
        "SELECT s.id, c.name FROM shipments AS s JOIN customers AS c ON c.id = s.customer_id ORDER BY s.id LIMIT 5",
        ALL,
    ),
    (
        "SELECT c.name, count(s.id) FROM customers c LEFT JOIN shipments s ON s.customer_id = c.id"
        " GROUP BY c.id, c.name HAVING count(s.id) > 1 ORDER BY 2 DESC, 1 LIMIT 5",
        ALL,
    ),
    (
        "SELECT id, row_number() OVER (PARTITION BY status ORDER BY price DESC, id) AS place FROM shipments"
        " ORDER BY id LIMIT 5",
        ALL,
    ),
    (
        "SELECT id, sum(price) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM shipments"
        " ORDER BY id LIMIT 5",
        ALL,
    ),
    (
        "SELECT id, lag(price, 1, 0) OVER w AS before FROM shipments WINDOW w AS (ORDER BY id) ORDER BY id LIMIT 5",
        PG + EMBEDDED,
    ),
    (
        "WITH big AS (SELECT * FROM shipments WHERE price > 100), few AS (SELECT * FROM big WHERE status = 'open')"
        " SELECT count(*) FROM few",
        ALL,
    ),
    (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i) AS total FROM n",
        ALL,
    ),
    (
        "SELECT id FROM shipments WHERE customer_id IN (SELECT id FROM customers WHERE name LIKE '%1') ORDER BY id"
        " LIMIT 5",
        ALL,
    ),
    (
        "SELECT id FROM customers c WHERE EXISTS (SELECT 1 FROM shipments s WHERE s.customer_id = c.id) ORDER BY id"
        " LIMIT 5",
        ALL,
    ),
    ("SELECT id FROM users WHERE id < 3 UNION ALL SELECT id FROM users WHERE id > 48 ORDER BY 1", ALL),
    (
        "(SELECT id FROM users WHERE id < 3) UNION (SELECT id FROM users WHERE id < 5) ORDER BY 1",
        PG + DUCK + MY,
    ),
    ("SELECT id FROM users WHERE id < 5 EXCEPT SELECT id FROM users WHERE id < 3 ORDER BY 1", PG + EMBEDDED),
    (
        "SELECT CASE WHEN price > 100 THEN 'dear' WHEN price IS NULL THEN 'free' ELSE 'cheap' END AS kind, count(*) AS n"
        " FROM shipments GROUP BY 1 ORDER BY 1",
        ALL,
    ),
    ("SELECT CAST(price AS INTEGER) AS euros FROM shipments ORDER BY id LIMIT 3", PG + EMBEDDED),
    (
        "SELECT coalesce(notes, '-') AS notes, nullif(status, 'open') AS status FROM shipments ORDER BY id LIMIT 5",
        ALL,
    ),
    ("SELECT upper(login) || '!' AS login FROM users WHERE id BETWEEN 1 AND 3 ORDER BY id", PG + EMBEDDED),
    ("SELECT avg(price) AS mean, min(price) AS least, max(price) AS most FROM open_shipments", ALL),
    ("VALUES (1, 'a'), (2, 'b')", PG + EMBEDDED),
    ("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t) ORDER BY n", PG + DUCK),
    ("TABLE users ORDER BY id LIMIT 2", PG),
    (
        "SELECT date_trunc('month', ordered_on) AS month, count(*) AS n FROM shipments GROUP BY 1 ORDER BY 1 LIMIT 3",
        PG + DUCK,
    ),
    (
        "SELECT extract(year FROM ordered_on) AS year, count(*) AS n FROM shipments GROUP BY 1 ORDER BY 1",
        PG + DUCK + MY,
    ),
    ("SELECT ordered_on + INTERVAL '7 days' AS week_later FROM shipments ORDER BY id LIMIT 2", PG + DUCK),
    (
        "SELECT to_char(ordered_on, 'YYYY-MM') AS month, count(*) AS n FROM shipments GROUP BY 1 ORDER BY 1 LIMIT 3",
        PG,
    ),
    ("SELECT age(DATE '2025-01-01', ordered_on) AS age FROM shipments ORDER BY id LIMIT 2", PG),
    ("SELECT delivered_at AT TIME ZONE 'America/Sao_Paulo' AS there FROM shipments WHERE id = 2", PG),
    (
        "SELECT details ->> 'seal' AS seal, (details -> 'gate')::int AS gate FROM shipments ORDER BY id LIMIT 2",
        PG,
    ),
    (
        "SELECT details #>> '{seal}' AS seal FROM shipments WHERE details @> '{\"gate\": 3}' ORDER BY id LIMIT 2",
        PG,
    ),
    ("SELECT jsonb_agg(id ORDER BY id) AS ids FROM shipments WHERE id < 4", PG),
    ("SELECT key, value FROM shipments, jsonb_each_text(details) WHERE id = 1 ORDER BY key", PG),
    ("SELECT unnest(tags) AS tag, count(*) AS n FROM shipments GROUP BY 1 ORDER BY 1", PG),
    ("SELECT id FROM shipments WHERE 'cold' = ANY (tags) ORDER BY id LIMIT 3", PG),
    (
        "SELECT array_agg(id ORDER BY id) AS ids, string_agg(login, ', ' ORDER BY id) AS logins FROM users WHERE id < 4",
        PG + DUCK,
    ),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS median FROM shipments", PG + DUCK),
    ("SELECT count(*) FILTER (WHERE status = 'open') AS open FROM shipments", PG + EMBEDDED),
    (
        "SELECT status, fragile, count(*) AS n FROM shipments GROUP BY GROUPING SETS ((status), (fragile), ())"
        " ORDER BY 1, 2",
        PG,
    ),
    ("SELECT status, count(*) AS n FROM shipments GROUP BY ROLLUP (status) ORDER BY 1", PG + DUCK),
    ("SELECT DISTINCT ON (status) status, id FROM shipments ORDER BY status, id", PG + DUCK),
    (
        "SELECT c.id, l.price FROM customers c CROSS JOIN LATERAL (SELECT price FROM shipments s WHERE s.customer_id = c.id"
        " ORDER BY price DESC LIMIT 1) l ORDER BY c.id LIMIT 3",
        PG + DUCK,
    ),
    (
        "SELECT d::date AS day FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day') AS g(d)",
        PG,
    ),
    ("SELECT login ~ '^user[12]$' AS matches FROM users ORDER BY id LIMIT 3", PG),
    ("SELECT id FROM users WHERE login ILIKE 'USER1%' ORDER BY id LIMIT 3", PG + DUCK),
    ("SELECT id FROM shipments ORDER BY id FETCH FIRST 3 ROWS ONLY", PG),
    ("SELECT $$it's; fine$$ AS text", PG + DUCK),
    (r"SELECT E'\'; DELETE FROM users; --' AS text", PG),
    ("SELECT 1 AS n /* /* */; DELETE FROM users */", PG + DUCK),
    ("SELECT count(id) FROM archive.shipments_2023", PG),
    ("SELECT round(sum(price)::numeric, 2) AS total FROM public.shipments", PG),
    (
        "SELECT strftime('%Y-%m', ordered_on) AS month, count(*) AS n FROM shipments GROUP BY 1 ORDER BY 1 LIMIT 3",
        LITE,
    ),
    (
        "SELECT date(ordered_on, '+1 month', 'start of month') AS next FROM shipments ORDER BY id LIMIT 2",
        LITE,
    ),
    ("SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]') AS two", EMBEDDED),
    ("SELECT value FROM json_each('[1, 2, 3]') ORDER BY value", LITE),
    ("SELECT group_concat(login, ', ') AS logins FROM (SELECT login FROM users ORDER BY id LIMIT 3)", LITE),
    ("SELECT julianday('2024-01-02') - julianday('2024-01-01') AS days, printf('%05d', 42) AS padded", LITE),
    ("SELECT iif(price > 100, 'dear', 'cheap') AS kind FROM shipments ORDER BY id LIMIT 2", LITE),
    (
        "SELECT id, price FROM shipments QUALIFY row_number() OVER (PARTITION BY status ORDER BY id) = 1 ORDER BY id",
        DUCK,
    ),
    ("SELECT list_sum([1, 2, 3]) AS six, list_transform([1, 2], lambda x: x + 1) AS more", DUCK),
    ("SELECT status, count(*) AS n FROM shipments GROUP BY ALL ORDER BY ALL", DUCK),
    ("FROM shipments SELECT count(*) AS n", DUCK),
    ("SELECT arg_max(id, price) AS dearest, median(price) AS middle FROM shipments", DUCK),
    (
        "SELECT {'a': 1, 'b': [1, 2]} AS made, (ordered_on - INTERVAL 1 DAY) AS before FROM shipments ORDER BY id LIMIT 1",
        DUCK,
    ),
    ("SELECT date_diff('day', DATE '2024-01-01', DATE '2024-03-01') AS days", DUCK),
    (
        "SELECT DATE_FORMAT(ordered_on, '%Y-%m') AS month, COUNT(*) AS n FROM shipments GROUP BY 1 ORDER BY 1 LIMIT 3",
        MY,
    ),
    ("SELECT `id`, IFNULL(notes, '-') FROM shipments ORDER BY `id` LIMIT 2, 3", MY),
    ("SELECT GROUP_CONCAT(login ORDER BY id SEPARATOR ', ') AS logins FROM users WHERE id < 4", MY),
    (
        "SELECT JSON_EXTRACT('{\"a\": 1}', '$.a') AS a, TIMESTAMPDIFF(DAY, '2024-01-01', '2024-01-03') AS days",
        MY,
    ),
]
