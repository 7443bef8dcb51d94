"""The HTTP client against servers that behave, and servers that do not."""

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.rest.loopback import HANG_UP, NEVER, Loopback, Raw, reply
from tests.waiting import PATIENCE
from toolyard.rest.http.client import ApiOrigin, RestClient, RestRequest
from toolyard.rest.http.connection import (
    ApiTimeoutError,
    ApiUnreachableError,
    MalformedResponseError,
    ResponseTooLargeError,
)

LIMIT = 100_000
GET = RestRequest("GET", "/a", repeatable=True)
POST = RestRequest("POST", "/a", body=b"{}")
OK = reply({"ok": True})
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def client(api: Loopback) -> AsyncIterator[RestClient]:
    client = RestClient(ApiOrigin.parse(api.url))
    yield client
    await client.close()


async def send(
    client: RestClient, request: RestRequest = GET, seconds: float = PATIENCE
) -> tuple[int, bytes]:
    reply = await client.send(request, seconds, LIMIT)
    return reply.status, reply.body


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", (200, b"hi")),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n",
            (200, b"hi"),
        ),
        (CHUNKED + b"2\r\nhi\r\n0\r\nX-Trailer: " + b"y" * 500 + b"\r\n\r\n", (200, b"hi")),
        (b"HTTP/1.1 204 No\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (200, b"")),
        (b"HTTP/1.1 100 Wait\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nhi", (201, b"hi")),
        (
            b"HTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            (200, b"hi"),
        ),
    ],
)
async def test_replies_of_every_form_are_read_and_the_connection_is_used_again(
    api: Loopback, client: RestClient, raw: bytes, expected: tuple[int, bytes]
) -> None:
    api.on("GET /a", Raw(raw), Raw(raw, apart=True), Raw(raw))
    assert [await send(client) for _ in range(3)] == [expected] * 3
    assert api.connections == 1


@pytest.mark.parametrize(
    "raw",
    [
        Raw(b"HTTP/1.1 200 OK\r\n\r\nhi", close=True),
        Raw(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
        Raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"),
        Raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
            + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown"
        ),
        Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more"),
    ],
    ids=["ends with the connection", "old", "closing", "a second reply", "a longer body"],
)
async def test_a_connection_that_may_say_something_else_is_not_used_again(
    api: Loopback, client: RestClient, raw: Raw
) -> None:
    api.on("GET /a", raw, OK)
    assert await send(client) == (200, b"hi")
    assert await send(client) == (200, b'{"ok": true}')
    assert api.connections == 2


async def test_what_a_server_says_unasked_never_answers_the_next_request(
    api: Loopback, client: RestClient
) -> None:
    api.on("GET /a", OK)
    await send(client)
    api.writers[0].write(reply({"for": "someone else"}).data)
    await api.writers[0].drain()
    assert await send(client) == (200, b'{"ok": true}')
    assert api.connections == 2


async def test_a_connection_that_was_kept_for_too_long_is_not_used_again(api: Loopback) -> None:
    api.on("GET /a", OK)
    client = RestClient(ApiOrigin.parse(api.url), idle_seconds=0)
    assert [await send(client) for _ in range(2)] == [(200, b'{"ok": true}')] * 2
    assert api.connections == 2
    await client.close()


async def test_what_may_not_be_sent_twice_takes_only_a_connection_that_was_used_a_moment_ago(
    api: Loopback,
) -> None:
    api.on("GET /a", OK)
    api.on("POST /a", OK)
    client = RestClient(ApiOrigin.parse(api.url), sure_seconds=0)
    for request in (GET, GET, POST, GET):
        await send(client, request)
    assert api.connections == 2
    await client.close()


@pytest.mark.parametrize("request_", [GET, POST], ids=["GET", "POST"])
async def test_a_kept_connection_that_the_server_closed_meanwhile_is_replaced(
    api: Loopback, client: RestClient, request_: RestRequest
) -> None:
    api.on(f"{request_.method} /a", OK)
    await send(client, request_)
    api.writers[0].close()
    await api.writers[0].wait_closed()
    assert await send(client, request_) == (200, b'{"ok": true}')
    assert len(api.asked) == 2


