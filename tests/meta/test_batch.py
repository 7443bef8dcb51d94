"""`call_tools`: many at once, in order, each for itself."""

import asyncio
from typing import Any

import pytest

from tests.app.speaker import Exchange, Speaker, speaking, tool
from tests.app.yard import at
from tests.meta.office import Front, front, office, text_of
from tests.serving import PATIENCE, PREFIX, encoded, http, modern
from toolyard.config import SearchConfig

FORMS = {"elicitation": {}}
TASKS = {"extensions": {PREFIX + "tasks": {}}}


def calls(*items: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"tool": f"mcp__office__{name}", "arguments": arguments} for name, arguments in items]


async def together(client: Front, items: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    more = {key: options.pop(key) for key in ("parallel", "seconds") if key in options}
    return await client.meta("call_tools", {"calls": items, **more}, **options)


async def test_results_come_in_order_and_one_failure_harms_no_other():
    async with office() as (client, place):
        items = calls(
            ("send_email", {"to": "ann"}),
            ("delete_message", {"number": 3}),
            ("send_email", {}),
            ("no_such_tool", {}),
            ("list_messages", {"folder": "sent"}),
            ("photograph", {}),
            ("audit", {}),
        )
        result = await together(client, items, parallel=1, capabilities=TASKS)
        assert "isError" not in result
        answer = result["structuredContent"]
        assert (answer["succeeded"], answer["failed"]) == (4, 3)
        assert [one["tool"] for one in answer["results"]] == [item["tool"] for item in items]
        sent, deleted, wrong, unknown, listed, picture, audit = answer["results"]
        assert sent["result"] == {"content": [{"type": "text", "text": "sent to ann"}]}
        assert (deleted["ok"], deleted["error"]) == (False, "there is no message 3")
        assert "'to' is missing" in wrong["error"]
        assert "not found" in unknown["error"]
        # What is said twice in a result is said once here.
        assert listed["result"] == {"structuredContent": {"folder": "sent", "messages": ["ann"]}}
        assert picture["result"]["content"][0]["mimeType"] == "image/png"
        images = [block for block in result["content"] if block["type"] == "image"]
        assert len(images) == 1
        assert images[0]["data"] not in text_of(result)
        assert audit["result"]["content"][0]["text"] == "the books are in order"
        assert place.sent == ["ann"]


ODD: dict[str, Any] = {
    "words": "hello",
    "a_list_of_words": ["hello"],
    "a_table": {"type": "text"},
    "a_picture_without_any": [{"type": "image"}],
}


async def test_a_result_that_nobody_can_read_harms_no_other():
    speaker = Speaker("modern", [tool("fine"), *map(tool, ODD)])

    async def answer(exchange: Exchange) -> None:
        fine = [{"type": "text", "text": "fine"}]
        await exchange.result({"resultType": "complete", "content": ODD.get(exchange.name, fine)})

    speaker.on["tools/call"] = answer
    async with speaking(speaker) as url, front(at(url)) as client:
        items = [{"tool": f"mcp__up__{name}"} for name in ("fine", *ODD, "fine")]
        result = await together(client, items)
        first, *odd, picture, last = result["structuredContent"]["results"]
        assert [one["result"]["content"][0]["text"] for one in (first, last)] == ["fine", "fine"]
        assert [one["ok"] for one in odd] == [False] * 3
        assert all("cannot be read" in one["error"] for one in odd)
        assert picture["result"]["content"] == ODD["a_picture_without_any"]
        assert [block["type"] for block in result["content"]] == ["text"]


async def test_they_run_side_by_side_up_to_the_limit():
    async with office(SearchConfig(batch_concurrency=3)) as (client, place):
        items = calls(*(("wait", {"name": str(number)}) for number in range(8)))
        running = asyncio.create_task(together(client, items, parallel=50))
        await _until(lambda: place.waiting == 3)
        place.enough.set()
        answer = (await running)["structuredContent"]
        assert answer["succeeded"] == 8
        assert place.most_waiting == 3
        said = [one["result"]["content"][0]["text"] for one in answer["results"]]
        assert said == [f"{number} waited" for number in range(8)]


async def test_when_the_time_is_over_what_is_done_is_given_and_the_rest_is_cancelled_upstream():
    async with office(SearchConfig(batch_concurrency=2)) as (client, place):
        items = calls(
            ("send_email", {"to": "ann"}),
            ("wait", {"name": "slow"}),
            ("wait", {"name": "slower"}),
            ("sign", {}),
        )
        answer = (await together(client, items, seconds=1.5))["structuredContent"]
        first, *late = answer["results"]
        assert first["ok"] is True
        assert [one["late"] for one in late] == [True, True, True]
        assert "cancelled" in late[0]["error"]
        assert "not started" in late[2]["error"]
        await _until(lambda: sorted(place.cancelled) == ["slow", "slower"])


async def test_hanging_up_cancels_all_of_them():
    async with office() as (client, place):
        items = calls(("wait", {"name": "a"}), ("wait", {"name": "b"}))
        params = {"name": "call_tools", "arguments": {"calls": items}}
        headers, message = modern("tools/call", params, progress="p")
        line = await client.client.connect()
        await line.send(http("POST", "/mcp", headers, encoded(message), f"127.0.0.1:{client.client.port}"))
        await _until(lambda: place.waiting == 2)
        line.hang_up()
        await _until(lambda: sorted(place.cancelled) == ["a", "b"])


async def test_progress_is_told_as_each_of_them_finishes():
    async with office() as (client, place):
        items = calls(
            ("send_email", {"to": "ann"}), ("delete_message", {"number": 1}), ("wait", {"name": "x"})
        )
        place.enough.set()
        params = {"name": "call_tools", "arguments": {"calls": items, "parallel": 1}}
        headers, message = modern("tools/call", params, progress="p")
        line = await client.client.open(headers, message)
        told = [message async for message in line.messages()]
        *progress, reply = told
        assert [one["method"] for one in progress] == ["notifications/progress"] * 3
        assert [one["params"]["progress"] for one in progress] == [1, 2, 3]
        assert {one["params"]["total"] for one in progress} == {3}
        assert {one["params"]["progressToken"] for one in progress} == {"p"}
        assert progress[1]["params"]["message"] == "mcp__office__delete_message: failed"
        assert reply["result"]["structuredContent"]["succeeded"] == 2


@pytest.mark.parametrize("upstream", ["modern", "legacy"])
@pytest.mark.parametrize("caller", ["modern", "legacy"])
async def test_one_that_asks_is_to_be_called_alone_and_the_others_are_not_held_up(caller: str, upstream: str):
    speaker = Speaker(upstream, [tool("sign"), tool("echo")])
    speaker.on["tools/call"] = _signs(speaker)
    async with speaking(speaker) as url, front(at(url)) as client:
        items = [
            {"tool": "mcp__up__sign", "arguments": {}},
            {"tool": "mcp__up__echo", "arguments": {"text": "hello"}},
        ]
        if caller == "modern":
            answer = await together(client, items, capabilities=FORMS)
        else:
            legacy = await client.legacy(FORMS)
            params = {"name": "call_tools", "arguments": {"calls": items}}
            answer = (await legacy.request("tools/call", params)).result
        sign, echo = answer["structuredContent"]["results"]
        assert sign["ok"] is False
        assert "call it alone" in sign["error"]
        assert echo["result"]["content"][0]["text"] == "hello"
        # A server that held its breath for the answer is let go.
        await client.until_health(lambda health: health["parked"] == 0)
        await client.until_health(lambda health: health["servers"]["up"]["in_flight"] == 0)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "'calls' is required"),
        ({"calls": []}, "length >= 1"),
        ({"calls": [{"tool": "x"}] * 51}, "length <= 50"),
        ({"calls": [{"arguments": {}}]}, "tool' is required"),
    ],
)
async def test_one_to_fifty_may_be_given(arguments: Any, fault: str):
    async with front() as client:
        result = await client.meta("call_tools", arguments)
        assert result["isError"] is True
        assert fault in text_of(result)
        assert '{"calls":[{"tool":' in text_of(result)


def _signs(speaker: Speaker) -> Any:
    question = {"message": "Who signs?", "requestedSchema": {"type": "object", "properties": {}}}

    async def answer(exchange: Exchange) -> None:
        if exchange.name == "echo":
            await exchange.result({"content": [{"type": "text", "text": exchange.arguments["text"]}]})
        elif exchange.is_modern:
            asked = {"who": {"method": "elicitation/create", "params": question}}
            result = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            await exchange.result(result)
        else:
            await exchange.stream()
            await speaker.ask(exchange, "elicitation/create", question)

    return answer


async def _until(check: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():  # noqa: ASYNC110  the office tells nobody
            await asyncio.sleep(0.005)
