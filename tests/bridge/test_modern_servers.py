"""Modern servers behind the gateway: questions for legacy clients, sealed states for modern ones."""

import asyncio
from typing import Any

import pytest

from tests.app.speaker import Exchange, Json, Speaker, speaking, text, tool
from tests.app.yard import at, yard
from tests.serving import PREFIX
from toolyard.wire.call import Principal

ELICITATION = {"elicitation": {}}
TASKS = PREFIX + "tasks"


def question(words: str) -> Json:
    schema = {"type": "object", "properties": {}}
    return {"method": "elicitation/create", "params": {"message": words, "requestedSchema": schema}}


def by_tenant(headers: Any) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"nobody").decode())


def bare(url: str, identify: Any = None, **options: Any) -> Any:
    return yard(at(url, **options), view="bare", server="up", identify=identify)


def asking(*rounds: list[str]) -> Speaker:
    """A server that asks in rounds, several questions in each; its state says which round it is."""
    speaker = Speaker("modern")

    async def call(exchange: Exchange) -> None:
        state = exchange.params.get("requestState")
        number = 0 if state is None else int(state["round"]) + 1
        if number < len(rounds):
            asked = {words: question(words) for words in rounds[number]}
            result = {
                "resultType": "input_required",
                "inputRequests": asked,
                "requestState": {"round": number},
            }
            await exchange.result(result)
        else:
            answers = exchange.params["inputResponses"]
            said = " ".join(f"{key}{answers[key]['action']}" for key in sorted(answers))
            await exchange.result(text(said))

    speaker.on["tools/call"] = call
    return speaker


async def test_all_questions_of_a_round_are_put_to_a_legacy_client_together():
    speaker = asking(["A?", "B?", "C?"])
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call("echo")
        # All three are there before any is answered.
        asked = [await line.next_message() for _ in range(3)]
        actions = {"A?": "accept", "B?": "decline", "C?": "cancel"}
        for item in reversed(asked):
            await session.respond(item["id"], {"action": actions[item["params"]["message"]]})
        assert (await line.next_message())["result"]["content"][0]["text"] == "A?accept B?decline C?cancel"
    assert len(speaker.heard("tools/call")) == 2


async def test_round_after_round_is_answered_by_a_legacy_client_in_one_call():
    speaker = asking(["A?"], ["B?"], ["C?"])
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call("echo")
        for words in ("A?", "B?", "C?"):
            asked = await line.next_message()
            assert asked["params"]["message"] == words
            await session.respond(asked["id"], {"action": "accept"})
        assert (await line.next_message())["result"]["content"][0]["text"] == "C?accept"


async def test_a_server_that_never_stops_asking_is_stopped():
    speaker = asking(*[["More?"]] * 100)
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call("echo")
        asked = 0
        async for message in line.messages():
            if "method" not in message:
                assert "'up'" in message["error"]["message"]
                break
            asked += 1
            await session.respond(message["id"], {"action": "accept"})
    assert asked <= 20


async def test_the_capabilities_that_a_modern_server_sees_are_those_of_the_caller():
    speaker = Speaker("modern")
    async with speaking(speaker) as url, bare(url) as front:
        await (await front.legacy(ELICITATION)).call("echo")
        await (await front.legacy()).call("echo")
        await front.call("echo", capabilities={"sampling": {}})
    seen = [item.params["_meta"][PREFIX + "clientCapabilities"] for item in speaker.heard("tools/call")]
    assert seen == [ELICITATION, {}, {"sampling": {}}]


async def test_a_state_is_sealed_for_its_caller_and_comes_back_to_the_server_as_it_was():
    async with speaking(asking(["Sure?"])) as url, bare(url, by_tenant) as front:
        anna, bert = {"X-Tenant": "anna"}, {"X-Tenant": "bert"}
        asked = (await front.call("echo", capabilities=ELICITATION, headers=anna)).result
        assert asked["resultType"] == "input_required"
        assert "round" not in str(asked["requestState"])
        more = {
            "requestState": asked["requestState"],
            "inputResponses": {"Sure?": {"action": "accept"}},
        }
        stolen = await front.call("echo", capabilities=ELICITATION, headers=bert, more=more)
        assert stolen.error["code"] == -32602
        mine = await front.call("echo", capabilities=ELICITATION, headers=anna, more=more)
        assert mine.result["content"][0]["text"] == "Sure?accept"


