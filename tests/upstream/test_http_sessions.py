"""Legacy sessions over HTTP, redirects, and the transport of 2024-11-05."""

import asyncio
import json
from itertools import count
from typing import Any, ClassVar

import pytest

from tests.app.speaker import LEGACY, Exchange, Speaker, speaking, text, tool
from tests.app.yard import at, yard
from toolyard.upstream.connection import NO_CLIENT, SILENT
from toolyard.upstream.http.client import PooledHttpClient, UpstreamEndpoint
from toolyard.upstream.http.legacy import LegacyHttpConnection

ECHO = "mcp__up__echo"


async def test_a_forgotten_session_is_opened_anew_and_the_call_goes_through_once():
    speaker = Speaker("legacy")
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "first"}) == "first"
        speaker.sessions.clear()
        assert await front.says(ECHO, {"text": "second"}) == "second"
        answered = [item for item in speaker.heard("tools/call") if item.arguments["text"] == "second"]
        # The one that was turned away, and the one that was taken.
        assert len(answered) == 2
        assert len({item.headers["mcp-session-id"] for item in answered}) == 2
    assert len(speaker.openings) == 2


async def test_a_forgotten_session_is_opened_anew_also_when_that_is_said_in_json():
    speaker = Speaker("legacy")

    async def forgetful(exchange: Exchange) -> bool:
        unknown = "mcp-session-id" in exchange.headers and not speaker.sessions
        if unknown and exchange.verb == "POST":
            await exchange.error(-32001, "Session not found", 404)
            return True
        return False

    speaker.before = forgetful
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "first"}) == "first"
        speaker.sessions.clear()
        assert await front.says(ECHO, {"text": "second"}) == "second"


async def test_a_session_is_given_back_when_the_gateway_closes():
    speaker = Speaker("legacy")
    async with speaking(speaker) as url:
        async with yard(at(url)) as front:
            assert await front.says(ECHO, {"text": "hello"}) == "hello"
            assert len(speaker.sessions) == 1
        assert not speaker.sessions


async def test_the_negotiated_revision_is_in_the_headers_of_everything_after_the_opening():
    speaker = Speaker("legacy")
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
    after = [item for item in speaker.seen if item.method not in ("server/discover", "initialize")]
    assert {item.headers.get("mcp-protocol-version") for item in after} == {LEGACY}


async def test_a_server_without_sessions_is_served_without_one():
    speaker = Speaker("legacy")

    async def initialize(exchange: Exchange) -> None:
        await exchange.result({"protocolVersion": LEGACY, "capabilities": {"tools": {}}})

    async def listing(exchange: Exchange) -> None:
        await exchange.result({"tools": speaker.tools})

    async def call(exchange: Exchange) -> None:
        await exchange.result(text("stateless"))

    async def initialized(exchange: Exchange) -> None:
        await exchange.plain(202)

    async def no_stream(exchange: Exchange) -> None:
        await exchange.plain(405)

    speaker.on = {
        "initialize": initialize,
        "tools/list": listing,
        "tools/call": call,
        "notifications/initialized": initialized,
        "GET": no_stream,
    }
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO) == "stateless"
        assert (await front.server())["state"] == "up"
    assert all("mcp-session-id" not in item.headers for item in speaker.seen)
    assert not any(item.verb == "DELETE" for item in speaker.seen)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_redirect_within_the_origin_is_followed_and_remembered(era: str):
    speaker = Speaker(era)

    async def redirect(exchange: Exchange) -> bool:
        if exchange.path == "/mcp":
            await exchange.plain(307, location="/mcp/")
            return True
        return False

    speaker.before = redirect
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
        assert await front.says(ECHO, {"text": "again"}) == "again"
    assert sum(item.path == "/mcp" for item in speaker.seen) == 1


async def test_a_redirect_elsewhere_is_refused_and_no_header_goes_there():
    speaker, elsewhere = Speaker("modern"), Speaker("modern")
    async with speaking(elsewhere) as other, speaking(speaker) as url:

        async def redirect(exchange: Exchange) -> bool:
            await exchange.plain(307, location=other)
            return True

        speaker.before = redirect
        async with yard(at(url, headers={"Authorization": "secret"}), list_wait=1.0) as front:
            assert await front.tools() == []
            reason = (await front.server())["reason"]
    assert other.removesuffix("/mcp") in reason
    assert "redirects" in reason
    assert elsewhere.seen == []


async def test_redirects_in_a_circle_come_to_an_end():
    speaker = Speaker("modern")

    async def redirect(exchange: Exchange) -> bool:
        await exchange.plain(307, location="/mcp/" if exchange.path == "/mcp" else "/mcp")
        return True

    speaker.before = redirect
    async with speaking(speaker) as url, yard(at(url, connect_timeout=2.0), list_wait=3.0) as front:
        assert await front.tools() == []
        assert "reason" in await front.server()
    assert len(speaker.seen) < 100


