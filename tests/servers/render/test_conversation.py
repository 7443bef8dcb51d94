"""Each tool in a whole conversation, in both eras and both languages, on Render's API and on the sample."""

import mcp_types as types
import pytest

from tests.emulators.render import API_KEY, RenderEmulator
from tests.servers.render.talking import ERAS, at, talking

HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": True}


@pytest.mark.parametrize("era", ERAS)
async def test_logs_errors_and_status_of_a_service_come_from_render(era: str, render: RenderEmulator) -> None:
    world = render.world
    web = world.service("shop-web")
    world.service("shop-worker", "background_worker")
    world.log(web, "order placed", ago=30)
    world.log(web, "\x1b[31mpayment failed\x1b[0m\n  at bank", ago=20, level="error")
    world.log(web, "GET / 200", ago=10, type="request", method="GET", path="/", statusCode="200")
    world.log(web, "an hour and a half ago", ago=5_400)
    async with at(render, era) as talk:
        tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.model_dump(by_alias=True, exclude_none=True) == HINTS
        assert list(tools) == ["search_logs", "find_errors", "service_status"]

        logs = await talk.logs()
        assert logs.messages == ["payment failed\n  at bank", "order placed"]
        assert {**logs.structured, "logs": [], "entries": []} == {
            "service": "web",
            "period_hours": 1,
            "log_type": "app",
            "level_filter": "",
            "text_filter": "",
            "total_logs": 2,
            "has_more": False,
            "logs": [],
            "entries": [],
            "source": "render",
            "notices": [],
        }
        assert logs.structured["entries"] == logs.structured["logs"]
        first = logs.structured["logs"][0]
        assert (first["level"], first["type"], first["service"]) == ("error", "app", "shop-web")
        assert first["timestamp"].endswith("Z")
        assert "Entries of web, last 1 h: 2 [app]" in logs.text
        assert "ERROR    shop-web app: payment failed\n      at bank" in logs.text
        assert (await talk.logs(type="request", service="shop-web")).messages == ["GET / 200"]
        assert (await talk.logs(text="ORDER*placed")).messages == ["order placed"]
        assert (await talk.logs(hours=2, level="info")).messages == ["order placed", "an hour and a half ago"]
        nothing = await talk.logs(text="no such thing")
        assert nothing.messages == []
        assert "No entries of web match" in nothing.text

        errors = await talk.errors(minutes=5)
        assert errors.structured["total_errors"] == 1
        assert errors.structured["period_minutes"] == 5
        assert "Errors of web, last 5 min: 1" in errors.text
        assert "No errors of shop-worker" in (await talk.errors(service="shop-worker")).text

        status = await talk.status()
        assert status["shop-web"] == {
            "name": "shop-web",
            "ok": True,
            "status": "live",
            "last_deploy": "2026-01-05T08:00:00.123456Z",
            "id": web,
            "type": "web_service",
            "suspended": False,
            "deploy": "live",
            "deployed_at": "2026-01-05T08:00:00.123456Z",
            "commit": "3f1c9ab",
            "errors_15min": 1,
            "url": "https://shop-web.example",
        }
    assert API_KEY not in str(render.asked)


@pytest.mark.parametrize("era", ERAS)
async def test_with_no_key_and_no_files_a_sample_answers_and_says_that_it_is_one(era: str) -> None:
    async with talking(era) as talk:
        logs = await talk.logs(service="all", hours=24, limit=100)
        assert logs.structured["source"] == "sample"
        assert "sample logs: set RENDER_API_KEY" in logs.structured["notices"][0]
        assert "sample logs" in logs.text
        assert {entry["service"] for entry in logs.structured["entries"]} == {
            "shop-web",
            "shop-worker",
            "shop-db",
            "shop-cache",
        }
        stamps = [entry["timestamp"] for entry in logs.structured["entries"]]
        assert stamps == sorted(stamps, reverse=True)
        assert (await talk.logs(service="all", hours=24, limit=3)).structured["has_more"] is True
        assert (await talk.logs(type="build", text="*dependencies")).structured["total_logs"] == 1
        errors = await talk.errors(service="postgres", minutes=120)
        assert errors.messages == ["canceling statement due to statement timeout"]
        status = await talk.status()
        assert (status["shop-worker"]["errors_15min"], status["shop-db"]["errors_15min"]) == (1, 0)
        assert "Did you mean 'shop-worker'" in await talk.refusal(service="shop-workr")


async def test_in_portuguese_names_parameters_and_texts_are_portuguese_and_the_english_ones_work_too(
    render: RenderEmulator,
) -> None:
    web = render.world.service("loja-web")
    render.world.log(web, "pedido recebido", ago=30)
    render.world.log(web, "pagamento falhou", ago=20, level="error")
    async with at(render, locale="pt") as talk:
        names = [tool.name for tool in (await talk.client.list_tools()).tools]
        assert names == ["consultar_logs", "consultar_erros", "status_servicos"]
        logs = await talk.call(
            "consultar_logs", texto="pedido", servico="web", tipo="app", nivel="info", horas=2, limite=5
        )
        assert logs.messages == ["pedido recebido"]
        assert logs.structured["period_hours"] == 2
        assert "Registros de web, últimas 2 h: 1" in logs.text
        errors = await talk.call("consultar_erros", servico="loja-web", minutos=10, texto="")
        assert errors.messages == ["pagamento falhou"]
        assert "Serviços: 1, com problema: 0" in (await talk.call("status_servicos")).text
        unknown = await talk.call("consultar_logs", servico="loja-wbe")
        assert "Não existe o serviço 'loja-wbe'. Você quis dizer 'loja-web'?" in unknown.text
        assert (await talk.logs(service="loja-web")).structured["total_logs"] == 2
    async with talking(locale="en") as talk:
        assert (await talk.call("consultar_erros", servico="worker")).structured["total_errors"] == 1


async def test_what_is_out_of_range_is_refused_with_the_name_of_the_field() -> None:
    async with talking() as talk:
        for field, value in (("hours", 25), ("hours", 0), ("limit", 101), ("type", "dns"), ("level", "loud")):
            assert f"'{field}'" in await talk.refusal(**{field: value})
        assert "'minutes'" in (await talk.errors(minutes=4)).text
        assert "'minutes'" in (await talk.errors(minutes=121)).text


async def test_the_last_hour_of_a_service_is_a_resource_with_completions_and_there_is_a_prompt() -> None:
    async with talking() as talk:
        (contents,) = (await talk.client.read_resource("render://logs/shop-worker")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert "prices.csv" in contents.text
        template = types.ResourceTemplateReference(uri="render://logs/{service}")
        found = await talk.client.complete(template, {"name": "service", "value": "work"})
        assert found.completion.values == ["shop-worker"]
        (prompt,) = (await talk.client.list_prompts()).prompts
        (message,) = (await talk.client.get_prompt(prompt.name, {"service": "shop-web"})).messages
        assert isinstance(message.content, types.TextContent)
        assert "find_errors" in message.content.text
