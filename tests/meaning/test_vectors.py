"""A set of vectors finds what is nearest, whoever put it and whatever was removed before."""

import numpy as np
import pytest

from toolyard.meaning.embedding import TextEmbedding
from toolyard.meaning.vectors import VectorSet

DIM = 24


def unit(rows: int, seed: int = 7) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1)[:, None]


def test_the_nearest_come_first_with_nearly_their_exact_similarities():
    vectors = unit(3_000)
    vector_set = VectorSet[str](DIM)
    vector_set.put_all("ana", range(3_000), vectors)
    exact = vectors @ vectors[1234]

    found = vector_set.nearest("ana", vectors[1234], 10, least=0.2)

    assert found[0][0] == 1234
    assert [round(s, 1) for _, s in found] == sorted([round(s, 1) for _, s in found], reverse=True)
    assert all(abs(similarity - exact[key]) < 0.01 for key, similarity in found)
    assert {key for key, _ in found} >= set(np.argsort(-exact)[:8].tolist())


def test_what_is_less_alike_than_asked_for_is_left_out():
    east, north = np.eye(DIM, dtype=np.float32)[:2]
    vector_set = VectorSet[str](DIM)
    vector_set.put("ana", 1, east)
    vector_set.put("ana", 2, north)
    vector_set.put("ana", 3, (east + north) / np.float32(np.sqrt(2)))
    vector_set.put("ana", 4, np.zeros(DIM, np.float32))

    assert [key for key, _ in vector_set.nearest("ana", east, 10, least=0.5)] == [1, 3]
    assert [key for key, _ in vector_set.nearest("ana", east, 1, least=0.5)] == [1]
    assert vector_set.nearest("ana", east, 0, least=0.5) == []


def test_an_owner_finds_nothing_of_another():
    vectors = unit(2)
    vector_set = VectorSet[tuple[str, str]](DIM)
    vector_set.put(("acme", "ana"), 1, vectors[0])
    vector_set.put(("acme", "rui"), 1, vectors[1])

    assert vector_set.nearest(("acme", "rui"), vectors[1], 5, least=0.9)[0][0] == 1
    assert vector_set.nearest(("acme", "ana"), vectors[1], 5, least=0.9) == []
    assert vector_set.nearest(("other", "ana"), vectors[0], 5) == []


def test_a_thousand_changes_leave_what_a_plain_dictionary_would_hold():
    vectors = unit(400)
    vector_set = VectorSet[str](DIM)
    kept: dict[int, np.ndarray] = {}
    choices = np.random.default_rng(3)
    for step in range(1_000):
        key = int(choices.integers(0, 60))
        if choices.random() < 0.4:
            vector_set.remove("ana", key)
            kept.pop(key, None)
        else:
            vector_set.put("ana", key, vectors[step % 400])
            kept[key] = vectors[step % 400]
        if step % 50 == 0:
            assert vector_set.count("ana") == len(kept)

    asked = vectors[0]
    expected = sorted(kept, key=lambda key: -float(kept[key] @ asked))
    found = dict(vector_set.nearest("ana", asked, 100, least=-1.0))
    assert found.keys() == kept.keys()
    assert max(abs(found[key] - float(kept[key] @ asked)) for key in kept) < 0.01
    assert next(iter(found)) in expected[:2]


def test_a_key_given_twice_in_one_go_is_there_once_and_a_cleared_owner_has_nothing():
    vectors = unit(2)
    vector_set = VectorSet[str](DIM)
    vector_set.put_all("ana", [5, 5], vectors)
    assert len(vector_set) == 1
    assert vector_set.nearest("ana", vectors[1], 1, least=0.9)[0][0] == 5

    vector_set.clear("ana")
    assert (len(vector_set), vector_set.nearest("ana", vectors[1], 1)) == (0, [])


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(ValueError, match="24 numbers"):
        VectorSet[str](DIM).put("ana", 1, np.ones(DIM + 1, np.float32))


def test_texts_of_the_shipped_embedding_find_their_kin_across_languages():
    semantic = TextEmbedding.load()
    texts = ["the invoice was paid late", "turn on the kitchen light", "deploy failed on the server"]
    vector_set = VectorSet[str](semantic.dim)
    vector_set.put_all("ana", range(3), semantic.encode(texts))

    [(key, similarity)] = vector_set.nearest("ana", semantic.encode(["a fatura foi paga"])[0], 1, least=0.35)
    assert texts[key].startswith("the invoice")
    assert similarity > 0.35
