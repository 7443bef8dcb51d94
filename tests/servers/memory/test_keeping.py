"""What is kept, and what is not, the same in both databases."""

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.servers.memory.talking import User, Yard
from toolyard.kit import Identity
from toolyard.servers.memory import Settings, build

WRITER = """
import asyncio, sys
from toolyard import Client
from toolyard.kit import Identity, Principal
from toolyard.servers.memory import Settings, build

async def main(url, tenant, name):
    server = build(Settings(url=url))
    async with Client(server, identity=Identity(Principal(tenant=tenant, agent="ana"))) as client:
        print("ready", flush=True)
        sys.stdin.readline()  # all of them at once
        for n in range(15):
            for path in ("shared", name):
                arguments = {"path": f"/memories/{path}.md", "content": f"{path} {name} {n}"}
                result = await client.call_tool("save_memory", arguments)
                assert not result.is_error, result
            edit = {"path": "/memories/log.md", "old_str": "the end", "new_str": f"{name}-{n};the end"}
            result = await client.call_tool("update_memory", edit)
            assert not result.is_error, result
    await server.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_users_memories_are_unknown(yard: Yard):
    ana, rui, other = yard.user("ana"), yard.user("rui"), yard.user("ana", tenant="-other")
    await ana.save("tea.md", "Ana drinks green tea.")
    for stranger in (rui, other):
        assert "There is no memory" in await stranger.refused("view_memories", path="/memories/tea.md")
        assert "There is no memory" in await stranger.refused("view_memory_history", path="/memories/tea.md")
        assert "There is no memory" in await stranger.refused("delete_memory", path="/memories/tea.md")
        assert "There is no memory" in await stranger.refused(
            "restore_memory_version", path="/memories/tea.md", version=1
        )
        assert await stranger.found("green tea") == []
        assert (await stranger.good("list_memories")).structured["total"] == 0
        assert (await stranger.good("clear_memories")).structured["count"] == 0
        assert (await stranger.save("tea.md", "Ana drinks green tea."))["action"] == "created"
    assert await ana.view("tea.md") == "Ana drinks green tea."


async def test_versions_are_kept_up_to_a_number_and_restored_as_new_ones(yard: Yard):
    ana = yard.user(max_versions=3)
    for text in ("one", "two", "three", "four"):
        await ana.save("count.md", text)
    assert (await ana.save("count.md", "four"))["version"] == 4  # it says so already
    history = (await ana.good("view_memory_history", path="/memories/count.md")).structured
    assert [(one["version"], one["preview"]) for one in history["versions"]] == [
        (4, "four"),
        (3, "three"),
        (2, "two"),
    ]
    lost = await ana.refused("restore_memory_version", path="/memories/count.md", version=1)
    assert "has no version 1; it has 2 to 4" in lost
    restored = await ana.good("restore_memory_version", path="/memories/count.md", version=2)
    assert restored.structured["version"] == 5
    assert await ana.view("count.md") == "two"
    history = (await ana.good("view_memory_history", path="/memories/count.md")).structured
    assert history["versions"][0]["event"] == "restored"


async def test_what_was_deleted_comes_back_until_too_much_was_deleted_since(yard: Yard):
    ana = yard.user(max_deleted=2)
    for name in ("a", "b", "c"):
        await ana.save(f"{name}.md", f"the letter {name}")
        await ana.good("delete_memory", path=f"/memories/{name}.md")
    assert "There is no memory" in await ana.refused("view_memories", path="/memories/c.md")
    assert await ana.found("letter") == []
    history = (await ana.good("view_memory_history", path="/memories/c.md")).structured
    assert (history["deleted"], history["versions"][0]["current"]) == (True, False)
    await ana.good("restore_memory_version", path="/memories/c.md", version=1)
    assert await ana.view("c.md") == "the letter c"
    assert await ana.found("letter") == ["c.md"]
    gone = await ana.refused("restore_memory_version", path="/memories/a.md", version=1)
    assert "There is no memory '/memories/a.md'" in gone
    assert (await ana.save("b.md", "a new b"))["version"] == 2  # it goes on where it was


async def test_clearing_erases_versions_and_deleted_memories_too(yard: Yard):
    ana = yard.user()
    await ana.save("a.md", "the letter a")
    await ana.save("b.md", "the letter b")
    await ana.good("delete_memory", path="/memories/a.md")
    assert (await ana.good("clear_memories")).structured["count"] == 1
    for name in ("a", "b"):
        assert "no memory" in await ana.refused("view_memory_history", path=f"/memories/{name}.md")
    assert await ana.found("letter") == []


async def test_limits_are_named_when_they_are_met(yard: Yard):
    ana = yard.user(max_memories=2, max_bytes=100)
    await ana.save("a.md", "first")
    await ana.save("b.md", "second")

    async def refused(content: str) -> str:
        return await ana.refused("save_memory", path="/memories/c.md", content=content)

    assert "The limit of 2 memories is reached" in await refused("third")
    assert "has 101 bytes; the limit of a memory is 100" in await refused("é" * 50 + "x")
    assert "The text is empty" in await refused(" \n")
    assert "NUL" in await refused("a\0b")
    await ana.save("b.md", "second, changed")  # one more version is no more memory
    grown = await ana.refused("update_memory", path="/memories/a.md", old_str="first", new_str="x" * 101)
    assert "has 101 bytes" in grown
    await ana.good("delete_memory", path="/memories/a.md")
    await ana.save("c.md", "third")
    back = await ana.refused("restore_memory_version", path="/memories/a.md", version=1)
    assert "The limit of 2 memories is reached" in back


async def test_folders_and_memories_are_not_the_same_thing(yard: Yard):
    ana = yard.user(list_limit=3)
    for path in ("a/b/c.md", "a/b/d.md", "a/e.md", "a.md", "a0/x.md", "z.md"):
        await ana.save(path, f"this is {path}")
    inside = await ana.refused("save_memory", path="/memories/a.md/f", content="x")
    assert "'/memories/a.md' is a memory, not a folder" in inside
    above = await ana.refused("save_memory", path="/memories/a", content="x")
    assert "it is a folder that contains '/memories/a/b/c.md'" in above

    root = (await ana.good("view_memories")).structured
    assert root["items"] == [
        {"name": "a.md", "is_dir": False},
        {"name": "a", "is_dir": True},
        {"name": "a0", "is_dir": True},
    ]
    assert root["more"] is True
    below = (await ana.good("view_memories", path="/memories/a")).structured
    assert below["items"] == [{"name": "b", "is_dir": True}, {"name": "e.md", "is_dir": False}]
    assert below["more"] is False
    deleted = (await ana.good("delete_memory", path="/memories/a")).structured
    assert (deleted["type"], deleted["count"]) == ("directory", 3)
    listed = (await ana.good("list_memories")).structured
    assert [one["path"] for one in listed["memories"]] == [
        "/memories/a.md",
        "/memories/a0/x.md",
        "/memories/z.md",
    ]
    await ana.save("a", "now it may be a memory")


async def test_an_edit_needs_a_text_that_occurs_once(yard: Yard):
    ana = yard.user()
    await ana.save("tea.md", "green tea, black tea")
    edit = {"path": "/memories/tea.md", "new_str": "x"}
    assert "occurs 2 times" in await ana.refused("update_memory", old_str="tea", **edit)
    assert "does not occur" in await ana.refused("update_memory", old_str="coffee", **edit)
    assert "old_str is empty" in await ana.refused("update_memory", old_str="", **edit)
    same = await ana.good("update_memory", path="/memories/tea.md", old_str="green", new_str="green")
    assert (same.structured["updated"], same.structured["version"]) == (False, 1)
    missing = await ana.refused("update_memory", path="/memories/no.md", old_str="a", new_str="b")
    assert "There is no memory '/memories/no.md'" in missing


async def test_what_is_there_already_is_noticed(yard: Yard):
    ana = yard.user()
    await ana.save("a.md", "Acme pays its invoices on Mondays by bank transfer.")
    near = await ana.save("b.md", "Acme always pays its invoices on Mondays by bank transfer.")
    assert near["action"] == "created"
    assert [one["path"] for one in near["similar"]] == ["/memories/a.md"]
    assert 0.9 <= near["similar"][0]["similarity"] < 1
    same = await ana.save("c.md", "Acme pays its invoices on Mondays\n  by bank transfer.\n")
    assert same["action"] == "duplicate_blocked"
    assert same["similar"] == [{"path": "/memories/a.md", "similarity": 1.0}]
    assert "no memory" in await ana.refused("view_memories", path="/memories/c.md")
    other = await ana.save("d.md", "The office plants are watered by Rui.")
    assert other["similar"] == []
    strict = yard.user(near_duplicate=1.0)
    assert (await strict.save("e.md", "Acme usually pays its invoices on Mondays by transfer."))[
        "similar"
    ] == []


async def test_words_and_meaning_find_in_both_languages(yard: Yard):
    ana = yard.user()
    await ana.save("tea.md", "Ana drinks green tea every afternoon.")
    await ana.save("reuniao.md", "As reuniões com a São João Ltda. são às terças. Código XK-4711.")
    await ana.save("car.md", "The blue car goes to the garage in May.")
    assert await ana.found("reuniao", "text") == ["reuniao.md"]
    assert await ana.found("SAO JOAO", "text") == ["reuniao.md"]
    assert await ana.found("4711", "text") == ["reuniao.md"]
    assert await ana.found("cars", "text") == ["car.md"]
    assert await ana.found("beverage", "text") == []
    assert (await ana.found("automóvel na oficina", "meaning"))[0] == "car.md"
    assert (await ana.found("what does Ana like to drink"))[0] == "tea.md"
    assert await ana.found("xyzzy plugh") == []
    assert await ana.found('"* OR tea) NEAR( & | ! <->', "text") == ["tea.md"]
    assert "query is empty" in await ana.refused("search_memories", query="  ")
    await ana.save("tea.md", "Ana drinks coffee now.")
    assert await ana.found("green", "text") == []
    assert await ana.found("coffee", "text") == ["tea.md"]


async def test_other_scripts_are_found_by_their_words(yard: Yard):
    ana = yard.user()
    await ana.save("tea.md", "Анна пьёт зелёный чай. 会議は火曜日です。")
    assert await ana.found("ЗЕЛЕНЫИ", "text") == ["tea.md"]
    assert await ana.found("火曜", "text") == ["tea.md"]
    assert await ana.found("кофе", "text") == []


async def test_a_word_that_nearly_every_memory_has_does_not_hide_the_one_that_counts(yard: Yard):
    ana = yard.user()
    for number in range(30):
        await ana.save(f"n{number}.md", f"The invoice number {number} of the customer was paid.")
    await ana.save("special.md", "The invoice of the bakery was never paid.")
    assert (await ana.found("the unpaid invoice of the bakery", "text", limit=3))[0] == "special.md"
    assert len(await ana.found("invoice", "text", limit=50)) == 31


async def test_a_search_sees_what_another_process_changed(yard: Yard):
    one, two = yard.user(max_deleted=1), yard.user(max_deleted=1)
    await one.save("tea.md", "Ana drinks green tea.")
    await one.save("car.md", "The blue car is in the garage.")
    assert await two.found("a cup of tea", "meaning") == ["tea.md"]
    await one.save("tea.md", "Ana likes to swim.")
    assert await two.found("a cup of tea", "meaning") == []
    assert await two.found("swimming", "meaning") == ["tea.md"]
    await one.good("delete_memory", path="/memories/tea.md")
    assert await two.found("swimming", "meaning") == []
    await one.good("delete_memory", path="/memories/car.md")  # the other one is forgotten for good by this
    assert await two.found("blue car", "meaning") == []
    await one.save("car.md", "The blue car is in the garage.")
    await one.good("clear_memories")
    await one.save("swim.md", "Ana swims in the lake.")
    assert await two.found("blue car", "meaning") == []
    assert await two.found("swimming in a lake", "meaning") == ["swim.md"]


async def test_edits_at_the_same_time_all_count(yard: Yard):
    users = [yard.user() for _ in range(3)]
    await users[0].save("log.md", "begin;the end")

    async def edit(user: User, word: str) -> None:
        await user.good(
            "update_memory", path="/memories/log.md", old_str="the end", new_str=f"{word};the end"
        )

    await asyncio.gather(*(edit(user, f"{i}{n}") for i, user in enumerate(users) for n in range(4)))
    words = (await users[0].view("log.md")).split(";")
    assert sorted(words[1:-1]) == sorted(f"{i}{n}" for i in range(3) for n in range(4))


async def test_processes_that_save_the_same_path_lose_nothing(yard: Yard):
    ana = yard.user()
    await ana.save("log.md", "begin;the end")
    names = ("first", "second")
    program = [sys.executable, "-c", WRITER, yard.url, yard.tenant]
    pipe = asyncio.subprocess.PIPE
    writers = [
        await asyncio.create_subprocess_exec(*program, name, stdin=pipe, stdout=pipe) for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.close()
    assert [await writer.wait() for writer in writers] == [0, 0]
    history = (await ana.good("view_memory_history", path="/memories/shared.md")).structured
    kept = {one["preview"] for one in history["versions"]}
    assert kept == {f"shared {name} {n}" for name in names for n in range(15)}
    assert [one["version"] for one in history["versions"]] == list(range(30, 0, -1))
    log = await ana.view("log.md")
    assert all(f"{name}-{n};" in log for name in names for n in range(15))


async def test_vectors_of_another_embedding_are_made_again(tmp_path: Path):
    url = f"sqlite:{tmp_path / 'memory.db'}"
    first = build(Settings(url=url))
    await User(first, Identity()).save("tea.md", "Ana drinks green tea.")
    await first.close()
    with sqlite3.connect(tmp_path / "memory.db") as file:
        file.execute("UPDATE toolyard_memories SET vector = ?", (b"old!" + bytes(100),))
    second = build(Settings(url=url))
    assert await User(second, Identity()).found("a cup of tea", "meaning") == ["tea.md"]
    await second.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://yard:hunter2@127.0.0.1:1/x", "PostgreSQL: "),
        ("postgresql://yard:the@hunter2@127.0.0.1:1/x", "in a password @ is %40"),
        ("sqlite:/dev/null/memory.db", "SQLite: File exists"),
    ],
)
async def test_a_database_that_cannot_be_reached_is_said_without_its_password(url: str, said: str):
    server = build(Settings(url=url))
    text = await User(server, Identity()).refused("list_memories")
    assert text.startswith("The memories cannot be reached: ")
    assert said in text
    assert "hunter2" not in text
    assert "/dev/null" not in text, "where it lies is for the log"
    await server.close()
