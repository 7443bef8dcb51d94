"""The page and its picture are written from figures, and a set that runs alone renews its own."""

from scripts.faithful.page import PAGE, PICTURE, Figures, Lost, Row, page, picture, read

FIRST = Figures(
    {"fastmcp": "4", "mcp": "2"},
    [
        Row("fastmcp", "FastMCP's tests", 12, 10, 8, "Monday"),
        Row("raw legacy", "requests", None, 5, 4, "Monday"),
    ],
    [Lost("ours", "It forgets.", {"fastmcp": 2, "raw legacy": 1})],
)
AGAIN = Figures(
    {"fastmcp": "5", "mcp": "2"},
    [Row("sdk", "the SDK's", 3, 3, 3, "Friday"), Row("fastmcp", "FastMCP's tests", 12, 10, 9, "Friday")],
    [Lost("inherent", "It cannot.", {"fastmcp": 1})],
)
EMPTY = """# A page
<!-- table: written by `make faithful` -->
old
<!-- end of table -->
between
<!-- causes: written by `make faithful` -->
old
<!-- end of causes -->
"""


def test_a_set_that_ran_alone_renews_its_rows_and_its_causes_and_no_others():
    figures = FIRST.renewed(AGAIN)
    assert [(row.name, row.through, row.source) for row in figures.rows] == [
        ("fastmcp", 9, "Friday"),
        ("sdk", 3, "Friday"),
        ("raw legacy", 4, "Monday"),
    ]
    assert figures.versions["fastmcp"] == "5"
    assert {one.why: one.counts for one in figures.lost} == {
        "It forgets.": {"raw legacy": 1},
        "It cannot.": {"fastmcp": 1},
    }


def test_the_page_says_what_is_lost_why_and_with_which_gateway():
    text = page(EMPTY, FIRST.renewed(AGAIN))
    assert "| fastmcp: FastMCP's tests | 12 | 10 | 9 | 1 (10.0%) |" in text
    assert "- It cannot. (fastmcp 1)" in text
    assert "Friday (fastmcp, sdk); Monday (raw legacy)" in text
    assert "old" not in text
    assert page(text, FIRST.renewed(AGAIN)) == text


def test_the_committed_page_and_picture_are_those_of_the_committed_figures():
    figures = read()
    assert page(PAGE.read_text("utf-8"), figures) == PAGE.read_text("utf-8")
    assert picture(figures) == PICTURE.read_text("utf-8")
    for row in figures.rows:  # each loss has its cause
        explained = sum(one.counts.get(row.name, 0) for one in figures.lost)
        assert explained == row.before - row.through, row.name
