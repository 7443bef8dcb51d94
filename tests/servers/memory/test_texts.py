"""The sentences of both languages."""

from string import Formatter

import msgspec

from toolyard.servers.memory.texts import texts


def test_a_sentence_quotes_the_same_things_in_both_languages():
    english, portuguese = msgspec.structs.asdict(texts("en")), msgspec.structs.asdict(texts("pt"))
    for name, sentence in english.items():
        assert _quoted(sentence) == _quoted(portuguese[name]), name
        assert sentence != portuguese[name], name


def _quoted(sentence: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(sentence) if field}
