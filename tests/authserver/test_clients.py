"""Clients: the registrations that real ones send, the redirects that count, and documents about clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.authserver.yard import Browser, HandMadeClient, login_yard, register, registered
from toolyard.authserver.brakes import BusyError
from toolyard.authserver.clients import (
    OAuthClients,
    RegistrationError,
    is_redirect,
    redirect_target,
    same_redirect,
    shown_name,
)
from toolyard.authserver.documents import FAILED_SECONDS, MIN_FRESH, PINNED, FetchedDocuments, freshness
from toolyard.config.callers import LoginServerConfig
from toolyard.wire.seal import Sealer

PUBLIC = {"token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"]}
CURSOR = [
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "https://www.cursor.com/agents/mcp/oauth/callback",
    "http://localhost:8787/callback",
]
VSCODE = ["https://vscode.dev/redirect", "http://127.0.0.1/", "http://127.0.0.1:33418/"]
# What they send to register, and where each of them is sent then.
REGISTRATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "Claude.ai": (
        {"client_name": "Claude", "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"], **PUBLIC},
        ["https://claude.ai/api/mcp/auth_callback"],
    ),
    "Claude Code": (
        {"client_name": "Claude Code (yard)", "redirect_uris": ["http://localhost:3118/callback"], **PUBLIC},
        ["http://localhost:3118/callback", "http://localhost:51234/callback"],
    ),
    "VS Code": (
        {
            "client_name": "Visual Studio Code",
            "redirect_uris": VSCODE,
            "application_type": "native",
            **PUBLIC,
        },
        [*VSCODE, "http://127.0.0.1:50123/"],
    ),
    "Cursor": ({"client_name": "Cursor", "redirect_uris": CURSOR, **PUBLIC}, CURSOR),
    "mcp-remote": (
        {
            "client_name": "MCP CLI Proxy",
            "redirect_uris": ["http://localhost:3335/oauth/callback"],
            "scope": "openid email profile",
            **PUBLIC,
        },
        ["http://localhost:3335/oauth/callback", "http://localhost:49150/oauth/callback"],
    ),
    "Inspector": (
        {
            "client_name": "MCP Inspector",
            "redirect_uris": ["http://localhost:6274/oauth/callback", "http://127.0.0.1:6276/oauth/callback"],
            **PUBLIC,
        },
        ["http://localhost:6274/oauth/callback", "http://127.0.0.1:6276/oauth/callback"],
    ),
}
DOCUMENTS = {
    "https://claude.ai/oauth/mcp-oauth-client-metadata": [
        "https://claude.ai/api/mcp/auth_callback",
        "https://claude.com/api/mcp/auth_callback",
    ],
    "https://claude.ai/oauth/claude-code-client-metadata": [
        "http://localhost:3118/callback",
        "http://127.0.0.1:40404/callback",
    ],
    "https://vscode.dev/oauth/client-metadata.json": [
        "http://127.0.0.1:33418/",
        "https://vscode.dev/redirect",
    ],
}


async def test_each_client_gets_in_as_it_registers_itself(tmp_path: Path):
    async with login_yard(tmp_path) as yard:
        for name, (sent, redirects) in REGISTRATIONS.items():
            status, answer = await register(yard, **sent)
            assert status == 201, (name, answer)
            assert answer["redirect_uris"] == sent["redirect_uris"]
            assert "client_secret" not in answer
            async with Browser() as browser:
                for redirect in redirects:
                    client = HandMadeClient(yard, answer, redirect)
                    tokens = await client.log_in(browser, scope=sent.get("scope"))
                    assert (await yard.call(tokens["access_token"])).status == 200, (name, redirect)
                    assert (await client.refresh(tokens["refresh_token"]))[0] == 200


async def test_well_known_clients_get_in_by_their_documents_which_nobody_fetches(tmp_path: Path):
    assert set(DOCUMENTS) == set(PINNED)
    async with login_yard(tmp_path) as yard:
        for url, redirects in DOCUMENTS.items():
            async with Browser() as browser:
                for redirect in redirects:
                    client = HandMadeClient(yard, {"client_id": url}, redirect)
                    tokens = await client.log_in(browser)
                    assert (await yard.call(tokens["access_token"])).status == 200
                strange = HandMadeClient(yard, {"client_id": url}, "https://evil.example/callback")
                assert (await browser.get(strange.url())).status == 400


async def test_one_impossible_redirect_does_not_spoil_a_registration(tmp_path: Path):
    async with login_yard(tmp_path) as yard:
        mixed = [*CURSOR, "javascript:alert(1)", "http://plain.example/", "weird", 7, None]
        client = await registered(yard, mixed, redirect=CURSOR[0])
        assert (await client.log_in())["access_token"]
        for redirects in (
            ["javascript:alert(1)"],
            ["data:text/html,x"],
            ["file:///etc/passwd"],
            [],
            ["x" * 5000],
        ):
            status, answer = await register(yard, redirect_uris=redirects)
            assert (status, answer["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://app.example:8443/cb?x=1",
        "http://127.0.0.1/cb",
        "http://[::1]:80/cb",
        "http://localhost:1/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "com.example.app:/callback",
        "vscode://x/y",
    ],
)
def test_redirects_that_are_possible(uri: str):
    assert is_redirect(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://example.com/cb",
        "http://127.0.0.2/cb",
        "http://localhost.evil.example/cb",
        "https://user@example.com/cb",
        "https://example.com/cb#fragment",
        "https:/example.com/cb",
        "https:example.com",
        "https://",
        "https://exa mple.com/",
        "https://example.com\\@evil.example/",
        "https://example.com/\r\nSet-Cookie: x=1",
        "https://ex\u0430mple.com/cb",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,x",
        "DATA:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "blob:https://example.com/x",
        "view-source:https://example.com",
        "about:blank",
        "intent://x#Intent;end",
        "cursor:",
        "//example.com/cb",
        "/cb",
        "",
    ],
)
def test_redirects_that_are_not(uri: str):
    assert not is_redirect(uri)


@pytest.mark.parametrize(
    ("registered", "given", "same"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb", True),
        ("http://127.0.0.1:99/cb", "http://127.0.0.1:1234/cb", True),
        ("http://[::1]:1/cb", "http://[::1]:2/cb", True),
        ("http://localhost:1/cb?a=b", "http://localhost:2/cb?a=b", True),
        ("http://localhost/cb", "http://127.0.0.1/cb", False),
        ("http://localhost/cb", "http://localhost/cb/", False),
        ("http://localhost/cb", "https://localhost/cb", False),
        ("http://localhost/cb", "http://localhost:1/cb?x=1", False),
        ("https://a.example/cb", "https://a.example:444/cb", False),
        ("https://a.example/cb", "https://a.example/CB", False),
        ("https://localhost/cb", "https://localhost:2/cb", False),
    ],
)
def test_the_port_of_this_machine_does_not_count_and_everything_else_does(
    registered: str, given: str, same: bool
):
    assert same_redirect(registered, given) is same


def test_where_a_redirect_leads():
    assert redirect_target("https://claude.ai/x") == ("web", "claude.ai")
    assert redirect_target("http://[::1]:8/x") == ("machine", "::1")
    assert redirect_target("cursor://claude.ai/x") == ("application", "cursor:")
    assert shown_name("a\u202eb\tc  d\x07") == "ab c d"


async def test_a_registration_is_in_the_id_and_of_this_gateway_only():
    documents = FetchedDocuments()
    clients = OAuthClients((), Sealer(b"0123456789abcdef", "one"), documents)
    other = OAuthClients((), Sealer(b"0123456789abcdef", "two"), documents)
    made = clients.register({"redirect_uris": ["https://a.example/cb"], "client_name": "A"})
    assert made.client.method == "client_secret_basic"  # the default of the standard
    found = await clients.find(made.client.id)
    assert found == made.client
    assert clients.is_secret(made.client, made.secret)
    assert not clients.is_secret(made.client, made.secret[:-1])
    assert await other.find(made.client.id) is None
    assert len(made.client.id) < 300
    odd = clients.register({"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "tls"})
    assert odd.client.method == "none"
    with pytest.raises(RegistrationError, match="too long"):
        clients.register({"redirect_uris": [f"https://a.example/{n}/{'x' * 1000}" for n in range(20)]})


# Documents


class Site:
    """Answers every request with these bytes, and counts."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked = 0
        self.url = ""
        self.hangs = False

    def document(self, headers: str = "", status: str = "200 OK", **changed: Any) -> None:
        values = {"client_id": self.url, "client_name": "Doc", "redirect_uris": ["https://doc.example/cb"]}
        body = msgspec.json.encode({name: value for name, value in (values | changed).items() if value})
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}"
        )
        self.answer = head.encode() + b"\r\n" + body


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    found = Site()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(found.answer)
        if found.hangs:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/client.json"
    found.document()
    async with server:
        yield found


