"""The stdio edge as a client meets it: a real process, its pipes, its signals and its end."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.serving import PREFIX, assert_nothing_leaks, initialize, meta
from tests.waiting import PATIENCE
from toolyard.edge.stdio import Duplex
from toolyard.kit import Server

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.edge.program"]


class Program:
    """A server on the other end of two pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stderr is not None
        self.process = process
        self.stdin, self.stderr = process.stdin, process.stderr
        # A test that gave the process an output of its own reads that itself.
        self.stdout = process.stdout or asyncio.StreamReader()
        self._last = 0

    async def write(self, data: bytes) -> None:
        self.stdin.write(data)
        await self.stdin.drain()

    async def send(self, message: Any) -> None:
        await self.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Any:
        """The next message; every line must be one."""
        async with asyncio.timeout(PATIENCE):
            line = await self.stdout.readline()
        assert line.endswith(b"\n"), line[:200]
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def read_rest(self) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            return [json.loads(line) async for line in self.stdout]

    async def warned(self, text: str) -> None:
        """Wait until this stands on standard error."""
        async with asyncio.timeout(PATIENCE):
            while text.encode() not in await self.stderr.readline():
                assert not self.stderr.at_eof(), f"{text!r} never came"

    def next_id(self) -> int:
        self._last += 1
        return self._last

    async def begin(self, method: str, params: dict[str, Any], modern: bool = True, id: Any = None) -> Any:
        """Send a request without waiting for its answer."""
        id = self.next_id() if id is None else id
        own = params.get("_meta", {})
        params = params | ({"_meta": meta() | own} if modern else {})
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def ask(self, method: str, params: dict[str, Any] | None = None, modern: bool = True) -> Any:
        id = await self.begin(method, params or {}, modern)
        message = await self.read()
        assert message["id"] == id, message
        return message

    async def call(self, tool: str, modern: bool = True, **arguments: Any) -> Any:
        reply = await self.ask("tools/call", {"name": tool, "arguments": arguments}, modern)
        return reply["result"]["content"][0]["text"]

    async def start(self, tool: str, id: Any = None, modern: bool = True) -> Any:
        """Call a tool that says when it has begun."""
        params = {"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}}
        id = await self.begin("tools/call", params, modern, id)
        assert (await self.read())["params"]["message"] == "begun"
        return id

    async def handshake(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        _, message = initialize(version, capabilities)
        await self.send(message)
        reply = await self.read()
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply["result"]

    async def exit_code(self, within: float = PATIENCE) -> int:
        async with asyncio.timeout(within):
            return await self.process.wait()


@asynccontextmanager
async def program(stdout: int = asyncio.subprocess.PIPE) -> AsyncIterator[Program]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=ROOT, stdin=pipe, stdout=stdout, stderr=pipe, limit=64 * 1024 * 1024
    )
    try:
        yield Program(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def unread_program() -> AsyncIterator[tuple[Program, BinaryIO]]:
    """A server whose output is a pipe that nobody reads unless the test does."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as output:
        async with program(stdout=writing) as server:
            os.close(writing)
            yield server, output


async def readable(file: BinaryIO) -> None:
    """Wait until there is something to read, and leave it there."""
    loop = asyncio.get_running_loop()
    something = asyncio.Event()
    loop.add_reader(file, something.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await something.wait()
    finally:
        loop.remove_reader(file)


# Both eras


async def test_one_process_speaks_both_eras_at_once():
    async with program() as server:
        discovered = await server.ask("server/discover")
        assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
        assert await server.call("echo", text="modern") == "modern"
        assert (await server.handshake())["protocolVersion"] == "2025-11-25"
        assert await server.call("echo", modern=False, text="legacy") == "legacy"
        assert (await server.ask("ping", modern=False))["result"] == {}
        assert await server.call("echo", text="still modern") == "still modern"
        assert (await server.ask("ping"))["error"]["code"] == -32601


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_each_legacy_version_can_be_negotiated(version: str):
    async with program() as server:
        assert (await server.handshake(version))["protocolVersion"] == version
        assert await server.call("echo", modern=False, text="hi") == "hi"


async def test_a_client_that_neither_shakes_hands_nor_is_modern_is_told_what_to_do():
    async with program() as server:
        reply = await server.ask("tools/list", modern=False)
        assert reply["error"]["code"] == -32600
        assert "initialize" in reply["error"]["message"]
        probe = await server.ask("server/discover", modern=False)
        assert probe["error"]["code"] == -32602
        assert (await server.ask("tools/list"))["result"]["tools"]


async def test_a_modern_request_whose_slashes_are_escaped_is_modern():
    async with program() as server:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
        await server.write(json.dumps(request).replace("/", "\\/").encode() + b"\n")
        assert "result" in await server.read()


async def test_an_unknown_version_is_refused_with_those_that_are_known():
    async with program() as server:
        params = {"_meta": meta(version="2099-01-01")}
        await server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
        error = (await server.read())["error"]
        assert error["code"] == -32022
        assert error["data"]["supported"] == ["2026-07-28"]


async def test_answers_come_when_they_are_ready_and_not_in_order():
    async with program() as server:
        slow = await server.start("brief")
        assert await server.call("echo", text="quick") == "quick"
        assert (await server.read())["id"] == slow


async def test_many_requests_at_once_are_all_answered():
    async with program() as server:
        ids = [
            await server.begin("tools/call", {"name": "echo", "arguments": {"text": str(n)}})
            for n in range(200)
        ]
        replies = [await server.read() for _ in ids]
        texts = {reply["id"]: reply["result"]["content"][0]["text"] for reply in replies}
        assert texts == {id: str(n) for n, id in enumerate(ids)}


async def test_a_legacy_client_is_asked_by_a_request_and_a_modern_one_by_a_result():
    async with program() as server:
        await server.handshake(elicitation={})
        id = await server.begin("tools/call", {"name": "greet"}, modern=False)
        asked = await server.read()
        assert asked["method"] == "elicitation/create"
        await server.send(
            {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
        )
        reply = await server.read()
        assert (reply["id"], reply["result"]["content"][0]["text"]) == (id, "Hello Ada")
        params = {"name": "greet", "_meta": meta({"elicitation": {}})}
        assert (await server.ask("tools/call", params))["result"]["resultType"] == "input_required"


async def test_changes_are_told_to_a_legacy_client_and_to_modern_subscriptions():
    async with program() as server:
        await server.handshake()
        await server.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        acknowledged = await server.read()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["_meta"][PREFIX + "subscriptionId"] == "s"
        id = await server.begin("tools/call", {"name": "change"})
        messages = [await server.read() for _ in range(3)]
        told = [
            message for message in messages if message.get("method") == "notifications/tools/list_changed"
        ]
        assert [message.get("id") for message in messages if message not in told] == [id]
        marks = [
            message.get("params", {}).get("_meta", {}).get(PREFIX + "subscriptionId") for message in told
        ]
        assert sorted(marks, key=str) == [None, "s"]


# Cancellation


@pytest.mark.parametrize("modern", [True, False])
async def test_a_cancelled_call_is_stopped_and_never_answered(modern: bool):
    async with program() as server:
        await server.handshake()
        id = await server.start("wait", modern=modern)
        await server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        )
        await server.warned("wait was cancelled")
        assert await server.call("echo", text="next") == "next"
        # Its id is free again.
        again = await server.start("brief", id=id)
        assert (await server.read())["id"] == again


async def test_a_subscription_is_ended_by_cancelling_it():
    async with program() as server:
        await server.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        await server.read()
        await server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}
        )
        assert await server.call("change") == "told"
        assert await server.call("echo", text="and nothing else") == "and nothing else"


@pytest.mark.parametrize(
    "params", [{}, {"requestId": None}, {"requestId": 99}, {"requestId": {}}, {"requestId": "1"}]
)
async def test_a_cancellation_of_nothing_is_ignored(params: dict[str, Any]):
    async with program() as server:
        id = await server.start("brief")
        assert id == 1
        await server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert (await server.read())["result"]["content"][0]["text"] == "done in time"


async def test_an_id_in_use_is_refused_and_the_first_call_goes_on():
    async with program() as server:
        await server.start("brief", id="it")
        await server.begin("tools/call", {"name": "echo"}, id="it")
        assert (await server.read())["error"]["code"] == -32600
        assert (await server.read())["result"]["content"][0]["text"] == "done in time"


async def test_a_request_cancelled_and_sent_again_in_one_breath_can_be_cancelled_again():
    async with program() as server:
        await server.start("wait", id="it")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "it"}}
        params = {"name": "wait", "_meta": meta() | {"progressToken": "p"}}
        again = {"jsonrpc": "2.0", "id": "it", "method": "tools/call", "params": params}
        await server.write(json.dumps(cancel).encode() + b"\n" + json.dumps(again).encode() + b"\n")
        await server.warned("wait was cancelled")
        assert (await server.read())["params"]["message"] == "begun"
        await server.send(cancel)
        await server.warned("wait was cancelled")


async def test_cancelling_an_answer_that_is_being_written_does_not_tear_it():
    async with unread_program() as (server, output):
        id = await server.begin("tools/call", {"name": "big", "arguments": {"size": 1_000_000}})
        await readable(output)  # it fills the pipe and stays half written
        await server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        )
        for text in ("a", "b"):
            await server.begin("tools/call", {"name": "echo", "arguments": {"text": text}}, id=text)
        await server.begin("tools/call", {"name": "prints", "arguments": {"text": "all taken"}}, id="last")
        await server.warned("all taken")
        server.stdin.close()
        lines = await asyncio.to_thread(output.read)
        replies = [json.loads(line) for line in lines.splitlines()]
        assert {"a", "b", "last"} <= {reply["id"] for reply in replies}


async def test_a_request_sent_as_a_notification_does_not_stop_the_reading():
    async with program() as server:
        await server.handshake()
        await server.send({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "wait"}})
        assert await server.call("echo", text="still here") == "still here"


# Standard output belongs to the protocol


async def test_what_a_tool_prints_does_not_reach_the_client():
    async with program() as server:
        assert await server.call("prints", text="not for the client") == "printed"
        await server.warned("not for the client")
        assert await server.call("echo", text="clean") == "clean"


async def test_a_tool_cannot_eat_the_messages_on_standard_input():
    async with program() as server:
        assert await server.call("reads") == "read ''"
        assert await server.call("echo", text="mine") == "mine"


async def test_a_big_answer_comes_in_one_line():
    async with program() as server:
        assert await server.call("big", size=5_000_000) == "x" * 5_000_000


async def test_a_client_that_reads_late_misses_nothing():
    async with unread_program() as (server, output):
        ids = [
            await server.begin("tools/call", {"name": "big", "arguments": {"size": size}})
            for size in (50_000, 10, 4_000, 200_000, 5_000) * 10
        ]
        await readable(output)
        reading = asyncio.create_task(asyncio.to_thread(output.readlines))
        server.stdin.close()
        assert {json.loads(line)["id"] for line in await reading} == set(ids)


async def test_one_socket_may_serve_as_both_input_and_output():
    # As socat and inetd start programs.
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, cwd=ROOT, stdin=theirs.fileno(), stdout=theirs.fileno()
        )
    reader, writer = await asyncio.open_connection(sock=ours, limit=64 * 1024 * 1024)
    try:
        for size in (10, 3_000_000):
            params = {"name": "big", "arguments": {"size": size}, "_meta": meta()}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            writer.write(json.dumps(request).encode() + b"\n")
            async with asyncio.timeout(PATIENCE):
                reply = json.loads(await reader.readline())
            assert len(reply["result"]["content"][0]["text"]) == size
        writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        writer.close()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_requests_may_come_from_a_file(tmp_path: Path):
    requests = tmp_path / "requests"
    params = {"name": "echo", "arguments": {"text": "from a file"}, "_meta": meta()}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}) for n in range(3)
    ]
    requests.write_text("\n".join(lines))
    with requests.open("rb") as file:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, cwd=ROOT, stdin=file, stdout=asyncio.subprocess.PIPE
        )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate()
    assert {json.loads(line)["id"] for line in out.splitlines()} == {0, 1, 2}


# Bad lines


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello", -32700),
        (b'{"jsonrpc":"2.0","id":1', -32700),
        (b'{"id":"\xff"}', -32700),
        (b"\x00\x01\x02", -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
        (b"[" * 100_000, -32600),
    ],
    ids=["text", "half", "bad UTF-8", "binary", "batch", "number", "id null", "deep"],
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_one_served(line: bytes, code: int):
    async with program() as server:
        await server.write(line + b"\n")
        reply = await server.read()
        assert reply["error"]["code"] == code
        assert_nothing_leaks(json.dumps(reply).encode())
        assert await server.call("echo", text="next") == "next"


async def test_empty_lines_and_carriage_returns_are_ignored():
    async with program() as server:
        await server.write(b"\n\r\n  \n")
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
        await server.write(json.dumps(request).encode() + b"\r\n")
        assert (await server.read())["id"] == 1


async def test_a_line_over_the_limit_is_refused_and_the_next_one_served():
    async with program() as server:
        size = 17 * 1024 * 1024
        await server.write(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + b"x" * size + b'"}}\n')
        reply = await server.read()
        assert reply["error"]["code"] == -32600
        assert "limit" in reply["error"]["message"]
        assert await server.call("echo", text="next") == "next"


async def test_a_large_line_within_the_limit_is_served():
    async with program() as server:
        text = "x" * 8_000_000
        assert await server.call("echo", text=text) == text


async def test_a_message_that_comes_in_pieces_is_put_together():
    async with program() as server:
        params = {"name": "echo", "arguments": {"text": "é世"}, "_meta": meta()}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        for byte in json.dumps(request, ensure_ascii=False).encode() + b"\n":
            await server.write(bytes([byte]))
        assert (await server.read())["result"]["content"][0]["text"] == "é世"


# The end


async def test_the_process_ends_when_its_input_does():
    async with program() as server:
        await server.call("echo")
        server.stdin.close()
        assert await server.exit_code() == 0
        assert await server.read_rest() == []


async def test_the_last_line_needs_no_line_break():
    async with program() as server:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
        await server.write(json.dumps(request).encode())
        server.stdin.close()
        assert [message["id"] for message in await server.read_rest()] == [1]
        assert await server.exit_code() == 0


async def test_a_call_that_is_nearly_done_is_finished_after_the_input_ends():
    async with program() as server:
        id = await server.start("brief")
        server.stdin.close()
        (reply,) = await server.read_rest()
        assert (reply["id"], reply["result"]["content"][0]["text"]) == (id, "done in time")
        assert await server.exit_code() == 0


async def test_a_call_that_would_not_end_is_cancelled_after_the_input_ends():
    async with program() as server:
        await server.start("wait")
        server.stdin.close()
        assert await server.exit_code(within=8) == 0
        assert b"wait was cancelled" in await server.stderr.read()


async def test_a_question_nobody_will_answer_does_not_keep_the_process():
    async with program() as server:
        await server.handshake(elicitation={})
        await server.begin("tools/call", {"name": "greet"}, modern=False)
        assert (await server.read())["method"] == "elicitation/create"
        server.stdin.close()
        assert await server.exit_code(within=8) == 0


async def test_a_subscription_does_not_keep_the_process():
    async with program() as server:
        await server.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        await server.read()
        server.stdin.close()
        assert await server.exit_code(within=8) == 0


async def test_a_function_that_blocks_its_thread_does_not_keep_the_process():
    async with program() as server:
        await server.begin("tools/call", {"name": "blocks"})
        await server.warned("blocks has begun")
        server.stdin.close()
        assert await server.exit_code(within=8) == 0


async def test_a_client_that_does_not_read_does_not_keep_the_process():
    async with unread_program() as (server, output):
        await server.begin("tools/call", {"name": "big", "arguments": {"size": 1_000_000}})
        await readable(output)
        server.stdin.close()
        assert await server.exit_code(within=8) == 0


async def test_a_client_that_does_not_read_does_not_outlast_a_signal():
    async with unread_program() as (server, output):
        await server.begin("tools/call", {"name": "big", "arguments": {"size": 1_000_000}})
        await readable(output)
        server.process.send_signal(signal.SIGTERM)
        await server.exit_code(within=5)


async def test_an_output_that_was_closed_ends_nothing_in_a_traceback():
    async with unread_program() as (server, output):
        output.close()
        await server.begin("tools/call", {"name": "big", "arguments": {"size": 100_000}})
        await server.begin("tools/call", {"name": "echo"})
        server.stdin.close()
        assert await server.exit_code(within=8) == 0
        assert b"Traceback" not in await server.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_at_once_even_in_the_middle_of_a_call(number: signal.Signals):
    async with program() as server:
        await server.start("wait")
        server.process.send_signal(number)
        assert await server.exit_code(within=5) == 0
        errors = await server.stderr.read()
        assert b"wait was cancelled" in errors
        assert b"Traceback" not in errors


async def test_a_signal_ends_the_process_even_while_a_function_blocks_its_thread():
    async with program() as server:
        await server.begin("tools/call", {"name": "blocks"})
        await server.warned("blocks has begun")
        server.process.send_signal(signal.SIGTERM)
        await server.exit_code(within=5)


async def test_a_tool_that_cancels_its_own_task_is_answered_all_the_same():
    server = Server("own")

    @server.tool
    async def give_up() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return "never"

    answers: asyncio.Queue[bytes] = asyncio.Queue()
    duplex = Duplex(server.service, answers.put)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    for id, method, params in ((1, "initialize", hello), (2, "tools/call", {"name": "give_up"})):
        await duplex.receive(
            json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
        )
        async with asyncio.timeout(PATIENCE):
            answer = json.loads(await answers.get())
    await duplex.close(0)
    assert answer["id"] == 2
    assert answer["error"]["code"] == -32603
