"""What stands around a request's body: trailers are nobody's headers, and no byte of it comes for free."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving import Client, encoded, modern, serving
from toolyard.edge.http import server as server_module
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import Headers, Receive, Scope, Send
from toolyard.kit import Context, Principal, Server

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
SENT = 80 * MIB
ROOM = 24 * MIB
"""What a server may grow by meanwhile: some reads of 256 KiB, and what Python keeps for the next ones."""


def chunked(pieces: list[bytes], trailers: Headers = (), extension: bytes = b"") -> bytes:  # type: ignore[assignment]
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)
    return chunks + b"0\r\n" + b"".join(b"%s: %s\r\n" % pair for pair in trailers) + b"\r\n"


def head(headers: Headers, path: bytes = b"/mcp") -> bytes:
    return b"POST %s HTTP/1.1\r\n%s\r\n" % (path, b"".join(b"%s: %s\r\n" % pair for pair in headers))


def call(tool: str, **arguments: Any) -> tuple[Headers, bytes]:
    """The headers of a chunked call, and its body."""
    headers, message = modern("tools/call", {"name": tool, "arguments": arguments})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return [(b"Host", b"localhost"), *pairs, (b"Transfer-Encoding", b"chunked")], encoded(message) or b""


START, BODY = (lambda made: (head(made[0]), chunked([made[1]])[:-5]))(call("echo", text="hi"))
WHOLE = head([(b"Host", b"localhost")]).replace(b"POST /mcp", b"GET /health")
CLOSING = head([(b"Host", b"localhost"), (b"Connection", b"close")]).replace(b"POST /mcp", b"GET /health")


class Watched:
    """An endpoint in front of another that keeps what its requests look like, at first and at last."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge
        self.path = edge.path
        self.seen: list[tuple[Headers, Headers]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = list(scope.get("headers", []))
        await self._edge(scope, receive, send)
        if scope["type"] == "http":
            self.seen.append((first, list(scope["headers"])))

    async def close(self) -> None:
        await self._edge.close()


def server() -> Server:
    made = Server("framing")

    @made.tool
    async def whoami(ctx: Context) -> str:
        return ctx.caller.tenant

    return made


def by_tenant(headers: Headers) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"nobody").decode())


async def _ask(client: Client, data: bytes) -> str:
    answer = await client.raw(data)
    return answer.result["content"][0]["text"]


async def test_a_trailer_does_not_say_who_calls():
    async with serving(server().asgi(identify=by_tenant)) as client:
        headers, body = call("whoami")
        forged: Headers = [(b"x-tenant", b"acme")]
        said = await _ask(client, head([*headers, (b"x-tenant", b"bolt")]) + chunked([body], forged))
        assert said == "bolt"
        assert await _ask(client, head(headers) + chunked([body], forged)) == "nobody"


async def test_a_trailer_does_not_say_which_host_was_meant():
    async with serving(server().asgi()) as client:
        headers, body = call("whoami")
        evil = [(name, b"evil.example" if name == b"Host" else value) for name, value in headers]
        answer = await client.raw(head(evil) + chunked([body], [(b"Host", b"localhost")]))
        assert answer.status == 403
        answer = await client.raw(head(headers) + chunked([body], [(b"Host", b"evil.example")]))
        assert answer.status == 200


KNOWN = b"Host x-tenant Authorization Origin Cookie Mcp-Session-Id Mcp-Method Mcp-Param-X X-Toolyard-Thread"
FRAMING = (b"content-length", b"transfer-encoding", b"upgrade")
ANY = st.from_regex(rb"[a-zA-Z][a-zA-Z0-9-]{0,20}", fullmatch=True).filter(
    lambda it: it.lower() not in FRAMING
)
NAMES = ANY | st.sampled_from(
    [*KNOWN.split(), b"Content-Type", b"Accept", b"Expect", b"Connection", b"Trailer"]
)
VALUES = st.sampled_from(
    [b"acme", b"localhost", b"evil.example", b"100-continue", b"close", b"application/json"]
) | st.from_regex(rb"[!-~]([ -~]{0,30}[!-~])?", fullmatch=True)
TRAILERS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


@pytest.fixture(scope="module")
def watching() -> Iterator[tuple[asyncio.Runner, Watched, Client]]:
    with asyncio.Runner() as runner:
        watched = Watched(server().asgi(identify=by_tenant))
        opened = serving(watched)  # type: ignore[arg-type]
        client = runner.run(opened.__aenter__())
        yield runner, watched, client
        runner.run(opened.__aexit__(None, None, None))


