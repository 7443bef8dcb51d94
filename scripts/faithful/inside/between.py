"""A pytest plugin for others' tests: their clients reach their servers over HTTP, or through a gateway.

It is loaded into their test run, in their environment. What a test would have connected in memory, or with an
application in its own process, is served on a port of loopback instead (BETWEEN=http), and a gateway is put
before that (BETWEEN=through); BETWEEN=direct only counts. The tests are as they are. A line of JSON for each
goes to BETWEEN_REPORT: what came of it, and how many connections of it can be laid another way; a test
without any says nothing about a gateway.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn

WAY = os.environ["BETWEEN"]
GATEWAYS = os.environ.get("BETWEEN_GATEWAYS", "")
VIEW = os.environ.get("BETWEEN_VIEW", "bare")
PREFIX = "mcp__theirs__"
GRACE_S = 1.0

laid = 0
lists = 0


def count() -> None:
    global laid
    laid += 1


class Served:
    """An ASGI app on a port of loopback, in this event loop. `owned`: its lifespan is ours to run."""

    def __init__(self, app: Any, owned: bool) -> None:
        self._app = app
        self._lifespan = "on" if owned else "off"

    async def start(self) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(self._app, lifespan=self._lifespan, log_config=None, ws="none")  # type: ignore
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        try:
            await self._server.startup(sockets=[listener])
        except SystemExit:
            listener.close()
            raise RuntimeError("the server does not start") from None
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def stop(self) -> None:
        """What uvicorn does, without its naps of a tenth of a second."""
        state = self._server.server_state
        for listener in self._server.servers:
            listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        if tasks := list(state.tasks):
            _, late = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in late:
                task.cancel()
        for connection in list(state.connections):
            connection.transport.close()
        await self._server.lifespan.shutdown()


@asynccontextmanager
async def between(url: str) -> AsyncIterator[str]:
    """The URL by which a client is to reach the server at `url`."""
    count()
    if WAY == "http":
        yield url
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    reader, writer = await asyncio.open_unix_connection(f"{GATEWAYS}/{worker}")
    try:
        writer.write(json.dumps({"url": url, "view": VIEW}).encode() + b"\n")
        yield json.loads(await reader.readline())["url"]
    finally:
        writer.write_eof()
        await reader.read()  # until the gateway is gone
        writer.close()


class Shared:
    """A server of which a test connects several clients is served once."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, int], list[Any]] = {}

    @asynccontextmanager
    async def reach(self, server: Any, app: Any) -> AsyncIterator[str]:
        key = asyncio.get_running_loop(), id(server)
        if key not in self._open:
            self._open[key] = [0, asyncio.ensure_future(self._lay(app())), None]
        entry = self._open[key]
        entry[0] += 1
        try:
            _, url = await asyncio.shield(entry[1])
            yield url
        finally:
            entry[0] -= 1
            if not entry[0]:
                self._open.pop(key, None)
                if entry[1].done() and not entry[1].exception():
                    await asyncio.shield(asyncio.ensure_future(entry[1].result()[0].aclose()))

    async def _lay(self, app: Any) -> tuple[AsyncExitStack, str]:
        stack = AsyncExitStack()
        served = Served(app, owned=True)
        url = await served.start()
        stack.push_async_callback(served.stop)
        return stack, await stack.enter_async_context(between(f"{url}/mcp"))


shared = Shared()


class OverSockets(httpx2.AsyncBaseTransport):
    """In the place of transports that call an app in their own process: what is MCP goes the whole way, and
    other pages are fetched from the app.
    """

    def __init__(self, app: Any, **_: Any) -> None:
        self._served = Served(app, owned=False)
        self._stack = AsyncExitStack()
        self._ways: dict[str, str] = {}
        self._laying = asyncio.Lock()

    async def __aenter__(self) -> "OverSockets":
        self._wire = await self._stack.enter_async_context(httpx2.AsyncHTTPTransport())
        self._url = await self._served.start()
        self._stack.push_async_callback(self._served.stop)
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._stack.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if "text/event-stream" in request.headers.get("accept", ""):
            async with self._laying:
                if path not in self._ways:
                    self._ways[path] = await self._stack.enter_async_context(between(self._url + path))
        target = httpx2.URL(self._ways.get(path, self._url + path))
        request.url = request.url.copy_with(
            scheme="http", host=target.host, port=target.port, path=target.path
        )
        request.headers["host"] = f"{target.host}:{target.port}"
        return await self._wire.handle_async_request(request)


