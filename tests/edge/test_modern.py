"""The modern era over real HTTP: JSON unless there is something to stream, nothing kept between requests."""

import asyncio
import json
from typing import Any

import pytest

from tests.edge.workshop import Workshop
from tests.serving import (
    MODERN,
    PATIENCE,
    PREFIX,
    Client,
    LegacyClient,
    Line,
    http,
    modern,
    serving,
)
from toolyard.edge.request import Pace
from toolyard.kit import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = {"name": "echo", "arguments": {"text": "hi"}}
SUBSCRIPTION = PREFIX + "subscriptionId"


def call(tool: str, /, *, id: Any = 1, progress: Any = None, **arguments: Any) -> Any:
    return modern("tools/call", {"name": tool, "arguments": arguments}, id=id, progress=progress)


# JSON unless there is something to stream


async def test_a_quick_answer_is_plain_json(client: Client):
    answer = await client.post(*call("echo", text="hi", id="seven"))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.json["id"] == "seven"
    assert answer.result["content"] == [{"type": "text", "text": "hi"}]
    assert answer.result["resultType"] == "complete"
    assert answer.result["_meta"][PREFIX + "serverInfo"]["name"] == "workshop"


@pytest.mark.parametrize("id", [0, -1, 2**53, "", "x", "ключ"])
async def test_an_id_comes_back_as_it_was_sent(client: Client, id: Any):
    assert (await client.post(*call("echo", id=id))).json["id"] == id


async def test_a_call_that_reports_progress_becomes_a_stream(client: Client):
    answer = await client.post(*call("steps", count=3, progress="token", id=5))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-cache" in answer.headers["cache-control"]
    *notes, reply = [event.json for event in answer.events if event.is_message]
    assert [note["method"] for note in notes] == ["notifications/progress"] * 3
    assert [note["params"]["progress"] for note in notes] == [1, 2, 3]
    assert {note["params"]["progressToken"] for note in notes} == {"token"}
    assert reply["id"] == 5
    assert reply["result"]["content"][0]["text"] == "3 steps"


async def test_modern_streams_have_no_event_ids_since_they_cannot_be_resumed(client: Client):
    answer = await client.post(*call("steps", progress="token"))
    assert all(event.id is None and event.retry is None for event in answer.events)


async def test_progress_nobody_asked_for_leaves_the_answer_json(client: Client):
    answer = await client.post(*call("steps"))
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("level", "texts"),
    [("debug", ["a debug", "a info", "a error"]), ("info", ["a info", "a error"]), ("critical", [])],
)
async def test_log_lines_are_sent_at_the_level_the_request_asks_for(
    client: Client, level: str, texts: list[str]
):
    headers, message = modern("tools/call", {"name": "log", "arguments": {"text": "a"}}, logLevel=level)
    answer = await client.post(headers, message)
    assert answer.is_stream == bool(texts)
    if texts:
        *notes, _ = [event.json for event in answer.events if event.is_message]
        assert [note["params"]["data"] for note in notes] == texts


async def test_no_log_lines_are_sent_unless_the_request_asks_for_a_level(client: Client):
    assert not (await client.post(*call("log"))).is_stream


async def test_a_client_that_takes_json_only_gets_json_whatever_the_tool_reports(client: Client):
    headers, message = call("steps", progress="token")
    answer = await client.post(headers | {"Accept": "application/json"}, message)
    assert answer.result["content"][0]["text"] == "3 steps"


async def test_a_client_that_names_streams_first_has_its_result_streamed_and_errors_as_statuses(
    client: Client,
):
    headers, message = call("echo", text="it")
    rather = {"Accept": "text/event-stream, application/json"}
    answer = await client.post(headers | rather, message)
    assert [event.json["result"]["content"][0]["text"] for event in answer.events] == ["it"]
    headers, message = modern("no/method")
    answer = await client.post(headers | rather, message)
    assert (answer.status, answer.is_stream) == (404, False)


