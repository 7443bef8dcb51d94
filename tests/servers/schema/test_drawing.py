"""Diagrams: boxes that do not lie on each other, lines that end at them, and text that Mermaid can read."""

import io
import re
import sqlite3
from itertools import combinations, pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.servers.schema.shops import in_sqlite
from tests.servers.schema.talking import talking
from toolyard.servers.schema.diagram.layout import Edge, Size, layout

SIZES = st.lists(st.builds(Size, st.floats(80, 300), st.floats(50, 400)), min_size=1, max_size=30)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Size], list[Edge]]:
    """Any: circles, islands, boxes that refer to themselves, two lines between the same ones."""
    sizes = draw(SIZES)
    box = st.integers(0, len(sizes) - 1)
    ends = draw(st.lists(st.tuples(box, box), max_size=50))
    return sizes, [
        Edge(source, sizes[source].height * 0.7, target, sizes[target].height * 0.3)
        for source, target in ends
    ]


@given(graphs())
def test_boxes_lie_apart_and_inside_the_picture(graph: tuple[list[Size], list[Edge]]):
    sizes, edges = graph
    plan = layout(sizes, edges)
    placed = list(zip(plan.boxes, sizes, strict=True))
    for (x, y), size in placed:
        assert x >= 0
        assert y >= -0.001
        assert x + size.width <= plan.size.width + 0.001
        assert y + size.height <= plan.size.height + 0.001
    for ((x, y), size), ((other_x, other_y), other) in combinations(placed, 2):
        apart = x + size.width <= other_x or other_x + other.width <= x
        above = y + size.height <= other_y + 0.001 or other_y + other.height <= y + 0.001
        assert apart or above


@given(graphs())
def test_lines_go_straight_from_row_to_row(graph: tuple[list[Size], list[Edge]]):
    sizes, edges = graph
    plan = layout(sizes, edges)
    for edge, route in zip(edges, plan.routes, strict=True):
        for box, height, (x, y) in (
            (edge.source, edge.source_at, route[0]),
            (edge.target, edge.target_at, route[-1]),
        ):
            left, top = plan.boxes[box]
            assert x in (left, left + sizes[box].width)
            assert abs(y - top - height) < 0.001
        for (x, y), (next_x, next_y) in pairwise(route):
            assert x == next_x or abs(y - next_y) < 0.001


NAME = r'(?:[A-Za-z_]\w*|"[^"%\\\n]+")'
RELATION = re.compile(rf'    {NAME} (?:\|\||\|o)(?:--|\.\.)(?:o\{{|o\|) {NAME} : "[^"\n]+"')
ATTRIBUTE = re.compile(r'        [A-Za-z_][\w()\[\]-]* [A-Za-z_][\w()\[\]-]*( PK, FK| PK| FK)?( "[^"\n]+")?')
ENTITY = re.compile(rf"    {NAME} \{{")
KEYWORDS = ["class", "end", "title", "to", "one", "erDiagram", "style"]


async def test_whatever_tables_are_called_the_text_is_mermaids(tmp_path: Path):
    address = in_sqlite(tmp_path)
    with sqlite3.connect(tmp_path / "awkward.db") as connection:
        for name in (*KEYWORDS, "100%", "back\\slash", "new\nline", "{brace}", "日本", "-->"):
            connection.execute(
                f'CREATE TABLE "{name}" ("PK" INTEGER, "1st" numeric(10, 2), "日" TEXT, "" TEXT)'
            )
    connection.close()
    async with talking(database=address) as talk:
        drawn = await talk.draw(image=True)
    first, *lines = drawn.structured["mermaid"].split("\n")
    assert first == "erDiagram"
    for line in lines:
        fits = line == "    }" or any(kind.fullmatch(line) for kind in (RELATION, ATTRIBUTE, ENTITY))
        assert fits, line
    # As a name of its own, a word of the language needs quotes.
    for word in KEYWORDS:
        assert f'    "{word}" {{' in lines
    with Image.open(io.BytesIO(drawn.png)) as picture:
        picture.verify()


async def test_a_table_that_refers_to_itself_is_drawn(tmp_path: Path):
    path = tmp_path / "tree.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES node (id))")
        connection.execute("CREATE TABLE one_to_one (id INTEGER PRIMARY KEY REFERENCES NODE)")
    connection.close()
    async with talking(database=f"sqlite:{path}") as talk:
        lines = (await talk.draw("node", image=True)).structured["mermaid"].splitlines()
    assert '    node |o--o{ node : "parent"' in lines
    assert '    node ||--o| one_to_one : "id"' in lines


async def test_a_database_without_tables_says_so(tmp_path: Path):
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    async with talking(database=f"sqlite:{tmp_path}/empty.db") as talk:
        assert (await talk.draw()).text == "The database has no tables."
        assert (await talk.describe()).structured == {"found": True, "table": "", "table_count": 0}
        assert (await talk.describe("x")).text == "There is no table 'x'. An empty name lists all tables."
