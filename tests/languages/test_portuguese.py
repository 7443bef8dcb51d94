"""A gateway, a server and a function with `locale = "pt"`: what a model and its user read is Portuguese.

The dialects `suna`, `composio` and `rube` say what the systems say that they stand for, in English.
"""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.edge.lambda_client import LambdaClient
from tests.languages.shop import Settings, build, keyed
from tests.serving import modern, serving
from toolyard import Client
from toolyard.app.aws_lambda import build as build_function
from toolyard.config import InProcess, ResultsConfig, ServerConfig
from toolyard.config.callers import AuthConfig
from toolyard.kit.loader import load
from toolyard.languages import Locale

SHOP = "mcp__shop__list_orders"


@asynccontextmanager
async def gateway(
    locale: Locale = "pt", server: Locale = "pt", view: str = "search", **tables: Any
) -> AsyncIterator[Yard]:
    where = InProcess(module="tests.languages.shop", options={"locale": server})
    shop = ServerConfig(name="shop", where=where)
    async with yard(shop, view=view, locale=locale, results=ResultsConfig(), tables=tables) as front:
        yield front


# A gateway over HTTP


async def test_the_meta_tools_are_described_in_portuguese():
    async with gateway() as front:
        tools = (await front.modern("tools/list")).result["tools"]
        about = (await front.modern("server/discover")).result["instructions"]
    described = {tool["name"]: tool["description"] for tool in tools}
    assert described["search_tools"].startswith("Encontra ferramentas para o que você quer fazer")
    assert described["call_tool"].startswith("Chama uma ferramenta pelo nome completo")
    assert about.startswith("As ferramentas são encontradas, não listadas: search_tools")
    assert about.endswith("Servidores: shop")


async def test_an_index_is_in_portuguese():
    async with gateway(view="index") as front:
        (index,) = (await front.modern("tools/list")).result["tools"]
    assert index["description"].startswith("Chama uma ferramenta pelo nome completo. As ferramentas: NOME(")
    assert index["inputSchema"]["properties"]["tool"]["description"].startswith("Uma destas:\nmcp__shop__")


async def test_an_unknown_tool_is_unknown_in_portuguese():
    async with gateway() as front:
        said = await front.says("call_tool", {"tool": "mcp__shop__opening_hour", "arguments": {}})
        unknown = (await front.call("mcp__none__x")).error["message"]
    assert said == (
        "A ferramenta 'mcp__shop__opening_hour' não foi encontrada. Seria 'mcp__shop__opening_hours'?"
        " Procure o que você quer fazer com search_tools."
    )
    assert unknown.startswith("A ferramenta 'mcp__none__x' não foi encontrada.")


async def test_arguments_are_refused_in_portuguese():
    async with gateway() as front:
        missing = await front.says("call_tool", {"tool": "mcp__shop__opening_hours", "arguments": {}})
        wrong = await front.says("call_tool", {"tool": "mcp__shop__opening_hours", "arguments": {"day": 9}})
        own = await front.says("search_tools", {"queries": 3})
        many = await front.says("search_tools", {})
        action = await front.says("manage_connections", {"action": "link"})
    assert missing == (
        "Os argumentos não servem para 'mcp__shop__opening_hours'; nada foi enviado.\n"
        '- falta \'day\'; esperado {"type":"integer","minimum":1,"maximum":7}\n'
        "Uso: mcp__shop__opening_hours(day: integer (1 to 7))"
    )
    assert "- 'day': 9 passa do máximo, 7; esperado {" in wrong
    assert own.startswith("campo 'queries': esperado `array`, recebido `int`. Exemplo válido: {")
    assert many.startswith("o campo 'queries' é obrigatório. Exemplo válido: {")
    assert action == 'Falta "names": diga a que se refere link'


async def test_a_search_without_hits_says_so_in_portuguese():
    async with gateway() as front:
        query = {"use_case": "when is it open", "server": "stores"}
        found = await front.says("search_tools", {"queries": [query]})
    assert found == (
        "Nenhuma ferramenta serve: when is it open\nIndisponível: stores: servidor desconhecido; há: shop"
    )


async def test_a_shortened_result_says_in_portuguese_how_to_read_on():
    async with gateway() as front:
        answer = json.loads(await front.says("call_tool", {"tool": SHOP}))
        id = answer["storage"]["resource"].rpartition("/")[2]
        assert answer["hint"] == (
            f"call_tool(tool='read_result', arguments=dict(id='{id}')) mostra mais; também: offset=0, "
            "limit=10, query='JMESPath', sql='SELECT … FROM result'"
        )
        assert await front.says("read_result", {"id": id, "limit": 0}) == (
            "'limit' deve ser um número inteiro de 1 a 1000"
        )
        note = json.loads(await front.says("read_result", {"id": id, "query": "[].name"}))["note"]
        assert note == "Não há 'name' em um objeto com os campos id, state."
        assert await front.says("read_result", {"id": id, "sql": "DROP TABLE result"}) == (
            "Só SELECT pode ser executado, não DROP: um resultado guardado é só para leitura"
        )


