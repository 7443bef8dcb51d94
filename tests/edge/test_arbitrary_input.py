"""Arbitrary input: whatever comes, there is an answer in time, never a 5xx, and the server goes on.

Most of it goes to the app in process, for the sake of numbers; some over a socket and through pipes.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.edge.workshop import Workshop
from tests.serving import (
    PATIENCE,
    Answer,
    Client,
    LegacyClient,
    assert_nothing_leaks,
    call_asgi,
    http,
    initialize,
    meta,
    modern,
    names_the_inside,
    serving,
)
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.stdio import Duplex

ROOT = Path(__file__).parents[2]
IN_TIME = PATIENCE
ELICIT = {"elicitation": {}, "sampling": {}}


class Inside:
    """An app and an event loop in which tests that are not async can reach it."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.app: HttpEdge = Workshop().server.asgi(max_body=100_000)
        self.session = self._start()

    def _start(self) -> str:
        headers, message = initialize(capabilities=ELICIT)
        return self.post(headers, json.dumps(message).encode()).headers["mcp-session-id"]

    def post(self, headers: Any, body: bytes, method: str = "POST", path: str = "/mcp") -> Answer:
        # Hypothesis tries texts that it found in our own sources, and some answers quote what was sent.
        if names_the_inside(f"{headers} {body.decode('utf-8', 'replace')} {path}"):
            reject()
        return self.runner.run(call_asgi(self.app, headers, body, method, path, IN_TIME))

    def legacy_headers(self) -> dict[str, str]:
        return LegacyClient(Client(0), "2025-11-25", self.session).headers

    def assert_well(self) -> None:
        headers, message = modern("tools/call", {"name": "echo", "arguments": {"text": "well"}})
        answer = self.post(headers, json.dumps(message).encode())
        assert answer.result["content"][0]["text"] == "well"


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with asyncio.Runner() as runner:
        inside = Inside(runner)
        yield inside
        inside.assert_well()


def assert_proper(answer: Answer) -> None:
    """A 2xx or 4xx with JSON, events, or nothing where nothing is due."""
    assert 200 <= answer.status < 300 or 400 <= answer.status < 500, answer
    assert_nothing_leaks(answer.body)
    if answer.status in (202, 204):
        assert answer.body == b""
    elif answer.is_stream:
        assert answer.status == 200
        assert all(event.json["jsonrpc"] == "2.0" for event in answer.events if event.is_message)
    else:
        assert answer.headers["content-type"] == "application/json"
        reply = answer.json
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)
        if "error" in reply:
            assert isinstance(reply["error"]["code"], int)
            assert isinstance(reply["error"]["message"], str)
            assert reply["error"]["code"] != -32603, answer


# What to send

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 2**63, 2**64, -(2**63), 10**40])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
METHODS = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
]
TOOLS = ["echo", "add", "anything", "broken", "refuses", "region", "log", "steps", "job", "greet", "think"]
NAMES = [*TOOLS, "hello", "ask_first", "shop://shelf", "shop://item/1", "nobody"]

# Values that have a meaning somewhere are likelier to reach deep than made-up ones.
likely = st.sampled_from([*METHODS, *NAMES, "2026-07-28", "2025-11-25", "2.0", "", {}, [], 0, -1, "cursor"])
anything = values | likely
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | anything,
        "id": st.integers(0, 3) | anything,
        "method": st.sampled_from(METHODS) | anything,
        "params": st.dictionaries(
            st.sampled_from(
                ["name", "uri", "arguments", "cursor", "_meta", "ref", "argument", "notifications"]
            ),
            anything,
            max_size=5,
        )
        | anything,
        "result": anything,
        "error": anything,
    },
)


def modern_requests() -> list[tuple[dict[str, str], Any]]:
    return [
        modern("server/discover"),
        modern("tools/list", {"cursor": "WzEsImEiXQ=="}),
        modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        modern("tools/call", {"name": "anything", "arguments": {"value": {"deep": [1, {"er": None}]}}}),
        modern("tools/call", {"name": "steps", "arguments": {"count": 2}}, progress="p", logLevel="debug"),
        modern("tools/call", {"name": "greet", "arguments": {}}, capabilities=ELICIT),
        modern(
            "tools/call",
            {
                "name": "greet",
                "arguments": {},
                "inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}},
                "requestState": "AAAA",
            },
            capabilities=ELICIT,
        ),
        modern(
            "tools/call",
            {"name": "job", "arguments": {}},
            capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}},
        ),
        modern("resources/read", {"uri": "shop://item/1"}),
        modern("prompts/get", {"name": "hello", "arguments": {"name": "Ada"}}),
        modern(
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": "A"}},
        ),
        modern(
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["shop://shelf"]}},
        ),
        modern(
            "tasks/get", {"taskId": "x"}, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}
        ),
    ]


