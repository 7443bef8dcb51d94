"""What search knows of a tool is read from a stranger's words."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from toolyard.catalogue.catalogue import CatalogueEntry
from toolyard.catalogue.items import TOOLS, read_item
from toolyard.search.documents import (
    MAX_DESCRIPTION,
    MAX_PARAMETERS,
    ToolDocument,
    document_of,
    parameters_of,
)


def document(**members: Any) -> ToolDocument:
    body = {"name": "find_issue", "inputSchema": {"type": "object"}, **members}
    item = read_item(TOOLS, Raw(msgspec.json.encode(body)))
    return document_of(CatalogueEntry("github", "mcp__github__find_issue", "find_issue", item), pinned=True)


def test_a_document_has_the_words_the_parameters_and_the_hints_of_its_tool():
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for"}},
    }
    hints = {"title": "Find issues", "readOnlyHint": True, "destructiveHint": False}
    assert document(description="Finds issues", inputSchema=schema, annotations=hints) == ToolDocument(
        tool="mcp__github__find_issue",
        server="github",
        name="find_issue",
        title="Find issues",
        description="Finds issues",
        parameters=(("query", "What to look for"),),
        read_only=True,
        destructive=False,
        pinned=True,
    )


def test_a_tools_own_title_counts_more_than_that_of_its_hints():
    assert document(title="Ours", annotations={"title": "Theirs"}).title == "Ours"


def test_what_is_of_the_wrong_type_counts_as_missing():
    odd = document(title=5, description=["x"], inputSchema={"properties": ["query"]})
    assert (odd.title, odd.description, odd.parameters, odd.read_only) == ("", "", (), None)


@pytest.mark.parametrize(
    ("mark", "deprecated"),
    [
        ({"annotations": {"deprecated": True}}, True),
        ({"_meta": {"com.example/deprecated": True}}, True),
        ({"inputSchema": {"type": "object", "deprecated": True}}, True),
        ({"annotations": {"deprecated": False}}, False),
        ({"_meta": {"com.example/undeprecated": True}}, False),
        ({"_meta": {"deprecated": "no"}}, False),
    ],
)
def test_a_tool_that_is_marked_as_deprecated_is_known_as_such(mark: dict[str, Any], deprecated: bool):
    assert document(**mark).deprecated is deprecated


def test_parameters_inside_objects_lists_and_alternatives_are_found_too():
    street = {"properties": {"street": {"description": "Street and number"}}}
    schema = {
        "properties": {
            "address": street,
            "stops": {"items": {"properties": {"city": {}}}},
            "payment": {"anyOf": [{"properties": {"iban": {}}}, {"type": "null"}]},
        }
    }
    names = [name for name, _ in parameters_of(schema)]
    assert names == ["address", "stops", "payment", "street", "city", "iban"]


def test_one_tool_takes_no_more_than_its_share():
    properties = {f"field{number}": {"description": "x" * 1000} for number in range(100)}
    big = document(description="word " * 10_000, inputSchema={"type": "object", "properties": properties})
    assert len(big.description) == MAX_DESCRIPTION
    assert len(big.parameters) == MAX_PARAMETERS
    assert max(len(text) for _, text in big.parameters) < 1000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.mark.parametrize("member", ["properties", "items", "anyOf"])
@given(json_values)
def test_no_schema_is_too_odd_to_read(member: str, value: Any):
    schema = {"properties": {"outer": {member: value}}, member: value}
    assert all(isinstance(name, str) and isinstance(text, str) for name, text in parameters_of(schema))