async def test_a_state_of_one_server_is_worth_nothing_to_another():
    first, second = asking(["Sure?"]), asking(["Sure?"])
    async with speaking(first) as url, speaking(second) as other, yard(at(url, "a"), at(other, "b")) as front:
        asked = (await front.call("mcp__a__echo", capabilities=ELICITATION)).result
        more = {"requestState": asked["requestState"], "inputResponses": {"Sure?": {"action": "accept"}}}
        refused = await front.call("mcp__b__echo", capabilities=ELICITATION, more=more)
        assert refused.error["code"] == -32602
    assert len(second.heard("tools/call")) == 0


# Tasks


class Tasks:
    """A server whose tool answers with a task, in the words of the modern era."""

    def __init__(self, *shown: Json) -> None:
        self.speaker = Speaker("modern", [tool("slow")])
        self.speaker.capabilities["extensions"] = {TASKS: {}}
        self.shown = list(shown)
        self.updates: list[Json] = []
        self.speaker.on |= {
            "tools/call": self._begin,
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }

    async def _begin(self, exchange: Exchange) -> None:
        capabilities = exchange.params["_meta"][PREFIX + "clientCapabilities"]
        if TASKS not in (capabilities.get("extensions") or {}):
            await exchange.error(-32021, "needs tasks", 400)
            return
        await exchange.result({"resultType": "task", **self._task({"status": "working"})})

    def _task(self, more: Json) -> Json:
        when = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        return {"taskId": "own-id", "ttlMs": 60_000, "pollIntervalMs": 20, **when, **more}

    async def _get(self, exchange: Exchange) -> None:
        assert exchange.params["taskId"] == "own-id"
        shown = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        await exchange.result(self._task(shown))

    async def _update(self, exchange: Exchange) -> None:
        self.updates.append(exchange.params["inputResponses"])
        await exchange.result({})

    async def _cancel(self, exchange: Exchange) -> None:
        await exchange.result({})


COMPLETED: Json = {"status": "completed", "result": text("at last")}


async def test_a_legacy_client_gets_a_plain_answer_from_a_task_and_progress_from_what_it_says():
    tasks = Tasks(
        {"status": "working", "statusMessage": "warming up"},
        {"status": "working", "statusMessage": "warming up"},
        {"status": "working", "statusMessage": "halfway"},
        COMPLETED,
    )
    async with speaking(tasks.speaker) as url, bare(url) as front:
        session = await front.legacy()
        line = await session.open_call("slow", progress="mine")
        messages = [message async for message in line.messages()]
        told = [item["params"] for item in messages if item.get("method") == "notifications/progress"]
        assert [item["message"] for item in told] == ["warming up", "halfway"]
        assert {item["progressToken"] for item in told} == {"mine"}
        assert messages[-1]["result"]["content"][0]["text"] == "at last"


async def test_a_task_that_asks_is_answered_by_a_legacy_client():
    asked = {"status": "input_required", "inputRequests": {"q": question("Sure?")}}
    tasks = Tasks(asked, asked, COMPLETED)
    async with speaking(tasks.speaker) as url, bare(url) as front:
        session = await front.legacy(ELICITATION)
        line = await session.open_call("slow")
        put = await line.next_message()
        assert put["params"]["message"] == "Sure?"
        await session.respond(put["id"], {"action": "accept"})
        assert (await line.next_message())["result"]["content"][0]["text"] == "at last"
    assert tasks.updates == [{"q": {"action": "accept"}}]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"status": "failed", "error": {"code": -32000, "message": "out of paper"}}, "out of paper"),
        ({"status": "cancelled"}, "cancelled"),
    ],
)
async def test_a_task_that_ends_badly_is_an_error_to_a_legacy_client(end: Json, words: str):
    async with speaking(Tasks(end).speaker) as url, bare(url) as front:
        session = await front.legacy()
        assert words in (await session.call("slow")).error["message"]


async def test_a_legacy_client_that_cancels_its_call_cancels_the_task():
    tasks = Tasks({"status": "working", "statusMessage": "working"})
    async with speaking(tasks.speaker) as url, bare(url) as front:
        session = await front.legacy()
        line = await session.open_call("slow", id="the-call", progress="p")
        await line.next_message()
        await session.notify("notifications/cancelled", {"requestId": "the-call"})
        cancelled = await tasks.speaker.until_heard("tasks/cancel")
        assert cancelled.params["taskId"] == "own-id"


