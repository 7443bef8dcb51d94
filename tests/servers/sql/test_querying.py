"""SQL given to the tool, on the sample that ships with it: what comes back, or is said instead."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.running import Toolyard
from tests.reading import text_of
from tests.servers.sql.talking import ERAS, talking

BY_COUNTRY = (
    "SELECT country, count(*) AS people FROM customers GROUP BY country ORDER BY people DESC, country"
)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_statement_gives_rows_in_the_order_of_the_columns_and_says_what_it_ran(mode: str):
    async with talking(mode) as talk:
        (tool,) = (await talk.client.list_tools()).tools
        assert tool.name == "query_sql"
        assert tool.output_schema["required"] == ["success", "query_executed", "columns", "rows", "row_count"]
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)

        found = await talk.call(sql=f"{BY_COUNTRY};  -- and a comment")
        rows = found.structured_content
        assert rows["success"] is True
        assert rows["columns"] == ["country", "people"]
        assert sum(people for _, people in rows["rows"]) == 48
        assert rows["row_count"] == len(rows["rows"])
        assert rows["truncated"] is False
        assert rows["tables_used"] == ["customers"]
        assert rows["sql"].endswith("LIMIT 501")
        assert "comment" not in rows["sql"]
        assert rows["original_sql"].endswith("comment")
        assert isinstance(rows["elapsed_ms"], int)
        assert rows["query_executed"] == rows["sql"]
        assert rows["execution_time_ms"] == rows["elapsed_ms"]
        assert (rows["error"], rows["warning"]) == (None, None)
        assert not {"steps", "question"} & set(rows)

        text = found.content[0].text
        country, people = rows["rows"][0]
        assert text.startswith(f"**{len(rows['rows'])} rows** in ")
        assert f"```sql\n{rows['sql']}\n```" in text
        assert f"| country | people |\n|---|---|\n| {country} | {people} |" in text
        assert text.endswith("Tables: customers")


async def test_a_long_answer_is_cut_at_the_limit_and_its_text_shows_the_first_rows():
    async with talking(max_rows=30) as talk:
        found = await talk.call(sql="SELECT id, status FROM orders ORDER BY id")
        assert [row[0] for row in found.structured_content["rows"]] == list(range(1, 31))
        assert found.structured_content["truncated"] is True
        assert "first 30 rows" in found.structured_content["warning"]
        text = found.content[0].text
        assert text.count("\n| ") == 1 + 20
        assert "… and 10 more" in text
        assert "> Only the first 30 rows" in text
        exact = await talk.rows(sql="SELECT id FROM orders ORDER BY id LIMIT 30")
        assert exact["truncated"] is False
    async with talking(max_bytes=1000) as talk:
        cut = await talk.rows(sql="SELECT id, status FROM orders")
        assert 0 < cut["row_count"] < 240
        assert cut["truncated"] is True
        assert "size" in cut["warning"]


async def test_what_is_in_a_cell_can_neither_end_it_nor_begin_a_row():
    async with talking() as talk:
        found = await talk.call(sql="SELECT 'a|b' || char(10) || '| c |' AS x, NULL AS y, 1234567.5 AS z")
        assert found.structured_content["rows"] == [["a|b\n| c |", None, 1234567.5]]
        assert "| a\\|b \\| c \\| |  | 1,234,567.50 |" in found.content[0].text


@pytest.mark.parametrize("mode", ERAS)
async def test_in_portuguese_all_that_is_read_is_portuguese(mode: str):
    async with talking(mode, locale="pt", max_rows=1000, seconds=0.2) as talk:
        (tool,) = (await talk.client.list_tools()).tools
        assert tool.name == "consultar_sql"
        assert set(tool.input_schema["properties"]) == {"pergunta", "sql"}
        found = await talk.call(
            sql="SELECT 1234567.891 AS total, -0.5 AS menos, 2025 AS ano, 1e300 AS muito, 0.1 + 0.2 AS soma"
        )
        assert "**1 linha** em " in found.content[0].text
        assert "| 1.234.567,891 | -0,50 | 2025 | 1e+300 | 0,30 |" in found.content[0].text
        assert found.structured_content["columns"] == ["total", "menos", "ano", "muito", "soma"]
        many = await talk.call(sql="SELECT a.id FROM orders a, categories b ORDER BY 1 LIMIT 1200")
        assert "**960 linhas** em " in many.content[0].text
        assert "… e mais 940" in many.content[0].text

        assert "(linha 1, coluna 1)" in await talk.refusal(sql="DELETE FROM orders")
        assert "só SELECT e WITH são executados" in await talk.refusal(sql="DELETE FROM orders")
        assert "Você quis dizer 'status'" in await talk.refusal(sql="SELECT sttus FROM orders")
        assert "Não há tabela 'ordens'" in await talk.refusal(sql="SELECT 1 FROM ordens")
        assert "Nenhum modelo está configurado" in await talk.refusal(pergunta="Quantos pedidos há?")
        assert "informe 'pergunta'" in await talk.refusal()
        assert "não os dois" in await talk.refusal(pergunta="Quantos?", sql="SELECT 1")
        assert "e foi cancelada" in await talk.refusal(sql=ENDLESS)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_the_name_of_the_other_language_is_answered_too():
    async with talking(tool="consultar_sql") as talk:
        assert (await talk.rows(sql="SELECT 1 AS one"))["rows"] == [[1]]
        assert "No model is configured" in await talk.refusal(pergunta="Quantos?")
    async with talking(tool="query_sql", locale="pt") as talk:
        assert (await talk.rows(sql="SELECT 1 AS one"))["rows"] == [[1]]


async def test_what_cannot_be_answered_is_said_with_what_to_do():
    async with talking(seconds=0.2) as talk:
        assert "pass 'question'" in await talk.refusal()
        assert "pass 'question'" in await talk.refusal(sql="  ", question="")
        assert "not both" in await talk.refusal(sql="SELECT 1", question="one?")
        said = await talk.refusal(sql="SELECT nam, count(*) AS n FROM customers ORDER BY n")
        assert said == "No column 'nam' in customers. Did you mean 'name'?"
        assert "Did you mean 'customers'?" in await talk.refusal(sql="SELECT * FROM custmers")
        assert "Tables: categories, customers" in await talk.refusal(sql="SELECT * FROM xyz")
        assert "(line 2, column 1)" in await talk.refusal(sql="SELECT 1\n; DROP TABLE orders")
        assert "longer than 0.2 s and was cancelled" in await talk.refusal(sql=ENDLESS)
        said = await talk.refusal(sql="SELECT * FROM")
        assert said.startswith("Not run: this is not valid sqlite SQL: Expected table name but got the end")
        said = await talk.refusal(question="How many orders are there?")
        assert "pass it as 'sql'" in said
        assert "Tables: categories, customers" in said
        assert "ANTHROPIC_API_KEY" in said


async def test_what_is_blocked_is_not_there_for_anybody():
    hidden = {"blocked_tables": "pay*, categories", "blocked_columns": ("*email*", "products.price")}
    async with talking(**hidden) as talk:
        (listed,) = (await talk.client.read_resource("sql://tables")).contents
        assert "customers(id, name, city, country, since)" in text_of(listed)
        assert "products(id, category_id, name, stock, discontinued)" in text_of(listed)
        assert "payments" not in text_of(listed)
        assert "categories(" not in text_of(listed)
        assert "cannot be read" in await talk.refusal(sql="SELECT amount FROM payments")
        assert "'email'" in await talk.refusal(sql="SELECT email FROM customers")
        assert "name the columns" in await talk.refusal(sql="SELECT * FROM customers")
        assert "price" in await talk.refusal(sql="SELECT p.price FROM products AS p")
        assert "payments" not in await talk.refusal(sql="SELECT 1 FROM paymets")
        assert "email" not in (await talk.refusal(sql="SELECT emal FROM customers")).split("Did you mean")[-1]
        assert (await talk.rows(sql="SELECT unit_price FROM order_items LIMIT 1"))["row_count"] == 1
        assert (await talk.rows(sql="SELECT * FROM orders LIMIT 1"))["row_count"] == 1


@pytest.mark.parametrize(
    ("locale", "name", "words"), [("en", "explore_data", "Keep"), ("pt", "explorar_dados", "Fique")]
)
async def test_a_prompt_begins_with_the_tables_and_keeps_to_a_topic(locale: str, name: str, words: str):
    async with talking(locale=locale) as talk:
        (prompt,) = (await talk.client.list_prompts()).prompts
        assert prompt.name == name
        (message,) = (await talk.client.get_prompt(name, {"topic": "late orders"})).messages
        assert "orders(id, customer_id, ordered_on, status, shipped_on)" in text_of(message.content)
        assert text_of(message.content).endswith(": late orders")
        assert words in text_of(message.content)


def test_as_a_process_with_nothing_set_it_answers(toolyard: Toolyard):
    params: dict[str, Any] = {
        "name": "query_sql",
        "arguments": {"sql": "SELECT count(*) AS orders FROM orders"},
        "_meta": META,
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    process = toolyard.start("run", "sql")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["result"]["structuredContent"]["rows"] == [[240]], answer
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("database=oracle:there", "unknown database type"),
        ("max_rows=0", "max_rows"),
        ("provider=someone", "provider"),
    ],
)
def test_a_wrong_setting_is_named(option: str, words: str, toolyard: Toolyard):
    outcome = toolyard("run", "sql", "-o", option)
    assert outcome.status == 2
    assert words in outcome.err


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("duckdb:there.duckdb", "duckdb", "sql"),
        ("postgresql://ana:sesame@there/shop", "psycopg", "postgres"),
        ("mysql://ana:sesame@there/shop", "pymysql", "mysql"),
    ],
)
def test_a_driver_that_is_not_installed_is_named_with_its_extra(url: str, package: str, extra: str):
    program = (
        f"import sys; sys.modules[{package!r}] = None; from toolyard.cli import main; "
        f"main(['run', 'sql', '-o', 'database={url}'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"extras add {extra}" in done.stderr
    assert "sesame" not in done.stderr
