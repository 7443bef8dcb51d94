"""What is kept and what is found, the same in SQLite and in PostgreSQL."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.servers.sessions.archive import Archive, session
from tests.stores import PostgresServer
from toolyard.kit import McpError
from toolyard.kit.loader import LoadError, SettingsError, load
from toolyard.servers.sessions import Settings, build
from toolyard.servers.sessions.recording import record


async def test_the_latest_come_first_whatever_order_they_were_stored_in(archive: Archive):
    for at in (3, 1, 2):
        told = session(f"s{at}", "about tea", "yes", updated_at=f"2026-01-0{at}T00:00:00Z")
        await archive.record(told)
    assert await archive.search("tea") == ["s3", "s2", "s1"]
    assert list(await archive.recent()) == ["s3", "s2", "s1"]


async def test_case_accents_and_forms_of_characters_do_not_matter(archive: Archive):
    await archive.record(session("a", "A REUNIÃO é amanhã no café", "Está marcada."))
    # The last one is spelt with combining accents.
    for query in ("reuniao", "REUNIÃO", "cafe amanha", "reunia\u0303o"):
        assert await archive.search(query) == ["a"], query
    assert await archive.excerpt("reuniao CAFE") == "A **REUNIÃO** é amanhã no **café**"


async def test_words_are_found_whole_then_by_how_they_begin_then_across_messages(archive: Archive):
    await archive.record(
        session("whole", "the port is taken", "ok", updated_at="2026-01-01T00:00:00Z"),
        session("longer", "the portal is down", "ok", updated_at="2026-01-02T00:00:00Z"),
        session("apart", "the kettle is red", "and the teapot is blue", updated_at="2026-01-03T00:00:00Z"),
    )
    assert await archive.search("port") == ["whole"]
    assert await archive.search("porta") == ["longer"]
    assert await archive.search("kettle teapot") == ["apart"]
    assert await archive.search("kettle portal") == []
    assert await archive.excerpt("porta") == "the **portal** is down"


QUERIES_LIKE_SYNTAX = [
    '"red" OR NOT *',
    "red NEAR(teapot, 3)",
    "text:red",
    "red' | 'x",
    "^red AND (",
    "red & !blue <-> tea",
    "red\x00; DROP TABLE toolyard_messages; --",
    "%red_",
    "red:*\\",
    "red " * 400,
]


async def test_a_query_is_words_and_never_syntax(archive: Archive):
    await archive.record(session("a", "the teapot is red", "near, or not; text, drop table x blue tea"))
    for query in QUERIES_LIKE_SYNTAX:
        said = await archive.call("search_sessions", query=query)
        assert not said.failed, query
    # Words that were not said find nothing, whatever stands between them and those that were.
    for query in ("red OR zebra", "zebra | red", 'red" OR "zebra', "NOT zebra", "zebra:* & !red"):
        assert await archive.search(query) == [], query
    assert await archive.search("teapot red") == ["a"]


async def test_tool_calls_are_found_and_shown_but_have_no_meaning(archive: Archive):
    told = session("a", "Please look into it", "")
    told["messages"][1]["tools"] = [{"name": "read_file", "arguments": {"path": "src/greenhouse.py"}}]
    told["messages"].append({"role": "tool", "text": "tomatoes and cucumbers"})
    await archive.record(told)
    assert await archive.excerpt("greenhouse") == 'read_file {"path":"src/**greenhouse**.py"}'
    assert await archive.search("cucumbers") == ["a"]
    assert (await archive.recent())["a"]["message_count"] == 1
    assert '- `read_file {"path":"src/greenhouse.py"}`' in await archive.transcript("a")
    alike = await archive.call("semantic_search_sessions", query="vegetables")
    assert alike.structured["count"] == 0


async def test_nobody_finds_what_is_another_ones(archive: Archive):
    await archive.record(session("mine", "the secret garden", "is green"))
    await archive.record(session("hers", "the secret drawer", "is locked"), user="ana")

    assert await archive.search("secret") == ["mine"]
    assert await archive.search("secret", user="ana") == ["hers"]
    for user, tenant in (("rui", ""), ("", f"{archive.tenant}x"), ("ana", "other")):
        for tool in ("search_sessions", "semantic_search_sessions"):
            said = await archive.call(tool, user, tenant, query="secret garden")
            assert said.structured["count"] == 0
        assert (await archive.call("list_recent_sessions", user, tenant)).structured["count"] == 0
    for user, wanted in (("", "hers"), ("ana", "mine"), ("rui", "mine")):
        with pytest.raises(McpError, match="no session"):
            await archive.transcript(wanted, user)
    # The same id in two hands is two sessions.
    await archive.record(session("mine", "other words"), user="ana")
    assert "secret garden" in await archive.transcript("mine")
    assert "other words" in await archive.transcript("mine", "ana")


async def test_a_conversation_recorded_again_is_what_it_is_now(archive: Archive):
    await archive.record(session("a", "buy apples", "bought apples", title="Apples", summary="fruit"))
    await archive.record(session("a", "buy pears"))
    assert await archive.search("apples") == []
    assert await archive.search("fruit") == []
    assert await archive.search("pears") == ["a"]
    (kept,) = (await archive.recent()).values()
    assert (kept["title"], kept["message_count"], kept["summary"]) == ("buy pears", 1, "")
    alike = await archive.call("semantic_search_sessions", query="apples bought")
    assert "apples" not in str(alike.structured)


async def test_a_title_is_found_as_well(archive: Archive):
    await archive.record(session("a", "what now", "this", title="Plumbing of the bathroom"))
    assert await archive.search("plumbing") == ["a"]
    assert await archive.excerpt("plumbing") == "**Plumbing** of the bathroom"


async def test_a_server_that_has_searched_before_finds_what_came_since_and_forgets_what_went(
    archive: Archive,
):
    async def alike(query: str) -> list[str]:
        found = (await archive.call("semantic_search_sessions", query=query)).structured
        return [item["session_id"] for item in found["results"] if not found["fallback_used"]]

    await archive.record(session("a", "the weather is rainy today"))
    assert await alike("weather forecast") == ["a"]
    await archive.record(session("b", "storm and rain are forecast for tomorrow"))
    assert sorted(await alike("weather forecast")) == ["a", "b"]
    # What stands in the place of that message now says nothing of the kind.
    await archive.record({"session_id": "a", "messages": [{"role": "tool", "text": "a list of names"}]})
    assert await alike("weather forecast") == ["b"]


async def test_a_database_that_was_restarted_is_used_again(postgres_server: PostgresServer):
    archive = Archive(postgres_server.url, "restarted")
    await archive.record(session("a", "still here"))
    assert await archive.search("still") == ["a"]
    postgres_server.restart()
    assert await archive.search("still") == ["a"]
    await archive.close()


async def test_many_writers_at_once_lose_nothing(archive: Archive):
    told = [session(f"s{at}", f"message number {at}", "noted") for at in range(8)]
    await asyncio.gather(*(archive.record(one) for one in told), *(archive.record(one) for one in told))
    for at in range(8):
        assert await archive.search(f"number {at}") == [f"s{at}"]


async def test_text_that_databases_dislike_is_kept_as_far_as_it_can_be(archive: Archive):
    await archive.record(session("a\x00b", "nul \x00 here", "half \ud800 character", title="ok"))
    assert await archive.search("nul here") == ["ab"]
    assert "half ? character" in await archive.transcript("ab")


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"messages": []}, "session_id"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "a", "messages": [{"role": "god", "text": "x"}]}, r"messages\[0\].role"),
        ({"session_id": "a", "messages": [{"role": "user", "text": 5}]}, r"messages\[0\].text"),
        ({"session_id": "a", "cost_usd": -1}, "cost_usd"),
        ({"session_id": "a", "format": "other"}, "format"),
    ],
)
async def test_what_is_not_in_the_form_is_refused_by_its_member(told: dict[str, object], fault: str):
    with pytest.raises(msgspec.ValidationError, match=fault):
        await record(told, url="memory:")


async def test_a_database_that_cannot_be_used_is_said_to_the_caller_without_its_password(tmp_path: Path):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no url, and never was one" * 100)
    postgres = "postgresql://yard:hunter2@127.0.0.1:1/none"
    for url in (f"sqlite:{broken}", postgres, postgres.replace("hunter2", "the@hunter2")):
        archive = Archive(url, "local")
        said = await archive.call("list_recent_sessions")
        await archive.close()
        assert said.failed
        assert "cannot be reached" in said.text
        assert "hunter2" not in said.text


@pytest.mark.parametrize("url", ["mongodb://host/name", "nonsense", "sqlite:", "hunter2@host"])
def test_an_address_of_no_known_kind_is_refused_when_the_server_is_made(url: str):
    with pytest.raises(LoadError) as caught:
        load("toolyard.servers.sessions", options={"url": url})
    assert "sqlite:PATH" in str(caught.value.message)
    assert "hunter2" not in str(caught.value.message)


def test_an_address_of_another_kind_is_a_wrong_setting_and_not_repeated():
    with pytest.raises(SettingsError, match=r"'url'.*scheme 'yard'.*sqlite:PATH") as caught:
        build(Settings(url="yard:hunter2@db/none"))
    assert "hunter2" not in str(caught.value)


def test_a_pause_that_no_clock_can_measure_is_a_wrong_setting():
    with pytest.raises(LoadError, match="scan_seconds"):
        load("toolyard.servers.sessions", options={"url": "memory:", "scan_seconds": "inf"})