async def test_a_modern_client_follows_a_task_by_a_ticket_that_is_its_own():
    tasks = Tasks({"status": "working"}, COMPLETED)
    capable = {"extensions": {TASKS: {}}}
    anna, bert = {"X-Tenant": "anna"}, {"X-Tenant": "bert"}
    async with speaking(tasks.speaker) as url, bare(url, by_tenant) as front:
        begun = (await front.call("slow", capabilities=capable, headers=anna)).result
        assert begun["resultType"] == "task"
        ticket = begun["taskId"]
        assert "own-id" not in ticket
        for method in ("tasks/get", "tasks/cancel"):
            params = {"taskId": ticket}
            stranger = await front.modern(method, params, capabilities=capable, headers=bert)
            assert stranger.error["code"] == -32602
            assert "not found" in stranger.error["message"]
        assert not tasks.speaker.heard("tasks/get")
        params = {"taskId": ticket}
        shown = (await front.modern("tasks/get", params, capabilities=capable, headers=anna)).result
        assert shown["status"] == "working"
        assert shown["taskId"] != "own-id"
        shown = (await front.modern("tasks/get", params, capabilities=capable, headers=anna)).result
        assert shown["result"]["content"][0]["text"] == "at last"


async def test_a_client_without_tasks_is_told_that_the_tool_needs_them():
    async with speaking(Tasks(COMPLETED).speaker) as url, bare(url) as front:
        assert (await front.call("slow")).error["code"] == -32021


async def test_a_forged_ticket_is_an_unknown_task():
    tasks = Tasks(COMPLETED)
    async with speaking(tasks.speaker) as url, yard(at(url)) as front:
        answer = await front.modern(
            "tasks/get", {"taskId": "own-id"}, capabilities={"extensions": {TASKS: {}}}
        )
        assert answer.error["code"] == -32602
    assert not tasks.speaker.heard("tasks/get")


# Tasks of 2025-11-25


class OldTasks:
    """A legacy server whose tool answers only as a task of 2025-11-25."""

    def __init__(self) -> None:
        self.speaker = Speaker("legacy", [tool("slow", execution={"taskSupport": "required"})])
        self.speaker.capabilities["tasks"] = {"requests": {"tools": {"call": {}}}, "cancel": {}}
        self.done = asyncio.Event()
        self.speaker.on |= {
            "tools/call": self._begin,
            "tasks/result": self._result,
            "tasks/cancel": self._any,
        }

    async def _begin(self, exchange: Exchange) -> None:
        if "task" not in exchange.params:
            await exchange.error(-32601, "this tool runs as a task only")
            return
        when = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        await exchange.result({"task": {"taskId": "old-1", "status": "working", "ttl": 60_000, **when}})

    async def _result(self, exchange: Exchange) -> None:
        assert exchange.params["taskId"] == "old-1"
        await self.done.wait()
        related = {"io.modelcontextprotocol/related-task": {"taskId": "old-1"}}
        await exchange.result(text("at last", _meta=related))

    async def _any(self, exchange: Exchange) -> None:
        await exchange.result({"taskId": "old-1", "status": "cancelled"})


async def test_a_task_only_tool_of_a_legacy_server_gives_a_plain_answer_to_clients_of_both_eras():
    tasks = OldTasks()
    tasks.done.set()
    async with speaking(tasks.speaker) as url, bare(url) as front:
        await front.tools()
        assert await front.says("slow") == "at last"
        session = await front.legacy()
        assert (await session.call("slow")).result["content"][0]["text"] == "at last"
    assert all("task" in item.params for item in tasks.speaker.heard("tools/call"))


async def test_a_task_only_tool_of_a_legacy_server_is_cancelled_with_its_call():
    tasks = OldTasks()
    async with speaking(tasks.speaker) as url, bare(url) as front:
        await front.tools()
        session = await front.legacy()
        calling = asyncio.create_task(session.call("slow", id="the-call"))
        await tasks.speaker.until_heard("tasks/result")
        await session.notify("notifications/cancelled", {"requestId": "the-call"})
        try:
            cancelled = await tasks.speaker.until_heard("tasks/cancel")
            assert cancelled.params["taskId"] == "old-1"
        finally:
            tasks.done.set()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
