"""Paths: which are the same, and which are refused, through the tools that take them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.memory.talking import User
from toolyard.kit import Identity
from toolyard.servers.memory import Settings, build
from toolyard.servers.memory.document import cleaned
from toolyard.servers.memory.errors import MemoryRequestError

TRICKS = {
    "": "empty",
    "notes.md": "does not begin with /memories",
    "/": "does not begin with /memories",
    "/etc/passwd": "does not begin with /memories",
    "/memoriesx/a": "does not begin with /memories",
    "/Memories/a": "does not begin with /memories",
    "/memories/../etc/passwd": "'..'",
    "/memories/..": "'..'",
    "/memories/a/./b": "'.'",
    "/memories/a/...": "'..'",
    "/memories/a..b": "'..'",
    "/memories\\..\\a": "U+005C",
    "/memories/a\0b": "U+0000",
    "/memories/a\nb": "U+000A",
    "/memories/a\x7fb": "U+007F",
    "/memories/a\u200bb": "U+200B",
    "/memories/a\u202eb": "U+202E",
    "/memories/\ufeffa": "U+FEFF",
    "/memories/\U000e0041": "U+E0041",
    "/memories/\u2028": "U+2028",
    "/memories/%2e%2e/a": "percent-encoded",
    "/memories/a%2Fb": "percent-encoded",
    "/memories/%u002e": "percent-encoded",
    "/memories/a\uff0fb": "U+FF0F",
    "/memories/a\u2215b": "U+2215",
    "/memories/a\u2044b": "U+2044",
    "/memories/\uff0e\uff0e/a": "U+FF0E",
    "/memories/\u2024\u2024/a": "U+2024",
    "/memories/\u2025/a": "U+2025",
    "/memories/\ufe52": "U+FE52",
    "/memories/a\uff3cb": "U+FF3C",
    "/memories/\u2105": "U+2105",  # c/o in one character
    "/memories/ a": "begins or ends with a space",
    "/memories/a /b": "begins or ends with a space",
    "/memories/" + "a" * 600: "too long",
    "/memories/" + "é" * 150: "too long",
    "/memories/" + "a/" * 30 + "a": "too many folders",
}


@pytest.mark.parametrize("tool", ["view_memories", "save_memory", "update_memory", "delete_memory"])
async def test_no_trick_with_a_path_gets_past_a_tool(tool: str):
    server = build(Settings(url="memory:"))
    user = User(server, Identity())
    more = {
        "save_memory": {"content": "x"},
        "update_memory": {"old_str": "a", "new_str": "b"},
    }
    for path, said in TRICKS.items():
        assert said in await user.refused(tool, path=path, **more.get(tool, {})), path
    assert (await user.good("list_memories")).structured["total"] == 0
    await server.close()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/memories", "/memories"),
        ("//memories///", "/memories"),
        ("/memories//a///b.md//", "/memories/a/b.md"),
        ("/memories/cafe\u0301.md", "/memories/caf\u00e9.md"),
        ("/memories/100%/plano.md", "/memories/100%/plano.md"),
        ("/memories/.hidden", "/memories/.hidden"),
        ("/memories/日本語 ノート.md", "/memories/日本語 ノート.md"),
    ],
)
def test_a_path_is_kept_in_one_form(path: str, kept: str):
    assert cleaned(path) == kept


@pytest.mark.parametrize("tool", ["save_memory", "delete_memory", "view_memory_history"])
async def test_the_root_is_no_memory(tool: str):
    server = build(Settings(url="memory:"))
    more = {"content": "x"} if tool == "save_memory" else {}
    assert "/memories is the root folder" in await User(server, Identity()).refused(
        tool, path="/memories/", **more
    )
    await server.close()


@given(st.text(st.characters() | st.sampled_from("/.%\\ me0"), max_size=40))
def test_whatever_is_taken_stays_below_the_root_and_as_it_is(rest: str):
    try:
        kept = cleaned("/memories/" + rest)
    except MemoryRequestError:
        return
    assert kept == "/memories" or kept.startswith("/memories/")
    assert cleaned(kept) == kept
    assert not set(kept.split("/")[1:]) & {"", ".", ".."}
    assert "\\" not in kept
    assert kept.isprintable()