def legacy_messages() -> list[Any]:
    return [
        initialize(capabilities=ELICIT)[1],
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "WzEsImEiXQ=="}},
        {
            "jsonrpc": "2.0",
            "id": "x",
            "method": "tools/call",
            "params": {"name": "steps", "arguments": {"count": 2}, "_meta": {"progressToken": 1}},
        },
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}},
        {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "debug"}},
        {"jsonrpc": "2.0", "id": 4, "method": "resources/subscribe", "params": {"uri": "shop://shelf"}},
        {"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "shop://shelf"}},
        {
            "jsonrpc": "2.0",
            "id": 6,
            "method": "prompts/get",
            "params": {"name": "hello", "arguments": {"name": "x"}},
        },
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept", "content": {}}},
        {"jsonrpc": "2.0", "id": "ask-1", "error": {"code": 1, "message": "no"}},
    ]


def paths(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document can be cut."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*here, key)
        yield from paths(value, (*here, key))


@st.composite
def changed(draw: st.DrawFn, document: Any) -> bytes:
    """A document with members deleted, replaced, renamed or doubled, and sometimes a byte flipped."""
    document = deepcopy(document)
    doubled: list[Any] = []
    for _ in range(draw(st.integers(0, 3))):
        places = list(paths(document))
        if not places:
            break
        *parents, key = draw(st.sampled_from(places))
        node = document
        for step in parents:
            node = node[step]
        match draw(st.sampled_from(["delete", "replace", "rename", "double"])):
            case "delete":
                del node[key]
            case "replace":
                node[key] = draw(anything)
            case "rename" if isinstance(node, dict):
                node[draw(st.text(max_size=5))] = node.pop(key)
            case _:
                doubled.append((key, draw(anything)))
    raw = json.dumps(document).encode()
    for key, value in doubled:
        if isinstance(key, str) and raw.startswith(b"{"):
            place = raw.find(json.dumps(key).encode() + b":")
            twin = f"{json.dumps(key)}: {json.dumps(value)}, ".encode()
            raw = raw[:place] + twin + raw[place:] if place > 0 else raw
    if draw(st.integers(0, 2)) == 0 and raw:
        place = draw(st.integers(0, len(raw) - 1))
        raw = raw[:place] + draw(st.binary(max_size=2)) + raw[place + 1 :]
    return raw


header_values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=30) | st.sampled_from(
    ["2026-07-28", "2025-11-25", "1", "tools/call", "=?base64?YWRk?=", "=?base64?", "application/json", "*/*"]
)


@st.composite
def changed_headers(draw: st.DrawFn, headers: dict[str, str]) -> list[tuple[str, str]]:
    pairs = list(headers.items())
    for _ in range(draw(st.integers(0, 2))):
        match draw(st.sampled_from(["delete", "replace", "double", "add"])):
            case "delete" if pairs:
                pairs.pop(draw(st.integers(0, len(pairs) - 1)))
            case "replace" if pairs:
                place = draw(st.integers(0, len(pairs) - 1))
                pairs[place] = (pairs[place][0], draw(header_values))
            case "double" if pairs:
                pairs.append((draw(st.sampled_from(pairs))[0], draw(header_values)))
            case _:
                name = draw(
                    st.sampled_from(
                        [
                            "Origin",
                            "Host",
                            "Last-Event-ID",
                            "Mcp-Session-Id",
                            "Mcp-Param-Region",
                            "Content-Length",
                        ]
                    )
                )
                pairs.append((name, draw(header_values)))
    return pairs


@st.composite
def changed_modern(draw: st.DrawFn) -> tuple[list[tuple[str, str]], bytes]:
    headers, message = draw(st.sampled_from(modern_requests()))
    return draw(changed_headers(headers)), draw(changed(message))


# In process