def rename(dispatcher: Any) -> None:
    """Views of several servers say in a name whose it is; a test knows only its own."""
    from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value

    send = dispatcher.send_raw_request

    async def send_raw_request(method: str, params: Any, opts: Any = None) -> Any:
        if method in ("tools/call", "prompts/get"):
            params = {**params, "name": PREFIX + params["name"]}
            if MCP_NAME_HEADER in (opts or {}).get("headers", {}):
                opts["headers"][MCP_NAME_HEADER] = encode_header_value(params["name"])
        global lists
        lists += method == "tools/list"
        result = await send(method, params, opts)
        for one in result.get(method.removesuffix("/list"), []) if method.endswith("/list") else []:
            one["name"] = one["name"].removeprefix(PREFIX)
        return result

    dispatcher.send_raw_request = send_raw_request


def lay_fastmcp() -> None:
    from fastmcp import FastMCP
    from fastmcp.client.transports.http import StreamableHttpTransport
    from fastmcp.client.transports.memory import FastMCPTransport

    in_memory = FastMCPTransport.connect_session

    @asynccontextmanager
    async def connect_session(self: Any, **options: Any) -> AsyncIterator[Any]:
        server = self.server
        if WAY == "direct":
            count()
            async with in_memory(self, **options) as session:
                yield session
            return
        app = server.http_app if isinstance(server, FastMCP) else server.streamable_http_app
        async with (
            shared.reach(server, app) as url,
            StreamableHttpTransport(url).connect_session(**options) as session,
        ):
            if VIEW != "bare":
                rename(session._dispatcher)
            yield session

    FastMCPTransport.connect_session = connect_session  # type: ignore[method-assign]


def lay_mcp() -> None:
    from tests.interaction.transports._bridge import StreamingASGITransport

    in_process = StreamingASGITransport.__aenter__

    async def enter(self: Any) -> Any:
        count()
        return await in_process(self)

    if WAY == "direct":
        StreamingASGITransport.__aenter__ = enter  # type: ignore[method-assign]
        return
    # Whoever imported the class already has the class, so its methods are exchanged.
    for name in ("__init__", "__aenter__", "__aexit__", "handle_async_request"):
        setattr(StreamingASGITransport, name, getattr(OverSockets, name))


def pytest_configure(config: pytest.Config) -> None:
    # What uvicorn says of itself is none of what their tests look for in a log.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    {"fastmcp": lay_fastmcp, "mcp": lay_mcp}[os.environ["BETWEEN_KIND"]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    global laid, lists
    laid = lists = 0
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    report = yield
    report.user_properties += [("laid", laid), ("lists", lists)]
    return report


class Report:
    """Written where the results of all processes come together."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self._found: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = self._found.setdefault(report.nodeid, {"id": report.nodeid, "outcome": "passed", "s": 0.0})
        found["s"] = round(found["s"] + report.duration, 3)
        for name in ("laid", "lists"):
            found[name] = max(found.get(name, 0), dict(report.user_properties).get(name, 0))
        if report.outcome != "passed" and found["outcome"] == "passed":
            found["outcome"] = report.outcome
            found["text"] = report.longreprtext[-6000:]
        if report.when not in ("setup", "call"):  # its teardown, or the end of its process
            self._file.write(json.dumps(found) + "\n")
            self._file.flush()


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and (path := os.environ.get("BETWEEN_REPORT")):
        session.config.pluginmanager.register(Report(path))
