"""The embedding as it ships: what it finds alike, and what it does with texts that it cannot know."""

import subprocess
import sys

import numpy as np
import pytest

from toolyard.meaning.embedding import TextEmbedding, Vocabulary

TOOLS = (
    "mail send_email Send an email message to a recipient",
    "calendar create_event Create an event in the calendar",
    "clock cancel_timer Cancel a running timer",
    "lights turn_on_light Turn on the light in a room",
    "files delete_file Delete a file from the disk",
    "weather get_forecast Get the weather forecast for a city",
    "github create_issue Open a new issue in a repository",
    "sql run_query Run a read-only SQL query on the database",
)


@pytest.fixture(scope="module")
def semantic() -> TextEmbedding:
    return TextEmbedding.load()


def nearest(semantic: TextEmbedding, text: str) -> str:
    scores = semantic.encode(TOOLS) @ semantic.encode([text])[0]
    return TOOLS[int(scores.argmax())].split()[1]


@pytest.mark.parametrize(
    ("asked", "tool"),
    [
        ("acende a luz da sala", "turn_on_light"),
        ("Cancele o temporizador da massa", "cancel_timer"),
        ("preciso de enviar um correio ao João", "send_email"),
        ("marcar uma reunião na agenda para amanhã", "create_event"),
        ("apague este arquivo", "delete_file"),
        ("elimina o ficheiro", "delete_file"),
        ("qual é a previsão do tempo em Lisboa?", "get_forecast"),
        ("faça uma consulta ao banco de dados", "run_query"),
        ("will it rain in Paris tomorrow", "get_forecast"),
        ("report a bug on GitHub", "create_issue"),
    ],
)
def test_a_use_case_in_either_language_is_nearest_to_its_english_tool(
    semantic: TextEmbedding, asked: str, tool: str
) -> None:
    assert nearest(semantic, asked) == tool


def test_an_english_use_case_is_nearest_to_its_portuguese_tool(semantic: TextEmbedding) -> None:
    tools = ["enviar mensagem por correio", "apagar ficheiro do disco", "previsão do tempo para uma cidade"]
    scores = semantic.encode(tools) @ semantic.encode(["delete a file"])[0]
    assert int(scores.argmax()) == 1


def test_accents_case_and_the_way_a_name_is_written_make_no_difference(semantic: TextEmbedding) -> None:
    same = semantic.encode(["previsão do tempo", "PREVISAO DO TEMPO", "previsaoDoTempo", "previsao_do_tempo"])
    assert np.allclose(same, same[0])


def test_rows_have_unit_length_and_nothing_known_is_a_row_of_zeros(semantic: TextEmbedding) -> None:
    vectors = semantic.encode(["send a message", "", "   ", "12345 !!!", "日本語", "zzxqj"])
    assert vectors.shape == (6, semantic.dim)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors[0]) == pytest.approx(1)
    assert not vectors[1:].any()


@pytest.mark.parametrize(
    "text",
    ["\ud800 lone surrogate", "\x00\u202e reversed", "e\u0301" * 5000, "🙂🏽 send", "aB" * 100_000, "ﬁle"],
)
def test_odd_text_is_encoded_like_any_other(semantic: TextEmbedding, text: str) -> None:
    assert np.isfinite(semantic.encode([text])).all()


def test_a_text_has_the_same_vector_alone_in_a_batch_and_in_another_process(semantic: TextEmbedding) -> None:
    texts = [f"{tool} {i}" for i in range(400) for tool in TOOLS]
    whole = semantic.encode(texts)
    assert np.array_equal(whole[37], semantic.encode([texts[37]])[0])
    assert np.array_equal(whole, TextEmbedding.load().encode(texts))


def test_it_loads_without_a_learning_framework_or_the_network() -> None:
    check = (
        "import socket, sys\n"
        "def refused(*_): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = refused\n"
        "from toolyard.meaning.embedding import TextEmbedding\n"
        "TextEmbedding.load().encode(['hello'])\n"
        "print(sorted({'torch', 'tokenizers', 'transformers', 'tensorflow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_portuguese_words_have_english_renderings_in_every_form(semantic: TextEmbedding) -> None:
    for form in ("ligar", "liga", "Ligue"):
        assert {"turn", "on"} <= set(semantic.translate([form])[0])
    assert "send" in semantic.translate(["envie"])[0]
    assert "meeting" in semantic.translate(["reunião"])[0]
    assert semantic.translate(["ficheiro"])[0][0] == "file"
    assert semantic.translate(["arquivo"])[0][0] == "file"


def test_a_word_without_a_rendering_and_one_that_only_holds_a_sentence_have_none(
    semantic: TextEmbedding,
) -> None:
    assert semantic.translate(["zzxqj", "para", "de", ""]) == [[], [], [], []]


def test_an_unknown_word_is_another_form_or_known_words_written_together() -> None:
    vocabulary = Vocabulary(["delete", "file", "light", "trancar", "github"])
    assert vocabulary.ids("deleting files") == [0, 1]
    assert vocabulary.ids("deletefile") == [0, 1]
    assert vocabulary.ids("tranca") == [3]
    assert vocabulary.ids("GitHub lights") == [4, 2]
    assert vocabulary.ids("unheard 42") == []


def test_pasted_data_is_not_taken_for_words() -> None:
    vocabulary = Vocabulary(["send", "file"])
    assert vocabulary.ids(f"send {'File' * 20}") == [0]