async def test_a_request_that_may_have_arrived_is_sent_again_only_where_that_does_no_harm(
    api: Loopback, client: RestClient
) -> None:
    api.on("GET /a", OK, HANG_UP, OK)
    api.on("POST /a", OK, HANG_UP, OK)
    await send(client)
    assert await send(client) == (200, b'{"ok": true}')
    assert len(api.asked) == 3
    await send(client, POST)
    with pytest.raises(ApiUnreachableError) as broken:
        await send(client, POST)
    assert broken.value.sent
    assert len(api.asked) == 5


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n", ResponseTooLargeError),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b"x" * 32768 + b"\r\n",
            MalformedResponseError,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"8000\r\n" + b"x" * 32768 + b"\r\n") * 4,
            ResponseTooLargeError,
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_001, ResponseTooLargeError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi", MalformedResponseError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, MalformedResponseError),
        (b"HTTP/1.1 200 OK\r\nContent-Len", MalformedResponseError),
        (CHUNKED + b"2\r\nhi\r\n0\r\nTrailer: " + b"y" * 500_000, MalformedResponseError),
        (CHUNKED + b"2;" + b"y" * 500_000, MalformedResponseError),
        (b"SSH-2.0-OpenSSH_9.9\r\n", MalformedResponseError),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            MalformedResponseError,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", MalformedResponseError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", MalformedResponseError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", MalformedResponseError),
        (b"", ApiUnreachableError),
    ],
)
async def test_a_reply_that_cannot_be_used_is_a_fault_of_its_kind(
    api: Loopback, client: RestClient, raw: bytes, fault: type[Exception]
) -> None:
    api.on("GET /a", Raw(raw, close=True), OK)
    with pytest.raises(fault):
        await send(client)
    assert await send(client) == (200, b'{"ok": true}')


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"HTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n" * 5000, r"more than 20 interim replies \(status 103\)"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 21, r"more than 20 interim replies \(status 100\)"),
        (b"HTTP/1.1 103 Hints\r\nX: %s\r\n\r\n" % (b"y" * 40_000) * 2, "a head or a trailer of more than"),
        (CHUNKED + b"2\r\nhi\r\n0\r\n" + b"X: y\r\n" * 50_000, "a head or a trailer of more than"),
        (CHUNKED + (b"1;" + b"y" * 1000 + b"\r\n \r\n") * 500, "a head or a trailer of more than"),
        (b"\r\n" * 200_000, "a head or a trailer of more than"),
    ],
    ids=["hints", "continues", "big hints", "trailers", "chunk extensions", "empty lines"],
)
async def test_what_has_no_end_is_a_fault_while_it_still_comes(
    api: Loopback, client: RestClient, raw: bytes, reason: str
) -> None:
    api.on("GET /a", Raw(raw, never=True), OK)
    with pytest.raises(MalformedResponseError, match=reason):
        await send(client)
    assert await send(client) == (200, b'{"ok": true}')