async def test_a_client_is_known_by_its_document_as_long_as_that_is_fresh():
    moment = 0.0
    documents = FetchedDocuments(("127.0.0.1",), clock=lambda: moment)
    async with site() as found:
        found.document("Cache-Control: public, max-age=600\r\n")
        clients = await asyncio.gather(*(documents.find(found.url) for _ in range(5)))
        client = clients[0]
        assert client
        assert (client.name, client.host, client.redirect_uris) == (
            "Doc",
            "127.0.0.1",
            ("https://doc.example/cb",),
        )
        assert found.asked == 1
        moment = 599
        await documents.find(found.url)
        assert found.asked == 1
        moment = 601
        found.document(client_name="New")
        renewed = await documents.find(found.url)
        assert renewed
        assert (renewed.name, found.asked) == ("New", 2)
    await documents.close()
    assert (freshness("no-store"), freshness("max-age=0"), freshness("")) == (MIN_FRESH, MIN_FRESH, 3600)
    assert freshness("max-age=999999999") == 86400


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "https://other.example/client.json"},
        {"client_id": None},
        {"client_name": None},
        {"redirect_uris": None},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"client_secret": "x"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"status": "404 Not Found"},
        {"status": "302 Found", "headers": "Location: https://evil.example/\r\n"},
        {"padding": "x" * 40_000},
    ],
)
async def test_a_document_that_does_not_fit_makes_no_client(changed: dict[str, Any]):
    moment = 0.0
    documents = FetchedDocuments(("127.0.0.1",), clock=lambda: moment)
    async with site() as found:
        found.document(**changed)
        assert await documents.find(found.url) is None
        assert await documents.find(found.url) is None
        assert found.asked == 1  # a failure is remembered for a while too
        found.document()
        moment = FAILED_SECONDS + 1
        assert await documents.find(found.url) is not None
    await documents.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
