"""The server as users start it: a process of its own, and mounted in a gateway."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.app.yard import yard
from tests.cli.running import Toolyard
from tests.emulators.render import API_KEY, RenderEmulator
from tests.servers.render.writing import iso, write
from tests.waiting import PATIENCE
from toolyard.config import InProcess, ServerConfig

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def asked(toolyard: Toolyard, tool: str, *options: str, **environment: str) -> Any:
    """One call of a process that is started for it."""
    params = {"name": tool, "arguments": {}, "_meta": META}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    process = toolyard.start("run", "render", *options, **environment)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert API_KEY not in err
    return json.loads(answer)["result"]


def test_as_a_process_with_nothing_set_it_answers_from_the_sample(toolyard: Toolyard) -> None:
    result = asked(toolyard, "find_errors", RENDER_API_KEY="")
    assert result["structuredContent"]["source"] == "sample"
    assert result["structuredContent"]["total_errors"] == 3


async def test_the_environment_names_the_key_or_the_files_and_files_come_first(
    toolyard: Toolyard, tmp_path: Path, render: RenderEmulator
) -> None:
    render.world.log(render.world.service("shop-web"), "from Render", ago=5)
    place = {"RENDER_API_KEY": API_KEY, "TOOLYARD_RENDER_URL": render.url}
    result = await asyncio.to_thread(asked, toolyard, "search_logs", **place)
    assert result["structuredContent"]["entries"][0]["message"] == "from Render"
    log = write(tmp_path / "app.log", f"{iso(5)} INFO from a file")
    files = {**place, "TOOLYARD_RENDER_FILES": f"{tmp_path}/*.nothing, {log}"}
    result = await asyncio.to_thread(asked, toolyard, "search_logs", **files)
    assert result["structuredContent"]["entries"][0]["message"] == "INFO from a file"


def test_a_setting_that_does_not_fit_is_named(toolyard: Toolyard) -> None:
    for option, said in (
        ("timezone=Mars/Olympus", "'timezone': no time zone 'Mars/Olympus'"),
        ("timeout=0", "'timeout'"),
        ("locale=fr", "'locale'"),
    ):
        outcome = toolyard("run", "render", "-o", "files=/tmp/*.log", "-o", option)
        assert outcome.status == 2, outcome
        assert said in outcome.err


async def test_mounted_in_a_gateway_it_answers_under_its_full_name(render: RenderEmulator) -> None:
    render.world.log(render.world.service("shop-web"), "it broke", ago=5, level="error")
    options = {"url": render.url, "api_key": API_KEY, "locale": "pt"}
    module = InProcess(module="toolyard.servers.render", options=options)
    async with yard(ServerConfig(name="render", where=module)) as gateway:
        assert "mcp__render__consultar_erros" in await gateway.tools()
        assert "it broke" in await gateway.says("mcp__render__consultar_erros", {"servico": "shop-web"})
        assert "Serviços: 1" in await gateway.says("mcp__render__status_servicos")
