"""Names and texts become the same terms, whoever wrote them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.search.terms import stem, terms, words


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("getUserByID", ["get", "user", "by", "id"]),
        ("list_all-files", ["list", "all", "files"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("base64.encode", ["base64", "encode"]),
        ("Configuração", ["configuracao"]),
        ("", []),
        ("🙂", []),
    ],
)
def test_names_are_taken_apart_and_folded(name: str, apart: list[str]):
    assert words(name) == apart


@pytest.mark.parametrize(
    "same",
    [
        ["convert", "converts", "converted", "converting", "converter"],
        ["generate", "generates", "generating", "generation", "generator"],
        ["file", "files"],
        ["create", "creates", "created", "creating", "creation", "creator"],
        ["order", "orders", "ordered", "ordering"],
        ["operation", "operations"],
        ["filter", "filters", "filtered", "filtering"],
        ["action", "actions"],
        ["address", "addresses"],
        ["prefer", "preferred"],
        ["cancel", "cancelled", "canceling"],
        ["call", "calls", "calling"],
        ["opção", "opções"],
        ["query", "queries"],
        ["search", "searches", "searching"],
        ["consultar", "consulta", "consultas", "consultando"],
        ["pesquisa", "pesquisar", "pesquisas"],
        ["mensagem", "mensagem"],
    ],
)
def test_forms_of_a_word_are_one_term(same: list[str]):
    assert len({stem(word) for form in same for word in words(form)}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("on", "off"),
        ("address", "add"),
        ("status", "state"),
        ("news", "new"),
        ("data", "date"),
        ("fill", "file"),
    ],
)
def test_different_words_stay_different(one: str, other: str):
    assert stem(one) != stem(other)


def test_words_that_say_nothing_are_left_out_and_halves_of_verbs_are_kept():
    assert terms("Could you please turn off the lights of my kitchen?") == [
        stem(word) for word in ("turn", "off", "lights", "kitchen")
    ]


@given(st.text())
def test_any_text_has_terms_that_are_the_same_every_time(text: str):
    assert terms(text) == terms(text)
    assert all(term and len(term) <= 60 for term in terms(text))