async def test_an_error_after_the_stream_began_is_its_last_event(client: Client):
    answer = await client.post(*call("steps", count=1, fail=True, progress="token", id=9))
    assert answer.status == 200
    messages = [event.json for event in answer.events if event.is_message]
    assert messages[0]["method"] == "notifications/progress"
    assert messages[1]["id"] == 9
    assert messages[1]["error"] == {"code": -31000, "message": "Failed on the way"}
    assert len(messages) == 2


async def test_an_applications_own_error_travels_under_200(client: Client):
    answer = await client.post(*call("steps", count=0, fail=True))
    assert answer.status == 200
    assert answer.error["code"] == -31000


async def test_notes_are_sent_while_the_call_runs_and_not_at_its_end(shop: Workshop, at_shop: Client):
    shop.says.put_nowait("first")
    line = await at_shop.open(*call("speak", progress=1))
    assert (await line.next_message())["params"]["message"] == "first"
    assert not shop.finished.is_set()
    shop.says.put_nowait("second")
    assert (await line.next_message())["params"]["message"] == "second"
    shop.says.put_nowait(None)
    assert (await line.next_message())["result"]["content"][0]["text"] == "said 2"
    assert [event async for event in line.events()] == []


async def test_a_silent_call_that_runs_long_becomes_a_stream_that_is_kept_alive(shop: Workshop):
    pace = Pace(watch_after=0.01, stream_after=0.02, ping_every=0.02)
    async with serving(shop.server.asgi(pace=pace)) as client:
        line = await client.open(*call("wait", id="it"))
        assert line.headers["content-type"] == "text/event-stream"
        events = line.events()
        for _ in range(3):
            event = await anext(events)
            assert event.comments
            assert event.data is None
        shop.go.set()
        async for event in events:
            if event.is_message:
                assert event.json["id"] == "it"
                assert event.json["result"]["content"][0]["text"] == "waited"


async def test_the_tests_own_client_reads_an_answer_in_either_form(shop: Workshop):
    pace = Pace(watch_after=0.01, stream_after=0.02, ping_every=0.02)
    async with serving(shop.server.asgi(pace=pace)) as client:
        waiting = asyncio.create_task(client.post(*call("wait")))
        # Another call, started later, has become a stream and been pinged by now.
        other = await client.open(*call("wait"))
        await anext(other.events())
        shop.go.set()
        answer = await waiting
        assert answer.is_stream
        assert answer.result["content"][0]["text"] == "waited"


async def test_a_silent_call_of_a_client_that_takes_no_stream_is_waited_for(shop: Workshop):
    pace = Pace(watch_after=0.01, stream_after=0.02, ping_every=0.02)
    async with serving(shop.server.asgi(pace=pace)) as client:
        headers, message = call("wait")
        waiting = asyncio.create_task(client.post(headers | {"Accept": "application/json"}, message))
        # Another call, started later, has become a stream and been pinged by now.
        other = await client.open(*call("wait"))
        events = other.events()
        for _ in range(3):
            await anext(events)
        shop.go.set()
        answer = await waiting
        assert answer.headers["content-type"] == "application/json"
        assert answer.result["content"][0]["text"] == "waited"


async def test_an_error_after_a_call_ran_long_comes_on_its_stream(shop: Workshop):
    async with serving(shop.server.asgi(pace=Pace(watch_after=0.01, stream_after=0.02))) as client:
        line = await client.open(*call("wait", fail=True, id="it"))
        shop.go.set()
        message = await line.next_message()
        assert (message["id"], message["error"]["code"]) == ("it", -31000)


async def test_a_silent_subscription_is_kept_alive(shop: Workshop):
    async with serving(shop.server.asgi(pace=Pace(stream_after=0.02, ping_every=0.02))) as client:
        line, _ = await subscribe(client, toolsListChanged=True)
        events = line.events()
        for _ in range(3):
            assert (await anext(events)).comments


# Many requests