@settings(max_examples=200)
@given(body=st.binary(max_size=200), era=st.sampled_from(["modern", "legacy", "none"]))
def test_any_bytes_as_a_body_get_a_proper_answer(inside: Inside, body: bytes, era: str):
    headers = {
        "modern": modern("tools/list")[0],
        "legacy": inside.legacy_headers(),
        "none": {"Content-Type": "application/json"},
    }[era]
    assert_proper(inside.post(headers, body))


@settings(max_examples=150)
@given(value=values, modern_headers=st.booleans())
def test_any_json_as_a_message_gets_a_proper_answer(inside: Inside, value: Any, modern_headers: bool):
    headers = modern("tools/list")[0] if modern_headers else inside.legacy_headers()
    assert_proper(inside.post(headers, json.dumps(value).encode()))


@settings(max_examples=400)
@given(message=messages, modern_headers=st.booleans())
def test_any_message_gets_a_proper_answer(inside: Inside, message: Any, modern_headers: bool):
    headers = inside.legacy_headers()
    if modern_headers:
        headers = modern("tools/list")[0]
        method = message.get("method")
        if isinstance(method, str) and method.isascii():
            headers["Mcp-Method"] = method
    assert_proper(inside.post(headers, json.dumps(message).encode()))


@settings(max_examples=2000)
@given(changed_modern())
def test_a_modern_request_that_was_changed_gets_a_proper_answer(
    inside: Inside, request_: tuple[list[tuple[str, str]], bytes]
):
    assert_proper(inside.post(*request_))


@settings(max_examples=1500)
@given(data=st.data(), message=st.sampled_from(legacy_messages()))
def test_a_legacy_message_that_was_changed_gets_a_proper_answer(
    inside: Inside, data: st.DataObject, message: Any
):
    headers = data.draw(changed_headers(inside.legacy_headers()))
    assert_proper(inside.post(headers, data.draw(changed(message))))


@settings(max_examples=150)
@given(
    method=st.sampled_from(["GET", "DELETE", "PUT", "OPTIONS", "HEAD", "x"]) | st.text(max_size=10),
    path=st.sampled_from(["/mcp", "/health", "/"]) | st.text(max_size=20).map(lambda text: "/" + text),
    data=st.data(),
)
def test_any_method_and_path_gets_a_proper_answer(
    inside: Inside, method: str, path: str, data: st.DataObject
):
    # Of a session of its own, since it may well end it.
    session = inside._start()
    headers = data.draw(changed_headers(inside.legacy_headers() | {"Mcp-Session-Id": session}))
    answer = inside.post(headers, b"", method, path)
    if path == "/health" and answer.status == 200:
        assert answer.json["status"] == "ok"
    elif path == "/" and answer.status == 200:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert_nothing_leaks(answer.body)
    elif method == "GET" and answer.is_stream:
        assert answer.status == 200
    else:
        assert_proper(answer)


@settings(max_examples=100)
@given(state=st.text(max_size=100), answers=anything)
def test_any_state_and_answers_get_a_proper_answer(inside: Inside, state: str, answers: Any):
    params = {"name": "greet", "arguments": {}, "inputResponses": answers, "requestState": state}
    headers, message = modern("tools/call", params, capabilities=ELICIT)
    answer = inside.post(headers, json.dumps(message).encode())
    assert_proper(answer)
    assert answer.status == 400


@settings(max_examples=100)
@given(answers=st.dictionaries(st.sampled_from(["name", "x"]), anything, max_size=2))
def test_any_answers_to_a_real_question_get_a_proper_answer(inside: Inside, answers: Any):
    params = {"name": "greet", "arguments": {}}
    headers, message = modern("tools/call", params, capabilities=ELICIT)
    state = inside.post(headers, json.dumps(message).encode()).result["requestState"]
    again = params | {"inputResponses": answers, "requestState": state}
    headers, message = modern("tools/call", again, capabilities=ELICIT)
    assert_proper(inside.post(headers, json.dumps(message).encode()))


@settings(max_examples=150)
@given(
    arguments=st.dictionaries(st.text(max_size=8) | st.just("a"), anything, max_size=3),
    tool=st.sampled_from(TOOLS),
)
def test_any_arguments_of_any_tool_get_a_proper_answer(inside: Inside, arguments: Any, tool: str):
    headers, message = modern("tools/call", {"name": tool, "arguments": arguments}, capabilities=ELICIT)
    assert_proper(inside.post(headers, json.dumps(message).encode()))


