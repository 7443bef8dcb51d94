"""The six servers of the second document behind one gateway, in Portuguese: its tools under its names, and an
answer of each as data that fits the listed schema, with a text beside it."""

import json
from pathlib import Path
from typing import Any

from tests.emulators.render import API_KEY, RenderEmulator
from tests.faults.yard import toml
from tests.flow.process import agent, started
from tests.programs import needs
from tests.servers.browser.site import Site
from tests.servers.sessions.archive import Archive, session

TOOLS = {
    "sql": {"consultar_sql"},
    "memory": {
        *("view_memories", "save_memory", "update_memory"),
        *("delete_memory", "list_memories", "clear_memories"),
    },
    "schema": {"consultar_schema", "consultar_valores_campo"},
    "sessions": {"search_sessions", "list_recent_sessions", "semantic_search_sessions"},
    "render": {"consultar_logs", "consultar_erros", "status_servicos"},
    "browser": {
        *("browser_navigate", "browser_snapshot", "browser_click", "browser_type", "browser_select_option"),
        *("browser_read_content", "browser_close", "browser_evaluate_js", "browser_switch_frame"),
        *("browser_ssw_login", "browser_ssw_navigate_option"),
    },
}
RECIPES = Path(__file__).parents[2] / "examples" / "browser-recipes.toml"
SESSION = session(
    "fatura-2",
    "Por que a fatura de março não foi paga?",
    "O pagamento foi recusado pelo banco.",
    title="Fatura de março",
)


def servers(folder: Path, render: RenderEmulator, site: Site) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {
        "sql": {},
        "memory": {"url": f"sqlite:{folder / 'memory.db'}"},
        "schema": {},
        "sessions": {"url": f"sqlite:{folder / 'sessions.db'}"},
        "render": {"url": render.url, "api_key": API_KEY},
        "browser": {
            "folder": str(folder / "browser"),
            "allow": f"127.0.0.1:{site.port}",
            "recipes": str(RECIPES),
        },
    }
    return {name: {"module": name, "options": {"locale": "pt", **options[name]}} for name in TOOLS}


@needs("chromium")
async def test_each_of_the_six_has_its_tools_and_answers_with_data(tmp_path: Path):
    archive = Archive(f"sqlite:{tmp_path / 'sessions.db'}", "local")
    await archive.record(SESSION)
    async with RenderEmulator() as render, Site().open() as site:
        web = render.world.service("loja-web")
        render.world.log(web, "pagamento recusado", ago=20, level="error")
        config = toml(servers(tmp_path, render, site), state_dir=str(tmp_path / "kept"))
        async with started(tmp_path, config) as gateway, agent(gateway) as one:
            listed = {tool.name: tool for tool in (await one.client.list_tools()).tools}
            for server, names in TOOLS.items():
                for name in names:
                    hints = listed[f"mcp__{server}__{name}"].annotations
                    assert hints is not None
                    assert hints.open_world_hint is not None, name
                    assert listed[f"mcp__{server}__{name}"].output_schema, name
            assert sum(map(len, TOOLS.values())) == 26

            async def answer(server: str, tool: str, **arguments: Any) -> Any:
                """Its structured content, which the client has held against the listed schema."""
                result = await one.client.call_tool(f"mcp__{server}__{tool}", arguments)
                text = "".join(getattr(block, "text", "") for block in result.content)
                assert not result.is_error, text
                assert text
                assert result.structured_content is not None
                return result.structured_content

            asked = "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY n DESC"
            sql = await answer("sql", "consultar_sql", sql=asked)
            assert (sql["success"], sql["columns"], sql["tables_used"]) == (True, ["status", "n"], ["orders"])
            assert (len(sql["rows"]), sql["row_count"]) == (sql["row_count"], len(sql["rows"]))
            assert {"error", "query_executed", "execution_time_ms", "warning"} <= set(sql)
            counted = sum(row[1] for row in sql["rows"])

            schema = await answer("schema", "consultar_schema", tabela="orders")
            assert (schema["table"], "status" in {field["name"] for field in schema["fields"]}) == (
                "orders",
                True,
            )
            values = await answer("schema", "consultar_valores_campo", tabela="orders", campo="status")
            assert sorted(values["values"]) == sorted(row[0] for row in sql["rows"])

            path = "/memories/pedidos.md"
            saved = await answer("memory", "save_memory", path=path, content=f"Há {counted} pedidos.")
            assert saved["path"] == path
            assert f"{counted} pedidos" in (await answer("memory", "view_memories", path=path))["content"]

            (found,) = (await answer("sessions", "search_sessions", query="fatura"))["sessions"]
            assert (found["session_id"], found["title"]) == ("fatura-2", "Fatura de março")

            logs = await answer("render", "consultar_logs", texto="pagamento")
            assert [entry["message"] for entry in logs["logs"]] == ["pagamento recusado"]
            (service,) = (await answer("render", "status_servicos"))["services"]
            assert service["name"] == "loja-web"

            page = await answer("browser", "browser_navigate", url=site.url("/"))
            assert (page["title"], page["status"]) == ("Order tea", 200)
            assert "Order tea" in json.dumps(page["snapshot"])

            # An error is a text and nothing else.
            refused = await one.client.call_tool("mcp__sql__consultar_sql", {"sql": "DELETE FROM orders"})
            assert (refused.is_error, refused.structured_content) == (True, None)