async def test_chunks_of_a_byte_are_no_excess(api: Loopback, client: RestClient) -> None:
    api.on("GET /a", Raw(CHUNKED + b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n"))
    assert await send(client) == (200, b" " * 50_000)


async def test_a_body_without_a_length_is_whole_only_when_the_connection_was_closed_in_order(
    api: Loopback, client: RestClient
) -> None:
    body = b"HTTP/1.1 200 OK\r\n\r\nall there i"
    api.on("GET /a", Raw(body, close=True), Raw(body, breaks=True))
    assert await send(client) == (200, b"all there i")
    with pytest.raises(MalformedResponseError, match="ended early"):
        await send(client)


async def test_packed_replies_are_unpacked_within_the_limit(api: Loopback, client: RestClient) -> None:
    api.on("GET /a", reply(gzip.compress(b"hi"), Content_Encoding="gzip"))
    assert await send(client) == (200, b"hi")
    api.on("GET /a", reply(gzip.compress(b"x" * 10_000_000), Content_Encoding="gzip"))
    with pytest.raises(ResponseTooLargeError):
        await send(client)


async def test_a_server_that_never_answers_is_left_at_the_deadline(api: Loopback, client: RestClient) -> None:
    api.on("GET /a", NEVER)
    with pytest.raises(ApiTimeoutError, match=r"0\.05 seconds"):
        await send(client, seconds=0.05)
    async with asyncio.timeout(PATIENCE):
        await api.hung_up.wait()


async def test_a_cancelled_request_closes_its_connection(api: Loopback, client: RestClient) -> None:
    api.on("GET /a", NEVER, OK)
    async with asyncio.timeout(PATIENCE):
        asking = asyncio.create_task(send(client))
        await api.arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await api.hung_up.wait()
    assert await send(client) == (200, b'{"ok": true}')


async def test_nobody_listening_means_that_nothing_was_sent(api: Loopback) -> None:
    async with asyncio.timeout(PATIENCE):
        server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
    with pytest.raises(ApiUnreachableError, match="refused") as refused:
        await send(RestClient(ApiOrigin.parse(f"http://127.0.0.1:{port}")))
    assert not refused.value.sent


async def test_over_tls_only_a_server_with_a_trusted_certificate_of_its_name_gets_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = certified(tmp_path, "localhost")
    api = Loopback()
    api.on("GET /a", OK)
    server = await asyncio.start_server(api.serve, "localhost", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    stranger = RestClient(ApiOrigin.parse(f"https://localhost:{port}"))
    with pytest.raises(ApiUnreachableError, match="cannot be trusted") as refused:
        await send(stranger)
    assert not refused.value.sent
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    known = RestClient(ApiOrigin.parse(f"https://localhost:{port}"))
    assert [await send(known) for _ in range(2)] == [(200, b'{"ok": true}')] * 2
    with pytest.raises(ApiUnreachableError, match="cannot be trusted"):
        await send(RestClient(ApiOrigin.parse(f"https://127.0.0.1:{port}")))
    assert len({asked.connection for asked in api.asked}) == 1
    await known.close()
    server.close()


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate of its own making, and the file that makes it trusted."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, public


async def test_a_client_that_was_closed_ends_what_is_under_way_and_keeps_nothing(
    api: Loopback, client: RestClient
) -> None:
    api.on("GET /a", OK)
    async with asyncio.timeout(PATIENCE):
        asking = asyncio.create_task(send(client))
        await api.arrived.wait()
        await client.close()
        assert await asking == (200, b'{"ok": true}')
        await api.hung_up.wait()


async def test_many_at_once_each_get_their_own_reply(api: Loopback, client: RestClient) -> None:
    for number in range(40):
        api.on(f"GET /{number}", reply({"number": number}))

    async def one(number: int) -> None:
        for _ in range(5):
            status, body = await send(client, RestRequest("GET", f"/{number}", repeatable=True))
            assert (status, body) == (200, b'{"number": %d}' % number)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(one(number) for number in range(40)))


async def test_what_was_meant_for_a_caller_that_went_away_reaches_nobody_else(
    api: Loopback, client: RestClient
) -> None:
    for number in range(60):
        api.on(f"GET /{number}", replace(reply({"number": number}), apart=True))

    async def one(number: int) -> bool:
        return await send(client, RestRequest("GET", f"/{number}")) == (200, b'{"number": %d}' % number)

    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            calls = [asyncio.create_task(one(number)) for number in range(60)]
            for call in calls[::3]:  # each at another moment of its exchange
                await asyncio.sleep(0)
                call.cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert all(found[n] is True for n in range(60) if n % 3)


@pytest.mark.parametrize(
    "request_",
    [
        RestRequest("GET", "/a\r\nX: y"),
        RestRequest("GET", "/a b"),
        RestRequest("GET", "/ä"),
        RestRequest("GET", "a"),
        RestRequest("GET", "/a", {"X": "y\r\nZ: w"}),
        RestRequest("GET", "/a", {"X": "y\nZ: w"}),
        RestRequest("GET", "/a", {"X\r\nZ": "y"}),
        RestRequest("GET", "/a", {"X": "y\0"}),
    ],
)
async def test_no_value_can_begin_another_line(
    api: Loopback, client: RestClient, request_: RestRequest
) -> None:
    with pytest.raises(ValueError, match=r"a line break|a target"):
        await send(client, request_)
    assert api.asked == []


async def test_a_request_says_who_asks_and_where(api: Loopback, client: RestClient) -> None:
    api.on("POST /a", OK)
    await send(client, RestRequest("POST", "/a?b=c", {"accept": "text/csv", "X-Own": "1"}, b"body"))
    asked = api.last
    assert (asked.target, asked.body) == ("/a?b=c", b"body")
    assert asked.headers["host"] == f"127.0.0.1:{api.port}"
    assert asked.headers["accept"] == "text/csv"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["x-own"] == "1"
    assert re.fullmatch(r"toolyard/\S+", asked.headers["user-agent"])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.example.com", (True, "api.example.com", 443, "", "api.example.com")),
        ("https://api.example.com/v2/", (True, "api.example.com", 443, "/v2", "api.example.com")),
        ("http://[::1]:8080/a/b", (False, "::1", 8080, "/a/b", "[::1]:8080")),
        ("https://münchen.example", (True, "xn--mnchen-3ya.example", 443, "", "xn--mnchen-3ya.example")),
        ("http://a_b:8080/x@y", (False, "a_b", 8080, "/x@y", "a_b:8080")),
        ("http://127.0.0.1:80", (False, "127.0.0.1", 80, "", "127.0.0.1")),
    ],
)
def test_a_base_url_is_taken_apart(url: str, expected: tuple[object, ...]) -> None:
    found = ApiOrigin.parse(url)
    assert (found.secure, found.host, found.port, found.base, found.authority) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https:///path",
        "https://a b.com",
        "https://a.com/x y",
        "https://a.com/?key=1",
        "https://a.com/#top",
        "https://a.com:0",
        "https://a.com:70000",
        "https://a.com:",
        "https://a..com",
        "https://{tenant}.com",
        "https://a\x7f.com",
        "https://\u00ad/",
        f"https://{'a' * 64}.com",
        "https://[:::1]",
        "https://user:sesame@a.com",
        "user:sesame@a.com",
        "ftp://user:sesame@a.com/",
        "https://a.com/\r\nX: y",
    ],
)
def test_a_base_url_that_is_none_is_refused_without_telling_a_password(url: str) -> None:
    with pytest.raises(ValueError, match="base URL") as refusal:
        ApiOrigin.parse(url)
    assert "sesame" not in str(refusal.value)
