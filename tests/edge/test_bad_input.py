"""Bad input over real HTTP: the specified status, code and id, nothing from inside, the server goes on."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.edge.workshop import KEY, Workshop
from tests.serving import (
    BOTH,
    MODERN,
    PATIENCE,
    PREFIX,
    Answer,
    Client,
    LegacyClient,
    assert_nothing_leaks,
    http,
    initialize,
    modern,
    serving,
)
from toolyard.edge.request import Pace
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_BODY = 300_000
ECHO = {"name": "echo", "arguments": {"text": "hi"}}
ABSENT = object()


def by_tenant(headers: list[tuple[bytes, bytes]]) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"local").decode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    pace = Pace(stream_after=3600.0)
    async with serving(Workshop().server.asgi(max_body=MAX_BODY, identify=by_tenant, pace=pace)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def session(client: Client) -> LegacyClient:
    return await LegacyClient.start(client)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def still_serving(client: Client) -> AsyncIterator[None]:
    """After each test the same server still answers a good request."""
    yield
    answer = await client.modern("tools/call", ECHO, id="after")
    assert answer.status == 200
    assert answer.result["content"][0]["text"] == "hi"


def assert_refused(answer: Answer, status: int, code: int, id: Any = ABSENT) -> None:
    assert (answer.status, answer.error["code"]) == (status, code), answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.json.get("id", ABSENT) == id, answer
    assert answer.json["jsonrpc"] == "2.0"
    assert answer.error["message"]
    assert_nothing_leaks(answer.body)


def raw_message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


# Bodies that are no message, alike in both eras

NOT_JSON = {
    "empty": b"",
    "text": b"hello",
    "half": b'{"jsonrpc":"2.0","id":1,"method":"tools/li',
    "two": raw_message(id=1, method="ping") + raw_message(id=2, method="ping"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":NaN}}',
    "half a surrogate": b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    "invalid UTF-8": b'{"jsonrpc":"2.0","method":"tools/list","params":{"cursor":"\xff\xfe"}}',
    "invalid UTF-8 in the id": b'{"jsonrpc":"2.0","id":"\xff","method":"tools/list"}',
    "invalid UTF-8 in a key": b'{"jsonrpc":"2.0","\xc3\x28":1,"method":"tools/list"}',
    "latin-1": '{"jsonrpc":"2.0","method":"é"}'.encode("latin-1"),
    "UTF-16": raw_message(id=1, method="ping").decode().encode("utf-16"),
    "a form": b"jsonrpc=2.0&id=1&method=ping",
    "zeros": bytes(1000),
}

NO_MESSAGE = {
    "empty batch": (b"[]", ABSENT),
    "batch": (b"[" + raw_message(id=1, method="ping") + b"]", ABSENT),
    "null": (b"null", ABSENT),
    "string": (b'"ping"', ABSENT),
    "empty object": (b"{}", ABSENT),
    "no version": (b'{"id":7,"method":"ping"}', 7),
    "version 1.0": (b'{"jsonrpc":"1.0","id":"seven","method":"ping"}', "seven"),
    "id null": (raw_message(id=None, method="ping"), ABSENT),
    "id a fraction": (raw_message(id=1.5, method="ping"), ABSENT),
    "id true": (raw_message(id=True, method="ping"), ABSENT),
    "id a list": (raw_message(id=[1], method="ping"), ABSENT),
    "id too big": (raw_message(id=2**70, method="ping"), ABSENT),
    "id of 5,000 digits": (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', ABSENT),
    "id too long": (raw_message(id="x" * 1000, method="ping"), ABSENT),
    "method a number": (raw_message(id=7, method=5), 7),
    "params a list": (raw_message(id=7, method="ping", params=[]), 7),
    "params null": (raw_message(id=7, method="ping", params=None), 7),
    "neither one nor the other": (raw_message(id=7), 7),
    "both": (raw_message(id=7, method="ping", result={}), 7),
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
async def test_a_body_that_is_not_json_is_a_parse_error_without_an_id(
    client: Client, session: LegacyClient, era: str, body: bytes
):
    headers = session.headers if era == "legacy" else modern("tools/list")[0]
    answer = await client.post(headers, body)
    assert_refused(answer, 400, -32700)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(("body", "id"), NO_MESSAGE.values(), ids=NO_MESSAGE.keys())
async def test_json_that_is_no_message_is_an_invalid_request_with_the_id_if_it_has_one(
    client: Client, session: LegacyClient, era: str, body: bytes, id: Any
):
    headers = session.headers if era == "legacy" else modern("tools/list")[0]
    assert_refused(await client.post(headers, body), 400, -32600, id)


@pytest.mark.parametrize("depth", [200, 5_000, 100_000])
async def test_a_deeply_nested_body_is_an_invalid_request(client: Client, depth: int):
    headers, message = modern("tools/call", {"name": "anything", "arguments": {"value": "DEEP"}})
    body = json.dumps(message).replace('"DEEP"', "[" * depth + "]" * depth).encode()
    answer = await client.post(headers, body)
    assert answer.json.get("id", 1) == 1
    assert (answer.status, answer.error["code"]) == (400, -32600)
    assert_nothing_leaks(answer.body)


async def test_nesting_that_is_never_closed_costs_no_time(client: Client):
    # A search that starts anew at each quote takes minutes for so many.
    body = b'{"a":[' * 1000 + b'"' + b'\\"' * 140_000
    answer = await client.post(modern("tools/list")[0], body)
    assert answer.status == 400


# Size


async def test_a_body_of_just_the_limit_is_served(client: Client):
    headers, message = modern("tools/call", {"name": "echo", "arguments": {"text": ""}})
    text = "x" * (MAX_BODY - len(json.dumps(message)))
    message["params"]["arguments"]["text"] = text
    assert len(json.dumps(message)) == MAX_BODY
    assert (await client.post(headers, message)).result["content"][0]["text"] == text


@pytest.mark.parametrize("size", [MAX_BODY + 1, 10**9, 10**18])
async def test_a_body_declared_too_large_is_refused_before_it_is_sent(client: Client, size: int):
    headers = modern("tools/list")[0] | {"Content-Length": str(size)}
    assert_refused(await client.raw(http(headers=headers)), 413, -32600)


async def test_a_client_that_sends_all_of_a_body_that_is_too_large_can_read_why_and_go_on(client: Client):
    line = await client.connect()
    headers = modern("tools/list")[0] | {"Content-Length": str(MAX_BODY + 500_000)}
    await line.send(http(headers=headers, body=b" " * (MAX_BODY + 500_000)))
    assert_refused(await line.answer(), 413, -32600)
    good, message = modern("tools/list")
    await line.send(http(headers=good, body=json.dumps(message).encode()))
    assert (await line.answer()).status == 200


async def test_nobody_is_told_to_go_on_with_a_body_that_is_too_large(client: Client):
    headers = modern("tools/list")[0] | {"Content-Length": str(MAX_BODY + 1), "Expect": "100-continue"}
    assert_refused(await client.raw(http(headers=headers)), 413, -32600)


async def test_a_chunked_body_is_refused_when_it_grows_too_large(client: Client):
    line = await client.connect()
    await line.send(http(headers=modern("tools/list")[0] | {"Transfer-Encoding": "chunked"}))
    chunk = b"%x\r\n%s\r\n" % (50_000, b" " * 50_000)
    for _ in range(MAX_BODY // 50_000 + 1):
        await line.send(chunk)
    assert_refused(await line.answer(), 413, -32600)


async def test_a_message_in_many_small_chunks_is_served(client: Client):
    headers, message = modern("tools/call", ECHO)
    line = await client.connect()
    await line.send(http(headers=headers | {"Transfer-Encoding": "chunked"}))
    for byte in json.dumps(message).encode():
        await line.send(b"1\r\n%c\r\n" % byte)
    await line.send(b"0\r\n\r\n")
    assert (await line.answer()).result["content"][0]["text"] == "hi"


# What a modern request must carry


def spoilt(method: str = "tools/call", params: dict[str, Any] | None = None, **meta: Any) -> Any:
    """A modern request with some keys of its `_meta` replaced, or removed with ABSENT."""
    headers, message = modern(method, params or ECHO, id="it")
    inside = message["params"]["_meta"]
    for name, value in meta.items():
        key = name if name == "progressToken" else PREFIX + name
        inside[key] = value
        if value is ABSENT:
            del inside[key]
    return headers, message


@pytest.mark.parametrize(
    "meta",
    [
        {"protocolVersion": ABSENT},
        {"clientCapabilities": ABSENT},
        {"protocolVersion": ABSENT, "clientCapabilities": ABSENT},
        {"protocolVersion": 20260728},
        {"protocolVersion": None},
        {"protocolVersion": {}},
        {"clientCapabilities": None},
        {"clientCapabilities": []},
        {"clientCapabilities": "all"},
        {"clientInfo": "me"},
        {"clientInfo": {"name": 5, "version": "1"}},
        {"logLevel": 5},
        {"progressToken": 1.5},
        {"progressToken": {}},
        {"progressToken": True},
    ],
    ids=lambda meta: ",".join(
        f"{name}={'absent' if value is ABSENT else value!r}" for name, value in meta.items()
    ),
)
async def test_meta_with_a_key_missing_or_wrong_is_invalid_params(client: Client, meta: dict[str, Any]):
    answer = await client.post(*spoilt(**meta))
    assert_refused(answer, 400, -32602, "it")
    assert next(iter(meta)) in answer.error["message"]


@pytest.mark.parametrize("meta", [ABSENT, None, [], "x", {}])
async def test_meta_that_is_missing_or_no_object_is_invalid_params(client: Client, meta: Any):
    headers, message = modern("tools/call", ECHO, id="it")
    message["params"]["_meta"] = meta
    if meta is ABSENT:
        del message["params"]["_meta"]
    assert_refused(await client.post(headers, message), 400, -32602, "it")


async def test_a_request_without_params_is_invalid_params(client: Client):
    headers, message = modern("tools/list", id="it")
    del message["params"]
    assert_refused(await client.post(headers, message), 400, -32602, "it")


async def test_a_client_that_does_not_say_who_it_is_is_served(client: Client):
    assert (await client.post(*spoilt(clientInfo=ABSENT))).status == 200


TOO_MANY = [f"shop://item/{number}" for number in range(2000)]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": None}),
        ("tools/call", {"arguments": {}}),
        ("prompts/get", {"name": ["hello"]}),
        ("resources/read", {"uri": {}}),
        ("tools/list", {"cursor": 5}),
        ("tools/list", {"cursor": "nonsense"}),
        ("tools/list", {"cursor": "\u00e9"}),
        ("completion/complete", {"ref": "hello", "argument": {"name": "name", "value": ""}}),
        ("completion/complete", {"ref": {"type": "ref/other"}, "argument": {"name": "name", "value": ""}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a"}}),
        ("subscriptions/listen", {}),
        ("subscriptions/listen", {"notifications": []}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": "yes"}}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "shop://shelf"}}),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": TOO_MANY}},
        ),
        ("tools/call", {"name": "nobody", "arguments": {}}),
        ("prompts/get", {"name": "nobody"}),
        ("resources/read", {"uri": "shop://nowhere"}),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else value,
)
async def test_params_of_the_wrong_kind_or_of_nothing_we_have_are_invalid_params(
    client: Client, method: str, params: dict[str, Any]
):
    valid = {"name": "x", "uri": "x"}
    headers, message = modern(method, valid, id="it")
    message["params"] = params | {"_meta": message["params"]["_meta"]}
    named = params.get("name", params.get("uri"))
    if isinstance(named, str):
        headers["Mcp-Name"] = named
    assert_refused(await client.post(headers, message), 400, -32602, "it")


@pytest.mark.parametrize("arguments", [None, [], "x", 5])
async def test_arguments_that_are_no_object_do_not_reach_the_tool(client: Client, arguments: Any):
    answer = await client.modern("tools/call", {"name": "echo", "arguments": arguments}, id="it")
    if answer.status == 200:
        assert answer.result["isError"] is True
    else:
        assert_refused(answer, 400, -32602, "it")
    assert_nothing_leaks(answer.body)


@pytest.mark.parametrize(
    "arguments", [{"a": "x"}, {"a": 1.5}, {"a": None}, {}, {"a": [1]}, {"a": 1, "b": {}}]
)
async def test_wrong_arguments_come_back_as_an_error_the_model_can_read(client: Client, arguments: Any):
    answer = await client.modern("tools/call", {"name": "add", "arguments": arguments})
    assert answer.status == 200
    assert answer.result["isError"] is True
    assert "'a'" in answer.result["content"][0]["text"] or "'b'" in answer.result["content"][0]["text"]
    assert_nothing_leaks(answer.body)


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nonsense", "x" * 5000]
)
async def test_an_unknown_method_and_one_of_the_other_era_is_not_found(client: Client, method: str):
    answer = await client.modern(method, id="it")
    assert_refused(answer, 404, -32601, "it")
    assert len(answer.body) < 500


async def test_an_unforeseen_failure_of_a_tool_tells_nothing_of_it(client: Client, session: LegacyClient):
    for answer in (
        await client.modern("tools/call", {"name": "broken", "arguments": {}}),
        await session.call("broken"),
    ):
        assert answer.result["isError"] is True
        assert_nothing_leaks(answer.body)


# Versions


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-29", "nonsense", "0"])
async def test_an_unknown_version_is_refused_with_those_that_are_known(client: Client, version: str):
    headers, message = spoilt(protocolVersion=version)
    answer = await client.post(headers | {"MCP-Protocol-Version": version}, message)
    assert_refused(answer, 400, -32022, "it")
    assert answer.error["data"] == {"supported": [MODERN], "requested": version}


async def test_an_unknown_version_is_refused_whatever_else_is_missing(client: Client):
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": "2099-01-01"}
    answer = await client.post(headers, raw_message(id="it", method="tools/list"))
    assert_refused(answer, 400, -32022, "it")


async def test_an_unknown_version_is_refused_inside_a_session(client: Client, session: LegacyClient):
    headers = session.headers | {"MCP-Protocol-Version": "1999-01-01"}
    answer = await client.post(headers, session.message("ping", id="it"))
    assert_refused(answer, 400, -32022, "it")


@pytest.mark.parametrize(
    "message",
    [{"method": "notifications/initialized"}, {"id": "ask-1", "result": {}}],
    ids=["notification", "response"],
)
async def test_an_unknown_version_is_refused_on_what_needs_no_answer(
    client: Client, session: LegacyClient, message: dict[str, Any]
):
    headers = session.headers | {"MCP-Protocol-Version": "1999-01-01"}
    assert (await client.post(headers, raw_message(**message))).status == 400


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_version_is_refused_on_get_and_delete(
    client: Client, session: LegacyClient, method: str
):
    headers = session.headers | {"MCP-Protocol-Version": "1999-01-01"}
    line = await client.open(headers, None, method=method)
    line.hang_up()
    assert line.status == 400


@pytest.mark.parametrize("version", [5, None, {}, ABSENT])
async def test_a_handshake_without_a_version_is_invalid_params(client: Client, version: Any):
    headers, message = initialize(version)
    if version is ABSENT:
        del message["params"]["protocolVersion"]
    answer = await client.post(headers, message)
    assert_refused(answer, 400, -32602, 0)
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("member", ["capabilities", "clientInfo"])
@pytest.mark.parametrize(
    "value", ["x", 5, [], {"a": {"b": "c" * 20_000}}], ids=["text", "number", "list", "huge"]
)
async def test_a_handshake_with_wrong_or_huge_members_opens_no_session_it_cannot_carry(
    client: Client, member: str, value: Any
):
    headers, message = initialize()
    message["params"][member] = value
    answer = await client.post(headers, message)
    if answer.status == 200:
        # What we do not keep may be of any size.
        assert len(answer.headers["mcp-session-id"]) < 8192
        assert member == "clientInfo"
    else:
        assert_refused(answer, 400, -32602, 0)


# Headers and body that disagree


@pytest.mark.parametrize(
    "change",
    [
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "2099-01-01"},
        {"MCP-Protocol-Version": None},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "TOOLS/CALL"},
        {"Mcp-Method": None},
        {"Mcp-Name": "add"},
        {"Mcp-Name": "ECHO"},
        {"Mcp-Name": ""},
        {"Mcp-Name": "=?base64?YWRk?="},
        {"Mcp-Name": "=?base64?***?="},
        {"Mcp-Name": "\xe9"},
        {"Mcp-Name": None},
    ],
    ids=str,
)
async def test_a_header_that_does_not_say_what_the_body_says_is_a_mismatch(
    client: Client, change: dict[str, str | None]
):
    headers, message = modern("tools/call", ECHO, id="it")
    headers = {name: value for name, value in (headers | change).items() if value is not None}
    assert_refused(await client.post(headers, message), 400, -32020, "it")


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"where": "eu"}, {}),
        ({"where": "eu"}, {"Mcp-Param-Region": "us"}),
        ({"where": "eu"}, {"Mcp-Param-Region": "=?base64?dXM=?="}),
        ({"where": "eu"}, {"Mcp-Param-Region": "\xff"}),
        ({"where": "eu", "number": 5}, {"Mcp-Param-Region": "eu"}),
        ({"where": "eu", "number": 5}, {"Mcp-Param-Region": "eu", "Mcp-Param-Number": "6"}),
        ({"where": "eu", "number": 2**60}, {"Mcp-Param-Region": "eu", "Mcp-Param-Number": str(2**60)}),
        ({"where": "eu"}, {"Mcp-Param-Region": "eu", "Mcp-Param-Number": "5"}),
    ],
)
async def test_an_argument_and_its_header_that_disagree_are_a_mismatch(
    client: Client, arguments: Any, headers: dict[str, str]
):
    base, message = modern("tools/call", {"name": "region", "arguments": arguments}, id="it")
    assert_refused(await client.post(base | headers, message), 400, -32020, "it")


async def test_headers_and_arguments_that_agree_are_served(client: Client):
    base, message = modern("tools/call", {"name": "region", "arguments": {"where": "é", "number": 5}})
    headers = {"mcp-param-region": "=?base64?w6k=?=", "MCP-PARAM-NUMBER": "5.0", "Mcp-Param-Other": "any"}
    assert (await client.post(base | headers, message)).result["content"][0]["text"] == "é"


# Headers that came twice


@pytest.mark.parametrize(
    "name", ["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Content-Type", "Mcp-Param-X", "Host"]
)
@pytest.mark.parametrize("other", ["same", "different"])
async def test_a_header_that_came_twice_is_a_mismatch(client: Client, name: str, other: str):
    headers, message = modern("tools/call", ECHO, id="it")
    pairs = [("Host", f"127.0.0.1:{client.port}"), ("Mcp-Param-X", "x"), *headers.items()]
    value = dict(pairs)[name]
    if other == "different":
        value = {"Content-Type": "text/plain", "Host": "localhost"}.get(name, "2025-11-25")
    for doubled in ([*pairs, (name, value)], [(name, value), *pairs]):
        answer = await client.post(doubled, message)
        assert answer.status in (400, 415), answer
        # A type we do not take may be refused first.
        assert answer.error["code"] == (-32020 if answer.status == 400 else -32600)
        assert_nothing_leaks(answer.body)


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Content-Type"])
async def test_a_header_that_came_twice_is_a_mismatch_in_a_session_too(
    client: Client, session: LegacyClient, name: str
):
    pairs = [*session.headers.items(), (name, session.headers[name])]
    answer = await client.post(pairs, session.message("ping", id="it"))
    assert_refused(answer, 400, -32020, "it")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_two_session_ids_are_refused_on_get_and_delete(
    client: Client, session: LegacyClient, method: str
):
    other = await LegacyClient.start(client)
    assert other.id is not None
    line = await client.open([*session.headers.items(), ("Mcp-Session-Id", other.id)], None, method=method)
    line.hang_up()
    assert line.status == 400
    assert (await other.request("ping")).status == 200


async def test_accept_may_come_in_two_lines_since_it_is_a_list(client: Client):
    headers, message = modern("tools/call", ECHO)
    del headers["Accept"]
    pairs = [*headers.items(), ("Accept", "application/json"), ("Accept", "text/event-stream")]
    assert (await client.post(pairs, message)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "5"), ("Content-Length", "6")],
        [("Content-Length", "5"), ("Transfer-Encoding", "chunked")],
        [("Content-Length", "-1")],
        [("Content-Length", "five")],
        [("Transfer-Encoding", "gzip, chunked, chunked")],
        [("Bad Header", "x"), ("Content-Length", "0")],
    ],
    ids=str,
)
async def test_framing_that_could_be_read_in_two_ways_is_refused(
    client: Client, headers: list[tuple[str, str]]
):
    line = await client.connect()
    await line.send(http(headers=[*modern("tools/list")[0].items(), *headers]) + b"hello")
    answer = await line.answer()
    assert answer.status == 400
    assert_nothing_leaks(answer.body.replace(b"uvicorn", b""))


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["binary", "no path", "version 9.9", "TLS"],
)
async def test_bytes_that_are_not_http_are_refused(client: Client, data: bytes):
    answer = await client.raw(data)
    assert answer.status == 400
    assert_nothing_leaks(answer.body)


# Sessions that are not


def resealed(
    sealed: str, change: Any, was: str = "session", purpose: str | None = None, key: bytes = KEY
) -> str:
    """A session id or a state with its contents changed and sealed again, by whoever has the key."""
    token = json.loads(Sealer(KEY, "workshop").open(sealed, was))
    change(token)
    return Sealer(key, "workshop").seal(json.dumps(token).encode(), purpose or was)


def aged(seconds: int) -> Any:
    def change(token: list[Any]) -> None:
        place = next(i for i, item in enumerate(token) if isinstance(item, int) and item > 10**9)
        token[place] -= seconds

    return change


def nothing(token: list[Any]) -> None:
    pass


NOT_OURS = {
    "made up": lambda id: "00000000-0000-0000-0000-000000000000",
    "empty": lambda id: "",
    "not ascii": lambda id: "\xe9\xe8",
    "cut short": lambda id: id[:-1],
    "longer": lambda id: id + "A",
    "padded": lambda id: id + "=",
    "first character changed": lambda id: ("B" if id[0] == "A" else "A") + id[1:],
    "last character changed": lambda id: id[:-1] + ("B" if id[-1] == "A" else "A"),
    "signed with another key": lambda id: resealed(id, nothing, key=b"another key of enough length"),
    "sealed for another purpose": lambda id: resealed(id, nothing, purpose="round"),
    "expired": lambda id: resealed(id, aged(365 * 24 * 3600)),
    "of a shape we do not know": lambda id: resealed(id, lambda token: token.clear()),
    "of a version we do not know": lambda id: resealed(
        id, lambda token: token.__setitem__(token.index("2025-11-25"), "1999-01-01")
    ),
    "too long": lambda id: "A" * 10_000,
}


async def test_an_id_sealed_again_without_a_change_is_still_good(client: Client, session: LegacyClient):
    assert session.id is not None
    session.id = resealed(session.id, nothing)
    assert (await session.request("ping")).status == 200


@pytest.mark.parametrize("forge", NOT_OURS.values(), ids=NOT_OURS.keys())
async def test_a_session_id_that_is_not_ours_is_not_found(client: Client, session: LegacyClient, forge: Any):
    session.id = forge(session.id)
    assert_refused(await session.request("ping", id="it"), 404, -32001, "it")
    assert_refused(await session.notify("notifications/initialized"), 404, -32001)
    assert_refused(await session.respond("ask-1", {}), 404, -32001, "ask-1")
    assert_refused(await session.end(), 404, -32001)
    line = await session.listen()
    line.hang_up()
    assert line.status == 404


async def test_no_character_of_a_session_id_can_be_changed(client: Client, session: LegacyClient):
    id = session.id
    assert id is not None
    for place in range(0, len(id), 7):
        session.id = id[:place] + ("B" if id[place] == "A" else "A") + id[place + 1 :]
        assert (await session.request("ping")).status == 404
    session.id = id
    assert (await session.request("ping")).status == 200


async def test_a_session_that_was_ended_is_not_found(client: Client, session: LegacyClient):
    assert (await session.end()).status == 204
    assert_refused(await session.request("ping", id="it"), 404, -32001, "it")
    assert_refused(await session.end(), 404, -32001)


async def test_a_session_of_another_tenant_is_not_found(client: Client, session: LegacyClient):
    headers = session.headers | {"X-Tenant": "somebody else"}
    answer = await client.post(headers, session.message("ping", id="it"))
    assert_refused(answer, 404, -32001, "it")
    assert (await session.request("ping")).status == 200


async def test_what_is_for_later_requests_needs_a_session_and_is_told_how_to_open_one(client: Client):
    stranger = LegacyClient(client, "2025-11-25", None)
    for method, params in (
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "shop://x"}),
        ("resources/unsubscribe", {"uri": "shop://x"}),
    ):
        answer = await stranger.request(method, params, id="it")
        assert_refused(answer, 400, -32600, "it")
        assert "initialize" in answer.error["message"]
    assert_refused(await stranger.notify("notifications/initialized"), 400, -32600)
    assert_refused(await stranger.respond("ask-1", {}), 400, -32600, "ask-1")
    assert_refused(await stranger.end(), 400, -32600)


async def test_errors_inside_a_session_are_answers_like_any_other(session: LegacyClient):
    assert_refused(await session.request("nonsense", id="it"), 200, -32601, "it")
    assert_refused(await session.request("server/discover", id="it"), 200, -32601, "it")
    assert_refused(await session.request("tools/call", {"name": 5}, id="it"), 200, -32602, "it")
    assert_refused(await session.request("resources/read", {"uri": "shop://no"}, id="it"), 200, -32002, "it")
    assert_refused(await session.request("logging/setLevel", {"level": "loud"}, id="it"), 200, -32602, "it")


async def test_notifications_and_responses_about_nothing_are_taken_and_forgotten(session: LegacyClient):
    for method in ("notifications/cancelled", "notifications/progress", "notifications/nonsense"):
        for params in ({}, {"requestId": 999}, {"requestId": {}}):
            answer = await session.notify(method, params)
            assert (answer.status, answer.body) == (202, b"")
    for id in (1, "ask-1", 2**62):
        assert (await session.respond(id, {"x": 1})).status == 202


async def test_a_request_sent_as_a_notification_is_not_run(client: Client):
    shop = Workshop()
    async with serving(shop.server.asgi()) as other:
        session = await LegacyClient.start(other)
        headers, message = modern("tools/call", {"name": "wait", "arguments": {}})
        del message["id"]
        async with asyncio.timeout(PATIENCE):
            assert (await other.post(headers, message)).status in (202, 400)
            answer = await session.notify("tools/call", {"name": "wait", "arguments": {}})
            assert answer.status in (202, 400)
        assert not shop.started.is_set()


async def test_a_subscription_sent_as_a_notification_does_not_stay(client: Client):
    headers, message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    del message["id"]
    line = await client.open(headers, message)
    line.hang_up()
    assert line.status in (202, 400)


# requestState

ADA = {"action": "accept", "content": {"name": "Ada"}}


async def question(client: Client, capabilities: Any = None, headers: Any = None) -> dict[str, Any]:
    """The first round of a tool that asks for a name."""
    params = {"name": "greet", "arguments": {"style": "!"}}
    base, message = modern("tools/call", params, capabilities=capabilities or {"elicitation": {}})
    answer = await client.post(base | (headers or {}), message)
    assert answer.result["resultType"] == "input_required"
    return answer.result


def retry(
    state: Any, params: dict[str, Any] | None = None, method: str = "tools/call", answer: Any = ADA
) -> tuple[dict[str, str], dict[str, Any]]:
    """The second round, with the answer and the state."""
    inside = params or {"name": "greet", "arguments": {"style": "!"}}
    inside = inside | {"inputResponses": {"name": answer}, "requestState": state}
    return modern(method, inside, id="it", capabilities={"elicitation": {}})


async def test_a_state_that_comes_back_as_it_was_is_accepted(client: Client):
    state = (await question(client))["requestState"]
    answer = await client.post(*retry(state))
    assert answer.result["content"][0]["text"] == "Hello Ada!"


async def test_no_byte_of_a_state_can_be_changed(client: Client):
    state = (await question(client))["requestState"]
    for place in range(0, len(state), 5):
        changed = state[:place] + ("B" if state[place] == "A" else "A") + state[place + 1 :]
        assert_refused(await client.post(*retry(changed)), 400, -32602, "it")


@pytest.mark.parametrize(
    "state",
    ["", "A", "nonsense", "é", "=", "A" * 5000, 5, None, {}, ["x"], True],
    ids=lambda state: repr(state)[:20],
)
async def test_a_state_that_was_never_issued_is_refused(client: Client, state: Any):
    assert_refused(await client.post(*retry(state)), 400, -32602, "it")


async def test_a_state_sealed_for_another_purpose_is_refused(client: Client, session: LegacyClient):
    assert_refused(await client.post(*retry(session.id)), 400, -32602, "it")


async def test_a_state_of_another_server_is_refused(client: Client):
    async with serving(Workshop(key=b"another key of enough length").server.asgi()) as other:
        state = (await question(other))["requestState"]
    assert_refused(await client.post(*retry(state)), 400, -32602, "it")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "greet", "arguments": {"style": "?"}}),
        ("tools/call", {"name": "greet", "arguments": {}}),
        ("tools/call", {"name": "greet"}),
        ("tools/call", {"name": "think", "arguments": {"style": "!"}}),
        ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
        ("prompts/get", {"name": "ask_first", "arguments": {}}),
    ],
    ids=str,
)
async def test_a_state_of_another_request_is_refused(client: Client, method: str, params: dict[str, Any]):
    state = (await question(client))["requestState"]
    assert_refused(await client.post(*retry(state, params, method)), 400, -32602, "it")


async def test_a_state_of_another_principal_is_refused(client: Client):
    state = (await question(client, headers={"X-Tenant": "ada"}))["requestState"]
    headers, message = retry(state)
    assert (await client.post(headers | {"X-Tenant": "ada"}, message)).status == 200
    assert_refused(await client.post(headers | {"X-Tenant": "eve"}, message), 400, -32602, "it")


async def test_a_state_that_has_expired_is_refused(client: Client):
    state = (await question(client))["requestState"]
    good = resealed(state, nothing, was="round")
    assert (await client.post(*retry(good))).status == 200
    answer = await client.post(*retry(resealed(state, aged(24 * 3600), was="round")))
    assert_refused(answer, 400, -32602, "it")
    assert "expired" in answer.error["message"]


@pytest.mark.parametrize(
    "answer",
    [
        5,
        "x",
        [],
        {"action": "perhaps"},
        {"action": "accept", "content": {"name": 5}},
        {"content": {}},
        {"action": "accept"},
    ],
    ids=str,
)
async def test_an_answer_that_does_not_fit_its_question_is_refused(client: Client, answer: Any):
    state = (await question(client))["requestState"]
    assert_refused(await client.post(*retry(state, answer=answer)), 400, -32602, "it")


@pytest.mark.parametrize("responses", [5, [], "x", None])
async def test_answers_that_are_no_object_are_refused(client: Client, responses: Any):
    headers, message = retry((await question(client))["requestState"])
    message["params"]["inputResponses"] = responses
    assert_refused(await client.post(headers, message), 400, -32602, "it")


async def test_an_answer_nobody_asked_for_is_ignored_and_a_missing_one_asked_for_again(client: Client):
    headers, message = retry((await question(client))["requestState"])
    message["params"]["inputResponses"] = {"other": {"action": "accept"}}
    again = await client.post(headers, message)
    assert again.result["resultType"] == "input_required"
    assert list(again.result["inputRequests"]) == ["name"]


# Numbers too big

TOO_BIG = {"1e999": b"1e999", "-1e999": b"-1e999", "5,000 digits": b"9" * 5000, "400 digits": b"9" * 400}


def with_number(headers: Any, message: Any, number: bytes) -> tuple[Any, bytes]:
    body = json.dumps(message).encode()
    assert body.count(b'"NUMBER"') == 1
    return headers, body.replace(b'"NUMBER"', number)


@pytest.mark.parametrize("number", TOO_BIG.values(), ids=TOO_BIG.keys())
@pytest.mark.parametrize("tool", ["add", "anything", "greet"])
async def test_a_number_too_big_among_the_arguments_is_an_answer_not_a_crash(
    client: Client, tool: str, number: bytes
):
    argument = {"add": "a", "anything": "value", "greet": "style"}[tool]
    request = modern(
        "tools/call",
        {"name": tool, "arguments": {argument: "NUMBER"}},
        id="it",
        capabilities={"elicitation": {}},
    )
    answer = await client.post(*with_number(*request, number))
    if answer.status == 400:
        assert_refused(answer, 400, -32602, "it")
    else:
        assert answer.status == 200
        assert "failed unexpectedly" not in answer.body.decode()
    assert_nothing_leaks(answer.body)


@pytest.mark.parametrize("number", TOO_BIG.values(), ids=TOO_BIG.keys())
@pytest.mark.parametrize("tool", ["echo", "greet", "job"])
async def test_a_number_too_big_among_the_capabilities_is_an_answer_not_a_crash(
    client: Client, tool: str, number: bytes
):
    request = modern("tools/call", {"name": tool, "arguments": {}}, id="it", capabilities={"x": "NUMBER"})
    answer = await client.post(*with_number(*request, number))
    if answer.status == 400:
        assert answer.error["code"] in (-32602, -32021)
    else:
        assert answer.status == 200
        assert "failed unexpectedly" not in answer.body.decode()
    assert_nothing_leaks(answer.body)


@pytest.mark.parametrize("number", TOO_BIG.values(), ids=TOO_BIG.keys())
async def test_a_number_too_big_in_a_handshake_is_an_answer_not_a_crash(client: Client, number: bytes):
    answer = await client.post(*with_number(*initialize(capabilities={"x": "NUMBER"}), number))
    if answer.status == 200:
        session = LegacyClient(client, "2025-11-25", answer.headers["mcp-session-id"])
        assert (await session.call("greet")).result["isError"] is True
    else:
        assert_refused(answer, 400, -32602, 0)


@pytest.mark.parametrize("number", TOO_BIG.values(), ids=TOO_BIG.keys())
async def test_a_number_too_big_in_a_session_is_an_answer_not_a_crash(
    client: Client, session: LegacyClient, number: bytes
):
    for message in (
        session.message("tools/call", {"name": "add", "arguments": {"a": "NUMBER"}}),
        session.message("tools/call", {"name": "anything", "_meta": {"progressToken": "NUMBER"}}),
        session.message("tools/list", {"x": "NUMBER"}),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "NUMBER"}},
        {"jsonrpc": "2.0", "id": "ask-1", "result": {"x": "NUMBER"}},
        {"jsonrpc": "2.0", "id": "ask-1", "error": {"code": "NUMBER", "message": ""}},
    ):
        answer = await client.post(*with_number(session.headers, message, number))
        assert answer.status in (200, 202, 400)
        assert "failed unexpectedly" not in answer.body.decode()
        assert_nothing_leaks(answer.body)


# Clients that hang up in the middle


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
async def test_a_client_may_hang_up_in_the_middle_of_its_request(
    client: Client, session: LegacyClient, share: float
):
    for headers, message in (modern("tools/call", ECHO), (session.headers, session.message("ping"))):
        request = http(headers=headers, body=json.dumps(message).encode())
        head_ends = request.index(b"\r\n\r\n") + 4
        for length in (int(head_ends * share), head_ends + int((len(request) - head_ends) * share)):
            line = await client.connect()
            await line.send(request[:length])
            line.hang_up()


async def test_a_client_that_hangs_up_on_a_silent_call_cancels_it(client: Client):
    shop = Workshop()
    async with serving(shop.server.asgi()) as other:
        line = await other.connect()
        headers, message = modern("tools/call", {"name": "wait", "arguments": {}})
        await line.send(http(headers=headers, body=json.dumps(message).encode()))
        async with asyncio.timeout(PATIENCE):
            await shop.started.wait()
            line.hang_up()
            await shop.cancelled.wait()
        assert not shop.finished.is_set()
        assert (await other.modern("tools/call", ECHO)).status == 200


async def test_a_client_that_hangs_up_on_a_stream_cancels_its_call(client: Client):
    shop = Workshop()
    async with serving(shop.server.asgi()) as other:
        shop.says.put_nowait("one")
        line = await other.open(*modern("tools/call", {"name": "speak", "arguments": {}}, progress="p"))
        assert (await line.next_message())["params"]["message"] == "one"
        line.hang_up()
        async with asyncio.timeout(PATIENCE):
            await shop.cancelled.wait()
        assert not shop.finished.is_set()


async def test_a_legacy_client_that_hangs_up_does_not_cancel_its_call_and_can_come_back(client: Client):
    shop = Workshop()
    async with serving(shop.server.asgi()) as other:
        session = await LegacyClient.start(other)
        shop.says.put_nowait("one")
        line = await session.open_call("speak", progress="p")
        events = line.events()
        last = None
        async for event in events:
            last = event.id or last
            if event.is_message:
                break
        line.hang_up()
        shop.says.put_nowait("two")
        shop.says.put_nowait(None)
        async with asyncio.timeout(PATIENCE):
            await shop.finished.wait()
        assert not shop.cancelled.is_set()
        again = await session.listen(last)
        messages = [message async for message in again.messages()]
        assert messages[0]["params"]["message"] == "two"
        assert messages[1]["result"]["content"][0]["text"] == "said 2"
        assert len(messages) == 2


async def test_a_legacy_client_that_hangs_up_on_a_silent_call_does_not_cancel_it(client: Client):
    shop = Workshop()
    async with serving(shop.server.asgi()) as other:
        session = await LegacyClient.start(other)
        line = await other.connect()
        body = json.dumps(session.message("tools/call", {"name": "wait", "arguments": {}})).encode()
        await line.send(http(headers=session.headers, body=body))
        async with asyncio.timeout(PATIENCE):
            await shop.started.wait()
            line.hang_up()
            shop.go.set()
            await shop.finished.wait()
        assert not shop.cancelled.is_set()


# Content types


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/jsonx",
        "application/xml",
        "multipart/form-data; boundary=x",
        "json",
    ],
)
async def test_a_body_of_another_type_is_refused(client: Client, content_type: str | None):
    headers, message = modern("tools/call", ECHO)
    del headers["Content-Type"]
    if content_type is not None:
        headers["Content-Type"] = content_type
    assert_refused(await client.post(headers, message), 415, -32600)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
async def test_json_may_be_declared_in_any_way_that_means_json(client: Client, content_type: str):
    headers, message = modern("tools/call", ECHO)
    assert (await client.post(headers | {"Content-Type": content_type}, message)).status == 200


@pytest.mark.parametrize(
    "accept", ["text/html", "text/event-stream", "image/*", "application/xml, text/plain"]
)
async def test_a_client_that_takes_no_json_is_refused(client: Client, accept: str):
    headers, message = modern("tools/call", ECHO)
    assert_refused(await client.post(headers | {"Accept": accept}, message), 406, -32600)


@pytest.mark.parametrize(
    "accept", [BOTH, "*/*", "application/*", "application/json", "application/json;q=0.9", None]
)
async def test_a_client_that_takes_json_is_served(client: Client, accept: str | None):
    headers, message = modern("tools/call", ECHO)
    del headers["Accept"]
    if accept is not None:
        headers["Accept"] = accept
    assert (await client.post(headers, message)).status == 200


async def test_a_get_that_takes_no_stream_is_refused(client: Client, session: LegacyClient):
    headers = session.headers | {"Accept": "application/json"}
    assert_refused(await client.raw(http("GET", headers=headers)), 406, -32600)


async def test_a_subscription_of_a_client_that_takes_no_stream_is_refused_at_once(client: Client):
    headers, message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with asyncio.timeout(PATIENCE):
        answer = await client.post(headers | {"Accept": "application/json"}, message)
    assert answer.status in (400, 406)
    assert_nothing_leaks(answer.body)


# Who may knock


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:x",
        "",
        "0.0.0.0",
    ],
)
async def test_a_host_that_is_not_ours_is_forbidden(client: Client, host: str):
    headers, message = modern("tools/call", ECHO)
    assert_refused(await client.post(headers | {"Host": host}, message), 403, -32600)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.0.0.1:99", "[::1]", "[::1]:8080"]
)
async def test_every_name_of_this_machine_is_allowed(client: Client, host: str):
    headers, message = modern("tools/call", ECHO)
    assert (await client.post(headers | {"Host": host}, message)).status == 200


async def test_a_request_without_a_host_is_refused(client: Client):
    headers, message = modern("tools/call", ECHO)
    request = http(headers=headers, body=json.dumps(message).encode())
    request = request.replace(b"Host: 127.0.0.1\r\n", b"")
    answer = await client.raw(request)
    assert answer.status in (400, 403)
    assert_nothing_leaks(answer.body)


async def test_an_empty_host_is_forbidden_even_as_the_first_ever(client: Client):
    async with serving(Workshop().server.asgi()) as other:
        headers, message = modern("tools/call", ECHO)
        assert_refused(await other.post(headers | {"Host": ""}, message), 403, -32600)


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_a_request_without_any_header_is_refused_where_any_host_is_allowed(
    client: Client, version: str
):
    async with serving(Workshop().server.asgi(allowed_hosts=["*"])) as other:
        answer = await other.raw(f"POST /mcp {version}\r\n\r\n".encode())
        assert 400 <= answer.status < 500
        assert_nothing_leaks(answer.body)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://evil.example@localhost",
        "null",
        "",
        "file://",
        "ftp://localhost",
        "http://[::1",
        "localhost",
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
async def test_an_origin_that_is_not_ours_is_forbidden(
    client: Client, session: LegacyClient, origin: str, method: str
):
    headers = session.headers | {"Origin": origin}
    body = json.dumps(session.message("ping")).encode() if method == "POST" else None
    answer = await client.raw(http(method, headers=headers, body=body))
    assert_refused(answer, 403, -32600)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["http://localhost", "http://127.0.0.1:3000", "https://localhost:8443"])
async def test_a_page_of_this_machine_is_let_in_and_its_browser_told(client: Client, origin: str):
    headers, message = modern("tools/call", ECHO)
    answer = await client.post(headers | {"Origin": origin}, message)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == origin


async def test_hosts_and_origins_that_were_allowed_are_let_in(client: Client):
    app = Workshop().server.asgi(
        allowed_hosts=["tools.example", "exact.example:8443"], allowed_origins=["https://app.example"]
    )
    async with serving(app) as other:
        for change, status in (
            ({"Host": "tools.example"}, 200),
            ({"Host": "Tools.Example:443"}, 200),
            ({"Host": "exact.example:8443"}, 200),
            ({"Host": "exact.example:9999"}, 403),
            ({"Host": "other.example"}, 403),
            ({"Origin": "https://app.example"}, 200),
            ({"Origin": "https://tools.example"}, 200),
            ({"Origin": "http://app.example"}, 403),
            ({"Origin": "https://app.example.evil"}, 403),
        ):
            headers, message = modern("tools/call", ECHO)
            # Each twice, and a forbidden one between: an answer must not depend on the one before.
            for _ in range(2):
                assert (await other.post(headers | change, message)).status == status, change
                assert (await other.post(headers | {"Host": "evil.example"}, message)).status == 403


async def test_a_preflight_of_an_allowed_page_is_answered(client: Client):
    headers = {
        "Origin": "http://localhost:3000",
        "Access-Control-Request-Headers": "mcp-method, content-type",
    }
    answer = await client.raw(http("OPTIONS", headers=headers))
    assert answer.status == 204
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "mcp-method" in answer.headers["access-control-allow-headers"]


# Paths, methods, headers


@pytest.mark.parametrize(
    "path", ["/", "/mcpx", "/mcp/x", "/sse", "/%2e%2e/etc/passwd", "//mcp", "/mcp%00", "/" + "x" * 5000]
)
async def test_another_path_is_not_found(client: Client, path: str):
    headers, message = modern("tools/call", ECHO)
    answer = await client.post(headers, message, path=path)
    assert_refused(answer, 404, -32600)
    assert len(answer.body) < 500


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp?x=y"])
async def test_our_path_may_end_in_a_slash_or_a_query(client: Client, path: str):
    headers, message = modern("tools/call", ECHO)
    assert (await client.post(headers, message, path=path)).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
async def test_another_method_is_not_allowed(client: Client, method: str):
    answer = await client.raw(http(method, body=b"{}"))
    assert_refused(answer, 405, -32600)
    assert answer.headers["allow"] == "GET, POST, DELETE"


async def test_a_head_request_is_not_allowed(client: Client):
    line = await client.connect()
    await line.send(http("HEAD"))
    assert (await line.answer(without_body=True)).status == 405


async def test_a_get_outside_a_session_is_not_allowed(client: Client):
    for headers in ({}, {"Accept": "text/event-stream"}, {"MCP-Protocol-Version": MODERN}):
        answer = await client.raw(http("GET", headers=headers))
        assert_refused(answer, 405, -32600)
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "extra",
    [
        [(f"X-{n}", "v") for n in range(101)],
        [("X", "v") for _ in range(101)],
        [("X-Long", "v" * 17_000)],
        [("X-Long", "v" * 17_000), ("X-Long", "short")],
        [("Mcp-Name", "v" * 17_000)],
        [("Cookie", "v" * 20_000)],
    ],
    ids=["many", "many of one name", "long", "long behind short", "long name", "long cookie"],
)
async def test_too_many_or_too_long_headers_are_refused(client: Client, extra: list[tuple[str, str]]):
    headers, message = modern("tools/call", ECHO)
    answer = await client.post([*headers.items(), *extra], message)
    assert_refused(answer, 431, -32600)
    assert len(answer.body) < 500


async def test_a_long_name_in_a_body_is_not_sent_back_whole(client: Client):
    name = "x" * 10_000
    for method, params in (
        ("tools/call", {"name": name}),
        ("prompts/get", {"name": name}),
        ("resources/read", {"uri": name}),
    ):
        answer = await client.modern(method, params)
        assert answer.status == 400
        assert len(answer.error["message"]) < 1000


async def test_credentials_for_one_server_are_not_shown_by_another(client: Client):
    headers, message = modern("tools/call", {"name": "nobody", "arguments": {"token": "s3cret"}})
    secret = base64.b64encode(b"user:s3cret").decode()
    answer = await client.post(headers | {"Authorization": f"Basic {secret}"}, message)
    assert answer.status == 400
    assert secret not in answer.body.decode()
    assert "s3cret" not in answer.body.decode()
