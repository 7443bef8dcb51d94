"""Every tool, resource and prompt through the official client, in both eras and both languages."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.app.yard import yard as gateway_yard
from tests.cli.running import Toolyard
from tests.servers.memory.talking import ERAS, MODULE, talking
from toolyard.config import InProcess, ServerConfig
from toolyard.extras import install_command
from toolyard.kit import Principal
from toolyard.kit.loader import LoadError, load

YES = {"action": "accept", "content": {"confirm": True}}
NO = {"action": "decline"}
UNSURE = {"action": "accept", "content": {"confirm": False}}
NOTE = """---
title: Acme Ltd
kind: client
domain: sales
level: high
scope: team
category: contacts
importance: high
---
Acme pays on Mondays. Their buyer is Rita."""


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_kept_is_found_changed_brought_back_and_erased(era: str):
    async with talking(era) as talk:
        empty = await talk.call("view_memories")
        assert empty.structured == {"path": "/memories", "is_directory": True, "items": [], "more": False}

        saved = await talk.call("save_memory", path="/memories//clients/acme.md/", content=NOTE)
        assert saved.structured == {
            "path": "/memories/clients/acme.md",
            "action": "created",
            "category": "contacts",
            "importance": 0.75,
            "version": 1,
            "similar": [],
            "suspect": 0,
        }
        await talk.call("save_memory", path="/memories/tea.md", content="Ana drinks green tea at four.")

        listed = (await talk.call("list_memories")).structured
        assert (listed["total"], listed["shown"]) == (2, 2)
        assert (listed["by_kind"], listed["by_domain"]) == (
            {"client": 1, "note": 1},
            {"general": 1, "sales": 1},
        )
        assert listed["memories"][0] == {
            "path": "/memories/clients/acme.md",
            "kind": "client",
            "domain": "sales",
            "level": "high",
            "title": "Acme Ltd",
            "scope": "team",
        }
        root = (await talk.call("view_memories", path="/memories")).structured
        assert root["items"] == [{"name": "clients", "is_dir": True}, {"name": "tea.md", "is_dir": False}]

        updated = await talk.call(
            "update_memory", path="/memories/clients/acme.md", old_str="Mondays", new_str="Fridays"
        )
        assert updated.structured == {
            "path": "/memories/clients/acme.md",
            "updated": True,
            "version": 2,
            "suspect": 0,
        }
        viewed = (await talk.call("view_memories", path="/memories/clients/acme.md")).structured
        assert viewed["content"] == NOTE.replace("Mondays", "Fridays")
        assert (viewed["is_directory"], viewed["version"]) == (False, 2)

        hits = (await talk.call("search_memories", query="when does Acme pay?", limit=1)).structured
        assert hits["count"] == 1
        assert hits["results"][0]["path"] == "/memories/clients/acme.md"
        assert hits["results"][0]["excerpt"].startswith("Acme pays on Fridays.")
        assert hits["results"][0]["found_by"] == ["text", "meaning"]

        history = (await talk.call("view_memory_history", path="/memories/clients/acme.md")).structured
        assert [(one["version"], one["event"], one["current"]) for one in history["versions"]] == [
            (2, "updated", True),
            (1, "created", False),
        ]
        restored = await talk.call("restore_memory_version", path="/memories/clients/acme.md", version=1)
        assert restored.structured == {"path": "/memories/clients/acme.md", "restored": 1, "version": 3}

        talk.answers += [YES, YES]
        deleted = await talk.call("delete_memory", path="/memories/clients")
        assert deleted.structured == {
            "path": "/memories/clients",
            "type": "directory",
            "count": 1,
            "declined": False,
        }
        assert (await talk.call("clear_memories")).structured == {"count": 1, "declined": False}
        assert talk.asked == [
            "Delete the folder /memories/clients with its 1 memories?",
            "Erase all 1 memories with all their versions? This cannot be undone.",
        ]
        assert (await talk.call("list_memories")).structured["total"] == 0


@pytest.mark.parametrize("era", ERAS)
async def test_whoever_says_no_keeps_everything(era: str):
    async with talking(era) as talk:
        await talk.call("save_memory", path="/memories/tea.md", content="Green tea.")
        for answer in (NO, UNSURE, {"action": "cancel"}):
            talk.answers += [answer, answer]
            deleted = await talk.call("delete_memory", path="/memories/tea.md")
            assert deleted.structured == {
                "path": "/memories/tea.md",
                "type": "file",
                "count": 0,
                "declined": True,
            }
            assert deleted.text == "Nothing was deleted: the user said no."
            cleared = await talk.call("clear_memories")
            assert cleared.structured == {"count": 0, "declined": True}
        assert (await talk.call("view_memories", path="/memories/tea.md")).text == "Green tea."


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_is_taken_at_its_word(era: str):
    async with talking(era, asks=False) as talk:
        await talk.call("save_memory", path="/memories/tea.md", content="Green tea.")
        deleted = await talk.call("delete_memory", path="/memories/tea.md")
        assert (deleted.structured["count"], talk.asked) == (1, [])


@pytest.mark.parametrize("era", ERAS)
async def test_memories_are_resources_with_completions_and_a_prompt_begins_with_them(era: str):
    async with talking(era) as talk:
        await talk.call("save_memory", path="/memories/clients/acme.md", content=NOTE)
        await talk.call("save_memory", path="/memories/tea & milk.md", content="Ana drinks green tea.")
        index = await talk.read("memory:///memories")
        assert "- /memories/clients/acme.md: Acme Ltd" in index
        assert await talk.read("memory:///memories/clients/acme.md") == NOTE
        assert await talk.read("memory:///memories/tea%20%26%20milk.md") == "Ana drinks green tea."
        assert await talk.complete("cl") == ["clients/acme.md"]
        assert await talk.complete("") == ["clients/acme.md", "tea & milk.md"]
        with pytest.raises(MCPError, match="There is no memory '/memories/nobody'"):
            await talk.read("memory:///memories/nobody")

        begun = await talk.prompt("recall", topic="what Ana drinks")
        assert "## /memories/tea & milk.md\n\nAna drinks green tea." in begun
        assert "There are no memories about 'xyzzy'" in await talk.prompt("recall", topic="xyzzy")


async def test_clients_are_told_when_there_are_other_memories():
    async with talking(ERAS[1]) as talk, talk.client.listen(resources_list_changed=True) as events:
        await talk.call("save_memory", path="/memories/tea.md", content="Green tea.")
        event = await anext(aiter(events))
    assert type(event).__name__ == "ResourcesListChanged", event


@pytest.mark.parametrize("era", ERAS)
async def test_in_portuguese_it_speaks_portuguese(era: str):
    async with talking(era, locale="pt") as talk:
        note = "---\ntitulo: Faturas\ntipo: regra\nimportancia: alta\n---\nA Acme paga à segunda."
        saved = await talk.call("save_memory", path="/memories/vendas/acme.md", content=note)
        assert saved.structured["action"] == "criado"
        assert saved.text == "/memories/vendas/acme.md guardada (versão 1)."
        again = await talk.call(
            "save_memory", path="/memories/vendas/acme.md", content=note + " Rita compra."
        )
        assert again.structured["action"] == "atualizado"
        twin = await talk.call("save_memory", path="/memories/outra.md", content=note + " Rita  compra.")
        assert twin.structured["action"] == "duplicate_blocked"
        assert "tem exatamente o mesmo texto" in twin.text
        listed = (await talk.call("list_memories")).structured
        assert listed == {
            "total": 1,
            "memories": [
                {
                    "path": "/memories/vendas/acme.md",
                    "kind": "regra",
                    "dominio": "vendas",
                    "nivel": "normal",
                    "titulo": "Faturas",
                    "escopo": "user",
                }
            ],
            "mostrados": 1,
            "por_kind": {"regra": 1},
            "por_dominio": {"vendas": 1},
        }
        (hit,) = (await talk.call("search_memories", query="quando paga a Acme?")).structured["results"]
        assert hit["titulo"] == "Faturas"
        talk.answers.append(NO)
        assert "o usuário disse não" in (await talk.call("delete_memory", path="/memories/vendas")).text
        assert talk.asked == ["Apagar a pasta /memories/vendas com as suas 1 memórias?"]
        outside = await talk.call("view_memories", path="/etc/passwd")
        assert outside.failed
        assert "não começa por /memories" in outside.text
        assert "Não há memória sobre" in await talk.prompt("recall", topic="xyzzy")


PORTUGUESE = {"dominio", "nivel", "titulo", "escopo", "mostrados", "por_kind", "por_dominio"}
ENGLISH = {"domain", "level", "title", "scope", "shown", "by_kind", "by_domain"}


def names_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(names_in, schema))
    if not isinstance(schema, dict):
        return set()
    below = [names_in(value) for value in schema.values()]
    return set(schema.get("properties", {})) | set(schema.get("required", [])) | set().union(*below)


async def test_the_names_of_fields_are_of_the_language_of_the_server_and_no_other():
    for locale, own, other in (("en", ENGLISH, PORTUGUESE), ("pt", PORTUGUESE, ENGLISH)):
        async with talking(ERAS[1], locale=locale) as talk:
            tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
            # A kind that is called as a field is; it is the user's word and stays.
            note = "---\nkind: title\ndomain: level\n---\nTea at four."
            await talk.call("save_memory", path="/memories/tea.md", content=note)
            listed = (await talk.call("list_memories")).structured
        assert names_in(tools["list_memories"].output_schema) >= own
        assert names_in([tool.output_schema for tool in tools.values()]).isdisjoint(other)
        by_kind, by_domain = ("by_kind", "by_domain") if locale == "en" else ("por_kind", "por_dominio")
        assert (listed[by_kind], listed[by_domain]) == ({"title": 1}, {"level": 1})


async def test_what_was_kept_in_one_language_is_read_in_the_other(tmp_path: Path):
    url = f"sqlite:{tmp_path}/memory.db"
    async with talking(ERAS[1], locale="pt", url=url) as talk:
        note = "---\ntitulo: Faturas\ndominio: vendas\n---\nA Acme paga à segunda."
        await talk.call("save_memory", path="/memories/acme.md", content=note)
    async with talking(ERAS[1], locale="en", url=url) as talk:
        (head,) = (await talk.call("list_memories")).structured["memories"]
    assert (head["title"], head["domain"]) == ("Faturas", "vendas")


async def test_the_annotations_say_what_each_tool_does():
    reads, writes, destroys = (
        (True, False, True, False),
        (False, False, True, False),
        (False, True, True, False),
    )
    async with talking(ERAS[1]) as talk:
        tools = (await talk.client.list_tools()).tools
    found = {
        tool.name: (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint,
            tool.annotations.open_world_hint,
        )
        for tool in tools
        if tool.annotations
    }
    assert found == {
        "view_memories": reads,
        "save_memory": writes,
        "update_memory": writes,
        "delete_memory": destroys,
        "list_memories": reads,
        "clear_memories": destroys,
        "search_memories": reads,
        "view_memory_history": reads,
        "restore_memory_version": writes,
    }


async def test_in_a_gateway_each_agent_has_memories_of_their_own(tmp_path: Path):
    where = InProcess(module=MODULE, options={"url": f"sqlite:{tmp_path / 'memory.db'}", "locale": "pt"})

    def identify(headers: Any) -> Principal:
        agent = next(value for name, value in headers if name == b"x-agent")
        return Principal(tenant="acme", agent=agent.decode())

    server = ServerConfig(name="memory", where=where)
    async with gateway_yard(server, identify=identify) as mounted:

        async def call(agent: str, tool: str, **arguments: Any) -> Any:
            params = {"name": f"mcp__memory__{tool}", "arguments": arguments}
            answer = await mounted.modern("tools/call", params, headers={"X-Agent": agent})
            return answer.result.get("structuredContent")

        saved = await call("ana", "save_memory", path="/memories/cha.md", content="A Ana bebe chá verde.")
        assert saved["action"] == "criado"
        (hit,) = (await call("ana", "search_memories", query="green tea"))["results"]
        assert hit["path"] == "/memories/cha.md"
        assert (await call("rui", "search_memories", query="chá verde"))["results"] == []
        assert (await call("rui", "list_memories"))["total"] == 0
        (kept,) = (await call("ana", "view_memory_history", path="/memories/cha.md"))["versions"]
        assert kept["changed_by"] == "ana"


def test_it_runs_alone_and_keeps_what_it_is_told_in_the_state_folder(toolyard: Toolyard):
    def call(id: int, tool: str, arguments: dict[str, Any]) -> str:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}) + "\n"

    def run(message: str, *options: str) -> Any:
        process = toolyard.start("run", "memory", *options)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(message)
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(20) == 0
        return answer["result"]

    run(call(1, "save_memory", {"path": "/memories/tea.md", "content": "Green tea."}))
    viewed = run(call(1, "view_memories", {"path": "/memories/tea.md"}), "-o", "locale=pt")
    assert viewed["structuredContent"]["content"] == "Green tea."
    file = toolyard.state / "toolyard" / "memory" / "memory.db"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("oracle://u:hunter2@host/x", "scheme 'oracle'"),
        ("hunter2", "unsupported database URL scheme"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_the_start(url: str, said: str):
    with pytest.raises(LoadError, match=said) as refused:
        load(MODULE, options={"url": url})
    assert "hunter2" not in str(refused.value)


def test_postgresql_without_its_package_names_the_extra():
    program = (
        "import sys; sys.modules['psycopg'] = None; from toolyard.cli import main; "
        "main(['run', 'memory', '-o', 'url=postgresql://localhost/x'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"psycopg: {install_command('postgres')}" in done.stderr
