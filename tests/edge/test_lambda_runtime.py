"""Our own loop at a Runtime API: handlers that fail, at every moment at which one can."""

import asyncio
import base64
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from tests.aws.memory import found_in
from tests.aws.proxy import Streamed
from tests.aws.rie import PATIENCE
from tests.aws.runtime_api import running
from tests.serving import modern
from toolyard.cli.deploy.template import MEMORY_WIPING
from toolyard.edge.aws.runtime import RuntimeApi

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "toolyard.edge.aws.runtime")

FAILS = """
import asyncio

class Handler:
    loop = asyncio.new_event_loop()

    async def answer(self, event, context, outlet):
        if event == "at once":
            raise RuntimeError("failed at once")
        await outlet.start(200, [(b"content-type", b"text/event-stream")])
        await outlet.write(b"data: 1\\n\\n")
        if event == "midway":
            raise RuntimeError("failed midway")
        while event == "endless":
            await outlet.write(b"data: more\\n\\n")
            await asyncio.sleep(0)
        await outlet.write(f"{context.aws_request_id} {context.get_remaining_time_in_millis() > 0}".encode())

handler = Handler()
"""


WAITS = """
import asyncio
import sys

from toolyard.kit import CallerKeys, Server

server = Server("waits", caller_keys=CallerKeys(("x-key",)))


@server.tool
async def wait() -> str:
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
    return "never"
"""


def runtime(folder: Path, source: str, **variables: str) -> Any:
    (folder / "function.py").write_text(source, "utf-8")
    return running(folder, folder / "function.log", {"PYTHONPATH": str(ROOT), **variables}, command=COMMAND)


async def test_a_handler_that_fails_is_told_to_aws_and_the_next_event_is_answered(tmp_path: Path):
    async with runtime(tmp_path, FAILS) as instance:
        at_once = instance.api.give("at once", 30)
        assert (await at_once.reply()).status == 502
        assert at_once.error["errorType"] == "RuntimeError"
        assert any("function.py" in line for line in at_once.error["stackTrace"])

        midway = instance.api.give("midway", 30)
        begun = await midway.reply()
        assert isinstance(begun, Streamed)
        assert [piece async for piece in begun.pieces] == [b"data: 1\n\n"]
        body = base64.b64decode(midway.trailers["lambda-runtime-function-error-body"])
        assert json.loads(body)["errorMessage"] == "failed midway"

        whole = instance.api.give("well", 30)
        answered = await whole.reply()
        assert isinstance(answered, Streamed)
        assert b"".join([piece async for piece in answered.pieces]).endswith(f"{whole.id} True".encode())


async def test_an_answer_that_nobody_takes_any_more_is_given_up_and_the_next_event_is_answered(
    tmp_path: Path,
):
    async with runtime(tmp_path, FAILS) as instance:
        begun = await instance.api.give("endless", 30).reply()
        assert isinstance(begun, Streamed)
        instance.api.close()
        whole = instance.api.give("well", 30)
        answered = await whole.reply()
        assert isinstance(answered, Streamed)
        assert b"".join([piece async for piece in answered.pieces]).endswith(b"True")
        assert "an answer was lost" in instance.log


async def test_no_key_stays_of_a_request_whose_answer_nobody_takes(tmp_path: Path):
    (tmp_path / "waits.py").write_text(WAITS, "utf-8")
    source = 'from toolyard.app.aws_lambda import function\nhandler = function(["waits"])'
    key, canary = secrets.token_hex(20), "a canary that is kept on purpose"
    async with runtime(tmp_path, source, TOOLYARD_KEY=canary, **MEMORY_WIPING) as instance:
        await instance.api.idle.wait()
        headers, message = modern("tools/call", {"name": "wait", "arguments": {}})
        event = {
            "rawPath": "/mcp",
            "headers": headers | {"x-key": key},
            "requestContext": {"http": {"method": "POST"}},
            "body": json.dumps(message),
        }
        instance.api.give(event, 2.0)
        async with asyncio.timeout(PATIENCE):
            while "waiting" not in instance.log:  # noqa: ASYNC110  another process tells us nothing
                await asyncio.sleep(0.01)
            instance.api.close()
            await instance.api.idle.wait()
        assert "an answer was lost" in instance.log
        assert found_in(instance.pid, [key.encode(), canary.encode()]) == {canary.encode()}


async def test_without_streaming_the_reply_is_one_object(tmp_path: Path):
    async with runtime(tmp_path, FAILS, TOOLYARD_STREAM="0") as instance:
        invocation = instance.api.give("well", 30)
        answered = await invocation.reply()
        assert not invocation.streams
        assert (answered.status, answered.body[:9]) == (200, b"data: 1\n\n")
        failed = instance.api.give("midway", 30)
        assert (await failed.reply()).status == 502


async def test_what_keeps_a_function_from_starting_is_told_to_aws(tmp_path: Path):
    async with runtime(tmp_path, "handler = len") as instance:
        error = await instance.api.init_error
        assert error["errorType"] == "TypeError"
        assert "'function.handler' is no handler that streams" in error["errorMessage"]
        assert await instance.process.wait() == 1


async def test_trailers_of_an_answer_are_passed_over_and_the_connection_is_used_again():
    head = b"HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        for number in range(3):
            await reader.readuntil(b"\r\n\r\n")
            trailers = b"X-Trailer: y\r\nLambda-Runtime-Aws-Request-Id: other\r\n"
            writer.write(head % number + b"2\r\n{}\r\n0;x=y\r\n" + trailers + b"\r\n")

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        api = RuntimeApi(f"127.0.0.1:{port}")
        found = [await api.next() for _ in range(3)]
        api.close()
        connections[0].close()
    assert [(item.id, item.event) for item in found] == [(str(number), b"{}") for number in range(3)]
    assert len(connections) == 1