@settings(max_examples=150, deadline=None)
@given(
    trailers=TRAILERS,
    extension=st.sampled_from([b"", b";x", b";name=value", b';name="quoted"']),
    pieces=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    tenant=st.sampled_from([None, b"bolt"]),
)
def test_any_trailers_leave_the_headers_as_they_were(
    watching: tuple[asyncio.Runner, Watched, Client],
    trailers: Headers,
    extension: bytes,
    pieces: int,
    cuts: list[int],
    tenant: bytes | None,
):
    runner, watched, client = watching
    headers, body = call("whoami")
    headers += [] if tenant is None else [(b"x-tenant", tenant)]
    size = -(-len(body) // pieces)
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    data = head(headers) + chunked(parts, trailers, extension)
    ends = [*sorted(cut for cut in cuts if cut < len(data)), len(data)]

    async def exchange() -> Any:
        line = await client.connect()
        start = 0
        for end in ends:
            await line.send(data[start:end])
            await asyncio.sleep(0)
            start = end
        try:
            return await line.answer()
        finally:
            line.hang_up()

    watched.seen.clear()
    answer = runner.run(exchange())
    assert answer.result["content"][0]["text"] == (tenant or b"nobody").decode()
    expected = [(name.lower(), value) for name, value in headers]
    assert watched.seen == [(expected, expected)]


async def test_requests_that_wait_behind_others_are_answered_in_their_order_with_their_own_headers():
    async with serving(server().asgi(identify=by_tenant)) as client:
        headers, body = call("whoami")
        names = [b"t%d" % number for number in range(60)]
        requests = [
            head([*headers, (b"x-tenant", name)]) + chunked([body], [(b"x-tenant", b"acme")])
            for name in names
        ]
        line = await client.connect()
        await line.send(b"".join(requests) + b"\r\n" + requests[0])
        said = [(await line.answer()).result["content"][0]["text"] for _ in range(61)]
        assert said == [*(name.decode() for name in names), "t0"]


async def test_a_good_request_is_answered_though_nonsense_follows_it():
    async with serving(server().asgi(identify=by_tenant)) as client:
        headers, body = call("whoami")
        line = await client.connect()
        await line.send(head(headers) + chunked([body]) + b"nonsense\r\n\r\n")
        assert (await line.answer()).result["content"][0]["text"] == "nobody"
        left = await line.everything()
        assert left == b"" or left.startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_good_request_is_answered_though_one_with_an_impossible_address_follows_it():
    impossible = WHOLE.replace(b"/health", b"http://localhost:99999/health")
    async with serving(server().asgi()) as client:
        line = await client.connect()
        await line.send(WHOLE + impossible)
        assert (await line.answer()).status == 200
        line = await client.connect()
        await line.send(WHOLE)
        assert (await line.answer()).status == 200
        await line.send(impossible)
        assert (await line.everything()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"anything"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_the_body_of_a_request_that_asks_for_an_upgrade_is_its_body(
    protocol: bytes, is_chunked: bool, in_pieces: bool
):
    """Java's HttpClient asks so for HTTP/2. A body that became a request would pass by a proxy's checks."""
    asked: list[bytes] = []

    def identify(headers: Headers) -> Principal:
        asked.append(dict(headers)[b"x-tenant"])
        return by_tenant(headers)

    headers, body = call("whoami")
    headers = [pair for pair in headers if pair[0] != b"Transfer-Encoding"]
    upgrade = [(b"x-tenant", b"bolt"), (b"Connection", b"Upgrade"), (b"Upgrade", protocol)]

    def request(content: bytes) -> list[bytes]:
        length = (b"Content-Length", b"%d" % len(content))
        framing = (b"Transfer-Encoding", b"chunked") if is_chunked else length
        return [
            head([*headers, *upgrade, framing]),
            chunked([content], [(b"x-tenant", b"acme")]) if is_chunked else content,
        ]

    smuggled = head([*headers, (b"x-tenant", b"acme"), (b"Content-Length", b"%d" % len(body))]) + body
    async with serving(server().asgi(identify=identify)) as client:
        for content, status in ((body, b"200"), (smuggled, b"400")):
            line = await client.connect()
            start, rest = request(content)
            rest += smuggled
            if in_pieces:
                await line.send(start)
                assert (await client.raw(WHOLE)).status == 200, "by now the server has read it"
                await line.send(rest)
            else:
                await line.send(start + rest)
            answer = await line.everything()
            assert answer.startswith(b"HTTP/1.1 %s " % status)
            assert answer.count(b"HTTP/1.1") == 1
    assert set(asked) == {b"bolt"}


@pytest.mark.parametrize("before", [b"", WHOLE], ids=["at first", "after a request"])
@pytest.mark.parametrize("part", [b"\r\n", b"POST /mcp HTTP/1.1\r\n", b"POST /mcp HTTP/1.1\r\nHost: local"])
async def test_a_request_that_is_never_finished_is_given_up(
    monkeypatch: pytest.MonkeyPatch, before: bytes, part: bytes
):
    monkeypatch.setattr(server_module, "REQUEST_SECONDS", 0.05)
    async with serving(server().asgi(), keep_alive=3600) as client:
        line = await client.connect()
        if before:
            await line.send(before)
            assert (await line.answer()).status == 200
        await line.send(part)
        assert (await line.everything()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


# Under a uvicorn that is not ours


@asynccontextmanager
async def plain_uvicorn(app: HttpEdge, protocol: str) -> AsyncIterator[Client]:
    running = uvicorn.Server(uvicorn.Config(app, port=0, http=protocol, log_level="warning"))
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(running.serve(sockets=[listener]))
    client = Client(listener.getsockname()[1])
    try:
        yield client
    finally:
        client.close()
        running.should_exit = True
        await task


async def test_uvicorns_httptools_which_mixes_trailers_with_headers_gets_no_chunked_request_identified():
    async with plain_uvicorn(server().asgi(identify=by_tenant), "httptools") as client:
        headers, body = call("whoami")
        answer = await client.raw(head(headers) + chunked([body], [(b"x-tenant", b"acme")]))
        assert (answer.status, answer.error["code"]) == (411, -32600)
        assert "--http toolyard.edge.http.server:LimitedHttp" in answer.error["message"]
        plain, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        answer = await client.post({**plain, "x-tenant": "bolt"}, message)
        assert answer.result["content"][0]["text"] == "bolt"


@pytest.mark.parametrize("protocol", ["h11", "toolyard.edge.http.server:LimitedHttp"])
async def test_uvicorns_other_protocols_keep_trailers_out_of_the_headers(protocol: str):
    async with plain_uvicorn(server().asgi(identify=by_tenant), protocol) as client:
        headers, body = call("whoami")
        said = await _ask(client, head(headers) + chunked([body], [(b"x-tenant", b"acme")]))
        assert said == "nobody"


# Headers that came twice


@pytest.mark.parametrize(
    "name",
    ["x-tenant", "Authorization", "Host", "Cookie", "X-Forwarded-User", "X-Forwarded-Host", "X-Real-Ip"],
)
@pytest.mark.parametrize("other", ["same", "different"])
async def test_a_header_that_may_say_who_calls_may_not_come_twice(name: str, other: str):
    asked: list[Headers] = []

    def identify(headers: Headers) -> Principal:
        asked.append(headers)
        return Principal()

    async with serving(server().asgi(identify=identify)) as client:
        headers, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        first, second = ("localhost", "127.0.0.1") if name == "Host" else ("same", other)
        answer = await client.post([(name, first), *headers.items(), (name.upper(), second)], message)
        assert (answer.status, answer.error["code"]) == (400, -32020)
        assert f"header {name.lower()!r} was sent more than once" in answer.error["message"]
        assert asked == []


LISTS = ["Accept", "Accept-Encoding", "Forwarded", "Priority", "Via", "X-Forwarded-For"]
OF_PROXIES = ["X-Forwarded-Port", "X-Forwarded-Proto", "X-Request-Id", "X-Correlation-Id", "Traceparent"]


@pytest.mark.parametrize("name", LISTS + OF_PROXIES)
async def test_lists_and_what_every_proxy_of_a_chain_may_add_may_come_in_several_lines(name: str):
    async with serving(server().asgi(identify=by_tenant)) as client:
        headers, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        answer = await client.post([*headers.items(), (name, "a"), (name, "b")], message)
        assert answer.result["content"][0]["text"] == "nobody"


@pytest.mark.parametrize(("version", "status"), [("2", 200), ("3", 200), ("1.1", 400)])
async def test_a_cookie_that_http_2_cut_into_lines_is_whole_again(version: str, status: int):
    asked: list[bytes] = []

    def identify(headers: Headers) -> Principal:
        asked.append(dict(headers)[b"cookie"])
        return Principal()

    class OfVersion(Watched):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope["http_version"] = version
            await super().__call__(scope, receive, send)

    headers, message = modern("tools/call", {"name": "whoami", "arguments": {}})
    async with serving(OfVersion(server().asgi(identify=identify))) as client:  # type: ignore[arg-type]
        answer = await client.post([*headers.items(), ("Cookie", "a=1"), ("Cookie", "b=2")], message)
        assert answer.status == status
    assert asked == ([b"a=1; b=2"] if status == 200 else [])


async def test_a_conversation_may_not_be_named_twice():
    async with serving(server().asgi()) as client:
        headers, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        twice = [("X-Toolyard-Thread", "mine"), ("X-Toolyard-Thread", "yours")]
        answer = await client.post([*headers.items(), *twice], message)
        assert (answer.status, answer.error["code"]) == (400, -32020)


# Without end


@asynccontextmanager
async def process() -> AsyncIterator[tuple[Client, Callable[[], int]]]:
    """The workshop in a process of its own, and how much memory it has taken at most."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.edge.process",
        str(listener.fileno()),
        pass_fds=[listener.fileno()],
        cwd=ROOT,
        env=os.environ | {"TOOLYARD_KEY": "a key of enough length"},
    )
    client = Client(listener.getsockname()[1])
    listener.close()

    def peak() -> int:
        lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

    try:
        yield client, peak
    finally:
        client.close()
        running.kill()
        await running.wait()


ENDLESS: dict[str, tuple[bytes, bytes, set[bytes]]] = {
    "small trailers": (START + BODY + b"0\r\n", b"x-a: b\r\n" * 8192, {b"431"}),
    "trailers after an answer": (
        START.replace(b"/mcp", b"/none") + BODY + b"0\r\n",
        b"x-a: b\r\n" * 8192,
        {b"404", b"431"},
    ),
    "one trailer": (START + BODY + b"0\r\nx-a: ", b"b" * 65536, {b"431"}),
    "the name of a trailer": (START + BODY + b"0\r\n", b"b" * 65536, {b"431"}),
    "one chunk extension": (START + b"1;a=", b"b" * 65536, {b"431"}),
    "chunk extensions": (START, b"1;%s\r\n \r\n" % (b"b" * 8192), {b"431"}),
    "chunks of nothing but extensions, refused": (
        START.replace(b"localhost", b"evil.example"),
        b"1;%s\r\n \r\n" % (b"b" * 8192),
        {b"403", b"431"},
    ),
    "chunks of a byte": (START, b"1\r\n \r\n" * 8192, {b"431"}),
    "a chunk's size": (START, b"0" * 65536, {b"400", b"431"}),
    "a head": (b"POST /mcp HTTP/1.1\r\n", b"x-a: b\r\n" * 8192, {b"431"}),
    "an address": (b"POST /", b"x" * 65536, {b"431"}),
    "a method": (b"", b"POST" * 16384, {b"400"}),
    "empty lines": (b"", b"\r\n" * 32768, {b"431"}),
    "empty lines after a request": (WHOLE, b"\r\n" * 32768, {b"200", b"431"}),
    "anything after the last request": (CLOSING, b"x" * 65536, {b"200"}),
    "anything after an upgrade": (
        WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        b"x" * 65536,
        {b"200", b"400"},
    ),
    "requests in front of their answers": (b"", WHOLE * 2000, {b"200", b"400"}),
    "a body that was refused": (
        START.replace(b"Transfer-Encoding: chunked", b"Content-Length: 99999999999"),
        b" " * 65536,
        {b"413"},
    ),
}


async def _send_until_closed(connection: socket.socket, start: bytes, more: bytes) -> bool:
    """Whether the other side hung up before it had got all that it was to get."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        await loop.sock_sendall(connection, start)
        for _ in range(SENT // len(more)):
            await loop.sock_sendall(connection, more)
        connection.shutdown(socket.SHUT_RDWR)
        return False
    return True


async def _received(connection: socket.socket) -> bytes:
    """All that came, however the connection ended: asyncio's streams forget it when they cannot write."""
    received = b""
    with suppress(ConnectionError):
        while piece := await asyncio.get_running_loop().sock_recv(connection, 65536):
            received += piece
    return received


@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_has_no_end_is_cut_off_and_kept_nowhere(kind: str):
    start, more, statuses = ENDLESS[kind]
    async with process() as (client, peak):
        assert (await client.raw(WHOLE)).status == 200
        before = peak()
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.setblocking(False)
            cut_off, answer = await asyncio.gather(
                _send_until_closed(connection, start, more), _received(connection)
            )
        assert (cut_off, peak() - before < ROOM) == (True, True), f"grown by {(peak() - before) // MIB} MiB"
        assert {line.split(b" ")[1] for line in answer.splitlines() if line.startswith(b"HTTP/")} <= statuses
        assert answer, "an answer came first"
        assert (await client.raw(WHOLE)).status == 200, "others are served"
