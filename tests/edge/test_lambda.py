"""The edge of a function: both eras without a connection, and what a function cannot do is said."""

import asyncio
import gc
import json
import sys
import threading
from contextlib import suppress
from typing import Any, cast

import pytest

from tests.edge.lambda_client import LambdaClient
from tests.edge.workshop import KEY, Workshop
from tests.serving import Client, LegacyClient, initialize, modern
from toolyard.edge.aws.events import BufferedResponse, EventRequest, read_event
from toolyard.edge.aws.function import LambdaEdge, LambdaRoute
from toolyard.edge.request import CallerKeys, Headers, Refused
from toolyard.kit import Context
from toolyard.wire.call import Call, Secret, Service

ORIGIN = "https://app.example"


def edge_of(shop: Workshop, keys: CallerKeys | None = None, **options: Any) -> LambdaEdge:
    server = shop.server
    entry = LambdaRoute(server.name, server.service, server.sealer, keys)
    return LambdaEdge({"/mcp": entry}, **options)


def client_of(shop: Workshop, **options: Any) -> LambdaClient:
    return LambdaClient(edge_of(shop, **options))


async def session(client: LambdaClient, **options: Any) -> LegacyClient:
    return await LegacyClient.start(cast(Client, client), **options)


async def test_a_modern_client_lists_and_calls():
    client = client_of(Workshop())
    listed = await client.modern("tools/list")
    assert "echo" in [tool["name"] for tool in listed.result["tools"]]
    called = await client.modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
    assert (called.status, called.headers["content-type"]) == (200, "application/json")
    assert called.result["content"][0]["text"] == "hello"
    assert (await client.modern("tools/call", {"name": "nothing"})).status == 400


async def test_a_legacy_session_begun_at_one_instance_goes_on_at_another():
    begun = await session(client_of(Workshop()))
    elsewhere = begun.at(cast(Client, client_of(Workshop())))
    assert (await elsewhere.call("add", a=2, b=3)).result["structuredContent"] == {"result": 5}


@pytest.mark.parametrize("id", [None, "made-up", "no,ne", "foreign"])
async def test_each_legacy_request_stands_alone_without_a_session_or_with_an_unknown_one(id: str | None):
    client = client_of(Workshop())
    if id == "foreign":
        id = (await session(client_of(Workshop(key=KEY + b", another")))).id
    alone = LegacyClient(cast(Client, client), "2025-11-25", id)
    assert (await alone.call("add", a=2, b=3)).result["structuredContent"] == {"result": 5}
    told = await alone.call("anything", value=1)
    assert told.result["content"][0]["text"].endswith("from unknown"), "nothing of a foreign session counts"
    assert (await alone.request("logging/setLevel", {"level": "debug"})).result == {}
    assert (await alone.request("resources/subscribe", {"uri": "shop://shelf"})).error["code"] == -32601
    for method in ("notifications/initialized", "notifications/cancelled", "notifications/x"):
        assert (await alone.notify(method, {"requestId": 1})).status == 202
    assert (await alone.respond("ask-1", {})).status == 202
    assert "mcp-session-id" not in told.headers


async def test_the_answers_of_a_session_name_it():
    client = client_of(Workshop())
    begun = await session(client)
    for answer in (
        await begun.call("add", a=2, b=3),
        await begun.call("steps"),
        await begun.request("nonsense"),
        await begun.notify("notifications/cancelled", {"requestId": 1}),
        await begun.respond("ask-1", {}),
    ):
        assert answer.headers["mcp-session-id"] == begun.id


