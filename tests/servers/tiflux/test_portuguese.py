"""The texts in Portuguese: none is missing, and none is English left as it was."""

from __future__ import annotations

import string
from collections.abc import Iterator

from toolyard.rest.definition.loader import load
from toolyard.rest.definition.model import ApiDefinition, ToolDefinition
from toolyard.servers.tiflux.server import TABLE


def texts(table: ApiDefinition) -> Iterator[tuple[str, str]]:
    """Whatever a model or a person reads, by where it stands."""
    assert table.gate
    yield "instructions", table.instructions
    yield "denied", table.gate.denied
    for status, text in table.errors.items():
        yield f"errors.{status}", text
    for name, lookup in table.lookups.items():
        yield f"lookups.{name}", lookup.what
    for name, tool in table.tools.items():
        yield from texts_of_tool(table, name, tool)


def texts_of_tool(table: ApiDefinition, name: str, tool: ToolDefinition) -> Iterator[tuple[str, str]]:
    yield f"{name} title", tool.title
    yield f"{name} description", tool.description
    if tool.result.said:
        yield f"{name} said", tool.result.said
    for status, text in tool.errors.items():
        yield f"{name} errors.{status}", text
    shown = {**{one: table.shared[one] for one in tool.use}, **tool.parameters}
    for parameter, row in shown.items():
        yield f"{name} {parameter}", row.description


def places(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


def test_every_tool_and_parameter_has_a_text_in_portuguese_that_is_not_the_english_one() -> None:
    english, portuguese = dict(texts(load(TABLE))), dict(texts(load(TABLE, "pt")))
    assert english.keys() == portuguese.keys()
    assert [where for where, text in portuguese.items() if not text.strip()] == []
    assert [where for where, text in portuguese.items() if text == english[where]] == []
    # 114 titles and descriptions, and over 600 parameters: a table that shrank would pass all the rest.
    assert len(portuguese) > 800


def test_what_is_filled_into_a_sentence_is_the_same_in_both_languages() -> None:
    english, portuguese = dict(texts(load(TABLE))), dict(texts(load(TABLE, "pt")))
    sentences = [where for where in english if "said" in where.split() or "errors" in where]
    assert len(sentences) > 30
    assert {where: places(portuguese[where]) for where in sentences} == {
        where: places(english[where]) for where in sentences
    }


def test_only_texts_differ_between_the_languages() -> None:
    english, portuguese = load(TABLE), load(TABLE, "pt")
    assert portuguese.tools.keys() == english.tools.keys()
    for name, tool in portuguese.tools.items():
        theirs, ours = english.tools[name], tool
        assert {*ours.use, *ours.parameters} == {*theirs.use, *theirs.parameters}
        assert (ours.method, ours.path, ours.needs) == (theirs.method, theirs.path, theirs.needs)
