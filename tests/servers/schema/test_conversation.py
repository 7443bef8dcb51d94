"""The tools and resources on the sample, through the official client, in both eras and both languages."""

import asyncio
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from PIL import Image

from tests.app.yard import yard
from tests.cli.running import Toolyard
from tests.servers.schema.talking import ERAS, talking
from tests.serving import PATIENCE
from toolyard.config import InProcess, ServerConfig
from toolyard.extras import install_command

TABLES = ["categories", "customers", "order_items", "order_totals", "orders", "payments", "products"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_model_finds_its_way_through_an_unknown_database(era: str):
    async with talking(era) as talk:
        listed = await talk.describe()
        assert listed.structured["table_count"] == 7
        assert [table["name"] for table in listed.structured["tables"]] == TABLES
        assert "- `orders` (table, about 240 rows): One purchase by one customer" in listed.text

        orders = (await talk.describe("orders")).structured
        assert (orders["found"], orders["table"], orders["kind"]) == (True, "orders", "table")
        assert orders["field_count"] == len(orders["fields"]) == 5
        assert orders["primary_key"] == ["id"]
        assert orders["row_estimate"] == 240
        fields = {field["name"]: field for field in orders["fields"]}
        assert fields["customer_id"]["references"] == "customers.id"
        assert [fields["id"][name] for name in ("nullable", "primary_key")] == [False, True]
        assert [fields["shipped_on"][name] for name in ("nullable", "primary_key")] == [True, False]
        assert fields["shipped_on"]["description"] == "Empty until it leaves"
        assert {(one["direction"], one["table"], one["source"]) for one in orders["relationships"]} == {
            ("out", "customers", "database"),
            ("in", "order_items", "database"),
            ("in", "payments", "database"),
            ("in", "order_totals", "notes"),
        }
        assert orders["indices"] == [
            {"name": "orders_by_customer", "columns": ["customer_id", "ordered_on"], "unique": False}
        ]
        assert "Cancelled orders do not count as sales." in orders["rules"]
        assert orders["hints"][0]["description"] == "Sales by month"

        misspelt = await talk.describe("ordrs")
        assert not misspelt.failed
        assert misspelt.structured["found"] is False
        assert misspelt.structured["suggestions"][0] == "orders"
        assert misspelt.text.startswith("There is no table 'ordrs'. Did you mean 'orders'")

        status = await talk.values("orders", "status")
        assert status.structured == {
            "table": "orders",
            "field": "status",
            "field_type": "TEXT",
            "value_count": 4,
            "values": ["cancelled", "open", "paid", "shipped"],
            "has_more": False,
        }
        assert (await talk.values("products", "discontinued")).structured["values"] == ["false", "true"]
        wrong_type = await talk.values("orders", "customer_id")
        assert wrong_type.failed
        assert "only the values of text and boolean columns" in wrong_type.text
        assert "status" in wrong_type.text
        assert "Did you mean 'status'" in (await talk.values("orders", "statuss")).text


@pytest.mark.parametrize("era", ERAS)
async def test_relations_are_drawn_as_text_and_on_request_as_a_picture(era: str):
    async with talking(era) as talk:
        drawn = await talk.draw()
        assert drawn.structured["tables"] == TABLES
        assert not drawn.images
        lines = drawn.structured["mermaid"].splitlines()
        assert lines[0] == "erDiagram"
        assert '    customers ||--o{ orders : "customer_id"' in lines
        assert '    orders |o..o{ order_totals : "order_id"' in lines
        assert "        INTEGER order_id PK, FK" in lines
        assert "```mermaid\nerDiagram" in drawn.text

        one = await talk.draw("customers", image=True)
        assert one.structured["tables"] == ["customers", "order_totals", "orders"]
        with Image.open(io.BytesIO(one.png)) as picture:
            assert picture.format == "PNG"
            assert picture.width > 300
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 5

        two = await talk.draw("customers", "payments")
        assert two.structured["tables"] == ["customers", "payments"]
        assert "No relations between these tables are declared." in two.text
        unknown = await talk.draw("customers", "payment")
        assert unknown.failed
        assert "Did you mean 'payments'?" in unknown.text


@pytest.mark.parametrize("era", ERAS)
async def test_tables_are_resources_with_completions(era: str):
    async with talking(era) as talk:
        listed = (await talk.client.list_resources()).resources
        assert [str(one.uri) for one in listed] == [
            "schema://tables",
            *(f"schema://tables/{name}" for name in TABLES),
        ]
        assert {one.name: one.description for one in listed}["products"] == "What the shop sells."
        templates = (await talk.client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["schema://tables/{name}"]

        for_programs, for_people = await talk.read("schema://tables/orders")
        assert (for_programs.mime_type, for_people.mime_type) == ("application/json", "text/markdown")
        assert json.loads(for_programs.text) == (await talk.describe("orders")).structured
        assert for_people.text.startswith("# orders\n")
        assert "| status | TEXT | no |" in for_people.text
        assert json.loads((await talk.read("schema://tables"))[0].text)["table_count"] == 7
        with pytest.raises(MCPError, match="Did you mean 'orders'"):
            await talk.read("schema://tables/ordres")

        assert await talk.complete("ORDER") == ["order_items", "order_totals", "orders"]
        assert await talk.complete("paymnts") == ["payments"]
        assert await talk.complete("") == TABLES


async def test_more_tables_than_are_listed_are_still_read_by_the_template():
    async with talking(listed=3) as talk:
        assert [str(one.uri) for one in (await talk.client.list_resources()).resources] == ["schema://tables"]
        assert len(await talk.read("schema://tables/orders")) == 2


async def test_the_listed_tables_follow_the_database(tmp_path: Path):
    with sqlite3.connect(tmp_path / "live.db") as connection:
        connection.execute("CREATE TABLE first (id INTEGER)")
        async with talking(database=f"sqlite:{tmp_path}/live.db", cache_seconds=0) as talk:

            async def listed() -> list[str]:
                return [one.name for one in (await talk.client.list_resources()).resources]

            assert await listed() == ["tables", "first"]
            async with talk.client.listen(resources_list_changed=True) as events:
                told = aiter(events)  # until then the client may keep the list
                for statement, left in (
                    ("CREATE TABLE second (id INTEGER)", ["first", "second"]),
                    ("DROP TABLE first", ["second"]),
                ):
                    connection.execute(statement)
                    assert await talk.names() == left
                    async with asyncio.timeout(PATIENCE):
                        await anext(told)
                    assert await listed() == ["tables", *left]
    connection.close()


@pytest.mark.parametrize("era", ERAS)
async def test_in_portuguese_names_parameters_texts_and_errors_are_portuguese(era: str):
    async with talking(era, locale="pt") as talk:
        tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
        assert list(tools) == ["consultar_schema", "consultar_valores_campo", "desenhar_relacoes"]
        assert list(tools["consultar_valores_campo"].input_schema["properties"]) == ["tabela", "campo"]
        said = await talk.call("consultar_schema", tabela="orders")
        assert said.structured["table"] == "orders"
        assert "Pedidos cancelados não contam como vendas." in said.structured["rules"]
        assert "## Campos (5)" in said.text
        assert "Você quis dizer 'orders'" in (await talk.call("consultar_schema", tabela="órdérs")).text
        values = await talk.call("consultar_valores_campo", tabela="orders", campo="status")
        assert "tem 4 valores distintos" in values.text
        wrong = await talk.call("consultar_valores_campo", tabela="orders", campo="id")
        assert wrong.failed
        assert "só se podem listar" in wrong.text
        drawn = await talk.call("desenhar_relacoes", tabelas=["orders"], imagem=True)
        assert drawn.png.startswith(b"\x89PNG")
        # Those who know the tools by their other names are not turned away.
        assert (await talk.describe("orders")).structured == said.structured
    async with talking(era) as talk:
        said = await talk.call("consultar_valores_campo", tabela="orders", campo="status")
        assert "has 4 distinct values" in said.text


async def test_a_gateway_has_its_tools_and_tables():
    where = InProcess(module="toolyard.servers.schema", options={"locale": "pt"})
    async with yard(ServerConfig(name="db", where=where)) as gateway:
        assert "mcp__db__consultar_schema" in await gateway.tools()
        answer = await gateway.call("mcp__db__consultar_schema", {"tabela": "payments"})
        assert answer.result["structuredContent"]["field_count"] == 5
        listed = (await gateway.modern("resources/list")).result["resources"]
        assert any(one["uri"].endswith("tables/orders") for one in listed)


def test_it_runs_alone_on_the_sample_and_says_what_is_wrong_with_its_settings(toolyard: Toolyard):
    told = toolyard("run", "schema", "-o", "database=oracle://somewhere")
    assert told.status == 2
    assert "'database': unknown database type 'oracle'" in told.err
    told = toolyard("run", "schema", "-o", "folder=nowhere")
    assert told.status == 2
    assert "'nowhere' is not a folder" in told.err
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"name": "describe_table", "arguments": {"table": "orders"}, "_meta": meta}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    answer = json.loads(toolyard("run", "schema", stdin=request + "\n").out)
    assert answer["result"]["structuredContent"]["row_estimate"] == 240


def test_a_database_whose_driver_is_missing_names_its_extra():
    program = (
        "import sys; sys.modules['psycopg'] = None; from toolyard.cli import main; "
        "main(['run', 'schema', '-o', 'database=postgresql://somebody@nowhere/shop'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert f"psycopg: {install_command('postgres')}" in done.stderr