async def test_a_request_as_curl_sends_it_needs_no_accept_and_no_handshake():
    headers = {"content-type": "application/json"}
    client = client_of(Workshop())
    listed = await client.post(headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert listed.result["tools"]


async def test_what_a_handler_says_comes_with_the_answer_to_those_who_take_streams():
    client = client_of(Workshop())
    headers, message = modern("tools/call", {"name": "steps", "arguments": {"count": 2}}, progress="p")
    answer = await client.post(headers, message)
    assert [event.json.get("method") for event in answer.events] == ["notifications/progress"] * 2 + [None]
    assert answer.events[-1].json["result"]["content"][0]["text"] == "2 steps"
    plain = await client.post(headers | {"Accept": "application/json"}, message)
    assert plain.result["content"][0]["text"] == "2 steps"
    begun = await session(client)
    assert [event.json["params"]["level"] for event in (await begun.call("log")).events[:-1]] == [
        "info",
        "error",
    ]


async def test_very_many_notifications_leave_room_for_the_answer():
    shop = Workshop()

    @shop.server.tool
    async def chatter(ctx: Context) -> str:
        """Says more than a reply can hold."""
        for _ in range(20):
            await ctx.log("error", "x" * 500_000)
        return "done"

    answer = await (await session(client_of(shop))).call("chatter")
    assert answer.events[-1].json["result"]["content"][0]["text"] == "done"
    assert 2 < len(answer.events) < 20


async def test_a_legacy_client_cannot_be_asked_and_a_modern_one_can():
    client = client_of(Workshop())
    begun = await session(client, capabilities={"elicitation": {}})
    error = (await begun.call("greet")).error
    assert "'elicitation/create' is not available" in error["message"]
    answer = await client.modern(
        "tools/call", {"name": "greet", "arguments": {}}, capabilities={"elicitation": {}}
    )
    assert answer.result["resultType"] == "input_required"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
async def test_only_post_is_allowed_at_the_endpoint(method: str):
    answer = await client_of(Workshop()).ask(method, "/mcp", {"accept": "text/event-stream"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


async def test_listening_and_subscribing_are_refused_as_unknown():
    client = client_of(Workshop())
    refused = await client.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert (refused.status, refused.error["code"]) == (404, -32601)
    begun = await session(client)
    assert (await begun.request("resources/subscribe", {"uri": "shop://shelf"})).error["code"] == -32601


async def test_paths_end_with_a_slash_or_not_and_others_are_not_there():
    client = client_of(Workshop())
    headers, message = modern("tools/list")
    assert (await client.post(headers, message, path="/mcp/")).status == 200
    missing = await client.post(headers, message, path="/")
    assert missing.status == 404
    assert "'/mcp'" in missing.error["message"]
    assert (await client.ask("GET", "/health", {})).json["status"] == "ok"
    assert (await client.ask("HEAD", "/health/", {})).body == b""
    assert (await client.ask("POST", "/health", {})).status == 405


async def test_several_servers_have_a_path_each():
    shops = [Workshop(), Workshop()]
    entries = {
        f"/mcp/{number}": LambdaRoute(str(number), shop.server.service, shop.server.sealer)
        for number, shop in enumerate(shops)
    }
    client = LambdaClient(LambdaEdge(entries))
    headers, message = modern("tools/list")
    assert [(await client.post(headers, message, path=path)).status for path in entries] == [200, 200]
    assert (await client.post(headers, message)).status == 404
    assert len((await client.ask("GET", "/health", {})).json["servers"]) == 2


async def test_a_page_of_any_origin_may_call_unless_some_are_named():
    client = client_of(Workshop())
    asked = {"origin": ORIGIN, "access-control-request-headers": "x-tiflux-api-key, content-type"}
    preflight = await client.ask("OPTIONS", "/mcp", asked)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert preflight.headers["access-control-allow-headers"] == "x-tiflux-api-key, content-type"
    assert (await client.ask("OPTIONS", "/mcp", {})).headers["access-control-allow-origin"] == "*"
    headers, message = modern("tools/list")
    answer = await client.post(headers | {"origin": ORIGIN}, message)
    assert answer.headers["access-control-allow-origin"] == ORIGIN

    strict = client_of(Workshop(), origins=[ORIGIN])
    assert (await strict.post(headers | {"origin": ORIGIN}, message)).status == 200
    assert (await strict.post(headers | {"origin": "https://elsewhere.example"}, message)).status == 403
    assert (await strict.post(headers, message)).status == 200


async def test_forms_that_cannot_be_read_are_refused():
    client = client_of(Workshop())
    headers, message = modern("tools/list")
    lower = {name.lower(): value for name, value in headers.items()}
    assert (await client.post(lower | {"content-type": "text/plain"}, message)).status == 415
    assert (
        await client.post(lower | {"content-type": "application/json,application/json"}, message)
    ).status == 415
    assert (await client.post(lower | {"accept": "text/html"}, message)).status == 406
    assert (await client.post(lower, b"")).status == 400
    assert (await client.post(lower, b"{")).error["code"] == -32700
    assert (await client.post(lower, b"[]")).status == 400
    assert (await client.post(lower, b'"' + b"x" * 6 * 1024 * 1024 + b'"')).status == 413
    assert (await client.post(lower | {"MCP-Protocol-Version": "2026-07-28"}, message)).error[
        "code"
    ] == -32020
    assert (await client.post(lower | {"x-long": "x" * 20_000}, message)).status == 431


async def test_an_initialize_that_cannot_be_read_opens_nothing():
    headers, message = initialize()
    answer = await client_of(Workshop()).post(headers, message | {"params": {"protocolVersion": 3}})
    assert answer.status == 400
    assert "mcp-session-id" not in answer.headers


async def test_an_unforeseen_failure_says_nothing_of_the_inside():
    answer = await client_of(Workshop()).modern("tools/call", {"name": "broken", "arguments": {}})
    assert answer.result["isError"]
    assert "Secret" not in str(answer.json)


async def test_a_call_is_stopped_and_answered_before_the_time_is_up():
    shop = Workshop()
    client = LambdaClient(edge_of(shop), seconds=1.0)
    answer = await client.modern("tools/call", {"name": "wait", "arguments": {}})
    assert (answer.status, answer.result["isError"], answer.result["resultType"]) == (200, True, "complete")
    assert "timed out" in answer.result["content"][0]["text"]
    assert shop.cancelled.is_set()
    begun = await session(client)
    assert (await begun.call("wait")).result["isError"]
    assert (await begun.call("echo", text="again")).result["content"][0]["text"] == "again"


async def test_a_notification_that_is_over_too_late_says_nothing_more():
    told, ended = list[int](), asyncio.Event()

    class Stubborn:
        async def handle(self, call: Call) -> None:
            while not ended.is_set():
                with suppress(asyncio.CancelledError):
                    await ended.wait()

    class Heard(BufferedResponse):
        async def start(self, status: int, headers: Headers) -> None:
            told.append(status)

    edge = LambdaEdge({"/mcp": LambdaRoute("stubborn", cast(Service, Stubborn()), Workshop().server.sealer)})
    headers, message = modern("notifications/anything")
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    del message["id"]
    await edge.serve(
        EventRequest("POST", "/mcp", pairs, json.dumps(message).encode(), "v2"), Heard("v2"), 0.05
    )
    ended.set()
    await asyncio.wait(asyncio.all_tasks() - {cast("asyncio.Task[None]", asyncio.current_task())})
    assert told == [504]


async def test_a_key_is_let_go_of_even_where_the_answer_cannot_be_sent():
    calls: list[Call] = []

    class Endless:
        async def handle(self, call: Call) -> None:
            calls.append(call)
            await asyncio.Event().wait()

    class Broken(BufferedResponse):
        async def start(self, status: int, headers: Headers) -> None:
            raise ConnectionError("nobody takes it")

    keys = CallerKeys(("x-key",))
    edge = LambdaEdge(
        {"/mcp": LambdaRoute("endless", cast(Service, Endless()), Workshop().server.sealer, keys)}
    )
    headers, message = modern("tools/call", {"name": "any", "arguments": {}})
    pairs = [
        (name.lower().encode(), value.encode()) for name, value in (headers | {"x-key": "a-key"}).items()
    ]
    request = EventRequest("POST", "/mcp", pairs, json.dumps(message).encode(), "v2")
    with pytest.raises(ConnectionError):
        await edge.serve(request, Broken("v2"), 0.05)
    assert [call.secrets for call in calls] == [None]


@pytest.mark.parametrize("text", ["a", '"', "\\", "\n", "é", "€", "😀", "\u2028", 'é"\\\n😀x'])
def test_a_reply_weighs_at_least_what_the_runtime_makes_of_it(text: str):
    for size in (100, 100_000):
        chunk = text * size
        as_sent = len(json.dumps(chunk, ensure_ascii=sys.version_info < (3, 12)).encode()) - 2
        assert (
            as_sent <= BufferedResponse("v2").size_of(chunk.encode()) <= max(3 * len(chunk.encode()), as_sent)
        )


async def test_a_call_that_cannot_be_stopped_is_answered_in_time_too():
    shop, let_go, ended = Workshop(), threading.Event(), asyncio.Event()

    @shop.server.tool
    def blocks() -> str:
        """Sits in its thread, whatever happens."""
        let_go.wait()
        return "at last"

    @shop.server.tool
    async def stubborn() -> str:
        """Does not hear that it should stop."""
        while not ended.is_set():
            with suppress(asyncio.CancelledError):
                await ended.wait()
        return "at last"

    client = LambdaClient(edge_of(shop), seconds=0.5)
    try:
        for tool in ("blocks", "stubborn"):
            answer = await client.modern("tools/call", {"name": tool, "arguments": {}})
            assert "timed out" in answer.result["content"][0]["text"]
        again = await client.modern("tools/call", {"name": "echo", "arguments": {"text": "again"}})
        assert again.result["content"][0]["text"] == "again"
    finally:
        let_go.set()
        ended.set()


# Callers' keys


class Gate:
    """Lets in who has the right key, after a while or never."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def admit(self, key: Secret) -> None:
        self.asked.append(key.fingerprint)
        if key.reveal() == "waits":
            await asyncio.Event().wait()
        if key.reveal() == "wrong":
            raise Refused(403, "This key is not admitted")


def keyed(gate: Gate) -> CallerKeys:
    return CallerKeys(("x-tiflux-api-key", "authorization"), admit=gate.admit)


async def test_a_request_without_a_key_or_with_one_that_cannot_be_used_is_turned_away():
    client = client_of(Workshop(), keys=keyed(Gate()))
    headers, message = modern("tools/list")
    missing = await client.post(headers, message)
    assert (missing.status, missing.headers["www-authenticate"]) == (401, "Bearer")
    assert "x-tiflux-api-key" in missing.error["message"]
    for unusable in ("a\nb", "kéy", "one,two", "a b"):
        refused = await client.post(headers | {"x-tiflux-api-key": unusable}, message)
        assert refused.status == 401
        assert unusable not in refused.body.decode()
    doubled = await client.post(headers | {"x-tiflux-api-key": "a", "X-Tiflux-Api-Key": "b"}, message)
    assert doubled.status == 400
    assert (await client.post(headers | {"x-tiflux-api-key": "wrong"}, message)).status == 403
    login = await client.post(headers, message, path="/register")
    assert login.status == 404
    assert "no login: send a key" in login.error["message"]
    assert "'x-tiflux-api-key' or 'authorization: Bearer …'" in login.error["message"]
    assert (await client.post(headers | {"Authorization": "Bearer right"}, message)).status == 200
    assert (await client.ask("GET", "/health", {})).status == 200


async def test_a_gate_that_never_answers_does_not_cost_the_answer():
    client = LambdaClient(edge_of(Workshop(), keys=keyed(Gate())), seconds=0.2)
    headers, message = modern("tools/list")
    late = await client.post(headers | {"x-tiflux-api-key": "waits"}, message)
    assert late.status == 504
    assert "timed out" in late.error["message"]


async def test_a_session_belongs_to_the_key_that_began_it():
    client = client_of(Workshop(), keys=keyed(Gate()))
    headers, message = initialize()
    mine = {"x-tiflux-api-key": "mine"}
    id = (await client.post(headers | mine, message)).headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    in_session = headers | {"mcp-session-id": id}
    assert (await client.post(in_session | mine, ping)).headers["mcp-session-id"] == id
    answer = await client.post(in_session | {"x-tiflux-api-key": "other"}, ping)
    assert (answer.status, "mcp-session-id" in answer.headers) == (200, False)


async def test_no_key_is_held_when_its_request_is_answered():
    gate = Gate()
    client = LambdaClient(edge_of(Workshop(), keys=keyed(gate)), seconds=1.0)
    for tool, status in (("echo", 200), ("broken", 200), ("nothing", 400), ("wait", 200)):
        headers, message = modern("tools/call", {"name": tool, "arguments": {}})
        answer = await client.post(headers | {"x-tiflux-api-key": f"key-of-{tool}"}, message)
        assert answer.status == status
    assert len(set(gate.asked)) == 4
    gc.collect()
    held = [thing.fingerprint for thing in gc.get_objects() if isinstance(thing, Secret)]
    assert not set(held) & set(gate.asked)


@pytest.mark.parametrize("name", ["x-tiflux-api-key", "authorization"])
@pytest.mark.parametrize("form", ["a list", "two cases"])
async def test_a_key_that_came_twice_is_refused_in_every_form_of_event_that_tells(name: str, form: str):
    headers, message = modern("tools/list")
    values = ["Bearer mine", "Bearer yours"] if name == "authorization" else ["mine", "yours"]
    doubled = {name: values} if form == "a list" else {name: values[:1], name.title(): values[1:]}
    many = {**{key: [value] for key, value in headers.items()}, **doubled}
    event = {"httpMethod": "POST", "path": "/mcp", "body": json.dumps(message), "multiValueHeaders": many}
    outlet = BufferedResponse("v1")
    await edge_of(Workshop(), keyed(Gate())).serve(read_event(event), outlet, None)
    reply = outlet.reply()
    assert reply["statusCode"] == 400
    assert f"The header '{name}' was sent more than once" in reply["body"]