class OldServer:
    """Speaks HTTP+SSE only: a GET stream that names an address for POSTs, and carries every answer."""

    path = "/sse"

    def __init__(self, endpoint: str = "/messages?session=1") -> None:
        self.endpoint = endpoint
        self.posted: list[dict[str, Any]] = []
        self.streams = 0
        self.cut = asyncio.Event()
        self._ids = count(1)
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def close(self) -> None:
        self.cut.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        speaker = Speaker()
        speaker._answer = self._take  # type: ignore[method-assign]
        await speaker(scope, receive, send)

    async def _take(self, exchange: Exchange) -> None:
        if exchange.verb == "GET" and exchange.path == "/mcp":
            await self._stream(exchange)
        elif exchange.verb == "POST" and exchange.path == "/messages":
            self.posted.append(exchange.message)
            await exchange.plain(202, "Accepted")
            self._reply(exchange)
        else:
            await exchange.plain(405, "Method Not Allowed")

    def _reply(self, exchange: Exchange) -> None:
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tools/list": {"tools": [tool("echo")]},
            "tools/call": text(exchange.arguments.get("text", "")),
        }
        if exchange.id is not None:
            self._said.put_nowait(exchange.reply(results[exchange.method]))

    async def _stream(self, exchange: Exchange) -> None:
        self.streams += 1
        self.cut.clear()
        await exchange.stream()
        await exchange.write(f"event: endpoint\r\ndata: {self.endpoint}\r\n\r\n".encode())
        waiting = [asyncio.ensure_future(exchange.gone()), asyncio.ensure_future(self.cut.wait())]
        try:
            while True:
                saying = asyncio.ensure_future(self._said.get())
                await asyncio.wait({saying, *waiting}, return_when=asyncio.FIRST_COMPLETED)
                if not saying.done():
                    saying.cancel()
                    return
                await exchange.event(saying.result(), event="message")
        finally:
            for future in waiting:
                future.cancel()


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_a_server_of_the_old_transport_is_found_and_answers(transport: str):
    server = OldServer()
    async with speaking(server) as url, yard(at(url, transport=transport)) as front:
        assert await front.says(ECHO, {"text": "hello"}) == "hello"
        assert (await front.server())["version"] == "2024-11-05"
    if transport == "sse":
        assert [item["method"] for item in server.posted][:2] == ["initialize", "notifications/initialized"]


async def test_a_server_of_the_old_transport_whose_stream_ended_is_opened_anew():
    server = OldServer()
    async with speaking(server) as url, yard(at(url, transport="sse")) as front:
        assert await front.says(ECHO, {"text": "first"}) == "first"
        server.cut.set()
        await front.until_health(lambda _: server.streams == 2 or server.cut.is_set())
        assert await front.says(ECHO, {"text": "second"}) == "second"
    assert server.streams == 2


async def test_a_server_of_the_old_transport_that_wants_posts_elsewhere_is_refused():
    elsewhere = Speaker()
    async with speaking(elsewhere) as other:
        server = OldServer(endpoint=other)
        async with speaking(server) as url:
            config = at(url, transport="sse", headers={"Authorization": "secret"})
            async with yard(config, list_wait=1.0) as front:
                assert await front.tools() == []
                assert "another origin" in json.dumps(await front.server())
    assert elsewhere.seen == []


class Key:
    """The credential of one connection, as connections to servers with `auth` have it."""

    in_use = "op-key-0123456789"
    sent: ClassVar = {"X-Api-Key": in_use}

    def ready(self, method: str, url: Any) -> dict[str, str]:
        return self.sent

    async def headers(self, method: str, url: Any) -> dict[str, str]:
        return self.sent

    async def refused(self, status: int, headers: Any, sent: Any, url: Any, attempt: int) -> bool:
        return False


async def test_requests_with_a_credential_belong_to_their_session_too():
    speaker = Speaker("legacy")
    http = PooledHttpClient()
    async with speaking(speaker) as url:
        connection = LegacyHttpConnection(UpstreamEndpoint("up", http, url, {}, 5.0, 2**30, Key()))
        await connection.open(NO_CLIENT)
        await connection.request("tools/list", {}, SILENT)
        [session] = speaker.sessions
        _, *after = speaker.seen
        assert {item.headers.get("mcp-session-id") for item in after} == {session}
        assert {item.headers.get("mcp-protocol-version") for item in after} == {LEGACY}
        assert {item.headers.get("x-api-key") for item in speaker.seen} == {Key.in_use}
        await connection.close()
    await http.close()
