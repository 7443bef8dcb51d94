"""What the model is told when an API refuses, fails, babbles or is not there; and what it is never told."""

import asyncio
import base64
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.rest.asking import KEY, asking, table
from tests.rest.loopback import HANG_UP, NEVER, Loopback, Raw, reply
from tests.upstream.parrot import leaks
from tests.waiting import PATIENCE
from toolyard.rest.response.result import MAX_DETAIL
from toolyard.rest.server import RestSettings

GET = {"path": "/thing"}
POST = {"method": "POST", "path": "/thing", "parameters": {"name": {}}}
OK = reply({"ok": True})


def rows(api: Loopback, **more: Any) -> Any:
    return table(api, {"get": GET, "make": POST}, **{"auth": {"kind": "bearer"}, **more})


@pytest.mark.parametrize(
    ("answer", "english", "portuguese"),
    [
        (reply({"message": "expired"}, 401), ["401", "key", "expired"], ["401", "chave"]),
        (reply({"error": "not yours"}, 403), ["403", "not yours"], ["403", "permissão"]),
        (reply(None, 404), ["404", "Not found"], ["404", "Não encontrado"]),
        (reply(None, 415), ["415", "content type"], ["415", "conteúdo"]),
        (reply({"errors": [{"field": "name", "code": 42201}]}, 422), ["422", '"name"', "42201"], ["422"]),
        (reply(b"just text", 418, kind="text/plain"), ["418", "just text"], ["418"]),
        (reply(None, 501), ["501", "API failed"], ["501", "falhou"]),
        (reply(b"<html>hello</html>", 200, kind="text/html"), ["HTML", "instead of JSON"], ["HTML"]),
        (reply(b"<!DOCTYPE html><p>gone", 404, kind="text/html"), ["404", "Not found"], ["404"]),
        (reply(b"%PDF-1", 200, kind="application/pdf"), ["application/pdf"], ["application/pdf"]),
        (reply(b'{"a": ', 200), ["is malformed: its JSON is damaged"], ["seu JSON está danificado"]),
        (Raw(b"nonsense", close=True), ["is malformed"], ["está malformada"]),
        (reply(b"x" * 2000, 200), ["1000 bytes", "fewer"], ["1000 bytes"]),
        (
            reply(None, 302, Location="https://user:pw@else.test/login?key=abc#x"),
            ["302", "to else.test/login)"],
            ["302", "para else.test/login)"],
        ),
        (reply(None, 307, Location="//user:p@w@else.test/"), ["307", "to else.test/)"], ["307"]),
    ],
)
async def test_a_failure_is_told_in_a_sentence_of_its_own(
    api: Loopback, answer: Raw, english: list[str], portuguese: list[str]
) -> None:
    api.on("GET /v1/thing", answer)
    for locale, words in (("en", english), ("pt", portuguese)):
        settings = RestSettings(api_key=KEY, locale=locale)  # pyright: ignore[reportArgumentType]
        async with asking(rows(api, max_reply=1000), settings) as ask:
            text = await ask.wrong("get")
        assert all(word in text for word in words), text
        assert not any(word in text for word in ("user", "pw", "abc", "<", KEY, str(api.port))), text


async def test_the_tables_own_messages_come_first_and_a_tools_before_those(api: Loopback) -> None:
    refusals = [reply({"detail": "no {status}"}, 404), reply({"a": 1}, 409), reply(None, 410)]
    api.on("GET /v1/thing", *refusals, reply({}, 503))
    errors = {"404": "Nothing here", "4xx": "Refused: {detail}", "5xx": "Down ({status})"}
    own = {"get": {**GET, "errors": {"404": "No such thing: {detail}"}}}
    async with asking(table(api, own, errors=errors)) as ask:
        assert await ask.wrong("get") == "No such thing: no {status}"
        assert await ask.wrong("get") == 'Refused: {"a":1}'
        assert await ask.wrong("get") == "Refused"
        assert await ask.wrong("get") == "Down (503)"


async def test_what_an_api_says_is_made_one_bounded_line(api: Loopback) -> None:
    said = "line one\r\nline\u2028two\u202e\x1b[31m" + "x" * 5000
    api.on("GET /v1/thing", reply({"message": said}, 422))
    async with asking(rows(api)) as ask:
        text = await ask.wrong("get")
    assert "line one line two [31mxxx" in text
    assert len(text) < 1000
    assert not set(text) & set("\r\n\u2028\u202e\x1b")


