"""The sentences of both languages, and that the page about the server has all that can be set."""

from pathlib import Path
from string import Formatter

import msgspec

from toolyard.servers.memory import ENVIRONMENT, Settings
from toolyard.servers.memory.texts import texts_of


def test_a_sentence_quotes_the_same_things_in_both_languages():
    english, portuguese = msgspec.structs.asdict(texts_of("en")), msgspec.structs.asdict(texts_of("pt"))
    for name, sentence in english.items():
        assert _quoted(sentence) == _quoted(portuguese[name]), name
        assert sentence != portuguese[name], name


def test_the_page_has_every_setting_with_its_variable_and_its_default():
    page = (Path(__file__).parents[3] / "docs" / "servers" / "memory.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if ENVIRONMENT in line}
    fields = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert list(rows) == list(fields)
    for name, default in fields.items():
        assert f"`{ENVIRONMENT}{name.upper()}`" in rows[name]
        assert default == "" or f"`{default}`" in rows[name], name


def _quoted(sentence: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(sentence) if field}
