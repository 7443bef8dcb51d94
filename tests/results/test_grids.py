"""Tables that are sent as columns and rows, as databases do: kept as they came, read as records."""

import json
from typing import Any

from tests.results.shelf import Shelf, structured


def grid(columns: list[str], rows: list[Any], **around: Any) -> dict[str, Any]:
    return {"success": True, "columns": columns, "rows": rows, "row_count": len(rows), **around}


async def test_a_table_of_columns_and_rows_is_kept_as_it_came_and_told_as_records(shelf: Shelf):
    rows = [[at, f"thing {at}", None] for at in range(100)]
    sent = grid(["id", "name", "none"], rows, tables_used=["things", "names"], sql="SELECT …")
    found = await shelf.fit(structured(sent, "**100 rows**\n\n| id | name |"))
    assert found.summary["item_count"] == 100
    assert found.summary["sample_columns"] == ["id", "name", "none"]
    assert found.summary["around"]["row_count"] == 100
    assert found.preview[1] == {"id": 1, "name": "thing 1", "none": None}
    kept = json.loads(await found.whole())
    assert kept["text"].startswith("**100 rows**")
    assert kept["structured"] == sent
    some = await shelf.fit(structured(sent, "words"), fields=("id",))
    assert some.preview[:2] == [{"id": 0}, {"id": 1}]


async def test_of_two_columns_of_one_name_none_is_lost(shelf: Shelf):
    found = await shelf.fit(structured(grid(["id", "id", "id_2"], [[1, 2, 3]] * 50)))
    assert found.preview[0] == {"id": 1, "id_2": 2, "id_2_2": 3}


async def test_what_only_looks_like_a_table_is_kept_as_it_is(shelf: Shelf):
    for odd in (
        grid(["a", "b"], [[1, 2]] * 50 + [[1]]),
        grid(["a"], [{"a": 1}] * 50),
        {"columns": [1, 2], "rows": [[1, 2]] * 50},
        {"columns": "a", "rows": [["a"]] * 50},
    ):
        found = await shelf.fit(structured(odd))
        assert json.loads(await found.whole()) == odd
