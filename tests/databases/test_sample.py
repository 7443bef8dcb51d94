"""The sample that ships with the package: described, the same every time, and of use for questions."""

from toolyard.databases import open_database
from toolyard.databases.embedded.sample import sample_image


async def test_the_sample_is_a_described_shop_that_can_be_asked_at_once():
    database = open_database("")
    tables = {table.name: table for table in await database.tables()}
    assert set(tables) == {
        *("customers", "categories", "products", "orders", "order_items", "payments", "order_totals"),
    }
    assert all(table.description for table in tables.values() if table.kind == "table")
    assert "euros" in {column.name: column for column in tables["products"].columns}["price"].description
    assert {key.table for key in tables["order_items"].foreign_keys} == {"orders", "products"}
    answer = await database.query(
        "SELECT country, count(*) AS orders FROM customers JOIN orders ON customer_id = customers.id"
        " GROUP BY country ORDER BY 2 DESC, 1",
        seconds=5,
        rows=10,
        bytes=10_000,
    )
    assert sum(row[1] for row in answer.rows) == 240
    await database.close()


def test_the_sample_is_the_same_every_time():
    first = sample_image()
    sample_image.cache_clear()
    assert sample_image() == first


async def test_every_payment_is_what_its_order_costs():
    database = open_database("")
    wrong = await database.query(
        "SELECT p.id FROM payments p JOIN order_totals t USING (order_id)"
        " WHERE abs(p.amount - t.total) > 0.005",
        seconds=5,
        rows=10,
        bytes=10_000,
    )
    assert wrong.rows == []
    await database.close()
