"""A PostgreSQL of a few dozen tables and 100,000 rows: enough that not all of it fits everywhere."""

import io
from collections.abc import Iterator

import pytest
from PIL import Image

from tests.servers.schema.talking import ERAS, talking
from tests.servers.warehouse import fill_postgres
from tests.stores import PostgresServer


@pytest.fixture(scope="module")
def warehouse() -> Iterator[str]:
    with PostgresServer() as server:
        fill_postgres(server.url)
        yield server.url


@pytest.mark.parametrize("era", ERAS)
async def test_a_big_database_is_described_table_by_table(era: str, warehouse: str):
    async with talking(era, database=warehouse) as talk:
        names = await talk.names()
        assert len(names) == 33
        assert {"shipments", "open_shipments", "archive.shipments_2023"} <= set(names)
        shipments = (await talk.describe("Shipments")).structured
        assert shipments["description"] == "One consignment from a warehouse to a customer"
        assert shipments["row_estimate"] == 100_000
        fields = {field["name"]: field for field in shipments["fields"]}
        assert fields["price"]["type"] == "numeric(12,2)"
        assert fields["price"]["description"] == "In euros, without tax"
        assert fields["customer_id"]["references"] == "customers.id"
        incoming = {one["table"] for one in shipments["relationships"] if one["direction"] == "in"}
        assert incoming == {"packages", "events", "invoice_lines", "claims"}
        assert "shipments_by_customer" in [index["name"] for index in shipments["indices"]]
        view = (await talk.describe("open_shipments")).structured
        assert (view["kind"], view["description"]) == ("view", "What has not left yet")
        assert (await talk.describe("shipment")).structured["suggestions"][:2] == [
            "shipments",
            "open_shipments",
        ]
        assert len((await talk.describe("s")).structured.get("suggestions", [])) <= 5
        assert len((await talk.describe("ship")).structured["suggestions"]) == 3


@pytest.mark.parametrize("era", ERAS)
async def test_values_are_those_of_a_hundred_thousand_rows(era: str, warehouse: str):
    async with talking(era, database=warehouse, seconds=30) as talk:
        status = (await talk.values("shipments", "status")).structured
        assert status["values"] == ["delivered", "loaded", "open", "returned"]
        assert (await talk.values("shipments", "fragile")).structured["values"] == ["false", "true"]
        notes = (await talk.values("shipments", "notes")).structured
        assert (notes["value_count"], notes["has_more"]) == (50, True)
        assert all(value.startswith("handle with care, ação") for value in notes["values"])
        for column in ("price", "tags", "details", "delivered_at"):
            assert (await talk.values("shipments", column)).failed, column


async def test_a_diagram_that_is_too_big_says_what_it_leaves_out(warehouse: str):
    async with talking(database=warehouse) as talk:
        everything = await talk.draw(image=True)
        assert len(everything.structured["tables"]) == 30
        assert everything.structured["left_out"] == 3
        assert "3 more tables do not fit; name the tables to draw." in everything.text
        assert "The picture shows the keys and the first columns" in everything.text
        assert "shipments" in everything.structured["tables"]
        with Image.open(io.BytesIO(everything.png)) as picture:
            assert picture.width * picture.height < 30_000_000
        one = (await talk.draw("shipments")).structured
        assert set(one["tables"]) == {
            "shipments",
            "customers",
            "routes",
            "packages",
            "events",
            "invoice_lines",
            "claims",
        }
        assert one["left_out"] == 0
        assert '    routes ||--o{ shipments : "route_id"' in one["mermaid"].splitlines()
