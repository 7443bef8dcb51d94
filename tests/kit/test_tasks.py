"""Tasks: calls that outlive their request."""

import asyncio
import re
from datetime import datetime
from typing import Any

import pytest

from tests.kit.calls import NAME, TASKS, Inbox, Steps, accept, said, soon, text_of
from toolyard import Client
from toolyard.kit import Context, Elicit, Image, Long, Sample, Server, ToolError
from toolyard.wire.call import Identity, Principal
from toolyard.wire.errors import InvalidParams, McpError, MethodNotFound, MissingCapability

ABLE = TASKS | {"elicitation": {}, "sampling": {}}


class Led:
    """A long tool that waits for the test."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.started, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

        usual: dict[str, Any] = {"long": True}

        @server.tool(**(usual | options))
        async def job(ctx: Context) -> str:
            self.started.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "done"


# Becoming one


async def test_a_long_tool_answers_at_once_with_a_task(server: Server) -> None:
    led = Led(server, long=Long(ttl=60, poll=0.25))
    client = Steps(server, TASKS)
    task = await client.call("job")
    assert task["resultType"] == "task"
    assert task["status"] == "working"
    assert (task["ttlMs"], task["pollIntervalMs"]) == (60_000, 250)
    assert re.fullmatch(r"[\w-]{20,}", task["taskId"]), "nobody can guess it"
    for moment in (task["createdAt"], task["lastUpdatedAt"]):
        assert datetime.fromisoformat(moment).tzinfo is not None
    assert "content" not in task
    state = await client.task(task["taskId"])
    assert (state["resultType"], state["status"]) == ("complete", "working")
    led.go.set()


async def test_its_result_is_what_the_call_would_have_answered(server: Server) -> None:
    @server.tool(long=True)
    async def job(a: int) -> dict[str, int]:
        return {"double": 2 * a}

    client = Steps(server, TASKS)
    state = await client.finished((await client.call("job", {"a": 2}))["taskId"])
    assert state["status"] == "completed"
    assert state["result"]["structuredContent"] == {"double": 4}
    assert text_of(state["result"]) == '{"double":4}'
    shown = await client.task(state["taskId"])
    assert shown["result"] == state["result"], "tasks/get shows what the notification showed"


async def test_pictures_survive_the_way_through_a_notification(server: Server) -> None:
    @server.tool(long=True)
    async def draw() -> Image:
        return Image(b"\xff\x00", "image/png")

    client = Steps(server, TASKS)
    state = await client.finished((await client.call("draw"))["taskId"])
    assert state["result"]["content"] == [{"type": "image", "data": "/wA=", "mimeType": "image/png"}]


async def test_a_client_without_the_extension_gets_the_answer_inline(server: Server, era: Any) -> None:
    @server.tool(long=True)
    async def job() -> str:
        return "done"

    capabilities = TASKS if era == "legacy" else {}
    async with Client(server, era=era, capabilities=capabilities) as client:
        assert text_of((await client.call_tool("job")).raw) == "done"


async def test_a_tool_that_requires_a_task_tells_what_to_declare(server: Server) -> None:
    @server.tool(long=Long(required=True))
    async def job() -> str:
        return "done"

    with pytest.raises(MissingCapability) as error:
        await Steps(server).call("job")
    assert error.value.data == {"requiredCapabilities": TASKS}
    assert (await Steps(server, TASKS).call("job"))["resultType"] == "task"


async def test_an_ordinary_tool_never_becomes_a_task(server: Server) -> None:
    @server.tool
    async def quick(ctx: Context) -> str:
        await ctx.detach()
        return "quick"

    assert text_of(await Steps(server, TASKS).call("quick")) == "quick"


async def test_a_tool_detaches_by_hand_where_it_likes(server: Server) -> None:
    runs: list[str] = []

    @server.tool(long=Long(detach="by_hand"))
    async def job(ctx: Context, size: int) -> str:
        runs.append("started")
        if size > 10:
            await ctx.detach()
        runs.append("went on")
        return f"size {size}"

    client = Steps(server, TASKS)
    assert text_of(await client.call("job", {"size": 1})) == "size 1"
    task = await client.call("job", {"size": 11})
    assert task["resultType"] == "task"
    assert text_of((await client.finished(task["taskId"]))["result"]) == "size 11"
    assert runs == ["started", "went on", "started", "started", "went on"]


async def test_detaching_means_nothing_to_a_client_that_cannot_follow(server: Server, era: Any) -> None:
    @server.tool(long=Long(detach="by_hand"))
    async def job(ctx: Context) -> str:
        await ctx.detach()
        return "done"

    async with Client(server, era=era) as client:
        assert text_of((await client.call_tool("job")).raw) == "done"


# How one ends


async def test_bad_arguments_and_tool_errors_complete_with_an_error_result(server: Server) -> None:
    @server.tool(long=True)
    async def job(a: int) -> str:
        raise ToolError("no luck")

    client = Steps(server, TASKS)
    for arguments, words in (({"a": "x"}, "'a'"), ({"a": 1}, "no luck")):
        state = await client.finished((await client.call("job", arguments))["taskId"])
        assert state["status"] == "completed"
        assert state["result"]["isError"] is True
        assert words in text_of(state["result"])


async def test_an_unexpected_exception_is_masked(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.tool(long=True)
    async def job() -> str:
        raise RuntimeError("hunter2")

    client = Steps(server, TASKS)
    state = await client.finished((await client.call("job"))["taskId"])
    assert (state["status"], state["result"]["isError"]) == ("completed", True)
    assert "hunter2" not in str(state)
    assert "hunter2" in caplog.text


async def test_a_protocol_error_fails_the_task(server: Server) -> None:
    @server.tool(long=True)
    async def job() -> str:
        raise McpError(-32050, "Quota exhausted", {"retryAfter": 60})

    client = Steps(server, TASKS)
    state = await client.finished((await client.call("job"))["taskId"])
    assert state["status"] == "failed"
    assert state["error"] == {"code": -32050, "message": "Quota exhausted", "data": {"retryAfter": 60}}
    assert state["statusMessage"] == "Quota exhausted"
    assert "result" not in state


async def test_a_cancelled_task_stops_and_stays_cancelled(server: Server) -> None:
    led = Led(server)
    client = Steps(server, TASKS)
    id = (await client.call("job"))["taskId"]
    await soon(led.started.wait())
    acknowledged = await client.request("tasks/cancel", {"taskId": id})
    assert acknowledged["resultType"] == "complete"
    assert set(acknowledged) == {"resultType", "_meta"}
    await soon(led.stopped.wait())
    state = await client.task(id)
    assert state["status"] == "cancelled"
    assert not {"result", "error", "inputRequests"} & set(state)
    await client.request("tasks/cancel", {"taskId": id})
    assert (await client.task(id))["status"] == "cancelled"


async def test_a_tool_that_finishes_in_spite_of_it_does_not_undo_the_cancellation(server: Server) -> None:
    started, finished = asyncio.Event(), asyncio.Event()

    @server.tool(long=True)
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            finished.set()
        return "finished all the same"

    client = Steps(server, TASKS)
    id = (await client.call("stubborn"))["taskId"]
    await soon(started.wait())
    await client.request("tasks/cancel", {"taskId": id})
    await soon(finished.wait())
    assert (await client.task(id))["status"] == "cancelled"


async def test_cancelling_what_is_over_changes_nothing(server: Server) -> None:
    @server.tool(long=True)
    async def job() -> str:
        return "done"

    client = Steps(server, TASKS)
    id = (await client.finished((await client.call("job"))["taskId"]))["taskId"]
    await client.request("tasks/cancel", {"taskId": id})
    assert (await client.task(id))["status"] == "completed"


async def test_a_running_task_is_stopped_and_forgotten_when_its_time_is_up(server: Server) -> None:
    led = Led(server, long=Long(ttl=0.03, poll=0.01))
    client = Steps(server, TASKS)
    id = (await client.call("job"))["taskId"]
    await soon(led.stopped.wait())
    with pytest.raises(InvalidParams, match="not found"):
        await client.task(id)


async def test_a_finished_task_is_forgotten_when_its_time_is_up(server: Server) -> None:
    @server.tool(long=Long(ttl=0.3, poll=0.1))
    async def job() -> str:
        return "done"

    client = Steps(server, TASKS)
    id = (await client.call("job"))["taskId"]
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, later.set)  # after the task's own timer, which is older
    assert (await client.finished(id))["status"] == "completed"
    await soon(later.wait())
    with pytest.raises(InvalidParams, match="not found"):
        await client.task(id)


async def test_closing_the_server_cancels_what_runs(server: Server) -> None:
    led = Led(server)
    client = Steps(server, TASKS)
    await client.call("job")
    await soon(led.started.wait())
    await server.service.close()
    assert led.stopped.is_set()


# Who may touch it


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("tasks/get", {}),
    ("tasks/cancel", {}),
    ("tasks/update", {"inputResponses": {}}),
]


@pytest.mark.parametrize(("method", "more"), METHODS)
async def test_an_unknown_task_is_not_found(server: Server, method: str, more: dict[str, Any]) -> None:
    Led(server)
    for id in ("", "nope", "x" * 10_000):
        with pytest.raises(InvalidParams, match="not found") as error:
            await Steps(server, TASKS).request(method, {"taskId": id, **more})
        assert len(error.value.message) < 200


@pytest.mark.parametrize(("method", "more"), METHODS)
async def test_the_task_of_another_principal_is_not_found(
    server: Server, method: str, more: dict[str, Any]
) -> None:
    led = Led(server)
    owner = Steps(server, TASKS, Identity(Principal("acme", "clerk")))
    id = (await owner.call("job"))["taskId"]
    for stranger in (Identity(Principal("rival", "clerk")), Identity(Principal("acme", "other")), Identity()):
        with pytest.raises(InvalidParams, match="not found"):
            await Steps(server, TASKS, stranger).request(method, {"taskId": id, **more})
    colleague = Steps(server, TASKS, Identity(Principal("acme", "clerk"), "another thread"))
    assert (await colleague.task(id))["status"] == "working"
    led.go.set()


@pytest.mark.parametrize(("method", "more"), METHODS)
async def test_a_client_that_did_not_declare_the_extension_is_told_to(
    server: Server, method: str, more: dict[str, Any]
) -> None:
    Led(server)
    with pytest.raises(MissingCapability) as error:
        await Steps(server).request(method, {"taskId": "x", **more})
    assert error.value.data == {"requiredCapabilities": TASKS}


@pytest.mark.parametrize(("method", "more"), METHODS)
async def test_a_server_without_long_tools_does_not_know_the_methods(
    server: Server, era: Any, method: str, more: dict[str, Any]
) -> None:
    @server.tool
    async def quick() -> None: ...

    async with Client(server, era=era, capabilities=TASKS) as client:
        with pytest.raises(MethodNotFound):
            await client.request(method, {"taskId": "x", **more})


# Input while it runs


@pytest.fixture
def asking(server: Server) -> Server:
    @server.tool(long=True)
    async def plan(ctx: Context) -> str:
        answers = await ctx.ask(who=Elicit("Who?", NAME), line=Sample("A line", max_tokens=5))
        again = await ctx.elicit("Where?", NAME)
        who = answers["who"].content["name"] if answers["who"].accepted else answers["who"].action
        return f"{who}: {answers['line'].text}, {again.action}"

    return server


async def test_a_question_shows_in_the_task_until_an_update_answers_it(asking: Server) -> None:
    client = Steps(asking, ABLE)
    id = (await client.call("plan"))["taskId"]
    async with client.listening(taskIds=[id]):
        state = await client.inbox.until("notifications/tasks", status="input_required")
        assert state["inputRequests"]["line"] == {
            "method": "sampling/createMessage",
            "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "A line"}}],
                "maxTokens": 5,
            },
        }
        assert (await client.task(id))["inputRequests"] == state["inputRequests"]
        answers = {"who": accept(name="Ada"), "line": said("so")}
        result = await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
        assert set(result) == {"resultType", "_meta"}
        state = await client.inbox.until("notifications/tasks", status="input_required")
        assert list(state["inputRequests"]) == ["elicit-1"], "what was answered is gone"
        answers = {"elicit-1": {"action": "decline"}}
        await client.request("tasks/update", {"taskId": id, "inputResponses": answers})
        state = await client.inbox.until("notifications/tasks", status="completed")
    assert text_of(state["result"]) == "Ada: so, decline"
    assert "inputRequests" not in state


async def test_a_part_of_the_answers_leaves_the_rest_open(asking: Server) -> None:
    client = Steps(asking, ABLE)
    id = (await client.call("plan"))["taskId"]
    async with client.listening(taskIds=[id]):
        await client.inbox.until("notifications/tasks", status="input_required")
        update = {"taskId": id, "inputResponses": {"line": said("so"), "unknown": 5}}
        await client.request("tasks/update", update)
        state = await client.task(id)
        assert (state["status"], list(state["inputRequests"])) == ("input_required", ["who"])
        await client.request("tasks/update", update)
        assert list((await client.task(id))["inputRequests"]) == ["who"], "an answered key is ignored"
        await client.request("tasks/update", {"taskId": id, "inputResponses": {"who": accept(name="Ada")}})
        await client.inbox.until("notifications/tasks", status="input_required")
        assert list((await client.task(id))["inputRequests"]) == ["elicit-1"]


async def test_a_malformed_answer_is_refused_and_none_of_that_update_counts(asking: Server) -> None:
    client = Steps(asking, ABLE)
    id = (await client.call("plan"))["taskId"]
    async with client.listening(taskIds=[id]):
        await client.inbox.until("notifications/tasks", status="input_required")
        bad = {"line": said("so"), "who": accept(name=5)}
        with pytest.raises(InvalidParams, match=r"inputResponses\['who'\]"):
            await client.request("tasks/update", {"taskId": id, "inputResponses": bad})
        assert set((await client.task(id))["inputRequests"]) == {"who", "line"}


async def test_updating_what_waits_for_nothing_is_acknowledged(server: Server) -> None:
    led = Led(server)
    client = Steps(server, TASKS)
    id = (await client.call("job"))["taskId"]
    await client.request("tasks/update", {"taskId": id, "inputResponses": {"who": accept(name="Ada")}})
    assert (await client.task(id))["status"] == "working"
    led.go.set()


async def test_a_question_the_client_cannot_answer_fails_the_task(asking: Server) -> None:
    client = Steps(asking, TASKS)
    state = await client.finished((await client.call("plan"))["taskId"])
    assert (state["status"], state["error"]["code"]) == ("failed", -32021)


async def test_a_cancelled_task_asks_no_more(asking: Server) -> None:
    client = Steps(asking, ABLE)
    id = (await client.call("plan"))["taskId"]
    async with client.listening(taskIds=[id]):
        await client.inbox.until("notifications/tasks", status="input_required")
        await client.request("tasks/cancel", {"taskId": id})
        await client.request("tasks/update", {"taskId": id, "inputResponses": {"who": accept(name="Ada")}})
    state = await client.task(id)
    assert state["status"] == "cancelled"
    assert "inputRequests" not in state


async def test_a_question_the_tool_gave_up_on_is_no_longer_asked(server: Server) -> None:
    waiting, go = asyncio.Event(), asyncio.Event()

    @server.tool(long=True)
    async def hurry(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.01):
                await ctx.elicit("Quick?", NAME)
        except TimeoutError:
            waiting.set()
            await go.wait()
        return "went on"

    client = Steps(server, ABLE)
    id = (await client.call("hurry"))["taskId"]
    await soon(waiting.wait())
    state = await client.task(id)
    assert state["status"] == "working"
    assert "inputRequests" not in state
    go.set()
    assert text_of((await client.finished(id))["result"]) == "went on"


async def test_a_cancelled_task_cannot_come_back_by_asking(server: Server) -> None:
    started, over = asyncio.Event(), asyncio.Event()

    @server.tool(long=True)
    async def stubborn(ctx: Context) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await ctx.report_progress(1, message="not yet")
                await ctx.elicit("Really?", NAME)
            finally:
                over.set()
        return "never"

    client = Steps(server, ABLE)
    id = (await client.call("stubborn"))["taskId"]
    await soon(started.wait())
    await client.request("tasks/cancel", {"taskId": id})
    await soon(over.wait())
    state = await client.task(id)
    assert state["status"] == "cancelled"
    assert not {"inputRequests", "statusMessage"} & set(state)


# Notifications


async def test_a_listener_hears_the_state_at_once_and_every_change(server: Server) -> None:
    heard = asyncio.Event()

    @server.tool(long=True)
    async def job(ctx: Context) -> str:
        await ctx.report_progress(1, message="one")
        await heard.wait()
        await ctx.report_progress(2, message="two")
        return "done"

    client = Steps(server, TASKS)
    task = await client.call("job")
    async with client.listening(taskIds=[task["taskId"]]) as agreed:
        assert agreed == {"taskIds": [task["taskId"]]}
        await client.inbox.until("notifications/tasks", status="working", statusMessage="one")
        heard.set()
        last = await client.inbox.until("notifications/tasks", status="completed")
    assert last["_meta"] == {"io.modelcontextprotocol/subscriptionId": 2}
    assert last["createdAt"] == task["createdAt"]
    assert last["statusMessage"] == "two"


async def test_a_listener_is_not_told_of_tasks_that_are_not_its_own(server: Server) -> None:
    led = Led(server)
    owner, stranger = Steps(server, TASKS), Steps(server, TASKS, Identity(Principal("rival")))
    mine, other = (await owner.call("job"))["taskId"], (await owner.call("job"))["taskId"]
    async with stranger.listening(taskIds=[mine]) as agreed:
        assert agreed == {"taskIds": []}
        async with owner.listening(taskIds=[mine, "unknown"]) as agreed:
            assert agreed == {"taskIds": [mine]}
            await owner.request("tasks/cancel", {"taskId": other})
            led.go.set()
            await owner.inbox.until("notifications/tasks", status="completed")
    assert {params["taskId"] for params in owner.inbox.of("notifications/tasks")} == {mine}
    assert stranger.inbox.of("notifications/tasks") == []


async def test_listening_to_tasks_needs_the_extension(server: Server) -> None:
    Led(server)
    with pytest.raises(MissingCapability) as error:
        await Steps(server).request("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
    assert error.value.data == {"requiredCapabilities": TASKS}


async def test_legacy_clients_hear_nothing_of_tasks(server: Server) -> None:
    led = Led(server)
    inbox = Inbox()
    client = Steps(server, TASKS)
    async with Client(server, era="legacy") as listening:
        listening.connection.watch(inbox.changed)
        led.go.set()
        await client.finished((await client.call("job"))["taskId"])
        server.notify_tools_changed()
        await inbox.next("notifications/tools/list_changed")
    assert inbox.of("notifications/tasks") == []


async def test_the_extension_is_declared_by_a_server_that_has_long_tools(server: Server) -> None:
    Led(server)
    discovered = await Steps(server).request("server/discover")
    assert discovered["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    async with Client(server, era="legacy") as client:
        assert "extensions" not in (await client.request("initialize"))["capabilities"]


@pytest.mark.parametrize(
    "options", [{"ttl": 0}, {"ttl": -1}, {"poll": -1}, {"ttl": float("inf")}, {"detach": "sometimes"}]
)
def test_a_task_that_cannot_be_is_refused_when_it_is_declared(
    server: Server, options: dict[str, Any]
) -> None:
    async def job() -> None: ...

    with pytest.raises(ValueError, match=next(iter(options))):
        server.add_tool(job, long=Long(**options))