async def test_a_site_that_answers_something_else_makes_no_client(answer: bytes):
    documents = FetchedDocuments(("127.0.0.1",))
    async with site() as found:
        found.answer = answer
        assert await documents.find(found.url) is None
    await documents.close()


async def test_a_document_without_an_end_is_given_up():
    documents = FetchedDocuments(("127.0.0.1",), seconds=0.05)
    async with site() as found:
        found.hangs = True
        found.answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        assert await documents.find(found.url) is None
    await documents.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
    ],
)
async def test_a_document_at_a_private_address_is_not_fetched(address: str):
    async def private(host: str, port: int) -> list[str]:
        return ["93.184.216.34", address]

    documents = FetchedDocuments(resolve=private)
    assert await documents.find("https://rebinding.example/client.json") is None
    await documents.close()
    async with site() as found:
        plain = FetchedDocuments()
        assert await plain.find(found.url) is None
        assert found.asked == 0
        await plain.close()


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example",
        "https://a.example/",
        "https://user:secret@a.example/c",
        "https://a.example/c#x",
        "https://a.example/../c",
        "https://a.example/./c",
        "http://a.example/c",
        "https://a.example:99999/c",
        "https://[x/c",
        "https://a.example/c\r\nHost: b",
        "https://a.example/c?x=1 HTTP/1.0",
        "https://a.example/c?x=1\r\nHost: b",
        "https://a.example/c?x=\x00",
        "https://a.example/" + "c" * 600,
    ],
)
async def test_an_address_that_no_document_can_have_is_not_asked(url: str):
    async def nowhere(host: str, port: int) -> list[str]:
        raise AssertionError("nobody should look for it")

    documents = FetchedDocuments(resolve=nowhere)
    assert await documents.find(url) is None
    await documents.close()


# Strangers choose what is fetched, and how slowly it answers


