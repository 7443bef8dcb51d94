"""Connections between requests: kept for longer than a balancer keeps its own, and not without number."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.programs import find_program, needs
from tests.serving import Client, Line, encoded, http, modern, serving
from tests.waiting import PATIENCE
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import Receive, Scope, Send
from toolyard.kit import Server

LONG, SHORT = 3600.0, 0.05


class Counted:
    """An endpoint in front of another that notes from which connection each request came."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge
        self.path = edge.path
        self.peers: list[tuple[str, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.peers.append(scope["client"])
        await self._edge(scope, receive, send)

    async def close(self) -> None:
        await self._edge.close()


class Slow:
    def __init__(self) -> None:
        self.server = Server("idle")
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.server.tool(self.wait)
        self.server.tool(self.echo)

    async def wait(self) -> str:
        self.begun.set()
        await self.go_on.wait()
        return "waited"

    async def echo(self, text: str = "hi") -> str:
        return text


def call(tool: str) -> bytes:
    headers, message = modern("tools/call", {"name": tool, "arguments": {}})
    return http("POST", "/mcp", headers, encoded(message))


async def said(line: Line, tool: str = "echo") -> str:
    await line.send(call(tool))
    return (await line.answer()).result["content"][0]["text"]


async def test_an_idle_connection_is_closed_after_a_while():
    async with serving(Slow().server.asgi(), keep_alive=SHORT) as client:
        line = await client.connect()
        assert await said(line) == "hi"
        assert await line.everything() == b""


async def test_a_connection_whose_request_was_answered_early_is_closed_after_a_while_too():
    async with serving(Slow().server.asgi(max_body=10), keep_alive=SHORT) as client:
        line = await client.connect()
        whole = call("echo")
        await line.send(whole[:-5])
        assert (await line.answer()).status == 413
        await line.send(whole[-5:])
        assert await line.everything() == b""


async def test_of_too_many_idle_connections_the_oldest_are_closed():
    slow = Slow()
    async with serving(slow.server.asgi(), keep_alive=LONG, max_idle=3) as client:
        busy = await client.connect()
        await busy.send(call("wait"))
        await slow.begun.wait()
        lines = [await client.connect() for _ in range(3)]
        for line in lines:
            assert await said(line) == "hi"
        assert await said(lines[0]) == "hi", "which makes the second the oldest"
        another = await client.connect()
        assert await said(another) == "hi"
        assert await lines[1].everything() == b""
        for line in (lines[0], lines[2], another):
            assert await said(line) == "hi"
        slow.go_on.set()
        assert (await busy.answer()).result["content"][0]["text"] == "waited"


async def test_connections_that_never_say_anything_are_idle_too():
    async with serving(Slow().server.asgi(), keep_alive=LONG, max_idle=2) as client:
        silent = [await client.connect() for _ in range(3)]
        assert await silent[0].everything() == b""
        assert await said(silent[1]) == "hi"


# Behind nginx

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr error;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream toolyard {{ server 127.0.0.1:{port}; keepalive 16; }}
    server {{
        listen unix:{folder}/socket;
        location / {{
            proxy_pass http://toolyard;
            proxy_http_version 1.1;
            proxy_set_header Host localhost;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


@asynccontextmanager
async def behind_nginx(client: Client, folder: Path) -> AsyncIterator[Line]:
    """A connection to a real nginx that keeps its own connections to us, as balancers do."""
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, port=client.port))
    program = find_program("nginx")
    assert program is not None
    running = await asyncio.create_subprocess_exec(
        program, "-p", str(folder), "-c", str(file), "-e", "stderr", stderr=asyncio.subprocess.PIPE
    )
    try:
        line = await _connected(folder / "socket")
        yield line
        line.hang_up()
    finally:
        with suppress(ProcessLookupError):
            running.send_signal(signal.SIGTERM)
        _, errors = await running.communicate()
    assert errors.decode() == ""


async def _connected(path: Path) -> Line:
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(FileNotFoundError, ConnectionRefusedError):
                return Line(*await asyncio.open_unix_connection(str(path)))
            await asyncio.sleep(0.01)


@needs("nginx")
async def test_nginx_finds_its_connection_open_after_a_pause_of_six_seconds(tmp_path: Path):
    counted = Counted(Slow().server.asgi())
    async with serving(counted) as client, behind_nginx(client, tmp_path) as line:  # type: ignore[arg-type]
        assert await said(line) == "hi"
        await asyncio.sleep(6)  # the pause itself is what is tried: one second more than uvicorn's own limit
        assert await said(line) == "hi"
        assert len(set(counted.peers)) == 1
