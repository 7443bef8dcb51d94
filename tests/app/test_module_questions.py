"""Questions of servers that run in the gateway's process: who may answer them, and after what."""

from pathlib import Path
from typing import Any

from tests.app.speaker import Json
from tests.app.yard import Yard, yard
from tests.serving import Answer
from toolyard.config import InProcess, ServerConfig
from toolyard.wire.call import Principal

ELICITATION = {"elicitation": {}}
NAMED: Json = {"action": "accept", "content": {"name": "Ada"}}
FILE = str(Path(__file__).with_name("greeter.py"))


def mounted(module: str, *names: str) -> list[ServerConfig]:
    return [ServerConfig(name=name, where=InProcess(module=module)) for name in names or ("up",)]


def by_tenant(headers: Any) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"nobody").decode())


async def ask(front: Yard, name: str = "up", **options: Any) -> Json:
    asked = (await front.call(f"mcp__{name}__greet", capabilities=ELICITATION, **options)).result
    assert asked["resultType"] == "input_required"
    return asked


async def answer(front: Yard, asked: Json, name: str = "up", **options: Any) -> Answer:
    more = {"requestState": asked["requestState"], "inputResponses": {"who": NAMED}}
    return await front.call(f"mcp__{name}__greet", capabilities=ELICITATION, more=more, **options)


async def test_another_gateway_with_the_same_key_takes_the_answer_after_the_first_has_ended():
    async with yard(*mounted(FILE)) as first:
        asked = await ask(first)
    async with yard(*mounted(FILE)) as later:
        assert (await answer(later, asked)).result["content"][0]["text"] == "Hello Ada, drawn once"


async def test_a_question_is_answered_only_at_the_server_for_the_caller_and_the_call_it_belongs_to():
    async with yard(*mounted(FILE, "up", "other"), identify=by_tenant) as front:
        acme = {"x-tenant": "acme"}
        asked = await ask(front, headers=acme)
        for refused in (
            await answer(front, asked, headers={"x-tenant": "evil"}),
            await answer(front, asked, "other", headers=acme),
            await answer(front, asked, headers=acme, arguments={"word": "Bye"}),
            await answer(front, {"requestState": "x" + asked["requestState"]}, headers=acme),
        ):
            assert refused.json["error"]["code"] == -32602
            assert "requestState" in refused.json["error"]["message"]
        assert "result" in (await answer(front, asked, headers=acme)).json


async def test_two_entries_of_one_server_keep_their_questions_apart():
    module = "tests.app.greeter:server"
    async with yard(*mounted(module, "one", "two")) as front:
        asked = {name: await ask(front, name) for name in ("one", "two")}
    async with yard(*mounted(module, "two", "one")) as later:
        assert (await answer(later, asked["one"], "two")).json["error"]["code"] == -32602
        for name in ("one", "two"):
            assert "result" in (await answer(later, asked[name], name)).json


async def test_a_gateway_with_another_key_or_another_name_does_not_take_the_answer():
    async with yard(*mounted(FILE)) as first:
        asked = await ask(first)
    others: list[dict[str, Any]] = [
        {"key": b"another key of the same length"},
        {"key": None},
        {"name": "other"},
    ]
    for different in others:
        async with yard(*mounted(FILE), **different) as other:
            assert (await answer(other, asked)).json["error"]["code"] == -32602


async def test_in_a_gateway_without_a_lasting_key_the_servers_own_key_counts():
    async with yard(*mounted(f"{FILE}:own"), key=None) as first:
        asked = await ask(first)
    async with yard(*mounted(f"{FILE}:own"), key=None) as later:
        assert (await answer(later, asked)).result["content"][0]["text"] == "Hello Ada, drawn once"
