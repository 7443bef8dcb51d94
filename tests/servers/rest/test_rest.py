"""The server of any table, as users meet it: the guide's example, and wherever a target is taken."""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.running import Toolyard
from tests.rest.loopback import Loopback, loopback, reply
from toolyard import Client
from toolyard.kit import Server
from toolyard.kit.loader import LoadError, load
from toolyard.rest.definition import model
from toolyard.servers.rest import Settings

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "rest.md").read_text("utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", GUIDE, re.M | re.S)
TICKET = {"id": 7, "subject": "No light", "client": {"id": 3, "name": "Acme"}, "status": "open", "secret": 1}


@pytest.fixture
async def api():
    async with loopback() as api:
        yield api


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two files of the guide."""
    (tmp_path / "desk.toml").write_text(BLOCKS[0], "utf-8")
    (tmp_path / "desk.pt.toml").write_text(BLOCKS[1], "utf-8")
    return tmp_path


def made(folder: Path, **options: Any) -> Server:
    return load("toolyard.servers.rest", options={"table": str(folder / "desk.toml"), **options})


async def called(server: Server, tool: str, **arguments: Any) -> Any:
    async with Client(server) as client:
        return (await client.call_tool(tool, arguments)).raw


async def test_the_guides_table_is_a_conversation_with_its_api(api: Loopback, folder: Path):
    server = made(folder, base_url=api.url, api_key="sesame-open")
    api.on("GET /tickets", reply([TICKET], X_Total="41"))
    api.on("GET /clients", reply([{"id": 3, "name": "ACME"}, {"id": 4, "name": "Acme South"}]))
    api.on("POST /tickets", reply({"ticket": TICKET}, 201))
    api.on("POST /tickets/7/files", reply(status=204))
    api.on("DELETE /tickets/7", reply({"message": "no"}, 409))

    listed = await called(server, "list_tickets", client_ids="3, 4", per_page=1)
    kept = {"id": 7, "subject": "No light", "client": {"name": "Acme"}, "status": "open"}
    assert listed["structuredContent"] == {"items": [kept], "total": 41, "next": 2}
    assert api.last.query == {"status": "open", "client_ids": "3,4", "page": "1", "per_page": "1"}
    assert api.last.headers["authorization"] == "Bearer sesame-open"

    created = await called(server, "create_ticket", subject="No light", client_name="acme")
    assert created["structuredContent"] == {"data": {"id": 7, "subject": "No light"}}
    assert [asked.target for asked in api.asked[-2:]] == ["/clients?search=acme", "/tickets"]
    assert api.last.json == {"subject": "No light", "client": {"id": 3}}

    file = {"content": base64.b64encode(b"a lamp").decode(), "filename": "lamp.txt"}
    attached = await called(server, "attach_files", ticket_id=7, files=[file])
    assert attached["structuredContent"] == {"message": "The files are with ticket 7."}
    assert b'name="files[]"; filename="lamp.txt"' in api.last.body

    closed = await called(server, "close_ticket", ticket_id=7)
    assert (closed["isError"], closed["content"][0]["text"]) == (True, "The ticket is closed already")
    missing = await called(server, "get_ticket", ticket_id=8)
    assert missing["content"][0]["text"].startswith("The help desk has no such thing")
    await server.close()


async def offered(server: Server) -> list[str]:
    async with Client(server) as client:
        return [tool["name"] for tool in await client.list_all("tools/list")]


async def test_tools_are_chosen_by_name_and_by_group_as_text_or_as_a_list(folder: Path):
    every = await offered(made(folder))
    assert len(every) == 5
    assert await offered(made(folder, tools="get_ticket, list_tickets")) == ["list_tickets", "get_ticket"]
    assert await offered(made(folder, tools=["changes"])) == ["create_ticket", "attach_files", "close_ticket"]
    assert await offered(made(folder, tools="changes,get_ticket")) == [
        name for name in every if name != "list_tickets"
    ]
    assert await offered(made(folder, tools=" ")) == every
    with pytest.raises(LoadError, match=r"'desk' has no tool or group 'change'; did you mean 'changes'\?"):
        made(folder, tools="get_ticket,change")
    with pytest.raises(LoadError, match="no tool or group 'billing'; groups: changes"):
        made(folder, tools="billing")


async def test_the_other_language_and_the_other_verbosity_are_settings(api: Loopback, folder: Path):
    server = made(folder, base_url=api.url, api_key="sesame", locale="pt", verbosity="compact")
    api.on("GET /tickets", reply([TICKET]))
    async with Client(server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        listed = await client.call_tool("list_tickets", {})
        missing = await client.call_tool("get_ticket", {"ticket_id": 8})
    assert tools["get_ticket"].title == "Consultar um chamado"
    assert tools["get_ticket"].input_schema["properties"]["ticket_id"]["description"] == "O número do chamado"
    assert listed.structured["items"] == [{"id": 7, "subject": "No light"}]
    assert missing.text == "Não existe, ou esta chave não pode ver"
    await server.close()


async def test_a_table_is_a_target_of_every_command(api: Loopback, folder: Path):
    toolyard = Toolyard(folder)
    (folder / "desk.toml").write_text(BLOCKS[0].replace("https://desk.example/api", api.url), "utf-8")
    api.on("GET /tickets/7", reply({"ticket": TICKET}))
    key = {"DESK_API_KEY": "sesame"}

    def everything() -> None:
        listed = toolyard("list", "desk.toml", "--json", **key)
        assert [tool["name"] for tool in json.loads(listed.out)["tools"]][:2] == [
            "list_tickets",
            "get_ticket",
        ]
        for target in (("--target", "desk.toml"), ("--config", "yard.toml")):
            if target[0] == "--config":
                added = toolyard("add", "desk", "desk.toml", "--config", "yard.toml")
                assert added.status == 0, added
            tool = "get_ticket" if target[0] == "--target" else "mcp__desk__get_ticket"
            outcome = toolyard("call", tool, *target, "ticket_id=7", "--json", **key)
            assert outcome.status == 0, outcome
            assert json.loads(outcome.out)["structuredContent"]["data"]["subject"] == "No light"
        running = toolyard.start("run", "desk.toml", "-o", "locale=pt", **key)
        assert running.stdin is not None
        assert running.stdout is not None
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        running.stdin.write(json.dumps(ask) + "\n")
        running.stdin.flush()
        assert "Consultar um chamado" in running.stdout.readline()
        running.stdin.close()
        assert running.wait(20) == 0

    await asyncio.to_thread(everything)


def test_a_table_is_looked_for_beside_the_configuration_however_it_is_named(folder: Path, tmp_path: Path):
    yard = tmp_path / "elsewhere"
    yard.mkdir()
    toolyard = Toolyard(yard)
    config = folder / "toolyard.toml"
    for entry in ('module = "desk.toml"', 'module = "rest"\noptions = { table = "desk.toml" }'):
        config.write_text(f"[servers.desk]\n{entry}\n", "utf-8")
        outcome = toolyard("list", "--config", str(config), "--json", DESK_API_KEY="x")
        assert outcome.status == 0, outcome
        assert "mcp__desk__create_ticket" in outcome.out, outcome
    added = toolyard("add", "twin", "--module", "rest", "-o", "table=../desk.toml", "--config", str(config))
    assert added.status == 0, added
    assert str(folder / "desk.toml") in config.read_text("utf-8")


def test_mistakes_reach_the_terminal_with_their_lines(folder: Path):
    toolyard = Toolyard(folder)
    toolyard.write("bad.toml", BLOCKS[0].replace("/tickets/{ticket_id}/files", "/tickets/{id}/files"))
    outcome = toolyard("list", "bad.toml")
    line = 1 + BLOCKS[0].split("/tickets/{ticket_id}/files")[0].count("\n")
    assert outcome.status == 2
    assert (
        f"error: bad.toml:{line}: tools.attach_files.path: {{id}} is not a parameter of the tool"
        in outcome.err
    )
    toolyard.write("toolyard.toml", "[servers.a]\ncommand = 'x'\n")
    assert (
        "it is a configuration: `toolyard serve --config toolyard.toml`"
        in toolyard("serve", "toolyard.toml").err
    )
    assert "No such file" in toolyard("run", "nowhere.toml").err
    assert "the setting 'table' is missing" in toolyard("run", "rest").err


def test_a_setting_that_only_other_servers_have_is_refused(folder: Path):
    file = folder / "desk.toml"
    file.write_text(
        BLOCKS[0] + '[tools.x]\ndescription = "x"\npath = "/x"\nparameters.a = { setting = "zone" }\n'
    )
    with pytest.raises(LoadError, match="'x' needs the setting 'zone'"):
        made(folder)


SECTIONS = {
    "The file": model.ApiDefinition,
    "Auth": model.Auth,
    "Retry": model.Retry,
    "Gate": model.Gate,
    "Paging": model.Paging,
    "Lookups": model.Lookup,
    "Tools": model.ToolDefinition,
    "Parameters": model.ParameterDefinition,
    "Result": model.ResultDefinition,
    "More requests": model.Also,
    "Settings": Settings,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_guide_has_every_key_with_its_default(heading: str):
    section = re.split(rf"^##+ {heading}\n", GUIDE, flags=re.M)[1].split("\n#")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.M))
    fields = {field.encode_name: field for field in msgspec.structs.fields(SECTIONS[heading])}
    assert set(rows) == set(fields)
    for name, field in fields.items():
        assert (rows[name] == "required") == field.required or name == "tools", name
        if isinstance(field.default, int | float) and not isinstance(field.default, bool) and field.default:
            assert rows[name] == f"`{field.default}`", name
