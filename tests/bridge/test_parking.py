"""A modern client, and a legacy server that asks in the middle of a call: the call is parked meanwhile."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Exchange, Json, Speaker, speaking, text
from tests.app.yard import Yard, at, yard
from tests.serving import Answer, modern
from tests.waiting import PATIENCE
from toolyard.wire.call import Principal

ELICITATION = {"elicitation": {}}
QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
YES: Json = {"action": "accept", "content": {}}


def asking(*questions: str) -> Speaker:
    """A server whose tool asks one thing after the other and says what it was told."""
    speaker = Speaker("legacy")

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        told: list[str] = []
        for question in questions:
            answer = await speaker.ask(exchange, "elicitation/create", {**QUESTION, "message": question})
            told.append(answer["result"]["action"] if "result" in answer else "refused")
        await exchange.event(exchange.reply(text(" ".join(told))))
        await exchange.end()

    speaker.on["tools/call"] = call
    return speaker


def by_tenant(headers: Any) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"nobody").decode())


async def begin(front: Yard, tool: str = "echo", **options: Any) -> Answer:
    return await front.call(tool, capabilities=ELICITATION, **options)


async def go_on(front: Yard, parked: Json, answer: Json | None = None, **options: Any) -> Answer:
    """The next round: the same call, with its state and an answer to each question."""
    answers = dict.fromkeys(parked["inputRequests"], answer or YES)
    more = {"requestState": parked["requestState"], "inputResponses": answers}
    return await begin(front, more=more, **options)


def bare(url: str, identify: Any = None, timeout: float = 10, **settings: Any) -> Any:
    return yard(at(url, timeout=timeout), view="bare", server="up", identify=identify, **settings)


async def test_a_call_waits_for_its_answer_and_ends_as_if_nothing_had_been():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url) as front:
        parked = (await begin(front)).result
        assert parked["resultType"] == "input_required"
        (question,) = parked["inputRequests"].values()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Sure?"
        assert (await front.health())["parked"] == 1
        done = (await go_on(front, parked)).result
        assert done["resultType"] == "complete"
        assert done["content"][0]["text"] == "accept"
        assert (await front.health())["parked"] == 0
    assert speaker.calls("echo") == 1


async def test_the_server_was_told_that_its_client_can_be_asked():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url) as front:
        await go_on(front, (await begin(front)).result)
    assert speaker.openings[-1]["capabilities"] == ELICITATION


async def test_several_questions_are_several_rounds_and_an_old_state_does_not_answer_the_next():
    async with speaking(asking("First?", "Second?")) as url, bare(url) as front:
        first = (await begin(front)).result
        second = (await go_on(front, first)).result
        assert second["resultType"] == "input_required"
        assert second["requestState"] != first["requestState"]
        assert [item["params"]["message"] for item in second["inputRequests"].values()] == ["Second?"]
        stale = await go_on(front, {**second, "requestState": first["requestState"]})
        assert stale.error["code"] == -32602
        done = await go_on(front, second, {"action": "decline"})
        assert done.result["content"][0]["text"] == "accept decline"


async def test_a_round_without_answers_asks_the_same_again():
    async with speaking(asking("Sure?")) as url, bare(url) as front:
        first = (await begin(front)).result
        again = (await begin(front, more={"requestState": first["requestState"]})).result
        assert again["inputRequests"] == first["inputRequests"]
        assert (await go_on(front, again)).result["content"][0]["text"] == "accept"


async def test_the_state_of_one_principal_is_worth_nothing_to_another():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url, by_tenant) as front:
        parked = (await begin(front, headers={"X-Tenant": "anna"})).result
        stolen = await go_on(front, parked, headers={"X-Tenant": "bert"})
        assert stolen.error["code"] == -32602
        assert "another request" in stolen.error["message"]
        mine = await go_on(front, parked, headers={"X-Tenant": "anna"})
        assert mine.result["content"][0]["text"] == "accept"


@pytest.mark.parametrize("change", ["arguments", "tool", "state"])
async def test_a_state_is_good_for_its_own_request_only(change: str):
    async with speaking(asking("Sure?")) as url, bare(url) as front:
        parked = (await begin(front)).result
        if change == "arguments":
            answer = await go_on(front, parked, arguments={"other": 1})
        elif change == "tool":
            answer = await go_on(front, parked, tool="another")
        else:
            answer = await go_on(front, {**parked, "requestState": parked["requestState"][:-3] + "abc"})
        assert answer.error["code"] == -32602
        assert (await go_on(front, parked)).result["content"][0]["text"] == "accept"


async def test_a_call_is_parked_for_a_limited_time_and_then_cancelled_upstream():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url, park_ttl=0.2) as front:
        parked = (await begin(front)).result
        cancelled = await speaker.until_heard("notifications/cancelled")
        (call,) = speaker.heard("tools/call")
        assert cancelled.params["requestId"] == call.id
        late = (await go_on(front, parked)).error
        assert late["code"] == -32602
        assert "expired" in late["message"]
        assert (await front.health())["parked"] == 0


async def test_only_so_many_calls_are_parked_and_the_rest_are_refused_and_cancelled():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url, park_limit=20) as front:
        first, second = [(await begin(front)).result for _ in range(2)]
        refused = await begin(front)
        assert "waiting for answers" in refused.error["message"]
        await speaker.until_heard("notifications/cancelled")
        assert (await go_on(front, first)).result["content"][0]["text"] == "accept"
        third = (await begin(front)).result
        for parked in (second, third):
            assert (await go_on(front, parked)).result["content"][0]["text"] == "accept"


async def test_one_principal_cannot_take_all_places():
    async with speaking(asking("Sure?")) as url, bare(url, by_tenant, park_limit=20) as front:
        for _ in range(2):
            assert (await begin(front, headers={"X-Tenant": "greedy"})).result
        assert "error" in (await begin(front, headers={"X-Tenant": "greedy"})).json
        modest = (await begin(front, headers={"X-Tenant": "modest"})).result
        assert modest["resultType"] == "input_required"


async def test_hanging_up_cancels_the_call_upstream_before_a_question():
    speaker = Speaker("legacy")
    left = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.progress(1)
        await speaker.held(exchange)
        left.set()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, bare(url) as front:
        params = {"name": "echo", "arguments": {}}
        line = await front.client.open(*modern("tools/call", params, capabilities=ELICITATION, progress="p"))
        assert (await line.next_message())["method"] == "notifications/progress"
        line.hang_up()
        cancelled = await speaker.until_heard("notifications/cancelled")
        assert cancelled.params["requestId"] == speaker.heard("tools/call")[0].id
        await asyncio.wait_for(left.wait(), PATIENCE)


async def test_hanging_up_after_an_answer_cancels_the_call_upstream():
    speaker = Speaker("legacy")

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        await speaker.ask(exchange, "elicitation/create", QUESTION)
        await exchange.progress(1)
        await speaker.held(exchange)

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, bare(url) as front:
        params = {"name": "echo", "arguments": {}}
        parked = (await front.modern("tools/call", params, capabilities=ELICITATION, progress="p")).result
        params |= {"requestState": parked["requestState"]}
        params |= {"inputResponses": dict.fromkeys(parked["inputRequests"], YES)}
        line = await front.client.open(*modern("tools/call", params, capabilities=ELICITATION, progress="p2"))
        told = await line.next_message()
        assert told["params"]["progressToken"] == "p2"
        line.hang_up()
        await speaker.until_heard("notifications/cancelled")


async def test_a_server_that_ends_its_call_while_nobody_is_there_gives_its_result_to_who_comes_back():
    speaker = Speaker("legacy")
    go_on_now = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        question = asyncio.ensure_future(speaker.ask(exchange, "elicitation/create", QUESTION))
        await go_on_now.wait()
        question.cancel()
        await exchange.event(exchange.reply(text("never mind")))
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, bare(url) as front:
        parked = (await begin(front)).result
        go_on_now.set()
        assert (await go_on(front, parked)).result["content"][0]["text"] == "never mind"


async def test_questions_at_the_same_time_are_put_together():
    speaker = Speaker("legacy")

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        asks = [speaker.ask(exchange, "elicitation/create", {**QUESTION, "message": m}) for m in ("A?", "B?")]
        answers = await asyncio.gather(*asks)
        await exchange.event(exchange.reply(text(" ".join(a["result"]["action"] for a in answers))))
        await exchange.end()

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, bare(url) as front:
        answer = await begin(front)
        rounds = 1
        while answer.result["resultType"] == "input_required":
            answer = await go_on(front, answer.result)
            rounds += 1
        assert answer.result["content"][0]["text"] == "accept accept"
        assert rounds <= 3


async def test_a_client_that_cannot_be_asked_is_not_and_the_tool_learns_it():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, bare(url) as front:
        answer = (await front.call("echo")).result
        assert answer["content"][0]["text"] == "refused"


async def test_a_call_that_is_parked_goes_on_though_its_server_was_taken_out_of_the_configuration():
    speaker = asking("Sure?")
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.tools()
        parked = (await begin(front, "mcp__up__echo")).result
        config = front.gateway.config
        await front.gateway.reload(replace(config, servers=()))
        await front.gateway.reload(config)
        await front.tools()
        done = await go_on(front, parked, tool="mcp__up__echo")
        assert done.result["content"][0]["text"] == "accept"


async def test_parked_calls_end_with_the_gateway():
    speaker = asking("Sure?")
    async with speaking(speaker) as url:
        async with bare(url) as front:
            assert (await begin(front)).result["resultType"] == "input_required"
        assert speaker.heard("notifications/cancelled")
