"""`toolyard call` and `list` against a server at an address."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.cli.old import old_edge
from tests.cli.running import Outcome, Served, Toolyard
from tests.serving import serving
from toolyard.kit import Context, Server
from toolyard.servers.demo import server as demo_server

MIRRORED = """
from typing import Any
from toolyard.kit import Server

server = Server("mirrored")

@server.tool(input_schema={
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
    },
})
def where(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["call", "echo", "text=héllo"],
        ["call", "add", "a=1", "b=2"],
        ["call", "countdown", "steps=2", "pause=0"],
        ["call", "ask_name"],
        ["call", "swatch"],
        ["call", "now", "zone=Nowhere"],
        ["call", "add", "a=1"],
        ["call", "add", "a=x"],
        ["call", "add", "a=1", "b=2", "--json"],
    ],
)
def test_a_call_has_the_same_outcome_over_http_as_in_process(
    toolyard: Toolyard, demo: Served, arguments: list[str]
):
    assert toolyard(*arguments, "--url", demo.url) == toolyard(*arguments)


def test_an_unknown_tool_is_told_with_the_command_that_lists_them(toolyard: Toolyard, demo: Served):
    outcome = toolyard("call", "ecoh", "--url", demo.url)
    assert outcome.status == 2
    assert outcome.err.splitlines()[-1] == f"hint: `toolyard list --url {demo.url}` shows them all"


def test_arguments_that_a_tool_wants_in_headers_are_sent_there_too(toolyard: Toolyard):
    toolyard.write("mirrored.py", MIRRORED)
    with toolyard.serving("mirrored.py") as served:
        outcome = toolyard("call", "where", "region=São Paulo", 'inner={"count": 2}', "--url", served.url)
    assert outcome == Outcome(0, '{"region":"São Paulo","inner":{"count":2}}\n', "")


# Legacy servers


async def call_old(toolyard: Toolyard, server: Server, *arguments: str) -> Outcome:
    async with serving(old_edge(server)) as client:
        return await asyncio.to_thread(toolyard, *arguments, "--url", client.url)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["call", "echo", "text=hello"],
        ["call", "countdown", "steps=2", "pause=0"],
        ["call", "ask_name"],
        ["call", "now", "zone=Nowhere"],
    ],
)
async def test_a_legacy_server_gives_the_same_outcome_after_the_handshake(
    toolyard: Toolyard, arguments: list[str]
):
    assert await call_old(toolyard, demo_server, *arguments) == toolyard(*arguments)


async def test_a_legacy_stream_that_the_server_lets_go_is_taken_up_again(toolyard: Toolyard):
    server = Server("releasing")

    @server.tool
    async def release(ctx: Context) -> str:
        await ctx.close_stream(retry_ms=1)
        return "after all"

    assert await call_old(toolyard, server, "call", "release") == Outcome(0, "after all\n", "")


async def test_a_question_that_a_terminal_cannot_answer_is_refused_with_a_reason(toolyard: Toolyard):
    server = Server("asking")

    @server.tool
    async def ask_model(ctx: Context) -> str:
        return (await ctx.sample("hello")).text

    legacy = await call_old(toolyard, server, "call", "ask_model")
    assert legacy.status == 1
    assert "sampling" in legacy.err
    async with serving(server.asgi()) as client:
        modern = await asyncio.to_thread(toolyard, "call", "ask_model", "--url", client.url)
    assert modern.status == 2
    assert "error: The client must declare the capability: sampling" in modern.err
    assert "hint: a terminal can only fill forms" in modern.err


# What is at an address may be anything


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """A server that gives every request the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "headers", "error", "hint"),
    [
        (
            200,
            b"<html>",
            {"Content_Type": "text/html"},
            "does not speak MCP: its answer is text/html",
            "/mcp",
        ),
        (200, b"{", {"Content_Type": "application/json"}, "does not speak MCP: Not JSON", "/mcp"),
        (200, b"[" * 500, {"Content_Type": "application/json"}, "does not speak MCP: Nested deeper", "/mcp"),
        (200, b"data: nothing\n\n", {"Content_Type": "text/event-stream"}, "does not speak MCP", "/mcp"),
        (200, b": ping\n\n", {"Content_Type": "text/event-stream"}, "closed the connection before", ""),
        (404, b"no", {}, "answered 404 Not Found", "is the path right?"),
        (401, b"", {}, "answered 401 Unauthorized", "--header 'Authorization: Bearer …'"),
        (308, b"", {"Location": "/other"}, "answered 308 Permanent Redirect", "it has moved to /other"),
        (500, b"oops", {}, "answered 500 Internal Server Error", ""),
    ],
)
def test_an_address_that_is_no_mcp_server_gets_an_error_and_a_hint(
    toolyard: Toolyard, status: int, body: bytes, headers: dict[str, str], error: str, hint: str
):
    with answering(status, body, **headers) as url:
        outcome = toolyard("list", "--url", url)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {url} ")
    assert error in outcome.err
    assert hint in outcome.err.partition("\n")[2]
    assert "Traceback" not in outcome.err


def test_an_address_where_nothing_listens_gets_a_hint_how_to_start_something(toolyard: Toolyard):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    outcome = toolyard("list", "--url", url)
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        f"error: nothing listens at {url}",
        "hint: is the server running? `toolyard serve` starts one",
    ]


def test_a_silent_address_is_given_up_after_the_timeout(toolyard: Toolyard):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        outcome = toolyard("list", "--url", url, "--timeout", "0.2")
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        f"error: {url} gave no answer within 0.2 seconds",
        "hint: --timeout SECONDS waits longer",
    ]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8321", "ftp://host/", "http://", "http://host:port/", "http://[::/"]
)
def test_an_address_that_is_none_is_refused_with_an_example(toolyard: Toolyard, url: str):
    outcome = toolyard("list", "--url", url)
    assert outcome.status == 2
    assert outcome.err.splitlines()[1] == "hint: as in http://127.0.0.1:8321/mcp"


def test_headers_are_sent_along(toolyard: Toolyard, demo: Served):
    outcome = toolyard("list", "--url", demo.url, "--header", "Host: evil.example")
    assert outcome.status == 2
    assert "answered 403 Forbidden: Host 'evil.example' is not allowed" in outcome.err


def test_a_refused_name_is_told_by_which_option_and_setting_it_is_admitted(toolyard: Toolyard, demo: Served):
    refused = toolyard("list", "--url", demo.url, "--header", "Host: evil.example").err
    assert "add it with --allow-host or to allowed_hosts" in refused
    refused = toolyard("list", "--url", demo.url, "--header", "Origin: https://evil.example").err
    assert "add it with --allow-origin or to allowed_origins" in refused


@pytest.mark.parametrize("header", ["no colon", ": x", "A: b\nC: d"])
def test_a_header_that_is_none_is_refused(toolyard: Toolyard, header: str):
    outcome = toolyard("list", "--url", "http://127.0.0.1:1/", "--header", header)
    assert outcome.status == 2
    assert outcome.err.splitlines()[1] == "hint: write it as 'Name: value'"


def test_headers_without_an_address_are_refused(toolyard: Toolyard):
    assert toolyard("list", "--header", "A: b").err.splitlines()[1] == "hint: add --url URL"
