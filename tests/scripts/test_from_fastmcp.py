"""Programs of FastMCP are drawn, cut out of their files and compared as the page says."""

from pathlib import Path

from scripts.from_fastmcp.answers import ERROR, compared, schema
from scripts.from_fastmcp.programs import drawn

TESTS = """
import json
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth import Token

def helper():
    return FastMCP("helped")

def unused():
    return json.dumps(Token())

class TestMany:
    @pytest.fixture
    def server(self):
        return helper()

    async def test_one(self, server):
        async with Client(server) as client:
            await client.ping()

    async def test_two(self):
        FastMCP(auth=Token())
"""


def sdist(folder: Path) -> Path:
    for name, text in {
        "examples/echo.py": "from fastmcp import FastMCP\nmcp = FastMCP('echo')\n",
        "examples/login.py": "from fastmcp.server.auth import X\nmcp = FastMCP()\n",
        "tests/test_many.py": TESTS,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def test_a_test_is_a_program_with_what_it_uses(tmp_path: Path):
    (test,) = drawn(sdist(tmp_path), 1, examples=False)
    assert test.name == "tests/test_many.py::TestMany::test_one"
    assert "def helper" in test.text
    assert all(word not in test.text for word in ("unused", "Token", "json", "test_two"))
    assert "from toolyard.fastmcp import Client, FastMCP" in test.ours()


def test_an_example_that_needs_other_parts_is_not_drawn(tmp_path: Path):
    (example,) = drawn(sdist(tmp_path), 1, examples=True)
    assert example.name == "examples/echo.py"
    assert example.ours() == "from toolyard.fastmcp import FastMCP\nmcp = FastMCP('echo')\n"


def test_the_same_seed_draws_the_same(tmp_path: Path):
    folder = sdist(tmp_path)
    for number in range(20):
        (folder / "examples" / f"more{number}.py").write_text("from fastmcp import FastMCP\nFastMCP()\n")
    first, again, other = ([one.name for one in drawn(folder, seed, True)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_words_of_an_error_count_only_if_the_program_wrote_them():
    answer = {"answer": {"result": {"isError": True, "content": [{"text": "sold out"}]}}, "before": []}
    said = {"tools/call a": answer, "tools/call a without": answer}
    own = compared(said, 'raise ToolError("sold out")')
    assert own["tools/call a"]["answer"] == {ERROR: "sold out"}
    assert own["tools/call a without"]["answer"] == {ERROR: ""}
    assert compared(said, "")["tools/call a"]["answer"] == {ERROR: ""}


def test_schemas_are_compared_by_what_fits_them():
    theirs = {
        "type": "object",
        "title": "Arguments",
        "properties": {"a": {"$ref": "#/$defs/Way"}, "title": {"type": "string"}},
        "required": ["title", "a"],
        "$defs": {"Way": {"type": "string", "enum": ["x", "y"]}},
    }
    ours = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}, "title": {"type": "string"}},
        "required": ["a", "title"],
        "additionalProperties": False,
    }
    assert schema(theirs) == schema(ours)
    assert schema({**ours, "required": ["a"]}) != schema(ours)
