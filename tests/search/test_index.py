"""The index follows what is mounted, and survives a restart."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.meaning.embedding import TextEmbedding
from toolyard.search.documents import ToolDocument, ToolQuery
from toolyard.search.index import ToolIndex
from toolyard.search.table import UnusableIndexError

from .small import OFFICE, found, index_of, tool

ASKED = [
    "send an email",
    "Find the events of the week and convert the list to PDF",
    "desligar a luz",
    "customer details",
    "file",
]


def answers(index: ToolIndex) -> list[object]:
    return [*(index.search(ToolQuery(use_case), 12) for use_case in ASKED), index.nearest("send_emial")]


# A step: a server, and which of a few tools it has from now on; none at all removes it.
POOL = [*OFFICE, *(tool("mail", f"draft_{word}", f"Drafts a {word}") for word in ("letter", "file", "note"))]
steps = st.lists(st.tuples(st.sampled_from("abc"), st.frozensets(st.integers(0, len(POOL) - 1), max_size=6)))


@given(steps)
def test_an_index_grown_and_shrunk_step_by_step_equals_one_built_at_once(
    semantic: TextEmbedding, steps: list[tuple[str, frozenset[int]]]
):
    grown = ToolIndex(semantic)
    mounted: dict[str, list[ToolDocument]] = {}
    for server, chosen in steps:
        documents = [tool(server, POOL[at].name, POOL[at].description) for at in sorted(chosen)]
        if documents:
            grown.put(server, documents)
            mounted[server] = documents
        else:
            grown.remove(server)
            mounted.pop(server, None)
        grown.search(ToolQuery("email"), 1)  # so that what was put is merged in at every step
    built = index_of([document for documents in mounted.values() for document in documents], semantic)
    assert len(grown) == len(built)
    assert answers(grown) == answers(built)


def test_putting_a_server_again_changes_only_what_changed(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    before = answers(index)
    mail = [document for document in OFFICE if document.server == "mail"]
    index.put("mail", mail)
    assert answers(index) == before
    index.put("mail", [mail[0], tool("mail", "search_inbox", "Plays chess")])
    assert found(index, "play chess")[0] == "search_inbox"
    index.put("mail", mail[:1])
    assert "search_inbox" not in found(index, "play chess", 12)
    index.put("mail", mail)
    assert answers(index) == before


def test_what_was_measured_of_a_tool_outlives_a_change_of_its_words(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    index.note_size("mcp__files__read_file", 900_000)
    index.put("files", [tool("files", "read_file", "Reads a text file, line by line")])
    assert "heavy" in index.search(ToolQuery("read a text file"), 1)[0].parts
    index.note_size("mcp__no__such", 5)


def test_what_two_preparations_at_once_prepared_is_there_once(semantic: TextEmbedding):
    index = ToolIndex(semantic)
    first = index.prepared("mail", OFFICE[:2])
    second = index.prepared("mail", OFFICE[:2])
    index.commit(first)
    index.commit(second)
    assert answers(index) == answers(index_of(OFFICE[:2], semantic))


def test_names_like_a_wrong_one_are_offered(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    assert index.nearest("mcp__mail__send_emial")[0] == "mcp__mail__send_email"
    assert index.nearest("sendEmail", 1) == ["mcp__mail__send_email"]
    assert index.nearest("mcp__email__send_email", 1) == ["mcp__mail__send_email"]
    assert index.nearest("mcp__mail__send_email", among=lambda name: name.startswith("mcp__files")) == []
    assert index.nearest("xyzzy") == []


def test_a_saved_index_answers_as_it_did_and_can_go_on_growing(semantic: TextEmbedding, tmp_path: Path):
    index = index_of(OFFICE, semantic)
    index.remove("files")
    index.note_size("mcp__mail__send_email", 900_000)
    index.save(tmp_path / "state" / "index")
    loaded = ToolIndex.load(tmp_path / "state" / "index", semantic)
    assert answers(loaded) == answers(index)
    for one in (index, loaded):
        one.remove("mail")
        one.put("files", [document for document in OFFICE if document.server == "files"])
    assert answers(loaded) == answers(index)


def test_an_empty_index_can_be_saved(semantic: TextEmbedding, tmp_path: Path):
    ToolIndex(semantic).save(tmp_path / "index")
    assert len(ToolIndex.load(tmp_path / "index", semantic)) == 0


@pytest.mark.parametrize("damage", [b"", b"nothing of ours", None])
def test_a_file_that_cannot_be_used_is_named(semantic: TextEmbedding, tmp_path: Path, damage: bytes | None):
    path = tmp_path / "index"
    index_of(OFFICE, semantic).save(path)
    if damage is None:
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 1
        damage = bytes(body)
    path.write_bytes(damage)
    with pytest.raises(UnusableIndexError, match="index"):
        ToolIndex.load(path, semantic)


def test_an_index_of_another_embedding_is_not_used(semantic: TextEmbedding, tmp_path: Path):
    class Other(TextEmbedding):
        def encode(self, texts):  # type: ignore[no-untyped-def]
            return -super().encode(texts)

    path = tmp_path / "index"
    index_of(OFFICE, semantic).save(path)
    with pytest.raises(UnusableIndexError, match="another embedding"):
        ToolIndex.load(path, Other.load())


def test_a_missing_file_is_named(semantic: TextEmbedding, tmp_path: Path):
    with pytest.raises(UnusableIndexError, match="missing"):
        ToolIndex.load(tmp_path / "missing", semantic)
