"""The server as clients meet it: three tools, transcripts, completions, in both eras and both languages."""

from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from tests.app.yard import yard
from tests.reading import text_of
from tests.servers.sessions.archive import ERAS, MODULE, Archive, entry, session, talking, write_lines
from tests.waiting import until
from toolyard.config import InProcess, ServerConfig

DEPLOY = session(
    "deploy-1",
    "Why does the deployment of the shop fail?",
    "The container ran out of memory while it was starting. I raised the limit to 512 MB.",
    title="Deployment of the shop",
    channel="web",
    created_at="2026-03-01T10:00:00Z",
    updated_at="2026-03-01T10:05:00Z",
    cost_usd=0.25,
    summary="The container was out of memory.",
    topics=["deployment", "memory"],
)
INVOICE = session(
    "fatura-2",
    "Preciso de saber porque a fatura de março não foi paga.",
    "O pagamento foi recusado pelo banco; enviei um lembrete ao cliente.",
    created_at="2026-04-02T08:00:00Z",
    updated_at="2026-04-02T09:00:00Z",
)


@pytest.fixture
async def url(sqlite_archive: Archive) -> str:
    await sqlite_archive.record(DEPLOY, INVOICE)
    return sqlite_archive.url


@pytest.mark.parametrize("era", ERAS)
async def test_what_was_said_is_found_by_words_by_meaning_and_by_time(era: str, url: str):
    async with talking(era, url=url) as talk:
        found = await talk.call("search_sessions", query="MEMORY container")
        assert found.structured == {
            "count": 1,
            "sessions": [
                {
                    "session_id": "deploy-1",
                    "title": "Deployment of the shop",
                    "created_at": "2026-03-01T10:00:00Z",
                    "updated_at": "2026-03-01T10:05:00Z",
                    "message_count": 2,
                    "channel": "web",
                    "excerpt": "The **container** ran out of **memory** while it was starting. "
                    "I raised the limit to 512 MB.",
                }
            ],
        }
        assert "sessions://deploy-1" in found.text

        recent = (await talk.call("list_recent_sessions")).structured
        assert [item["session_id"] for item in recent["sessions"]] == ["fatura-2", "deploy-1"]
        assert recent["sessions"][1] == {
            "session_id": "deploy-1",
            "title": "Deployment of the shop",
            "created_at": "2026-03-01T10:00:00Z",
            "message_count": 2,
            "cost_usd": 0.25,
            "summary": "The container was out of memory.",
            "topics": ["deployment", "memory"],
        }
        assert (await talk.call("list_recent_sessions", limit=1)).structured["count"] == 1

        # In another language than it was said in.
        alike = (await talk.call("semantic_search_sessions", query="unpaid invoice", limit=1)).structured
        assert (alike["count"], alike["fallback_used"]) == (1, False)
        (turn,) = alike["results"]
        assert (turn["session_id"], turn["similarity"] >= 0.35) == ("fatura-2", True)
        assert turn["user_content"].startswith("Preciso de saber")
        assert turn["assistant_summary"].startswith("O pagamento foi recusado")

        (prompt,) = (await talk.client.list_prompts()).prompts
        (message,) = (await talk.client.get_prompt(prompt.name, {"topic": "unpaid invoice"})).messages
        assert message.role == "user"
        assert "O pagamento foi recusado" in text_of(message.content)


@pytest.mark.parametrize("era", ERAS)
async def test_where_nothing_means_the_same_the_words_are_searched_and_that_is_said(
    era: str, sqlite_archive: Archive
):
    await sqlite_archive.record(session("odd", "Call it zqxwv please", "Done."))
    async with talking(era, url=sqlite_archive.url) as talk:
        found = await talk.call("semantic_search_sessions", query="zqxwv")
        assert (found.structured["count"], found.structured["fallback_used"]) == (1, True)
        assert found.structured["results"][0]["similarity"] is None
        assert found.structured["results"][0]["user_content"] == "Call it **zqxwv** please"
        assert "No conversation is similar to" in found.text

        none = await talk.call("semantic_search_sessions", query="!!?!")
        assert (none.structured, none.failed) == ({"count": 0, "fallback_used": True, "results": []}, False)


