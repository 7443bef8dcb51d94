"""Tasks over every edge: calls that outlive their request."""

import pytest

from tests.interaction.clients import SUBSCRIPTION, TASKS, Json, RpcError, soon
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop

ADA = {"action": "accept", "content": {"name": "Ada"}}
SLOGAN = {"role": "assistant", "content": {"type": "text", "text": "Light!"}, "model": "m-1"}
CHANGED = "notifications/tasks"


@shows("tasks.created", "tasks.get")
async def test_a_long_call_is_answered_with_a_task_that_can_be_followed(
    connect_tasks: Connect, shop: Shop
) -> None:
    async with connect_tasks(shop.server, tasks=True) as client:
        task = await client.call("order", {"item": "desk"})
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert (task["ttlMs"], task["pollIntervalMs"]) == (60_000, 100)
        await soon(shop.started.wait())
        state = await client.request("tasks/get", {"taskId": task["taskId"]})
        assert (state["resultType"], state["status"]) == ("complete", "working")
        assert state["statusMessage"] == "fetching", "progress shows as the status"
        async with client.hearing(tasks=[task["taskId"]]):
            shop.go.set()
            await client.inbox.next(CHANGED, status="completed")
        state = await client.request("tasks/get", {"taskId": task["taskId"]})
    assert state["status"] == "completed"
    assert state["result"]["structuredContent"] == {"item": "desk", "total": 5, "notes": []}


@shows("tasks.undeclared")
async def test_a_client_that_does_not_follow_tasks_waits_for_the_answer(connect: Connect, shop: Shop) -> None:
    shop.go.set()
    async with connect(shop.server) as client:
        result = await client.call("order", {"item": "desk"})
    assert result["structuredContent"]["item"] == "desk"


@shows("tasks.undeclared")
async def test_the_methods_of_tasks_need_the_extension(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server) as client:
        for method, params in (
            ("tasks/get", {"taskId": "x"}),
            ("tasks/cancel", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ):
            with pytest.raises(RpcError) as error:
                await client.request(method, params)
            assert error.value.code == -32021
            assert error.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@shows("tasks.unknown")
async def test_an_unknown_task_is_not_found(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server, tasks=True) as client:
        for method, more in (
            ("tasks/get", {}),
            ("tasks/cancel", {}),
            ("tasks/update", {"inputResponses": {}}),
        ):
            with pytest.raises(RpcError, match="not found") as error:
                await client.request(method, {"taskId": "nope", **more})
            assert error.value.code == -32602


@shows("tasks.notifications")
async def test_a_listener_hears_the_whole_task_at_every_change(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server, tasks=True) as client:
        id = (await client.call("order"))["taskId"]
        await soon(shop.started.wait())
        async with client.hearing(tasks=[id, "unknown"]) as agreed:
            assert agreed["taskIds"] == [id]
            now = await client.inbox.next(CHANGED, status="working")
            shop.go.set()
            end = await client.inbox.next(CHANGED, status="completed")
        state = await client.request("tasks/get", {"taskId": id})
    assert now["taskId"] == end["taskId"] == id
    assert SUBSCRIPTION in end["_meta"]
    for member in ("result", "createdAt", "lastUpdatedAt", "ttlMs", "statusMessage"):
        assert end[member] == state[member]


@shows("tasks.input")
async def test_a_task_asks_while_it_runs_and_takes_answers_in_parts(
    connect_tasks: Connect, shop: Shop
) -> None:
    def nobody(_: Json) -> Json:
        raise AssertionError("a task is answered by tasks/update")

    async with connect_tasks(shop.server, tasks=True, elicit=nobody, sample=nobody) as client:
        id = (await client.call("commission"))["taskId"]
        async with client.hearing(tasks=[id]):
            state = await client.inbox.next(CHANGED, status="input_required")
            assert {key: ask["method"] for key, ask in state["inputRequests"].items()} == {
                "who": "elicitation/create",
                "slogan": "sampling/createMessage",
            }
            with pytest.raises(RpcError) as error:
                await client.request(
                    "tasks/update", {"taskId": id, "inputResponses": {"who": {"action": "?"}}}
                )
            assert error.value.code == -32602
            update = {"taskId": id, "inputResponses": {"who": ADA, "unasked": 5}}
            assert (await client.request("tasks/update", update))["resultType"] == "complete"
            state = await client.request("tasks/get", {"taskId": id})
            assert (state["status"], list(state["inputRequests"])) == ("input_required", ["slogan"])
            await client.request("tasks/update", {"taskId": id, "inputResponses": {"slogan": SLOGAN}})
            end = await client.inbox.next(CHANGED, status="completed")
    assert end["result"]["content"][0]["text"] == "Ada: Light!"


@shows("tasks.after_rounds")
async def test_what_is_asked_before_the_task_is_asked_in_rounds(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server, tasks=True, elicit=lambda _: ADA) as client:
        task = await client.call("reserve")
        assert task["resultType"] == "task"
        async with client.hearing(tasks=[task["taskId"]]):
            end = await client.inbox.next(CHANGED, status="completed")
    assert end["result"]["content"][0]["text"] == "reserved for Ada"


@shows("tasks.cancelled")
async def test_a_cancelled_task_stops(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server, tasks=True) as client:
        id = (await client.call("order"))["taskId"]
        await soon(shop.started.wait())
        assert (await client.request("tasks/cancel", {"taskId": id}))["resultType"] == "complete"
        await soon(shop.stopped.wait())
        assert (await client.request("tasks/get", {"taskId": id}))["status"] == "cancelled"


@shows("tasks.failed")
async def test_an_error_of_the_protocol_fails_the_task(connect_tasks: Connect, shop: Shop) -> None:
    async with connect_tasks(shop.server, tasks=True) as client:
        id = (await client.call("lose"))["taskId"]
        async with client.hearing(tasks=[id]):
            end = await client.inbox.next(CHANGED, status="failed")
    assert end["error"] == {"code": -32050, "message": "Lost in the post"}


@shows("tasks.server_closes")
async def test_a_server_that_closes_cancels_what_runs(connect_process: Connect, shop: Shop) -> None:
    async with connect_process(shop.server, tasks=True) as client:
        await client.call("order")
        await soon(shop.started.wait())
        await client.stop_server()
        await soon(shop.stopped.wait())
