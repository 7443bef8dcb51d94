"""The legacy era over real HTTP: sessions any process can serve, streams that survive a lost connection."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.edge.workshop import Workshop
from tests.serving import PATIENCE, Client, Event, LegacyClient, Line, initialize, modern, serving
from toolyard.edge.http.legacy import MAX_PENDING_PER_SESSION
from toolyard.kit import Context, McpError, Pace, Server

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[2]
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


async def until(line: Line, method: str) -> Any:
    """Read on to a message of this method."""
    async for message in line.messages():
        if message.get("method") == method:
            return message
    raise AssertionError(f"the stream ended without {method!r}")


# The handshake


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_legacy_version_can_be_negotiated_and_used(client: Client, version: str):
    session = await LegacyClient.start(client, version)
    assert session.version == version
    assert (await session.call("echo", text="hi")).result == {"content": [{"type": "text", "text": "hi"}]}
    assert (await session.request("ping")).result == {}


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "nonsense", ""])
async def test_a_client_that_asks_for_another_version_is_offered_the_latest(client: Client, version: str):
    headers, message = initialize(version)
    answer = await client.post(headers, message)
    assert answer.result["protocolVersion"] == "2025-11-25"
    assert answer.headers["mcp-session-id"]


async def test_the_handshake_tells_who_we_are_and_what_we_have(client: Client):
    result = (await client.post(*initialize())).result
    assert result["serverInfo"] == {"name": "workshop", "version": "1.0"}
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert result["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    assert "resultType" not in result


async def test_a_session_id_is_visible_ascii_and_no_two_are_alike(client: Client):
    ids = {(await LegacyClient.start(client)).id or "" for _ in range(5)}
    assert len(ids) == 5
    assert all("!" <= character <= "~" for id in ids for character in id)


async def test_a_session_without_the_version_header_is_served(client: Client):
    session = await LegacyClient.start(client, "2025-03-26")
    headers = {name: value for name, value in session.headers.items() if name != "MCP-Protocol-Version"}
    assert (await client.post(headers, session.message("ping"))).status == 200


async def test_a_name_header_that_a_legacy_client_sends_decides_nothing(client: Client):
    session = await LegacyClient.start(client)
    headers = session.headers | {"Mcp-Name": "add", "Mcp-Method": "tools/list", "Mcp-Param-X": "\xe9"}
    params = {"name": "echo", "arguments": {"text": "hi"}}
    answer = await client.post(headers, session.message("tools/call", params))
    assert answer.result["content"][0]["text"] == "hi"


async def test_both_eras_are_served_at_one_address(client: Client):
    session = await LegacyClient.start(client)
    assert (await session.request("tools/list")).result["tools"]
    assert (await client.modern("tools/list")).result["tools"]


async def test_an_error_of_a_session_travels_under_200(client: Client):
    session = await LegacyClient.start(client)
    answer = await session.request("nonsense")
    assert (answer.status, answer.error["code"]) == (200, -32601)


# Sessions belong to no process


async def test_any_server_with_the_same_key_serves_a_session(client: Client):
    session = await LegacyClient.start(client, "2025-06-18", {"elicitation": {}})
    async with serving(Workshop().server.asgi()) as other:
        there = session.at(other)
        assert (await there.call("echo", text="hi")).result["content"][0]["text"] == "hi"
        # What the client declared at the first is known at the second.
        line = await there.open_call("greet")
        asked = await until(line, "elicitation/create")
        await there.respond(asked["id"], {"action": "decline"})
        assert (await line.next_message())["result"]["content"][0]["text"] == "Hello, decline"


async def test_a_server_with_another_key_does_not_know_the_session(client: Client):
    session = await LegacyClient.start(client)
    async with serving(Workshop(key=b"another key of enough length").server.asgi()) as other:
        answer = await session.at(other).request("ping")
    assert (answer.status, answer.error["code"]) == (404, -32001)


@asynccontextmanager
async def process(key: str) -> AsyncIterator[tuple[Client, Process]]:
    """The workshop in a process of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.edge.process",
        str(listener.fileno()),
        pass_fds=[listener.fileno()],
        cwd=ROOT,
        env=os.environ | {"TOOLYARD_KEY": key},
        stderr=asyncio.subprocess.PIPE,
    )
    client = Client(listener.getsockname()[1])
    listener.close()
    try:
        yield client, running
    finally:
        client.close()
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_a_session_outlives_the_process_that_opened_it_where_the_key_is_the_same():
    key = "a key that both processes share"
    async with process(key) as (first, running), process(key) as (second, _), process("x" * 16) as (third, _):
        session = await LegacyClient.start(first)
        assert (await session.at(second).call("echo", text="hi")).status == 200
        running.kill()
        await running.wait()
        assert (await session.at(second).call("echo", text="still")).result["content"][0]["text"] == "still"
        assert (await session.at(third).request("ping")).status == 404