@asynccontextmanager
async def silent_sites(count: int) -> AsyncIterator[tuple[list[str], "asyncio.Queue[None]"]]:
    """Sites that read a request and never answer, and a queue with an entry for each request."""
    asked = asyncio.Queue[None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            asked.put_nowait(None)
            await reader.read()
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(await asyncio.start_server(serve, "127.0.0.1", 0))
            for _ in range(count)
        ]
        yield [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/" for server in servers], asked


async def ended(tasks: list["asyncio.Task[Any]"]) -> list[Any]:
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_good_client_does_not_wait_for_hostile_ones():
    documents = FetchedDocuments(("127.0.0.1",), seconds=3600)
    async with site() as good, silent_sites(30) as (urls, asked):
        hostile = [asyncio.create_task(documents.find(f"{url}c", "192.0.2.1")) for url in urls]
        for _ in hostile:
            await asked.get()
        assert await documents.find(good.url, "192.0.2.1") is not None
        assert not any(task.done() for task in hostile)
        await ended(hostile)
        await documents.close()


async def test_a_host_an_asker_and_all_together_have_a_share_and_equal_requests_count_once():
    documents = FetchedDocuments(("127.0.0.1",), seconds=3600)
    async with site() as good, silent_sites(16) as (urls, asked):
        tasks: list[asyncio.Task[Any]] = []

        async def begin(url: str, asker: str) -> None:
            tasks.append(asyncio.create_task(documents.find(url, asker)))
            await asked.get()

        for number in range(4):
            await begin(f"{urls[0]}{number}x", "192.0.2.1")
        with pytest.raises(BusyError):  # of this host
            await documents.find(f"{urls[0]}more", "192.0.2.2")
        tasks += [asyncio.create_task(documents.find(f"{urls[0]}0x", f"192.0.2.{n}")) for n in range(100)]
        for number in range(28):
            await begin(f"{urls[1 + number % 7]}{number}x", "192.0.2.1")
        with pytest.raises(BusyError):  # for this asker
            await documents.find(good.url, "192.0.2.1")
        assert await documents.find(good.url, "192.0.2.2") is not None
        for number in range(32):
            await begin(f"{urls[8 + number % 8]}{number}x", "192.0.2.2")
        with pytest.raises(BusyError):  # at all
            await documents.find(f"{good.url}?new", "192.0.2.3")
        assert await documents.find(good.url, "192.0.2.3") is not None  # it is known already
        assert asked.empty()
        await ended(tasks)
        await documents.close()


async def test_documents_that_fail_never_push_out_good_ones():
    documents = FetchedDocuments(("127.0.0.1",), clock=lambda: 0.0)
    async with site() as good, site() as bad:
        assert await documents.find(good.url)
        bad.answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        for number in range(600):
            assert await documents.find(f"{bad.url}?{number}") is None
        assert await documents.find(good.url)
        assert (good.asked, bad.asked) == (1, 600)
    await documents.close()


async def test_a_place_is_taken_as_long_as_the_name_server_is_asked():
    names = {f"slow{number}.example" for number in range(32)}
    asked, may = asyncio.Queue[None](), asyncio.Event()

    async def look_up(host: str, port: int) -> list[str]:
        asked.put_nowait(None)
        await may.wait()
        return ["127.0.0.1"]

    documents = FetchedDocuments(resolve=look_up, seconds=0.01)
    found = [documents.find(f"https://{name}/c", "192.0.2.1") for name in names]
    assert await asyncio.gather(*found) == [None] * 32
    assert asked.qsize() == 32
    with pytest.raises(BusyError):
        await documents.find("https://one-more.example/c", "192.0.2.1")
    may.set()
    while True:
        with contextlib.suppress(BusyError):
            assert await documents.find("https://one-more.example/c", "192.0.2.1") is None
            break
        await asyncio.sleep(0)
    await documents.close()


async def test_who_cannot_be_served_now_is_told_when_to_come_again(tmp_path: Path):
    server = LoginServerConfig(client_hosts=("127.0.0.1",))
    async with login_yard(tmp_path, server) as yard, silent_sites(1) as (urls, asked), Browser() as browser:
        tasks: list[asyncio.Task[Any]] = []
        for number in range(4):
            client = HandMadeClient(yard, {"client_id": f"{urls[0]}{number}x"})
            tasks.append(asyncio.create_task(browser.get(client.url())))
            await asked.get()
        client = HandMadeClient(yard, {"client_id": f"{urls[0]}more"})
        page = await browser.get(client.url())
        assert (page.status, page.headers["retry-after"]) == (503, "5")
        assert "Try again in a moment" in page.text
        assert (await client.redeem("code"))[1]["error"] == "temporarily_unavailable"
        assert asked.empty()
        await ended(tasks)