@pytest.mark.parametrize("key", [KEY, "with/slash+and=%22", 'q"uote\\back'])
async def test_a_key_that_the_api_echoes_goes_no_further(api: Loopback, key: str) -> None:
    in_small = re.sub("%..", lambda digits: digits[0].lower(), quote(key, safe=""))
    echoes = [
        reply({"message": f"bad key {key}"}, 401),
        reply({"errors": [{key: [f"?k={quote(key, safe='')}"]}]}, 422),
        reply(f"bad {key}".encode(), 400, kind="text/plain"),
        reply({"items": [{"key": key, key: 1, "url": f"https://x.test/?k={quote(key, safe='')}"}]}, 200),
        reply(None, 302, Location=f"/{quote(key, safe='')}"),
        reply({"message": "bad " + "\u200b".join(key)}, 422),
        reply({"message": f"?k={in_small}"}, 422),
        reply(b" " * (4 * MAX_DETAIL - len(key) + 1) + key.encode(), 422, kind="text/plain"),
        reply(b'{"key": "%s"}' % "".join(f"\\u{ord(letter):04x}" for letter in key).encode()),
        reply(f"bad {key}".encode(), 200, kind=f"application/{key}"),
        reply({"sent": "Basic " + base64.b64encode(f"{key}:".encode()).decode()}, 422),
        reply({"sent": key.encode().hex()}, 200),
    ]
    api.on("GET /v1/thing", *echoes)
    for auth in ({"kind": "bearer"}, {"kind": "header", "name": "X-Key"}, {"kind": "query", "name": "k"}):
        api.on("GET /v1/thing", *echoes)
        async with asking(rows(api, auth=auth), RestSettings(api_key=key)) as ask:
            for _ in echoes:
                result = str(await ask.result("get"))
                for trace in (key, key[:-1], quote(key, safe=""), in_small):
                    assert trace not in result
                assert not leaks(result.encode(), key)
                assert repr(key)[1:-1] not in result
        sent = {"bearer": "authorization", "header": "x-key"}.get(auth["kind"])
        assert key in (api.last.headers[sent] if sent else api.last.query["k"])


async def test_reads_are_tried_again_after_failures_and_writes_only_when_they_were_turned_away(
    api: Loopback,
) -> None:
    busy, broken = reply(None, 429), reply(None, 503)
    api.on("GET /v1/thing", busy, broken, HANG_UP, OK)
    api.on("POST /v1/thing", busy, busy, OK)
    async with asking(rows(api)) as ask:
        assert await ask.ok("get") == {"data": {"ok": True}}
        assert len(api.asked) == 4
        assert await ask.ok("make", name="x") == {"data": {"ok": True}}
        assert [asked.json for asked in api.asked[4:]] == [{"name": "x"}] * 3
        api.asked.clear()
        api.on("POST /v1/thing", broken)
        assert "503" in await ask.wrong("make", name="x")
        assert len(api.asked) == 1
        api.on("POST /v1/thing", HANG_UP)
        assert await ask.wrong("make", name="x") == (
            "The connection to the API broke: the connection was closed without a reply. "
            "The request may have been carried out: check before you repeat it."
        )
        assert len(api.asked) == 2
        api.asked.clear()
        api.on("GET /v1/thing", broken)
        assert "503" in await ask.wrong("get")
        assert len(api.asked) == 3
        api.on("GET /v1/thing", busy)
        assert "429" in await ask.wrong("get")
        assert len(api.asked) == 7


async def test_a_table_may_say_that_a_write_can_be_repeated(api: Loopback) -> None:
    api.on("POST /v1/thing", reply(None, 503), OK)
    async with asking(table(api, {"make": {**POST, "retry": True}})) as ask:
        assert await ask.ok("make") == {"data": {"ok": True}}


@pytest.mark.parametrize(
    ("asked", "words"),
    [("3600", "3600 seconds"), ("Fri, 31 Dec 2399 23:59:59 GMT", "86400 seconds")],
)
async def test_who_asks_for_too_long_a_wait_is_not_waited_for(api: Loopback, asked: str, words: str) -> None:
    api.on("GET /v1/thing", reply(None, 429, Retry_After=asked))
    async with asking(rows(api)) as ask:
        assert words in await ask.wrong("get")
    assert len(api.asked) == 1


@pytest.mark.parametrize("asked", ["0", "Fri, 31 Dec 1999 23:59:59 GMT", "soon", "-5", "1e9", "٣"])
async def test_a_short_or_senseless_wait_keeps_nobody(api: Loopback, asked: str) -> None:
    api.on(
        "GET /v1/thing",
        Raw(f"HTTP/1.1 429 X\r\nRetry-After: {asked}\r\nContent-Length: 0\r\n\r\n".encode()),
        OK,
    )
    async with asking(rows(api)) as ask:
        assert await ask.ok("get") == {"data": {"ok": True}}


async def test_an_api_that_never_answers_is_given_up_and_a_write_is_left_in_doubt(api: Loopback) -> None:
    api.on("GET /v1/thing", NEVER)
    api.on("POST /v1/thing", NEVER)
    async with asking(rows(api), RestSettings(api_key=KEY, timeout=0.05)) as ask:
        text = "The API did not answer within 0.05 seconds."
        assert await ask.wrong("get") == text
        doubt = "The request may have been carried out: check before you repeat it."
        assert await ask.wrong("make") == f"{text} {doubt}"
    assert len(api.asked) == 2


async def test_a_call_that_is_cancelled_lets_go_of_the_api(api: Loopback) -> None:
    api.on("GET /v1/thing", NEVER)
    async with asking(rows(api)) as ask, asyncio.timeout(PATIENCE):
        calling = asyncio.create_task(ask.result("get"))
        await api.arrived.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await api.hung_up.wait()


async def test_an_api_that_is_not_there_is_said_to_be_out_of_reach(api: Loopback) -> None:
    async with asyncio.timeout(PATIENCE):
        server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
    base_url = f"http://127.0.0.1:{port}"
    async with asking(rows(api), RestSettings(api_key=KEY, base_url=base_url)) as ask:
        assert await ask.wrong("make") == "The API cannot be reached: connection refused. Nothing was sent."
    async with asking(rows(api), RestSettings(api_key=KEY, base_url=base_url, locale="pt")) as ask:
        assert "conexão recusada" in await ask.wrong("make")