async def test_one_connection_serves_many_requests(client: Client):
    line = await client.connect()
    for number in range(5):
        headers, message = call("echo", text=str(number), id=number)
        await line.send(http(headers=headers, body=json.dumps(message).encode()))
        assert (await line.answer()).result["content"][0]["text"] == str(number)


async def test_requests_sent_in_one_go_are_answered_in_order(client: Client):
    line = await client.connect()
    requests = [call("echo", text=str(number), id=number) for number in range(5)]
    await line.send(b"".join(http(headers=h, body=json.dumps(m).encode()) for h, m in requests))
    assert [(await line.answer()).json["id"] for _ in requests] == [0, 1, 2, 3, 4]


async def test_a_stream_leaves_its_connection_usable(client: Client):
    line = await client.connect()
    headers, message = call("steps", progress="token")
    for _ in range(2):
        await line.send(http(headers=headers, body=json.dumps(message).encode()))
        assert (await line.answer()).is_stream


async def test_a_call_that_waits_holds_up_nobody_else(shop: Workshop, at_shop: Client):
    waiting = asyncio.create_task(at_shop.post(*call("wait", id="same")))
    await shop.started.wait()
    answers = await asyncio.gather(*(at_shop.post(*call("echo", text="x", id="same")) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    shop.go.set()
    assert (await waiting).json["id"] == "same"


async def test_a_request_needs_no_session_and_is_given_none(client: Client):
    session = await LegacyClient.start(client)
    headers, message = call("echo", text="x")
    for extra in ({}, {"Mcp-Session-Id": session.id or ""}, {"Mcp-Session-Id": "made up"}):
        answer = await client.post(headers | extra | {"Last-Event-ID": "x.1"}, message)
        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers


async def test_the_second_round_of_a_question_may_be_served_by_another_process(client: Client):
    params = {"name": "greet", "arguments": {}}
    asked = await client.modern("tools/call", params, capabilities={"elicitation": {}})
    assert asked.headers["content-type"] == "application/json"
    assert asked.result["resultType"] == "input_required"
    assert asked.result["inputRequests"]["name"]["method"] == "elicitation/create"
    async with serving(Workshop().server.asgi()) as other:
        answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        again = params | {"inputResponses": answers, "requestState": asked.result["requestState"]}
        answer = await other.modern("tools/call", again, id=2, capabilities={"elicitation": {}})
    assert answer.result["content"][0]["text"] == "Hello Ada"


async def test_a_question_the_client_cannot_answer_names_the_capability_it_needs(client: Client):
    answer = await client.modern("tools/call", {"name": "think", "arguments": {}})
    assert (answer.status, answer.error["code"]) == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"sampling": {}}}


async def test_discovery_names_the_modern_versions_and_what_the_server_has(client: Client):
    result = (await client.modern("server/discover")).result
    assert result["supportedVersions"] == [MODERN]
    assert {"tools", "resources", "prompts", "completions"} <= result["capabilities"].keys()
    assert result["cacheScope"] in ("public", "private")
    assert result["ttlMs"] >= 0


async def test_health_is_told_to_anybody(client: Client):
    answer = await client.raw(http("GET", "/health"))
    assert answer.status == 200
    assert answer.json["status"] == "ok"
    assert answer.json["server"]["name"] == "workshop"


# Notifications and methods of HTTP


@pytest.mark.parametrize(
    "method", ["notifications/cancelled", "notifications/anything", "notifications/initialized"]
)
async def test_a_notification_is_accepted_without_a_body(client: Client, method: str):
    headers, message = modern(method, {"requestId": 1})
    del message["id"]
    answer = await client.post(headers, message)
    assert (answer.status, answer.body) == (202, b"")


async def test_a_notification_cancels_nothing_since_ids_belong_to_connections(
    shop: Workshop, at_shop: Client
):
    waiting = asyncio.create_task(at_shop.post(*call("wait", id=1)))
    await shop.started.wait()
    headers, message = modern("notifications/cancelled", {"requestId": 1})
    del message["id"]
    assert (await at_shop.post(headers, message)).status == 202
    shop.go.set()
    assert (await waiting).result["content"][0]["text"] == "waited"


