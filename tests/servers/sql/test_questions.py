"""Questions in words, with scripted models on loopback: what they hear, and what comes of what they say."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.databases.attacks import ATTACKS
from tests.emulators.anthropic_messages import ToolUse, scripted_claude
from tests.emulators.openai_chat import (
    ChatRequest,
    Failing,
    Garbage,
    Hanging,
    Refusing,
    Scripted,
    ScriptedChat,
    Turn,
    scripted_chat,
)
from tests.servers.sql.talking import ERAS, Talk, talking
from tests.waiting import PATIENCE
from toolyard.kit.loader import LoadError, load

COUNT = "SELECT count(*) AS orders FROM orders"
DRAFT = json.dumps({"sql": COUNT})
APPROVED = json.dumps({"approved": True, "reason": "fits"})
QUESTION = "How many orders are there?"


def model(api: ScriptedChat, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "model": "first", "model_url": api.url, "model_key": "sesame", **more}


async def asked(
    script: Sequence[Scripted], talk_to: Callable[[Talk], Any], **more: Any
) -> tuple[Any, ScriptedChat]:
    async with scripted_chat(script) as api, talking(**model(api, **more)) as talk:
        return await talk_to(talk), api


async def refusal(script: list[Turn], **more: Any) -> str:
    return (await asked(script, lambda talk: talk.refusal(question=QUESTION), **more))[0]


async def answer(script: list[Turn], **more: Any) -> Any:
    return (await asked(script, lambda talk: talk.rows(question=QUESTION), **more))[0]


@pytest.mark.parametrize("mode", ERAS)
async def test_claude_writes_judges_and_improves_and_every_step_is_told(mode: str):
    wrong = "SELECT count(idd) AS orders FROM orders"
    script = [
        ToolUse("write_sql", {"sql": wrong}),
        ToolUse("judge_sql", {"approved": False, "improved_sql": COUNT, "reason": "no column 'idd'"}),
    ]
    async with scripted_claude(script) as claude:
        settings = {"model_url": claude.url, "model_key": "sesame"}
        async with talking(mode, **settings) as talk:
            found = await talk.rows(question=QUESTION)
        writing, judging = claude.requests
    assert found["rows"] == [[240]]
    assert found["sql"] == "SELECT COUNT(*) AS orders FROM orders LIMIT 501"
    assert found["original_sql"] == wrong
    assert found["question"] == QUESTION
    assert [step.partition(":")[0] for step in found["steps"]] == [
        *("Reading the catalogue", "Writing SQL", "Evaluating the SQL"),
        *("Checking that it is safe", "Running it"),
    ]
    assert [progress for progress, _, _ in talk.progress] == [0, 1, 2, 3, 4, 5]
    assert all(total == 5 for _, total, _ in talk.progress)
    assert talk.progress[1][2] == "Writing SQL"
    # The light catalogue first; of the tables that are used everything, of others nothing.
    assert writing.headers["x-api-key"] == "sesame"
    assert writing.body["model"] == "claude-haiku-4-5-20251001"
    assert "products(id, category_id, name, price" in str(writing.messages)
    assert "customer_id INTEGER not null" in str(judging.messages)
    assert "(customer_id) refers to customers(id)" in str(judging.messages)
    assert "discontinued" not in str(judging.messages)


@pytest.mark.parametrize("mode", ERAS)
async def test_any_server_of_chat_completions_will_do_and_sees_no_value_of_any_row(mode: str):
    script: list[Turn] = [f"Here you are:\n```sql\n{COUNT}\n```", f"I think {APPROVED} is right."]
    async with scripted_chat(script) as api, talking(mode, tool="consultar_sql", **model(api)) as talk:
        found = await talk.rows(pergunta="Quantos pedidos há?")
        assert found["rows"] == [[240]]
        assert found["warning"] is None
        assert [request.headers["Authorization"] for request in api.requests] == ["Bearer sesame"] * 2
        assert "Quantos pedidos há?" in api.requests[0].user
        told = "".join(request.system + request.user for request in api.requests)
        cities = [city for (city,) in (await talk.rows(sql="SELECT DISTINCT city FROM customers"))["rows"]]
        assert cities
        assert not [city for city in cities if city in told]


async def test_what_is_blocked_is_not_told_to_a_model():
    script: list[Turn] = [DRAFT, APPROVED]
    _, api = await asked(
        script,
        lambda talk: talk.rows(question=QUESTION),
        blocked_tables="payments",
        blocked_columns="*email*",
    )
    told = "".join(request.system + request.user for request in api.requests)
    assert "payments" not in told
    assert "email" not in told


async def test_an_error_is_told_to_the_model_once_in_our_words_and_then_to_the_caller():
    wrong = json.dumps({"sql": "SELECT stat FROM orders"})

    def second(request: ChatRequest) -> str:
        assert "SELECT stat FROM orders" in request.user
        assert "does not exist: stat" in request.user
        assert "status TEXT" in request.user
        return DRAFT

    found, api = await asked([wrong, APPROVED, second, APPROVED], lambda talk: talk.rows(question=QUESTION))
    assert found["rows"] == [[240]]
    assert found["original_sql"] == COUNT
    assert "Writing SQL again" in str(found["steps"])
    assert len(api.requests) == 4
    said = await refusal([wrong, APPROVED, wrong, APPROVED])
    assert "No column 'stat' in orders. Did you mean 'status'?" in said
    assert said.endswith("The model wrote: SELECT stat FROM orders")


async def test_what_a_hostile_model_writes_is_not_run():
    corpus = [attack.sql for attack in ATTACKS if "sqlite" in attack.dialects]
    chosen = [*corpus[:: len(corpus) // 12], "SELECT amount FROM payments", "SELECT * FROM sqlite_master"]
    script: list[Turn] = []
    for attack in chosen:
        hostile = json.dumps({"sql": attack})
        improved = json.dumps({"approved": False, "improved_sql": attack, "reason": "better"})
        script += [hostile, hostile, DRAFT, improved, DRAFT, improved]

    async def ask(talk: Talk) -> None:
        for attack in chosen:
            # Twice on its own, and twice as what the judge slips in as an improvement.
            assert (await talk.refusal(question=QUESTION)).startswith("Not run: "), attack
            assert (await talk.refusal(question=QUESTION)).startswith("Not run: "), attack
        assert (await talk.rows(sql=COUNT))["rows"] == [[240]]

    _, api = await asked(script, ask, blocked_tables="payments")
    assert len(api.requests) == len(script)


async def test_a_model_that_finds_no_sql_says_why():
    none = json.dumps({"sql": "", "reason": "There is no weather\nin this database"})
    assert "There is no weather in this database" in await refusal([none])
    rejected = json.dumps({"approved": False, "improved_sql": "", "reason": "orders have no weather"})
    said = await refusal([DRAFT, rejected, DRAFT, rejected])
    assert "orders have no weather" in said
    assert "pass 'sql'" in said


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (Failing(429, {"Retry-After": "7"}), "Try again in 7 s"),
        (Failing(429), "Try again later"),
        (Failing(401), "refused the key (401)"),
        (Failing(404), "no model 'first'"),
        (Failing(400), "rejected the request (400)"),
        (Failing(307, {"Location": "http://127.0.0.1:9/elsewhere"}), "(307)"),
        (Refusing(), "refused to answer"),
    ],
)
async def test_a_model_that_fails_is_named_with_its_reason_and_the_way_without_it(turn: Turn, words: str):
    said = await refusal([turn])
    assert words in said
    assert "'first'" in said
    assert "pass 'sql'" in said
    assert "sesame" not in said


@pytest.mark.parametrize(
    "turn",
    [
        Failing(500),
        Garbage(b"<html>"),
        Garbage(b'{"choices": []}'),
        Garbage(b'{"choices": [{"message": {"content": 5}}]}'),
        Garbage(b"[" * 100_000),
        Garbage(b'"' + b"x" * 2_000_000 + b'"'),
        "I would rather talk about the weather {\x00 { {} []",
    ],
)
async def test_garbage_is_asked_for_once_more_and_a_second_time_it_is_the_end(turn: Turn):
    assert (await answer([turn, DRAFT, APPROVED]))["rows"] == [[240]]
    said = await refusal([turn, turn])
    assert "fails (500)" in said or "cannot be read" in said


async def test_another_model_takes_over_where_the_first_fails():
    script: list[Turn] = [Failing(429), DRAFT, Refusing(), APPROVED]
    found, api = await asked(script, lambda talk: talk.rows(question=QUESTION), fallback_model="second")
    assert found["rows"] == [[240]]
    assert [request.model for request in api.requests] == ["first", "second"] * 2


async def test_a_statement_that_nobody_could_judge_is_run_with_a_warning():
    found = await answer([DRAFT, Failing(503), Failing(503)])
    assert found["rows"] == [[240]]
    assert "could not check the statement" in found["warning"]
    assert "fails (503)" in found["warning"]
    odd = await answer([DRAFT, json.dumps({"approved": "perhaps", "reason": 5})])
    assert "cannot be read" in odd["warning"]


async def test_a_model_that_says_nothing_is_given_up():
    said = await refusal([Hanging()], model_seconds=0.2)
    assert "did not answer within 0.2 s" in said
    nowhere = {"provider": "openai", "model": "first", "model_url": "http://127.0.0.1:9"}
    async with talking(**nowhere) as talk:
        assert "cannot be reached" in await talk.refusal(question=QUESTION)


async def test_a_call_that_is_cancelled_leaves_the_model_alone():
    async with scripted_chat([Hanging()]) as api, talking(**model(api)) as talk:
        call = asyncio.create_task(talk.call(question=QUESTION))
        await asyncio.wait_for(api.waiting.wait(), PATIENCE)
        call.cancel()
        await asyncio.wait_for(api.left.wait(), PATIENCE)


async def test_keys_come_from_the_environment_where_none_is_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-outside")
    async with scripted_chat([DRAFT, APPROVED]) as api, talking(**model(api, model_key="")) as talk:
        await talk.rows(question=QUESTION)
        assert api.requests[0].headers["Authorization"] == "Bearer from-outside"
    async with talking(provider="openai") as talk:
        assert "No model is configured" in await talk.refusal(question=QUESTION)  # which one, nobody said


async def test_a_question_has_an_end():
    _, api = await asked([DRAFT], lambda talk: talk.refusal(question="why? " * 1000))
    assert api.requests == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_url", "hush"),
        ("model_url", "ftp://hush/v1"),
        ("model_url", "http://me:hush@127.0.0.1:1/v1"),
        ("model_url", "http://127.0.0.1:hush/v1"),
        ("model_key", "hush\nhush"),
    ],
)
def test_a_model_that_could_never_be_asked_is_a_wrong_setting_and_not_repeated(name: str, value: str):
    with pytest.raises(LoadError, match=name) as caught:
        load("toolyard.servers.sql", options={name: value})
    assert "hush" not in str(caught.value)