async def test_who_shows_no_credential_is_turned_away_in_portuguese():
    async with gateway(auth=AuthConfig(keys=True, required=True)) as front:
        refused = await front.modern("tools/list")
        wrong = await front.modern("tools/list", headers={"authorization": "Bearer nonsense"})
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.error["message"] == (
        "Identifique-se: envie uma chave ou um token como 'Authorization: Bearer …'"
    )
    assert (wrong.status, wrong.error["message"]) == (401, "A chave ou o token não vale")


async def test_each_answers_in_its_own_language():
    """The gateway's words and a server's are in the language that each was given."""
    async with gateway("en", "pt") as front:
        await front.says("call_tool", {"tool": "mcp__shop__opening_hours", "arguments": {"day": 2}})
        unknown = await front.says("call_tool", {"tool": "mcp__shop__closed"})
        theirs = (await front.call("closed", path="/mcp/shop")).error["message"]
    assert unknown.startswith("Tool function 'mcp__shop__closed' not found.")
    assert theirs == "Ferramenta desconhecida: 'closed'"
    async with gateway("pt", "en", view="all") as front:
        own = (await front.call("mcp__shop__closing_hours")).error["message"]
        theirs = await front.says("mcp__shop__opening_hours", {"day": 8})
    assert own.startswith(
        "Ferramenta desconhecida: 'mcp__shop__closing_hours'; seria 'mcp__shop__opening_hours'"
    )
    assert theirs == "Invalid arguments for tool 'opening_hours': field 'day': expected `int` <= 7"


# A gateway over stdio


async def test_a_gateway_on_stdio_speaks_the_language_of_its_configuration(tmp_path: Path):
    config = tmp_path / "toolyard.toml"
    config.write_text(
        '[gateway]\nview = "search"\nlocale = "pt-BR"\n[servers.shop]\nmodule = "tests.languages.shop"\n'
    )
    command = [sys.executable, "-m", "toolyard", "stdio", "--config", str(config)]
    env = {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    async with Client(command, env=env) as client:
        unknown = await client.call_tool("call_tool", {"tool": "mcp__shop__x"})
        missing = await client.call_tool("call_tool", {"tool": "mcp__shop__opening_hours"})
        assert client.instructions is not None
        assert client.instructions.startswith("As ferramentas são encontradas, não listadas:")
    assert unknown.text.startswith("A ferramenta 'mcp__shop__x' não foi encontrada.")
    assert "falta 'day'" in missing.text


# A server of the kit


async def test_a_server_refuses_arguments_in_its_language():
    async with Client(build(Settings("pt"))) as client:
        wrong = await client.call_tool("opening_hours", {"day": 8})
        text = await client.call_tool("opening_hours", {"day": "Monday"})
        missing = await client.call_tool("opening_hours", {})
        more = await client.call_tool("opening_hours", {"day": 1, "week": 2})
    start = "Argumentos inválidos para a ferramenta 'opening_hours': "
    assert wrong.text == f"{start}campo 'day': esperado `int` <= 7"
    assert text.text == f"{start}campo 'day': esperado `int`, recebido `str`"
    assert missing.text == f"{start}o campo 'day' é obrigatório"
    assert more.text == f"{start}o campo 'week' não é conhecido aqui"


async def test_a_server_over_http_asks_for_a_key_in_its_language():
    async with serving(keyed().asgi()) as client:
        refused = await client.post(*modern("tools/list"))
        headers, message = modern("tools/call", {"name": "absent"})
        unknown = await client.post(headers | {"x-shop-key": "a-key-of-mine"}, message)
        lost = await client.post(*modern("tools/list"), path="/other")
    assert refused.status == 401
    assert refused.error["message"] == (
        "Falta a chave: envie-a no cabeçalho 'x-shop-key' ou 'authorization: Bearer …'"
    )
    assert unknown.error["message"] == "Ferramenta desconhecida: 'absent'"
    assert lost.error["message"].startswith("Não encontrado: '/other'. O endpoint MCP é '/mcp'")


async def test_every_table_of_the_sample_is_described_in_the_language_of_its_server():
    told: dict[str, str] = {}
    for locale in ("en", "pt"):
        async with Client(load("toolyard.servers.schema", options={"locale": locale})) as client:
            listed = await client.list_all("resources/list")
            texts = [str(await client.read_resource(one["uri"])) for one in listed]
            told[locale] = "".join(texts)
    assert "Groups of products." in told["en"]
    assert "Grupos de produtos." in told["pt"]
    assert not re.search(r"\b(?:the|what|people|empty|in euros|one)\b", told["pt"], re.IGNORECASE)


# A function of AWS Lambda


async def test_a_function_speaks_the_language_of_its_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLYARD_KEY", "a key of a function")
    function = LambdaClient(
        build_function(["tests.languages.shop"], {"tests.languages.shop": {"locale": "pt"}})
    )
    wrong = await function.modern("tools/call", {"name": "opening_hours", "arguments": {"day": 0}})
    unknown = await function.modern("tools/call", {"name": "absent"})
    assert wrong.result["content"][0]["text"] == (
        "Argumentos inválidos para a ferramenta 'opening_hours': campo 'day': esperado `int` >= 1"
    )
    assert unknown.error["message"] == "Ferramenta desconhecida: 'absent'"

    function = LambdaClient(build_function(["tests.languages.shop_with_keys:server"]))
    refused = await function.modern("tools/list")
    assert refused.status == 401
    assert refused.error["message"].startswith("Falta a chave: envie-a no cabeçalho 'x-shop-key'")