# Over a socket


@pytest.fixture(scope="module")
def served(inside: Inside) -> Iterator[Client]:
    server = serving(inside.app)
    yield inside.runner.run(server.__aenter__())
    inside.runner.run(server.__aexit__(None, None, None))


@settings(max_examples=60)
@given(request_=changed_modern())
def test_a_changed_request_over_a_socket_gets_an_answer_or_a_closed_connection(
    inside: Inside, served: Client, request_: tuple[list[tuple[str, str]], bytes]
):
    headers, body = request_

    async def exchange() -> int:
        line = await served.connect()
        await line.send(http(headers=[pair for pair in headers if pair[0] != "Content-Length"], body=body))
        try:
            return await line.head()
        finally:
            line.hang_up()

    assert 200 <= inside.runner.run(exchange()) < 500


@settings(max_examples=60)
@given(data=st.binary(max_size=300), cut=st.integers(0, 300))
def test_any_bytes_on_a_connection_are_answered_or_the_connection_closed(
    inside: Inside, served: Client, data: bytes, cut: int
):
    headers, message = modern("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    valid = http(headers=headers, body=json.dumps(message).encode())
    whole = valid[:cut] + data + valid[cut:]

    async def exchange() -> bytes:
        line = await served.connect()
        await line.send(whole)
        line.no_more()
        return await line.everything()

    assert b" 500 " not in inside.runner.run(exchange())


def test_the_server_is_well_after_all_of_this(inside: Inside, served: Client):
    async def good() -> Answer:
        return await served.modern("tools/call", {"name": "echo", "arguments": {"text": "well"}})

    assert inside.runner.run(good()).result["content"][0]["text"] == "well"


# Through pipes


class Wire:
    """The other end of a `Duplex`."""

    def __init__(self) -> None:
        self.written: asyncio.Queue[bytes] = asyncio.Queue()
        self.duplex = Duplex(Workshop().server.service, self.written.put)

    async def feed(self, lines: list[bytes]) -> None:
        for line in lines:
            async with asyncio.timeout(IN_TIME):
                await self.duplex.receive(line)

    async def assert_well(self) -> None:
        """It still answers a good request, and all it has written are messages."""
        params = {"name": "echo", "arguments": {"text": "well"}, "_meta": meta()}
        request = {"jsonrpc": "2.0", "id": "is it well?", "method": "tools/call", "params": params}
        await self.duplex.receive(json.dumps(request).encode())
        while True:
            async with asyncio.timeout(IN_TIME):
                line = await self.written.get()
            assert b"\n" not in line
            assert_nothing_leaks(line)
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == "is it well?":
                assert message["result"]["content"][0]["text"] == "well"
                return


lines = st.lists(
    st.binary(max_size=100)
    | values.map(lambda value: json.dumps(value).encode())
    | messages.map(lambda message: json.dumps(message).encode())
    | st.sampled_from(legacy_messages()).flatmap(changed)
    | st.sampled_from([message for _, message in modern_requests()]).flatmap(changed),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300)
@given(lines=lines)
def test_any_lines_leave_a_conversation_going(inside: Inside, lines: list[bytes]):
    async def converse() -> None:
        wire = Wire()
        await wire.feed(lines)
        await wire.assert_well()
        await wire.duplex.close(0)

    inside.runner.run(converse())


def test_any_lines_to_a_process_leave_it_serving(inside: Inside):
    examples: list[bytes] = []

    @settings(max_examples=150)
    @given(lines)
    def collect(found: list[bytes]) -> None:
        examples.extend(line.replace(b"\n", b" ") for line in found)

    collect()

    async def converse() -> tuple[list[bytes], int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.edge.program",
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        params = {"name": "echo", "arguments": {"text": "well"}, "_meta": meta()}
        last = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": params}
        data = b"\n".join([*examples, json.dumps(last).encode(), b""])
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate(data)
        return out.splitlines(), await process.wait()

    written, code = inside.runner.run(converse())
    replies = [json.loads(line) for line in written]
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    assert [reply["result"]["content"][0]["text"] for reply in replies if reply.get("id") == "last"] == [
        "well"
    ]
    assert code == 0