async def test_a_process_told_to_stop_ends_its_streams_and_goes():
    async with process("a key of enough length") as (client, running):
        session = await LegacyClient.start(client)
        listening = await session.listen()
        assert (await anext(listening.events())).comments
        modern_line = await client.open(
            *modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        )
        await modern_line.next_message()
        running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert [message async for message in listening.messages()] == []
            last = await modern_line.next_message()
            await running.wait()
        assert last["id"] == "s"
        assert last["result"]["resultType"] == "complete"
        assert running.stderr is not None
        assert b"Traceback" not in await running.stderr.read()


# Ending a session


async def test_a_session_that_is_ended_takes_its_streams_and_calls_with_it(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    listening = await session.listen()
    waiting = asyncio.create_task(session.call("wait"))
    await shop.started.wait()
    answer = await session.end()
    assert (answer.status, answer.body) == (204, b"")
    async with asyncio.timeout(PATIENCE):
        await shop.cancelled.wait()
        assert [message async for message in listening.messages()] == []
        await waiting
    assert (await session.request("ping")).status == 404
    assert (await session.listen()).status == 404


async def test_ending_one_session_leaves_the_others(shop: Workshop, at_shop: Client):
    leaving, staying = await LegacyClient.start(at_shop), await LegacyClient.start(at_shop)
    listening = await staying.listen()
    assert (await leaving.end()).status == 204
    shop.server.notify_tools_changed()
    assert "params" not in await until(listening, TOOLS)
    assert (await staying.request("ping")).status == 200


# The listening stream


async def test_changes_of_every_list_come_on_the_listening_stream(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    line = await session.listen()
    assert line.status == 200
    assert line.headers["content-type"] == "text/event-stream"
    for notify, method in (
        (shop.server.notify_tools_changed, TOOLS),
        (shop.server.notify_prompts_changed, "notifications/prompts/list_changed"),
        (shop.server.notify_resources_changed, "notifications/resources/list_changed"),
    ):
        notify()
        assert (await line.next_message())["method"] == method


async def test_a_resource_is_told_of_only_while_it_is_subscribed_to(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    assert (await session.request("resources/subscribe", {"uri": "shop://shelf"})).status == 200
    line = await session.listen()
    shop.server.notify_resource_updated("shop://item/1")
    shop.server.notify_resource_updated("shop://shelf")
    assert (await line.next_message()) == {
        "jsonrpc": "2.0",
        "method": UPDATED,
        "params": {"uri": "shop://shelf"},
    }
    # While the stream is open, too.
    await session.request("resources/subscribe", {"uri": "shop://item/1"})
    await session.request("resources/unsubscribe", {"uri": "shop://shelf"})
    shop.server.notify_resource_updated("shop://shelf")
    shop.server.notify_resource_updated("shop://item/1")
    assert (await line.next_message())["params"] == {"uri": "shop://item/1"}


async def test_subscriptions_survive_the_listening_stream(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    first = await session.listen()
    await session.request("resources/subscribe", {"uri": "shop://shelf"})
    first.hang_up()
    second = await session.listen()
    shop.server.notify_resource_updated("shop://shelf")
    assert (await until(second, UPDATED))["params"]["uri"] == "shop://shelf"


async def test_each_session_is_told_once(shop: Workshop, at_shop: Client):
    sessions = [await LegacyClient.start(at_shop) for _ in range(3)]
    lines = [await session.listen() for session in sessions]
    shop.server.notify_tools_changed()
    for session, line in zip(sessions, lines, strict=True):
        assert (await line.next_message())["method"] == TOOLS
        await session.end()
        assert [message async for message in line.messages()] == []


async def test_a_subscription_of_one_session_tells_no_other(shop: Workshop, at_shop: Client):
    subscriber, other = await LegacyClient.start(at_shop), await LegacyClient.start(at_shop)
    await subscriber.request("resources/subscribe", {"uri": "shop://shelf"})
    lines = [await subscriber.listen(), await other.listen()]
    shop.server.notify_resource_updated("shop://shelf")
    shop.server.notify_tools_changed()
    assert {(await lines[0].next_message())["method"] for _ in range(2)} == {UPDATED, TOOLS}
    assert (await lines[1].next_message())["method"] == TOOLS


async def test_a_second_listening_stream_replaces_the_first(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    first = await session.listen()
    second = await session.listen()
    assert [message async for message in first.messages()] == []
    shop.server.notify_tools_changed()
    assert (await second.next_message())["method"] == TOOLS


async def test_a_log_level_that_was_set_holds_for_later_requests(client: Client):
    session = await LegacyClient.start(client)

    async def logged() -> list[str]:
        answer = await session.call("log", text="a")
        notes = [event.json for event in answer.events if event.is_message] if answer.is_stream else []
        return [note["params"]["data"] for note in notes if "method" in note]

    assert await logged() == ["a info", "a error"]
    assert (await session.request("logging/setLevel", {"level": "error"})).result == {}
    assert await logged() == ["a error"]
    await session.request("logging/setLevel", {"level": "debug"})
    assert await logged() == ["a debug", "a info", "a error"]
    await session.request("logging/setLevel", {"level": "emergency"})
    assert await logged() == []


# Streams of calls


async def test_a_call_that_reports_progress_streams_and_ends_with_its_result(client: Client):
    session = await LegacyClient.start(client)
    line = await session.open_call("steps", id="it", progress="token", count=2)
    *notes, reply = [message async for message in line.messages()]
    assert [note["params"] for note in notes] == [
        {"progressToken": "token", "progress": 1, "total": 2},
        {"progressToken": "token", "progress": 2, "total": 2},
    ]
    assert reply["id"] == "it"
    assert reply["result"]["content"][0]["text"] == "2 steps"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_stream_is_primed_for_those_who_know_what_that_means(client: Client, version: str):
    session = await LegacyClient.start(client, version)
    events = (await session.request("tools/call", {"name": "log"})).events
    assert len({event.id for event in events}) == len(events)
    assert None not in {event.id for event in events}
    primed = events[0].data == ""
    assert primed == (version == "2025-11-25")
    assert all(event.is_message for event in events[1:])
    assert (events[0].retry is not None) == primed


RATHER_STREAMS = [
    "text/event-stream, application/json",
    "application/json;q=0.5, text/event-stream",
    "*/*, text/event-stream",
]
RATHER_JSON = [
    "application/json, text/event-stream",
    "text/event-stream;q=0.9, application/json",
    "application/json;q=0.9, text/event-stream;q=0",
    "application/json, */*",
    "*/*",
]


@pytest.mark.parametrize("accept", RATHER_STREAMS)
async def test_a_client_that_names_streams_first_is_answered_with_one(client: Client, accept: str):
    session = await LegacyClient.start(client)
    headers = session.headers | {"Accept": accept}
    for name, expected in (("echo", "result"), ("nobody", "error")):
        answer = await client.post(headers, session.message("tools/call", {"name": name, "arguments": {}}))
        assert answer.is_stream
        priming, last = answer.events
        assert (priming.data, priming.retry) == ("", 1000)
        assert expected in last.json
        again = await session.listen(priming.id)
        assert [event async for event in again.events() if event.id is not None] == [last]


@pytest.mark.parametrize("accept", RATHER_JSON)
async def test_any_other_client_is_answered_with_json_where_that_will_do(client: Client, accept: str):
    session = await LegacyClient.start(client)
    message = session.message("tools/call", {"name": "echo", "arguments": {"text": "it"}})
    answer = await client.post(session.headers | {"Accept": accept}, message)
    assert not answer.is_stream
    assert answer.result["content"][0]["text"] == "it"


async def test_a_client_that_takes_no_stream_gets_its_answer_as_json(client: Client):
    session = await LegacyClient.start(client)
    headers = session.headers | {"Accept": "application/json"}
    params = {"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}}
    answer = await client.post(headers, session.message("tools/call", params))
    assert answer.result["content"][0]["text"] == "3 steps"


async def read(line: Line, count: int) -> list[Event]:
    """The next events that carry an id."""
    found: list[Event] = []
    if count:
        async for event in line.events():
            if event.id is not None:
                found.append(event)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("seen", [1, 2, 3, 4])
async def test_a_call_that_lost_its_connection_is_resumed_without_loss_or_double(
    shop: Workshop, at_shop: Client, seen: int
):
    session = await LegacyClient.start(at_shop)
    texts = ["one", "two", "three", "four", "five"]
    for text in texts:
        shop.says.put_nowait(text)
    line = await session.open_call("speak", id="it", progress="p")
    before = await read(line, seen)
    line.hang_up()
    shop.says.put_nowait(None)
    await shop.finished.wait()
    again = await session.listen(before[-1].id)
    after = [event async for event in again.events() if event.id is not None]
    events = [*before, *after]
    assert len({event.id for event in events}) == len(events)
    *notes, reply = [event.json for event in events if event.is_message]
    assert [note["params"]["message"] for note in notes] == texts
    assert reply["id"] == "it"
    assert reply["result"]["content"][0]["text"] == "said 5"


async def test_a_call_may_be_resumed_while_it_runs_and_more_than_once(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    shop.says.put_nowait("one")
    line = await session.open_call("speak", progress="p")
    events = await read(line, 2)
    for text in ("two", "three"):
        line.hang_up()
        line = await session.listen(events[-1].id)
        shop.says.put_nowait(text)
        events += await read(line, 1)
    shop.says.put_nowait(None)
    events += await read(line, 1)
    assert [event.json["params"]["message"] for event in events[1:4]] == ["one", "two", "three"]
    assert events[4].json["result"]["content"][0]["text"] == "said 3"
    assert [event async for event in line.events()] == []


async def test_the_listening_stream_is_resumed_without_loss_or_double(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    line = await session.listen()
    shop.server.notify_tools_changed()
    (first,) = await read(line, 1)
    line.hang_up()
    shop.server.notify_prompts_changed()
    again = await session.listen(first.id)
    (second,) = await read(again, 1)
    assert second.json["method"] == "notifications/prompts/list_changed"
    shop.server.notify_resources_changed()
    (third,) = await read(again, 1)
    assert third.json["method"] == "notifications/resources/list_changed"
    assert len({first.id, second.id, third.id}) == 3


async def test_a_stream_resumed_from_an_earlier_event_is_replayed_from_there(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    line = await session.open_call("steps", progress="p", count=3)
    events = await read(line, 5)
    for place, event in enumerate(events):
        again = await session.listen(event.id)
        assert [found async for found in again.events() if found.id is not None] == events[place + 1 :]


async def test_a_resumed_listening_stream_takes_over_from_a_connection_still_open(
    shop: Workshop, at_shop: Client
):
    # The client noticed before we did that its connection was dead; no message may go out twice.
    session = await LegacyClient.start(at_shop)
    stale = await session.listen()
    shop.server.notify_tools_changed()
    (first,) = await read(stale, 1)
    fresh = await session.listen(first.id)
    shop.server.notify_prompts_changed()
    assert len(await read(fresh, 1)) == 1
    assert [message async for message in stale.messages()] == []


@pytest.mark.parametrize("last", ["made-up.1", "x", "", ".", "1", "²", "\xff", "x" * 5000])
async def test_an_event_id_we_do_not_know_opens_a_new_listening_stream(
    shop: Workshop, at_shop: Client, last: str
):
    session = await LegacyClient.start(at_shop)
    line = await session.listen(last)
    assert line.status == 200
    shop.server.notify_tools_changed()
    assert (await line.next_message())["method"] == TOOLS


@pytest.mark.parametrize("number", ["0", "-1", "\xb2", "1e9", "9" * 20, "", "x", "1 2"])
async def test_a_strange_position_in_a_stream_of_ours_does_no_harm(client: Client, number: str):
    session = await LegacyClient.start(client)
    line = await session.open_call("steps", progress="p", count=1)
    (event, *_) = await read(line, 3)
    assert event.id is not None
    assert (await session.listen(f"{event.id.rpartition('.')[0]}.{number}")).status in (200, 400)


async def test_a_stream_of_another_session_is_not_replayed(shop: Workshop, at_shop: Client):
    owner, other = await LegacyClient.start(at_shop), await LegacyClient.start(at_shop)
    line = await owner.open_call("steps", progress="secret", count=2)
    events = await read(line, 4)
    stolen = await other.listen(events[0].id)
    shop.server.notify_tools_changed()
    assert (await stolen.next_message())["method"] == TOOLS


async def test_a_tool_may_let_its_connection_go_and_be_found_again(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    line = await session.open_call("close_and_wait", id="it")
    events = [event async for event in line.events() if event.id is not None]
    assert events[-1].retry == 7
    assert not any(event.is_message for event in events)
    again = await session.listen(events[-1].id)
    shop.go.set()
    (message,) = [message async for message in again.messages()]
    assert message["id"] == "it"
    assert message["result"]["content"][0]["text"] == "came back"


async def test_silent_streams_are_kept_alive(shop: Workshop):
    pace = Pace(watch_after=0.01, stream_after=0.02, ping_every=0.02)
    async with serving(shop.server.asgi(pace=pace)) as client:
        session = await LegacyClient.start(client)
        for line in (await session.listen(), await session.open_call("wait")):
            comments = 0
            async for event in line.events():
                comments += bool(event.comments)
                if comments == 3:
                    break
        shop.go.set()


async def test_a_call_that_ran_long_in_silence_can_be_resumed_too(shop: Workshop):
    pace = Pace(watch_after=0.01, stream_after=0.02)
    async with serving(shop.server.asgi(pace=pace)) as client:
        session = await LegacyClient.start(client)
        line = await session.open_call("wait", id="it")
        (primed,) = await read(line, 1)
        line.hang_up()
        again = await session.listen(primed.id)
        shop.go.set()
        assert (await again.next_message())["id"] == "it"


async def test_a_stream_nobody_comes_back_for_is_forgotten(shop: Workshop):
    async with serving(shop.server.asgi(pace=Pace(keep_streams=0.05))) as client:
        session = await LegacyClient.start(client)
        line = await session.open_call("steps", progress="p")
        (first, *_) = await read(line, 5)
        await asyncio.sleep(0.2)  # time is what this is about
        again = await session.listen(first.id)
        shop.server.notify_tools_changed()
        assert (await again.next_message())["method"] == TOOLS


async def test_a_stream_is_not_forgotten_while_its_call_runs(shop: Workshop):
    async with serving(shop.server.asgi(pace=Pace(keep_streams=0.05))) as client:
        session = await LegacyClient.start(client)
        shop.says.put_nowait("one")
        line = await session.open_call("speak", id="it", progress="p")
        events = await read(line, 2)
        # Come back and be lost again, longer than an ended stream is kept.
        line.hang_up()
        again = await session.listen(events[-1].id)
        assert (await anext(again.events())).comments
        again.hang_up()
        await asyncio.sleep(0.3)  # time is what this is about
        shop.says.put_nowait(None)
        last = await session.listen(events[-1].id)
        assert (await last.next_message())["id"] == "it"


async def test_a_question_nobody_answers_is_given_up(shop: Workshop):
    async with serving(shop.server.asgi(pace=Pace(ask_timeout=0.05))) as client:
        session = await LegacyClient.start(client, capabilities={"elicitation": {}})
        line = await session.open_call("greet", id="it")
        await until(line, "elicitation/create")
        reply = await line.next_message()
        assert reply["id"] == "it"
        assert "in time" in str(reply)


# Questions to the client


async def test_a_question_comes_on_the_calls_own_stream_and_its_answer_by_post(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet", id="it")
    asked = await line.next_message()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["message"] == "Your name?"
    answer = await session.respond(asked["id"], {"action": "accept", "content": {"name": "Ada"}})
    assert (answer.status, answer.body) == (202, b"")
    reply = await line.next_message()
    assert reply["id"] == "it"
    assert reply["result"]["content"][0]["text"] == "Hello Ada"


async def test_a_sample_is_asked_for_on_the_calls_own_stream(client: Client):
    session = await LegacyClient.start(client, capabilities={"sampling": {}})
    line = await session.open_call("think")
    asked = await line.next_message()
    assert asked["method"] == "sampling/createMessage"
    assert asked["params"]["maxTokens"] == 10
    content = {"type": "text", "text": "So I am."}
    await session.respond(asked["id"], {"role": "assistant", "content": content, "model": "m"})
    assert (await line.next_message())["result"]["content"][0]["text"] == "So I am."


async def test_a_question_may_be_answered_with_an_error(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet", id="it")
    asked = await line.next_message()
    await session.send(
        {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "The user has gone"}}
    )
    reply = await line.next_message()
    assert reply["id"] == "it"
    assert "The user has gone" in str(reply)


@pytest.mark.parametrize(
    "answer", [{}, {"action": "maybe"}, {"action": "accept", "content": {"name": 5}}, None, []]
)
async def test_an_answer_that_makes_no_sense_is_an_error_the_model_can_read(client: Client, answer: Any):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet")
    asked = await line.next_message()
    assert (await session.respond(asked["id"], answer)).status == 202
    assert (await line.next_message())["result"]["isError"] is True


async def test_an_answer_of_another_session_is_not_taken(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    thief = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet")
    asked = await line.next_message()
    await thief.respond(asked["id"], {"action": "accept", "content": {"name": "Eve"}})
    await session.respond(asked["id"], {"action": "accept", "content": {"name": "Ada"}})
    assert (await line.next_message())["result"]["content"][0]["text"] == "Hello Ada"


async def test_a_question_is_answered_once(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet")
    asked = await line.next_message()
    for name in ("Ada", "Eve"):
        answer = await session.respond(asked["id"], {"action": "accept", "content": {"name": name}})
        assert answer.status == 202
    assert (await line.next_message())["result"]["content"][0]["text"] == "Hello Ada"


async def test_a_question_asked_while_the_client_was_away_is_found_again(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet")
    (primed,) = await read(line, 1)
    line.hang_up()
    again = await session.listen(primed.id)
    asked = await until(again, "elicitation/create")
    await session.respond(asked["id"], {"action": "cancel"})
    assert (await again.next_message())["result"]["content"][0]["text"] == "Hello, cancel"


@pytest.mark.parametrize("tool", ["greet", "think"])
async def test_a_client_that_declared_nothing_is_not_asked(client: Client, tool: str):
    session = await LegacyClient.start(client)
    answer = await session.call(tool)
    assert answer.result["isError"] is True


# Cancellation


async def test_a_cancelled_call_is_stopped_and_its_connection_freed(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    waiting = asyncio.create_task(session.call("wait", id="it"))
    await shop.started.wait()
    answer = await session.notify("notifications/cancelled", {"requestId": "it", "reason": "enough"})
    assert answer.status == 202
    async with asyncio.timeout(PATIENCE):
        await shop.cancelled.wait()
        ended = await waiting
    assert "error" in ended.json
    assert not shop.finished.is_set()
    assert (await session.request("ping", id="it")).status == 200


async def test_a_cancelled_stream_ends(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    shop.says.put_nowait("one")
    line = await session.open_call("speak", id=7, progress="p")
    assert (await line.next_message())["params"]["message"] == "one"
    await session.notify("notifications/cancelled", {"requestId": 7})
    async with asyncio.timeout(PATIENCE):
        await shop.cancelled.wait()
        rest = [message async for message in line.messages()]
    assert not any("result" in message for message in rest)


async def test_only_the_session_that_asked_can_cancel(shop: Workshop, at_shop: Client):
    session, other = await LegacyClient.start(at_shop), await LegacyClient.start(at_shop)
    waiting = asyncio.create_task(session.call("wait", id=1))
    await shop.started.wait()
    await other.notify("notifications/cancelled", {"requestId": 1})
    await session.notify("notifications/cancelled", {"requestId": 2})
    await session.notify("notifications/cancelled", {"requestId": "1"})
    shop.go.set()
    assert (await waiting).result["content"][0]["text"] == "waited"


async def test_a_call_that_is_being_asked_can_be_cancelled(client: Client):
    session = await LegacyClient.start(client, capabilities={"elicitation": {}})
    line = await session.open_call("greet", id="it")
    await until(line, "elicitation/create")
    await session.notify("notifications/cancelled", {"requestId": "it"})
    rest = [message async for message in line.messages()]
    assert not any("result" in message for message in rest)


async def test_an_id_in_use_is_refused_and_the_first_call_goes_on(shop: Workshop, at_shop: Client):
    session = await LegacyClient.start(at_shop)
    waiting = asyncio.create_task(session.call("wait", id="it"))
    await shop.started.wait()
    assert (await session.call("echo", id="it")).error["code"] == -32600
    other = await LegacyClient.start(at_shop)
    assert (await other.call("echo", id="it", text="x")).status == 200
    shop.go.set()
    assert (await waiting).result["content"][0]["text"] == "waited"


async def test_one_session_cannot_use_up_the_questions_of_all(client: Client):
    greedy = await LegacyClient.start(client, capabilities={"elicitation": {}})
    lines = [await greedy.open_call("greet", id=n) for n in range(MAX_PENDING_PER_SESSION)]
    for line in lines:
        await until(line, "elicitation/create")
    refused = await greedy.call("greet", id="one more")
    assert "Too many requests to the client" in refused.error["message"]
    other = await LegacyClient.start(client, capabilities={"elicitation": {}})
    asked = await until(await other.open_call("greet"), "elicitation/create")
    assert (await other.respond(asked["id"], {"action": "decline"})).status == 202
    await greedy.end()


async def test_a_question_to_a_client_that_has_gone_for_good_is_given_up():
    server = Server("asking")
    gave_up = asyncio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("Your name?", {"type": "object", "properties": {}})
        except McpError:
            gave_up.set()
        return "done"

    async with serving(server.asgi(pace=Pace(watch_after=0.01, keep_streams=0.01))) as client:
        session = await LegacyClient.start(client, capabilities={"elicitation": {}})
        line = await session.open_call("ask")
        await until(line, "elicitation/create")
        line.hang_up()
        async with asyncio.timeout(PATIENCE):
            await gave_up.wait()