async def test_get_is_not_allowed_and_there_is_nothing_to_delete(client: Client):
    headers = {"MCP-Protocol-Version": MODERN, "Accept": "text/event-stream"}
    answer = await client.raw(http("GET", headers=headers))
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert (await client.raw(http("DELETE", headers=headers))).status in (400, 405)


# Subscriptions


async def subscribe(client: Client, id: Any = 1, **wanted: Any) -> tuple[Line, dict[str, Any]]:
    """A subscription and what was agreed to."""
    line = await client.open(*modern("subscriptions/listen", {"notifications": wanted}, id=id))
    first = await line.next_message()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["_meta"][SUBSCRIPTION] == id
    return line, first["params"]["notifications"]


async def test_a_subscription_is_acknowledged_first_with_what_was_agreed(at_shop: Client):
    line, agreed = await subscribe(at_shop, toolsListChanged=True, resourceSubscriptions=["shop://shelf"])
    assert line.headers["content-type"] == "text/event-stream"
    assert agreed == {"toolsListChanged": True, "resourceSubscriptions": ["shop://shelf"]}


async def test_what_a_server_does_not_have_is_not_agreed_to():
    bare = Server("bare")
    bare.add_tool(lambda: None, name="only")
    async with serving(bare.asgi()) as client:
        _, agreed = await subscribe(
            client, toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["x://y"]
        )
    assert agreed == {"toolsListChanged": True}


async def test_a_subscription_gets_what_it_asked_for_and_nothing_else(shop: Workshop, at_shop: Client):
    line, _ = await subscribe(
        at_shop,
        id="s",
        promptsListChanged=True,
        toolsListChanged=False,
        resourceSubscriptions=["shop://shelf"],
    )
    shop.server.notify_tools_changed()
    shop.server.notify_resources_changed()
    shop.server.notify_resource_updated("shop://item/1")
    shop.server.notify_prompts_changed()
    note = await line.next_message()
    assert note["method"] == "notifications/prompts/list_changed"
    assert note["params"]["_meta"] == {SUBSCRIPTION: "s"}
    shop.server.notify_resource_updated("shop://shelf")
    note = await line.next_message()
    assert note["method"] == "notifications/resources/updated"
    assert note["params"] == {"uri": "shop://shelf", "_meta": {SUBSCRIPTION: "s"}}


async def test_two_subscriptions_each_get_their_own_under_their_own_ids(shop: Workshop, at_shop: Client):
    tools, _ = await subscribe(at_shop, id=1, toolsListChanged=True)
    both, _ = await subscribe(at_shop, id="two", toolsListChanged=True, promptsListChanged=True)
    shop.server.notify_prompts_changed()
    assert (await both.next_message())["params"]["_meta"][SUBSCRIPTION] == "two"
    shop.server.notify_tools_changed()
    for line, id in ((tools, 1), (both, "two")):
        note = await line.next_message()
        assert note["method"] == "notifications/tools/list_changed"
        assert note["params"]["_meta"][SUBSCRIPTION] == id


async def test_a_change_made_in_another_thread_is_told_too(shop: Workshop, at_shop: Client):
    line, _ = await subscribe(at_shop, toolsListChanged=True)
    await asyncio.to_thread(shop.server.notify_tools_changed)
    assert (await line.next_message())["method"] == "notifications/tools/list_changed"


async def test_a_subscription_to_nothing_stays_open_and_silent(shop: Workshop, at_shop: Client):
    line, agreed = await subscribe(at_shop)
    assert agreed == {}
    shop.server.notify_tools_changed()
    await at_shop.post(*call("echo"))
    await shop.server.service.close()
    assert (await line.next_message())["result"]["resultType"] == "complete"