@pytest.mark.parametrize("era", ERAS)
async def test_a_whole_conversation_is_a_resource_in_pages_with_completions(
    era: str, sqlite_archive: Archive
):
    said = [f"Part {at}: " + "tell me more " * 300 for at in range(20)]
    await sqlite_archive.record(session("long/one", *said, title="A long one"), DEPLOY)
    async with talking(era, url=sqlite_archive.url) as talk:
        assert await talk.complete("sessions://{id}", "id", "lo") == ["long/one"]
        assert sorted(await talk.complete("sessions://{id}", "id", "")) == ["deploy-1", "long/one"]
        page_of = "sessions://{id}/{page}"
        assert await talk.complete(page_of, "page", "", id="long/one") == ["1", "2", "3"]

        text = await talk.read("sessions://long%2Fone")
        assert text.startswith("# A long one\n")
        assert "Page 1 of 3" in text
        shown = text
        while "Continued in " in text:
            text = await talk.read(text.rpartition("Continued in ")[2].strip())
            shown += text
        assert [shown.count(f"Part {at}:") for at in range(20)] == [1] * 20

        for uri in ("sessions://nowhere", "sessions://deploy-1/2", "sessions://deploy-1/x"):
            with pytest.raises(MCPError, match=r"no session 'nowhere'|has 1 pages"):
                await talk.read(uri)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (" ", "is too short: use at least 2 characters"),
        ("a", "is too short: use at least 2 characters"),
        ("!?-", "has no letters or digits"),
    ],
)
async def test_a_query_that_cannot_be_searched_for_is_refused_with_a_reason(
    query: str, said: str, sqlite_archive: Archive
):
    refused = await sqlite_archive.call("search_sessions", query=query)
    assert refused.failed
    assert said in refused.text


async def test_in_portuguese_the_texts_are_portuguese_and_the_fields_the_same(url: str):
    async with talking(ERAS[1], url=url, locale="pt") as talk:
        tools = (await talk.client.list_tools()).tools
        assert [tool.title for tool in tools] == [
            "Procurar conversas",
            "Conversas recentes",
            "Procurar conversas pelo sentido",
        ]
        found = await talk.call("search_sessions", query="MARCO")
        assert "Conversas com 'MARCO' (1)" in found.text
        assert found.structured["sessions"][0]["excerpt"].count("**março**") == 1
        assert "demasiado curta" in (await talk.call("search_sessions", query="a")).text
        assert "## Utilizador" in await talk.read("sessions://fatura-2")


async def test_never_more_than_ten_come_back(sqlite_archive: Archive):
    await sqlite_archive.record(*(session(f"s{at}", f"the kettle boils {at}", "Good.") for at in range(12)))
    assert len(await sqlite_archive.search("kettle", limit=500)) == 10
    assert len(await sqlite_archive.recent(limit=500)) == 10
    alike = await sqlite_archive.call("semantic_search_sessions", query="kettle", limit=500)
    assert alike.structured["count"] == 10
    assert len(await sqlite_archive.search("kettle", limit=3)) == 3


async def test_mounted_in_a_gateway_each_caller_finds_their_own(sqlite_archive: Archive):
    await sqlite_archive.record(DEPLOY)
    await sqlite_archive.record(INVOICE, user="rui")
    where = InProcess(module=MODULE, options={"url": sqlite_archive.url})
    async with yard(ServerConfig(name="past", where=where)) as gateway:
        answer = await gateway.call("mcp__past__list_recent_sessions")
        found: Any = answer.result["structuredContent"]["sessions"]
        assert [item["session_id"] for item in found] == ["deploy-1"]


async def test_a_server_that_imports_finds_what_is_written_while_it_runs(tmp_path: Path):
    path = write_lines(tmp_path / "projects" / "shop" / "s1.jsonl", entry("user", "u1", "Hello there"))
    settings = {"url": "memory:", "import_from": str(tmp_path / "projects"), "scan_seconds": 0.05}
    async with talking(ERAS[1], **settings) as talk:

        async def holds(query: str) -> bool:
            return (await talk.call("search_sessions", query=query)).structured["count"] == 1

        await until(lambda: holds("hello"))
        write_lines(path, entry("assistant", "a1", [{"type": "text", "text": "General greetings"}]))
        await until(lambda: holds("greetings"))
        assert "still being imported" not in (await talk.call("list_recent_sessions")).text
