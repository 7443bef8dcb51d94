"""Every sentence that is said in two languages: both are there, and both name the same things."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jsonschema_rs
import msgspec
import pytest

import toolyard
from toolyard.kit.schema.reasons import in_portuguese
from toolyard.languages import answering, current_locale, locale_named, said

SOURCE = Path(toolyard.__file__).parent
ENGLISH = re.compile(r"\b(?:the|is|are|not|with|which|this|cannot|must)\b")


class Sentence(NamedTuple):
    place: str
    english: ast.expr
    portuguese: ast.expr


def sentences() -> Iterator[Sentence]:
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        if not re.search(r"languages import .*\bsaid\b", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "said":
                place = f"{file.relative_to(SOURCE)}:{node.lineno}"
                if not any(isinstance(argument, ast.Starred) for argument in node.args):
                    yield Sentence(place, *node.args)


def words(node: ast.expr) -> str | None:
    """The text with `{…}` for what is put in; None if it is not written here."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    return None


def named(node: ast.expr) -> set[str]:
    """What is put into a text, and how it is written."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.FormattedValue)}


def test_both_sentences_are_there_and_name_the_same_things():
    found = list(sentences())
    assert len(found) > 250
    for sentence in found:
        english, portuguese = words(sentence.english), words(sentence.portuguese)
        assert (english == "") == (portuguese == ""), sentence.place
        assert named(sentence.english) == named(sentence.portuguese), sentence.place


def test_no_sentence_of_one_language_stands_in_the_place_of_the_other():
    for sentence in sentences():
        portuguese = words(sentence.portuguese) or ""
        plain = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "", portuguese)
        assert not ENGLISH.search(plain), (sentence.place, portuguese)


def test_who_answers_within_another_answer_has_a_language_of_its_own():
    with answering("pt"):
        assert said("yes", "sim") == "sim"
        with answering("en"):
            assert said("yes", "sim") == "yes"
        assert current_locale() == "pt"
    assert said("yes", "sim") == "yes"


@pytest.mark.parametrize(
    ("name", "locale"),
    [
        ("en", "en"),
        ("pt", "pt"),
        ("pt-BR", "pt"),
        ("pt_BR", "pt"),
        ("PT", "pt"),
        ("en-GB", "en"),
        ("de", None),
    ],
)
def test_a_language_may_be_named_with_its_region(name: str, locale: str | None):
    assert locale_named(name) == locale


# What validators say


class Day(msgspec.Struct):
    number: int


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (int, '"a"', "esperado `int`, recebido `str`"),
        (Day, "[]", "esperado `object`, recebido `array`"),
        (list[str], "1", "esperado `array`, recebido `int`"),
        (bytes, '"é"', "texto base64 inválido"),
    ],
)
def test_what_msgspec_says_is_said_in_portuguese(kind: type, value: str, says: str):
    with pytest.raises(msgspec.ValidationError) as failed:
        msgspec.json.decode(value, type=kind)
    assert in_portuguese(str(failed.value)) == says


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "integer"}, "a", '"a" não é do tipo "integer"'),
        ({"required": ["x"]}, {}, 'falta "x", que é obrigatório'),
        ({"maximum": 3}, 5, "5 passa do máximo, 3"),
        ({"exclusiveMinimum": 3}, 1, "1 deve ser maior que 3"),
        ({"minLength": 2}, "", '"" deve ter 2 caracteres ou mais'),
        ({"maxItems": 1}, [1, 2], "[1,2] deve ter no máximo 1 itens"),
        ({"enum": ["a", "b"]}, "c", '"c" não é um destes: "a" ou "b"'),
        ({"enum": list("abcdef")}, "z", '"z" não é um destes: "a", "b" ou 4 outros'),
        ({"const": 1}, 2, "o esperado é 1"),
        ({"pattern": "^a"}, "b", '"b" não corresponde a "^a"'),
        ({"uniqueItems": True}, [1, 1], "[1,1] tem elementos repetidos"),
        ({"anyOf": [{"type": "null"}]}, 1, "1 não cabe em nenhum dos esquemas de 'anyOf'"),
        ({"unevaluatedProperties": False}, {"a": 1}, "não são conhecidos aqui: 'a'"),
        ({"not": {}}, 1, "{} is not allowed for 1"),  # not known: as it came
    ],
)
def test_what_jsonschema_says_is_said_in_portuguese(schema: dict[str, object], value: object, says: str):
    (fault,) = jsonschema_rs.validator_for(schema).iter_errors(value)
    assert in_portuguese(fault.message) == says
