"""What people know of the tables: read from YAML and JSON, and refused with the place where it is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.servers.schema.talking import talking
from toolyard.kit.loader import LoadError, load

BY_HAND = """\
notes: [All of it is invented.]
blocked_tables: [categ*]
blocked_columns: [customers.email]
tables:
  Orders:          # the database has it in another case
    description: >
      Purchases,
      as they came in.
    columns:
      status: {description: Where it is., rules: [Never empty.]}
      ordered_on: The day
    rules:
      - Count only what is paid.
    hints:
      - {description: All, sql: SELECT count(*) FROM orders}
  long_gone:
    description: A table of another year.
relationships:
  - {from_table: payments, from_column: method, to_table: products, to_column: name}
  - {from_table: payments, from_column: method, to_table: categories, to_column: name}
  - {from_table: payments, from_column: method, to_table: nowhere, to_column: name}
"""


def write(folder: Path, files: dict[str, Any]) -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(folder)


async def test_notes_are_joined_with_what_the_database_says(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = write(
        tmp_path, {"shop.yaml": BY_HAND, "tables/payments.yml": "table: payments\nrules: [One each.]"}
    )
    async with talking(folder=folder) as talk:
        orders = (await talk.describe("orders")).structured
        assert orders["description"] == "Purchases, as they came in."
        fields = {field["name"]: field.get("description", "") for field in orders["fields"]}
        assert fields["status"] == "Where it is. Never empty."
        assert (fields["ordered_on"], fields["shipped_on"]) == ("The day", "Empty until it leaves")
        assert orders["rules"] == ["Count only what is paid."]
        assert orders["hints"] == [{"description": "All", "sql": "SELECT count(*) FROM orders"}]
        payments = (await talk.describe("payments")).structured
        assert payments["rules"] == ["One each."]
        # A relation to what is hidden or not there is none.
        assert [one["table"] for one in payments["relationships"]] == ["orders", "products"]
        assert (await talk.describe()).structured["notes"] == ["All of it is invented."]
        assert "categories" not in await talk.names()
        customers = (await talk.describe("customers")).structured
        assert "email" not in [field["name"] for field in customers["fields"]]
    assert "the notes describe 'long_gone', which the sample shop does not have" in caplog.text


async def test_the_folder_of_json_that_was_there_before_is_read_as_it_is(tmp_path: Path):
    folder = write(
        tmp_path,
        {
            "catalog.json": {
                "version": "2.0.0",
                "tabelas": [{"name": "orders", "description": "Do catálogo.", "key_fields": ["id"]}],
                "tabelas_bloqueadas": ["payments"],
                "notas_gerais": ["Valores em BRL"],
            },
            "schema.json": {
                "tables": [
                    {
                        "name": "products",
                        "description": "Do esquema.",
                        "business_rules": ["Sem preço não há venda."],
                    }
                ]
            },
            "tables/orders.json": {
                "name": "orders",
                "description": "Da tabela.",
                "fields": [{"name": "status", "type": "varchar(20)", "description": "Situação"}],
                "indices": [{"name": "i", "columns": ["id"], "unique": True}],
                "foreign_keys": [{"column": "status", "references": "categories.name"}],
                "business_rules": ["Regra."],
                "query_hints": [{"descricao": "Todos", "sql": "SELECT 1"}],
            },
            "relationships.json": {
                "total_relationships": 1,
                "relationships": [
                    {
                        "from_table": "customers",
                        "from_column": "country",
                        "to_table": "categories",
                        "to_column": "name",
                    }
                ],
            },
        },
    )
    async with talking(folder=folder, locale="pt") as talk:
        orders = (await talk.describe("orders")).structured
        assert orders["description"] == "Da tabela."
        assert (orders["rules"], orders["hints"]) == (
            ["Regra."],
            [{"description": "Todos", "sql": "SELECT 1"}],
        )
        assert {field["name"]: field for field in orders["fields"]}["status"]["description"] == "Situação"
        noted = [one for one in orders["relationships"] if one["source"] == "notes"]
        assert [(one["direction"], one["table"]) for one in noted] == [("out", "categories")]
        assert (await talk.describe("products")).structured["rules"] == ["Sem preço não há venda."]
        assert (await talk.describe("payments")).structured["found"] is False
        incoming = (await talk.describe("categories")).structured["relationships"]
        assert {one["table"] for one in incoming} == {"customers", "orders", "products"}


LAUGHS = "a0: &a0 [ha, ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))

BROKEN = {
    "a quote that never ends": ('tables:\n  a: "b\n', "shop.yaml, line 3: found unexpected end of stream"),
    "a list where a text belongs": (
        "tables:\n  a:\n    description: [x]\n",
        "line 3: expected a text, not a list",
    ),
    "a text where a list belongs": (
        "tables:\n  a:\n    rules: always\n",
        "line 3: expected a list, not a text",
    ),
    "a table that is a text": (
        "tables:\n  a: hello\n",
        "line 2: expected names with values, not a text",
    ),
    "a slip in a name": (
        "tables:\n  a:\n    rulez: []\n",
        "line 3: unknown key 'rulez'; did you mean 'rules'?",
    ),
    "a name that is nothing": (
        "colour: red\n",
        "line 1: unknown key 'colour'; there are: tables, notes",
    ),
    "a table twice": ("tables:\n  a: {}\n  b: {}\n  a: {}\n", "line 4: duplicate key 'a'"),
    "a list for a name": ("? [a, b]\n: c\n", "line 1: expected a name before the colon"),
    "a hint without a statement": ("tables:\n  a:\n    hints:\n    - description: x\n", "line 4: a hint has"),
    "a table without a name": ("tables:\n- description: x\n", "line 2: `table` is missing"),
    "half a relation": ("relationships:\n- from_table: a\n", "line 2: a relation has"),
    "a relation that limps": (
        "relationships:\n- {from_table: a, from_column: [b, c], to_table: d, to_column: e}\n",
        "line 2: a relation needs the same number of columns on both sides",
    ),
    "a key to nowhere": (
        "tables:\n  a:\n    foreign_keys:\n    - {column: b, references: c}\n",
        "line 4: 'c' is not table.column",
    ),
    "an object of Python": (
        "tables:\n  a:\n    description: !!python/object/apply:os.system [touch pwned]\n",
        "line 3: expected a text, not a list",
    ),
    "two documents": ("a: b\n---\nc: d\n", "line 2: but found another document"),
    "a billion laughs": (LAUGHS, "expands to more than 100,000 values through its aliases"),
    "a chain of aliases": (CHAIN, "nested too deeply with its aliases expanded"),
    "a list in itself": ("tables: &t\n  a: *t\n", "contains itself"),
    "a well without a bottom": ("[" * 5000, "line 1: nested too deeply"),
    "a book": ("# " + "x" * 3_000_000, "shop.yaml: the file is over 2 MiB; split it"),
    "not a mapping": ("just words\n", "expected names with values, not a text"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_the_line_and_what_is_wrong(case: str, tmp_path: Path):
    content, expected = BROKEN[case]
    folder = write(tmp_path, {"shop.yaml": content})
    with pytest.raises(LoadError) as error:
        load("toolyard.servers.schema", options={"folder": folder})
    assert "folder: shop.yaml" in error.value.message
    assert expected in error.value.message
    assert not (tmp_path / "pwned").exists()


def test_broken_json_and_bytes_that_are_no_text_are_named_too(tmp_path: Path):
    def refusal() -> str:
        with pytest.raises(LoadError) as error:
            load("toolyard.servers.schema", options={"folder": str(tmp_path)})
        return error.value.message

    schema = tmp_path / "schema.json"
    schema.write_text('{"tables": [\n{"name": "a",}]}')
    assert "schema.json, line 2: " in refusal()
    schema.write_text('{"tables": [{"name": "a", "business_rules": {"x": 1}}]}')
    assert "schema.json, tables[0].business_rules: expected a list" in refusal()
    schema.write_text("[" * 100_000)
    assert "schema.json: nested too deeply" in refusal()
    schema.write_text('{"tables": ' + "[" * 30 + "]" * 30 + "}")
    assert "nested too deeply" in refusal()
    schema.write_bytes(b"{\xff}")
    assert "schema.json: is not UTF-8 (byte 1)" in refusal()


async def test_an_empty_file_and_an_empty_folder_say_nothing(tmp_path: Path):
    write(tmp_path, {"a.yaml": "", "b.yaml": "# only a comment\n", "c.yaml": "tables:\n  orders:\nnotes:\n"})
    async with talking(folder=str(tmp_path)) as talk:
        assert "rules" not in (await talk.describe("orders")).structured
