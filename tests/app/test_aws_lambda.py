"""Servers as a function: what it is made of, what it writes to its log, and results it could not send."""

import json
import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from tests.app.keyed_function import FATAL
from tests.app.keyed_function import server as keyed
from tests.edge.lambda_client import LambdaClient
from tests.serving import modern
from tests.waiting import PATIENCE
from toolyard.app.aws_lambda import LambdaFunction, build, seconds_left
from toolyard.kit.loader import LoadError

TARGET = "tests.app.keyed_function:server"
KEY = {"x-tiflux-api-key": "tenant-one-key-5f1c"}


def event(method: str, tool: str | None = None, **headers: str) -> dict[str, Any]:
    about, message = modern(method, None if tool is None else {"name": tool, "arguments": {}})
    return {
        "version": "2.0",
        "rawPath": "/mcp",
        "headers": about | headers,
        "requestContext": {"http": {"method": "POST", "path": "/mcp"}},
        "body": json.dumps(message),
    }


def run(*events: Any, **variables: str) -> tuple[list[Any], list[dict[str, Any]], str]:
    """The replies of a function in a process of its own, the lines of its log, and the log as it is."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLYARD_")}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.app.keyed_function"],
        input="".join(json.dumps(one) + "\n" for one in events),
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    return [json.loads(line) for line in ended.stdout.splitlines()], lines, ended.stderr


def test_the_log_has_one_line_for_each_request_and_no_key():
    health = {"rawPath": "/health", "requestContext": {"http": {"method": "GET"}}}
    events = [event("tools/list", **KEY), event("tools/call", "fails", **KEY), event("tools/list"), health, 3]
    replies, lines, log = run(*events)
    assert [reply["statusCode"] for reply in replies] == [200, 200, 401, 200, 400]
    assert KEY["x-tiflux-api-key"] not in log

    warned, *rest = lines
    assert "TOOLYARD_KEY is not set" in warned["message"]
    told = [line for line in rest if line["logger"] == "toolyard.requests"]
    assert [line["outcome"] for line in told] == ["ok", "tool_error", "invalid", "ok"]
    assert [line["status"] for line in told] == [200, 200, 401, 200]
    assert all(line["request_id"] == "request-1" and line["duration_ms"] >= 0 for line in told)
    assert told[0]["key"] == told[1]["key"]
    assert len(told[0]["key"]) == 12
    assert told[1]["tool"] == "fails"
    assert told[1]["server"] == "keyed"
    assert [line.get("cold_start") for line in told] == [1, None, None, None]
    assert told[0]["init_ms"] > 0
    (failed,) = [line for line in rest if "exception" in line]
    assert "RuntimeError: not foreseen" in failed["exception"]
    assert failed["request_id"] == "request-1"
    assert any("not an HTTP request" in line["message"] for line in rest)


def test_with_a_key_of_its_own_a_function_has_nothing_to_warn_of():
    (reply,), lines, _ = run(event("tools/list", **KEY), TOOLYARD_KEY="a key that all instances have")
    assert reply["statusCode"] == 200
    assert [line["logger"] for line in lines] == ["toolyard.requests"]


def test_a_call_that_cancels_itself_is_answered_and_the_next_one_is_served():
    gives_up = event("tools/call", "gives_up", **KEY)
    replies, lines, _ = run(
        gives_up, event("tools/list", **KEY), TOOLYARD_KEY="a key that all instances have"
    )
    assert [reply["statusCode"] for reply in replies] == [500, 200]
    assert json.loads(replies[0]["body"])["error"]["code"] == -32603
    assert any("cancelled from inside" in line["message"] for line in lines)


def test_a_fault_of_the_function_is_500_and_neither_reply_nor_log_has_the_key():
    fatal = event("tools/list", **{"x-tiflux-api-key": FATAL})
    replies, lines, log = run(fatal, event("tools/list", **KEY), TOOLYARD_KEY="a key that all instances have")
    assert [reply["statusCode"] for reply in replies] == [500, 200]
    error = json.loads(replies[0]["body"])["error"]
    assert error == {"code": -32603, "message": "Internal error; the server's log has the details"}
    assert FATAL not in log + json.dumps(replies)
    (failed,) = [line for line in lines if "exception" in line]
    assert "RuntimeError: not foreseen" in failed["exception"]
    told = [line for line in lines if line["logger"] == "toolyard.requests"]
    assert [(line["status"], line["outcome"]) for line in told] == [(500, "error"), (200, "ok")]


async def test_where_callers_can_bring_keys_they_must():
    client = LambdaClient(build([TARGET]))
    assert (await client.modern("tools/list")).status == 401
    headers, message = modern("tools/list")
    assert (await client.post(headers | KEY, message)).status == 200


async def test_a_function_offers_no_tasks_and_does_not_say_that_it_tells_of_changes():
    client = LambdaClient(build([TARGET]))
    extension = "io.modelcontextprotocol/tasks"
    headers, message = modern("server/discover")
    told = (await client.post(headers | KEY, message)).result["capabilities"]
    assert told["tools"] == {}
    assert extension not in told.get("extensions", {})
    params = {"name": "job", "arguments": {}}
    headers, message = modern("tools/call", params, capabilities={"extensions": {extension: {}}})
    assert (await client.post(headers | KEY, message)).result["resultType"] == "complete"


async def test_a_result_over_the_limit_becomes_a_summary_that_fits_the_listed_schema():
    client = LambdaClient(build([TARGET]))
    headers, message = modern("tools/list")
    tools = (await client.post(headers | KEY, message)).result["tools"]
    (schema,) = [tool["outputSchema"] for tool in tools if tool["name"] == "much"]

    headers, message = modern("tools/call", {"name": "much", "arguments": {"megabytes": 7}})
    result = (await client.post(headers | KEY, message)).result
    shaped = result["structuredContent"]
    assert (shaped["tool_name"], shaped["truncated"]) == ("much", True)
    assert shaped["summary"]["item_count"] == 7 * 1024
    assert shaped["preview"][0]["number"] == 0
    assert "ask for fewer" in shaped["storage"]["error"]
    assert jsonschema_rs.is_valid(schema, shaped)
    assert jsonschema_rs.is_valid(schema, {"items": []})
    assert not jsonschema_rs.is_valid(schema, {"other": 1})


async def test_a_result_that_has_no_smaller_form_is_an_error_that_says_how_big_it_was():
    client = LambdaClient(build([TARGET]))
    headers, message = modern("tools/call", {"name": "picture", "arguments": {"megabytes": 6}})
    result = (await client.post(headers | KEY, message)).result
    assert result["isError"]
    assert "bytes and a function can send" in result["content"][0]["text"]


async def test_several_servers_are_at_a_path_each():
    client = LambdaClient(build(["demo", TARGET]))
    assert len((await client.ask("GET", "/health", {})).json["servers"]) == 2
    headers, message = modern("tools/list")
    assert (await client.post(headers | KEY, message, path="/mcp/keyed")).status == 200
    assert (await client.post(headers | KEY, message, path="/mcp")).status == 404


def test_a_function_of_nothing_or_of_what_is_not_there_is_not_made():
    with pytest.raises(ValueError, match="at least one server"):
        build([])
    with pytest.raises(ValueError, match="two servers have the same name: keyed, keyed"):
        build([TARGET, TARGET])
    with pytest.raises(LoadError, match="no module 'nowhere'"):
        build(["nowhere"])


def test_the_time_for_an_answer_ends_before_the_functions_time_does():
    class Context:
        def __init__(self, left: int) -> None:
            self.left = left

        def get_remaining_time_in_millis(self) -> int:
            return self.left

    assert seconds_left(None) is None
    assert [seconds_left(Context(left)) for left in (30_000, 10_000, 1_000, 100, 0)] == [
        29.0,
        9.5,
        0.75,
        0.05,
        0.0,
    ]


def test_a_handler_can_be_called_again_and_again_by_whoever_has_it():
    handler = LambdaFunction(build([TARGET]))
    replies = [handler(event("tools/list", **KEY)) for _ in range(3)]
    assert [reply["statusCode"] for reply in replies] == [200] * 3
    assert keyed.caller_keys is not None
    assert keyed.caller_keys.required