async def test_hanging_up_ends_a_subscription(shop: Workshop, at_shop: Client):
    line, _ = await subscribe(at_shop, toolsListChanged=True)
    assert len(shop.server.hub.listeners) == 1
    line.hang_up()
    async with asyncio.timeout(PATIENCE):
        while shop.server.hub.listeners:  # noqa: ASYNC110 (nobody tells when a listener has gone)
            await asyncio.sleep(0)


async def test_a_server_that_stops_ends_its_subscriptions_with_a_result():
    shop = Workshop()
    app = shop.server.asgi()
    async with serving(app) as client:
        line, _ = await subscribe(client, id="s", toolsListChanged=True)
        shop.server.notify_tools_changed()
        await app.close()
        messages = [message async for message in line.messages()]
    assert messages[0]["method"] == "notifications/tools/list_changed"
    assert messages[1]["id"] == "s"
    assert messages[1]["result"]["_meta"][SUBSCRIPTION] == "s"
    assert len(messages) == 2


async def test_a_subscription_is_no_place_for_progress_of_other_requests(shop: Workshop, at_shop: Client):
    line, _ = await subscribe(at_shop, toolsListChanged=True)
    await at_shop.post(*call("steps", progress="token"))
    shop.server.notify_tools_changed()
    assert (await line.next_message())["method"] == "notifications/tools/list_changed"


# Hanging up


async def test_a_call_whose_client_is_still_there_is_not_cancelled(shop: Workshop, at_shop: Client):
    other = await at_shop.connect()
    waiting = asyncio.create_task(at_shop.post(*call("wait")))
    await shop.started.wait()
    other.hang_up()
    await at_shop.post(*call("echo"))
    shop.go.set()
    assert (await waiting).status == 200
    assert not shop.cancelled.is_set()


async def test_many_clients_that_hang_up_cancel_each_their_own_call(shop: Workshop, at_shop: Client):
    shop.says.put_nowait("one")
    staying = await at_shop.open(*call("speak", progress=1, id="staying"))
    lines: list[Line] = []
    for _ in range(10):
        headers, message = call("wait")
        line = await at_shop.connect()
        await line.send(http(headers=headers, body=json.dumps(message).encode()))
        lines.append(line)
    await shop.started.wait()
    for line in lines:
        line.hang_up()
    async with asyncio.timeout(PATIENCE):
        await shop.cancelled.wait()
    shop.says.put_nowait(None)
    messages = [message async for message in staying.messages()]
    assert messages[-1]["id"] == "staying"
    assert messages[-1]["result"]["content"][0]["text"] == "said 1"


# Closing


async def start_waiting(client: Client, shop: Workshop, era: str) -> "asyncio.Task[Any]":
    """A call under way, of either era."""
    session = await LegacyClient.start(client)
    waiting = asyncio.create_task(
        client.post(*call("wait", id="it")) if era == "modern" else session.call("wait", id="it")
    )
    await shop.started.wait()
    return waiting


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_is_nearly_done_when_the_server_closes_is_finished(shop: Workshop, era: str):
    app = shop.server.asgi()
    async with serving(app) as client:
        waiting = await start_waiting(client, shop, era)
        closing = asyncio.create_task(app.close())
        shop.go.set()
        assert (await waiting).result["content"][0]["text"] == "waited"
        await closing


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_would_not_end_is_told_that_the_server_closes(shop: Workshop, era: str):
    app = shop.server.asgi(pace=Pace(close_grace=0.05))
    async with serving(app) as client:
        waiting = await start_waiting(client, shop, era)
        await app.close()
        answer = await waiting
    assert shop.cancelled.is_set()
    assert answer.json["id"] == "it"
    assert "shutting down" in answer.error["message"]


async def test_a_stream_under_way_is_told_that_the_server_closes(shop: Workshop):
    app = shop.server.asgi(pace=Pace(close_grace=0.05))
    async with serving(app) as client:
        shop.says.put_nowait("one")
        line = await client.open(*call("speak", progress=1, id="it"))
        await line.next_message()
        await app.close()
        message = await line.next_message()
    assert message["id"] == "it"
    assert "shutting down" in message["error"]["message"]
