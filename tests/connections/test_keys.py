"""API keys of callers: entered once on a page or at a terminal, kept in the vault, never used for another."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.program import Machine
from tests.connections.yard import KEY, a_browser, link_in
from tests.serving import live, serving
from tests.waiting import until
from toolyard import Client
from toolyard.app.gateway import Gateway
from toolyard.app.http import asgi
from toolyard.client import Elicitation, ElicitResult
from toolyard.config import Config, Http, ServerConfig
from toolyard.config.models import GatewayConfig, InProcess, StateConfig, Stdio
from toolyard.config.server_auth import KeyAuth
from toolyard.edge.request import Headers, Receive, Refused, Scope, Send
from toolyard.kit import Context, Server
from toolyard.upstream.accounts import Accounts
from toolyard.upstream.errors import CredentialError
from toolyard.wire.call import Principal

ME = Principal()
TOOL = "mcp__shop__whoami"
HERE = {"Sec-Fetch-Site": "same-origin"}


class KeyedShop:
    """A server that knows its customers by their keys."""

    def __init__(self) -> None:
        self.customers = {"key-of-ana": "ana", "key-of-ben": "ben", "key-of-the-house": "house"}
        self.seen: list[str] = []
        self.header = b"authorization"
        self.prefix = "Bearer "
        self.is_down = False
        self.closed: set[str] = set()
        """Methods that are refused, whoever asks."""
        self.refusals_left = 1_000_000
        self.open: set[str] = set()
        """Methods that need no key."""
        server = Server("shop", key=KEY)
        server.tool(self.whoami)
        self.edge = server.asgi(identify=self.identify)

    async def whoami(self, ctx: Context) -> str:
        """Who calls?"""
        return ctx.caller.principal.subject

    async def identify(self, headers: Headers) -> Principal:
        given = dict(headers).get(self.header, b"").decode()
        self.seen.append(given)
        if self.is_down:
            raise Refused(500, "out of order")
        name = self.customers.get(given.removeprefix(self.prefix)) if given.startswith(self.prefix) else None
        method = dict(headers).get(b"mcp-method", b"").decode()
        if name is None and method in self.open:
            return Principal(tenant="shop", kind="application")
        if method in self.closed and self.refusals_left:
            self.refusals_left -= 1
            name = None
        if name is None:
            raise Refused(401, "who are you?")
        return Principal(tenant="shop", subject=name, kind="application")


class RunningShop:
    def __init__(self, shop: KeyedShop, url: str) -> None:
        self.shop = shop
        self.url = url


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[RunningShop]:
    shop = KeyedShop()
    async with serving(shop.edge) as http:
        yield RunningShop(shop, http.url)


def config_of(where: Any, folder: Path, auth: KeyAuth | None = None) -> Config:
    where = Http(url=where) if isinstance(where, str) else where
    return Config(
        servers=(ServerConfig(name="shop", where=where, auth=auth or KeyAuth()),),
        gateway=GatewayConfig(view="search", state_dir=str(folder)),
        state=StateConfig(url="sqlite:"),
    )


async def by_header(headers: Headers) -> Principal:
    """Callers say who they are; nobody checks that here."""
    name = dict(headers).get(b"x-who", b"").decode()
    return Principal(subject=name, kind="application") if name else Principal()


@asynccontextmanager
async def replica(config: Config) -> AsyncIterator[tuple[Gateway, str]]:
    gateway = Gateway(config, KEY)
    async with serving(asgi(gateway, identify=by_header)) as http:
        gateway.connections.base_url = http.url.removesuffix("/mcp")
        yield gateway, http.url


def keys_of(gateway: Gateway) -> Accounts:
    return gateway.connections.open_accounts["shop"]


def fields_in(page: str) -> dict[str, str]:
    found = re.search(r'name="form" value="([^"]+)"', page)
    return {"form": unescape(found[1])} if found else {}


async def enter(link: str, key: str, language: str = "en") -> tuple[int, str]:
    """The person: opens the link and sends the form."""
    async with a_browser(language) as browser:
        async with browser.get(link) as page:
            form = fields_in(await page.text())
        async with browser.post(link, data={**form, "key": key}, headers=HERE) as page:
            return page.status, await page.text()


async def call(client: Client, **options: Any) -> tuple[bool, str]:
    result = await client.call_tool("call_tool", {"tool": TOOL, "arguments": {}}, **options)
    return bool(result.is_error), result.text


async def connection(client: Client, action: str = "status", **more: Any) -> dict[str, Any]:
    result = await client.call_tool("manage_connections", {"action": action, "names": ["shop"], **more})
    found: Any = result.structured
    return found["connections"][0]


def written_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def connect(client: Client, key: str) -> None:
    status, page = await enter((await connection(client, "link"))["link"], key)
    assert status == 200, page
    assert "is connected" in page
    assert (await connection(client, "wait", seconds=20))["status"] == "active"


# A caller connects


async def test_a_key_is_entered_once_and_serves_after_a_restart(upstream: RunningShop, tmp_path: Path):
    config = config_of(upstream.url, tmp_path)
    async with replica(config) as (_, url), Client(url) as client:
        assert (await connection(client))["status"] == "none"
        await connect(client, "key-of-ana")
        assert await call(client) == (False, "ana")
    assert b"key-of-ana" not in written_below(tmp_path)
    async with replica(config) as (_, url), Client(url) as client:
        assert await call(client) == (False, "ana")
        assert (await connection(client, "disconnect"))["status"] == "none"
        assert (await call(client))[0]


async def test_each_caller_has_a_key_of_its_own(upstream: RunningShop, tmp_path: Path):
    async with (
        replica(config_of(upstream.url, tmp_path)) as (_, url),
        Client(url) as operator,
        Client(url, headers={"X-Who": "ana"}) as ana,
        Client(url, headers={"X-Who": "ben"}) as ben,
    ):
        await connect(operator, "key-of-the-house")
        await connect(ana, "key-of-ana")
        assert await call(ana) == (False, "ana")
        before = len(upstream.shop.seen)
        failed, text = await call(ben)
        assert failed, "another's key is not used in its place"
        assert len(upstream.shop.seen) == before, "the server is not asked without a key"
        await enter(link_in(text), "key-of-ben")
        assert await call(ben) == (False, "ben")
        assert await call(ana) == (False, "ana")
        await connection(ben, "disconnect")
        assert (await connection(ana))["status"] == "active"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_can_show_an_address_is_asked_in_the_call(
    upstream: RunningShop, tmp_path: Path, era: Any
):
    asked: list[Elicitation] = []

    async def on_elicit(question: Elicitation) -> ElicitResult:
        asked.append(question)
        await enter(str(question.url), "key-of-ana")
        return question.accept()

    async with (
        replica(config_of(upstream.url, tmp_path)) as (_, url),
        Client(url) as operator,
        Client(url, era=era, on_elicit=on_elicit, headers={"X-Who": "ana"}) as ana,
    ):
        await connect(operator, "key-of-the-house")
        assert await call(ana) == (False, "ana")
        assert [one.url is not None for one in asked] == [True], "a secret is never asked for in a form"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_others_have_the_only_slot_of_a_server_while_a_user_is_at_the_page(
    upstream: RunningShop, tmp_path: Path, era: Any
):
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def on_elicit(question: Elicitation) -> ElicitResult:
        asked.put_nowait(str(question.url))
        return question.accept()

    config = config_of(upstream.url, tmp_path)
    config = replace(config, servers=(replace(config.servers[0], concurrency=1, timeout=5.0),))
    async with (
        replica(config) as (_, url),
        Client(url) as operator,
        Client(url, era=era, on_elicit=on_elicit, headers={"X-Who": "ana"}) as ana,
    ):
        await connect(operator, "key-of-the-house")
        waiting = asyncio.create_task(call(ana))
        link = await asked.get()
        assert [await call(operator) for _ in range(5)] == [(False, "house")] * 5
        await enter(link, "key-of-ana")
        assert await waiting == (False, "ana")


async def test_a_key_that_was_revoked_is_asked_for_again_and_the_caller_is_told_why(
    upstream: RunningShop, tmp_path: Path
):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, url), Client(url) as client:
        await connect(client, "key-of-ana")
        del upstream.shop.customers["key-of-ana"]
        failed, text = await call(client)
        assert (failed, "does not accept your API key any more" in text) == (True, True), text
        assert "any more" in (await connection(client))["message"]
        sent = len(upstream.shop.seen)
        await call(client)
        assert len(upstream.shop.seen) == sent, "a refused key is not sent again"
        await enter(link_in(text), "key-of-ben")
        assert (await keys_of(gateway).state(ME)).connected
        assert await call(client) == (False, "ben")


async def test_one_request_that_is_refused_does_not_cost_the_key_of_all(
    upstream: RunningShop, tmp_path: Path
):
    config = config_of(upstream.url, tmp_path, KeyAuth(per="all"))
    async with (
        replica(config) as (gateway, url),
        Client(url) as operator,
        Client(url, headers={"X-Who": "ana"}) as ana,
    ):
        await enter((await keys_of(gateway).link(ME)).url, "key-of-the-house")
        await connection(operator, "wait", seconds=20)
        assert await call(operator) == (False, "house")
        upstream.shop.closed = {"tools/call"}
        for _ in range(2):
            failed, text = await call(ana)
            assert (failed, "401" in text, "API key" in text) == (True, True, False), text
        upstream.shop.closed = set()
        assert (await keys_of(gateway).state(ME)).connected
        assert await call(operator) == (False, "house")


async def test_a_refusal_of_a_moment_is_not_noticed(upstream: RunningShop, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (_, url), Client(url) as client:
        await connect(client, "key-of-ana")
        upstream.shop.closed, upstream.shop.refusals_left = {"tools/call"}, 1
        assert await call(client) == (False, "ana")


async def test_where_strangers_may_look_around_a_second_refusal_of_a_call_counts(
    upstream: RunningShop, tmp_path: Path
):
    upstream.shop.open = {"server/discover", "tools/list"}
    async with replica(config_of(upstream.url, tmp_path)) as (_, url), Client(url) as client:
        await connect(client, "key-of-ana")
        del upstream.shop.customers["key-of-ana"]
        failed, text = await call(client)
        assert (failed, "does not accept your API key any more" in text) == (True, True), text
        sent = len(upstream.shop.seen)
        await call(client)
        assert len(upstream.shop.seen) == sent, "a refused key is not sent again"


async def test_a_server_that_is_down_does_not_cost_the_key(upstream: RunningShop, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, url), Client(url) as client:
        await connect(client, "key-of-ana")
        upstream.shop.is_down = True
        assert (await call(client))[0]
        upstream.shop.is_down = False
        assert (await keys_of(gateway).state(ME)).connected
        assert await call(client) == (False, "ana")


async def test_a_search_says_that_a_key_is_missing(upstream: RunningShop, tmp_path: Path):
    async with (
        replica(config_of(upstream.url, tmp_path)) as (_, url),
        Client(url) as operator,
        Client(url, headers={"X-Who": "ana"}) as ana,
    ):
        await connect(operator, "key-of-the-house")
        found = (await ana.call_tool("search_tools", {"queries": ["who calls"]})).text
        [line] = [one for one in found.split("\n") if one.startswith(f"{TOOL}(")]
        assert line.endswith("[not connected: api_key]")
        assert 'call_tool with tool "manage_connections"' in found


async def test_header_and_prefix_are_those_of_the_configuration(upstream: RunningShop, tmp_path: Path):
    upstream.shop.header, upstream.shop.prefix = b"x-api-key", "Token "
    auth = KeyAuth(header="X-Api-Key", prefix="Token ")
    async with replica(config_of(upstream.url, tmp_path, auth)) as (_, url), Client(url) as client:
        await connect(client, "key-of-ana")
        assert await call(client) == (False, "ana")


async def test_one_key_for_all_is_entered_by_whoever_runs_the_gateway(upstream: RunningShop, tmp_path: Path):
    config = config_of(upstream.url, tmp_path, KeyAuth(per="all"))
    async with (
        replica(config) as (gateway, url),
        Client(url, headers={"X-Who": "ana"}) as ana,
    ):
        refused = await connection(ana, "link")
        assert (refused["status"], "toolyard login shop" in refused["message"]) == ("failed", True), refused
        status, page = await enter((await keys_of(gateway).link(ME)).url, "key-of-the-house")
        assert (status, "is connected" in page) == (200, True), page
        await connection(ana, "wait", seconds=20)
        assert await call(ana) == (False, "house")
        with pytest.raises(CredentialError):
            await keys_of(gateway).disconnect(Principal(subject="ana", kind="key"))
        assert await call(ana) == (False, "house")


async def test_a_key_is_not_sent_to_another_address_under_the_same_name(
    upstream: RunningShop, tmp_path: Path
):
    async with replica(config_of(upstream.url, tmp_path)) as (_, url), Client(url) as client:
        await connect(client, "key-of-ana")
    async with replica(config_of("http://127.0.0.1:9/mcp", tmp_path)) as (gateway, _):
        assert not (await keys_of(gateway).state(ME)).connected


# The page


async def test_a_wrong_key_is_not_kept_and_may_be_corrected_some_times(upstream: RunningShop, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, _):
        link = (await keys_of(gateway).link(ME)).url
        async with a_browser("pt-BR") as browser:
            async with browser.get(link) as page:
                text = await page.text()
                assert "somente você" in text
                assert 'type="password"' in text
            for key, said in (
                ("wrong-key", "não aceitou esta chave"),
                ("", "Informe a chave primeiro"),
                ("a\r\nX-Admin: 1", "Isto não pode ser uma chave"),
                ("x" * 5000, "longo demais"),
            ):
                async with browser.post(link, data={**fields_in(text), "key": key}, headers=HERE) as page:
                    text = await page.text()
                    assert (page.status, said in text) == (200, True), text
                    assert not key or key not in text
            assert not (await keys_of(gateway).state(ME)).connected
            assert not any("X-Admin" in sent or "\n" in sent for sent in upstream.shop.seen)
            async with browser.post(link, data={**fields_in(text), "key": "wrong-key"}, headers=HERE) as page:
                assert page.status == 410, "five attempts"
        assert (await enter(link, "key-of-ana"))[0] == 410
        assert not (await keys_of(gateway).state(ME)).connected


async def test_a_server_that_does_not_answer_gets_no_key(tmp_path: Path):
    async with replica(config_of("http://127.0.0.1:9/mcp", tmp_path)) as (gateway, _):
        status, page = await enter((await keys_of(gateway).link(ME)).url, "key-of-ana")
        assert (status, "could not be tried and was not saved" in page) == (200, True), page
        assert not (await keys_of(gateway).state(ME)).connected


async def test_a_link_works_once(upstream: RunningShop, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, _):
        link = (await keys_of(gateway).link(ME)).url
        assert (await keys_of(gateway).link(ME)).url == link, "whoever asks again gets the same link"
        assert (await enter(link, "key-of-ana"))[0] == 200
        assert (await enter(link, "key-of-ben"))[0] == 410
        assert (await keys_of(gateway).link(ME)).url != link


async def test_a_form_counts_only_from_the_browser_and_the_page_that_had_it(
    upstream: RunningShop, tmp_path: Path
):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, _):
        link = (await keys_of(gateway).link(ME)).url
        async with a_browser() as mine, a_browser() as other:
            async with mine.get(link) as page:
                policy = page.headers["Content-Security-Policy"]
                assert "frame-ancestors 'none'" in policy
                assert "form-action 'self'" in policy
                assert page.headers["X-Frame-Options"] == "DENY"
                assert page.headers["Cache-Control"] == "no-store"
                assert "HttpOnly; SameSite=Lax" in page.headers["Set-Cookie"]
                form = {**fields_in(await page.text()), "key": "key-of-ana"}
            async with other.post(link, data=form, headers=HERE) as page:
                assert page.status == 403, "another browser"
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}):
                async with mine.post(link, data=form, headers=headers) as page:
                    assert page.status == 403, "another site"
            async with mine.post(link, data={"key": "key-of-ana"}, headers=HERE) as page:
                assert page.status == 403, "a form that is not ours"
            async with mine.post(link, data={**form, "key": "wrong-key"}, headers=HERE) as page:
                assert page.status == 200
            async with other.get(link) as page:
                assert page.status == 403, "the link belongs to the browser that tried first"
            assert not (await keys_of(gateway).state(ME)).connected
            async with mine.post(link, data=form, headers=HERE) as page:
                assert page.status == 200
        assert (await keys_of(gateway).state(ME)).connected


async def test_a_huge_form_and_an_odd_one_are_not_read(upstream: RunningShop, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (gateway, url):
        link = (await keys_of(gateway).link(ME)).url
        async with a_browser() as browser:
            async with browser.post(link, data=b"key=" + b"x" * 100_000, headers=HERE) as page:
                assert page.status == 413
            for body in (b"\xff\xfe", b"key=a&key=b", b"&".join(b"a%d=1" % n for n in range(50))):
                async with browser.post(link, data=body, headers=HERE) as page:
                    assert page.status == 403
            unknown = f"{url.removesuffix('/mcp')}/connections/key/"
            for id in ("0" * 32, "<b>", "%00" * 11):
                async with browser.get(unknown + id) as page:
                    assert page.status == 410
                    assert id not in await page.text()


# A server that tells what it was sent


class Echo:
    """Lets everybody in, and answers all else with an error that has the key that came with it."""

    path = "/mcp"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        message = json.loads((await receive()).get("body", b"") or b"{}")
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        error: Any = {"code": -32001, "message": f"not with {given}!", "data": {given: [f"?k={given}"]}}
        answer: Any = {"error": error}
        if message.get("method") == "server/discover":
            answer = {"error": {"code": -32601, "message": "no such method"}}
        elif message.get("method") == "initialize":
            about = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "echo", "version": "1"}}
            answer = {"result": {**about, "capabilities": {"tools": {}}}}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **answer}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send(
            {"type": "http.response.start", "status": 200 if "id" in message else 202, "headers": headers}
        )
        await send({"type": "http.response.body", "body": body})

    async def close(self) -> None:
        return None


async def test_a_server_that_repeats_the_key_in_an_error_shows_it_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    key = "k3y/that-is-repeated"
    async with (
        serving(Echo()) as http,
        replica(config_of(http.url, tmp_path)) as (gateway, url),
        Client(url) as operator,
    ):
        await connect(operator, key)

        async def has_said_it() -> bool:
            return "not with !" not in (said := json.dumps(gateway.health())) and "not with" in said

        await until(has_said_it)
        told = await operator.call_tool("call_tool", {"tool": TOOL, "arguments": {}})
        shown = [json.dumps(gateway.health()), told.text, caplog.text]
    assert [key in text for text in shown] == [False] * 3, shown
    assert key.encode() not in written_below(tmp_path)


# Other kinds of servers


def backwards(key: str) -> str:
    """As the servers say which key they were given: they may not repeat it."""
    return key[::-1]


KIT = """
from toolyard.kit import CallerKeys, Context, Server, ToolError

server = Server("shop", key=b"0123456789abcdef", caller_keys=CallerKeys(("x-shop-key",), required=False))

@server.tool
async def whoami(ctx: Context) -> str:
    "Who calls?"
    key = ctx.secret("x-shop-key")
    if key is None:
        raise ToolError("no key")
    if key.reveal() == "revoked":
        key.refuse()
        raise ToolError("401")
    return key.reveal()[::-1]
"""


async def test_a_server_in_this_process_gets_the_key_of_its_caller(tmp_path: Path):
    module = tmp_path / "shop_kit.py"
    module.write_text(KIT)
    config = config_of(InProcess(module=f"{module}:server"), tmp_path / "state")
    async with (
        replica(config) as (_, url),
        Client(url, headers={"X-Who": "ana"}) as ana,
        Client(url, headers={"X-Who": "ben"}) as ben,
    ):
        failed, text = await call(ana)
        assert failed
        await enter(link_in(text), "key-of-ana")
        await connect(ben, "revoked")
        assert await call(ana) == (False, backwards("key-of-ana"))
        failed, text = await call(ben)
        assert (failed, "does not accept your API key any more" in text) == (True, True), text
        assert await call(ana) == (False, backwards("key-of-ana"))


CHECKING = """
from toolyard.edge.request import Refused
from toolyard.kit import CallerKeys, Context, Server

known = {}

async def admit(key):
    if key.reveal() == "key-for-later":
        raise Refused(503, "busy")
    if known.setdefault(key.fingerprint, key.reveal()) != "key-of-ana":
        raise Refused(401, "unknown")

keys = CallerKeys(("x-shop-key",), required=False, admit=admit)
server = Server("shop", key=b"0123456789abcdef", caller_keys=keys)
is_open = True

async def close():
    global is_open
    is_open = False

server.on_close(close)

@server.tool
async def whoami(ctx: Context) -> str:
    "Who calls?"
    return f"{ctx.secret('x-shop-key').reveal()[::-1]} {is_open}"
"""


async def test_a_key_is_tried_at_the_server_that_is_mounted_and_leaves_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "shop_that_checks.py").write_text(CHECKING)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = config_of(InProcess(module="shop_that_checks:server"), tmp_path / "state")
    async with (
        replica(config) as (_, url),
        Client(url, headers={"X-Who": "ana"}) as ana,
        Client(url, headers={"X-Who": "ben"}) as ben,
    ):
        await connect(ana, "key-of-ana")
        assert await call(ana) == (False, f"{backwards('key-of-ana')} True")
        link = (await connection(ben, "link"))["link"]
        async with a_browser() as browser:
            for key, problem in (
                ("no-such-key", "did not accept this key"),
                ("key-for-later", "did not answer"),
            ):
                async with browser.get(link) as page:
                    form = fields_in(await page.text())
                async with browser.post(link, data={**form, "key": key}, headers=HERE) as page:
                    assert problem in await page.text()
        assert await call(ana) == (False, f"{backwards('key-of-ana')} True")


async def test_a_module_that_checks_its_callers_is_asked_before_its_word_about_one_call_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refusing = CHECKING.replace("    return", "    ctx.secret('x-shop-key').refuse()\n    return")
    (tmp_path / "shop_that_refuses.py").write_text(refusing)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = config_of(InProcess(module="shop_that_refuses:server"), tmp_path / "state")
    async with replica(config) as (_, url), Client(url) as client:
        await connect(client, "key-of-ana")
        assert await call(client) == (False, f"{backwards('key-of-ana')} True")
        assert (await connection(client))["status"] == "active"


class HelpDesk:
    """The API behind a bundled server."""

    path = "/"

    def __init__(self) -> None:
        self.keys = {"desk-key-of-ana"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        body = b'{"ticket_number": 7, "title": "Printer on fire", "enable_mcp": true}'
        status = 200 if given in self.keys else 401
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def close(self) -> None:
        return None


async def test_a_bundled_server_calls_its_api_with_the_key_of_the_caller(tmp_path: Path):
    desk = HelpDesk()
    async with serving(desk) as http:
        options = {"api_base_url": http.url.removesuffix("/mcp").rstrip("/")}
        config = config_of(InProcess(module="toolyard.servers.tiflux", options=options), tmp_path)
        ask = {"tool": "mcp__shop__get_ticket", "arguments": {"ticket_number": "7"}}
        async with replica(config) as (_, url), Client(url, headers={"X-Who": "ana"}) as ana:
            assert (await ana.call_tool("call_tool", ask)).is_error
            await connect(ana, "desk-key-of-ana")
            found = await ana.call_tool("call_tool", ask)
            assert "Printer on fire" in found.text, found.text
            desk.keys.clear()
            refused = await ana.call_tool("call_tool", ask)
            assert "does not accept your API key any more" in refused.text


PROGRAM = """
import os, sys
from toolyard.kit import Server

if "SHOP_KEY" not in os.environ:
    sys.exit("SHOP_KEY is not set")
print("started with", os.environ["SHOP_KEY"], file=sys.stderr)
print("hello to", os.environ["SHOP_KEY"], flush=True)
server = Server("shop", key=b"0123456789abcdef")

@server.tool
async def whoami() -> str:
    "Who calls?"
    return os.environ["SHOP_KEY"][::-1] + " " + str(os.getpid())

server.run_stdio()
"""


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until_gone(pid: int) -> None:
    async def is_gone() -> bool:
        return not is_running(pid)

    await until(is_gone)


async def test_a_program_runs_once_for_each_caller_with_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    script = tmp_path / "shop_program.py"
    script.write_text(PROGRAM)
    where = Stdio(command=sys.executable, args=(str(script),))
    config = config_of(where, tmp_path / "state", KeyAuth(variable="SHOP_KEY"))
    async with (
        replica(config) as (gateway, url),
        Client(url) as operator,
        Client(url, headers={"X-Who": "ana"}) as ana,
    ):
        told = await connection(operator)
        assert (told["status"], "no API key was entered yet" in told["message"]) == ("none", True), told
        await connect(operator, "key-of-the-house")
        await connect(ana, "key-of-ana")
        house, process = (await call(operator))[1].split()
        mine, other = (await call(ana))[1].split()
        assert (house, mine) == (backwards("key-of-the-house"), backwards("key-of-ana"))
        assert process != other
        assert (await call(ana))[1].split() == [backwards("key-of-ana"), other], "one process for one caller"
        await connection(ana, "disconnect")
        await until_gone(int(other))  # without another call
        assert (await call(ana))[0]
        await connect(ana, "key-of-ana-2")
        again = (await call(ana))[1].split()
        assert again[0] == backwards("key-of-ana-2")
        assert again[1] != other
        assert (await keys_of(gateway).state(ME)).connected
    assert "started with ***" in caplog.text
    assert "wrote a line that is not JSON" in caplog.text
    assert "key-of-" not in caplog.text


# At a terminal


async def test_a_key_is_entered_and_forgotten_at_a_terminal(upstream: RunningShop, tmp_path: Path):
    file = tmp_path / "toolyard.toml"
    gateway = f'[gateway]\nstate_dir = "{tmp_path}/state"\n'
    file.write_text(f'{gateway}[servers.shop]\nurl = "{upstream.url}"\nauth = "api_key"\n')

    machine = Machine(tmp_path)

    async def told(words: str, given: str = "") -> tuple[int | None, str]:
        return await machine.run(*words.split(), typed=given)

    status, said = await told("list")
    assert (status, "toolyard login shop" in said) == (3, True), said
    status, said = await told("login shop", "wrong\n")
    assert (status, "does not accept this key" in said, "wrong" in said) == (2, True, False), said
    status, said = await told("login shop", "key-of-ana\n")
    assert (status, said.strip()) == (0, "kept the API key for shop, for you")
    status, said = await told(f"call {TOOL}")
    assert (status, "ana" in said) == (0, True), said
    status, said = await told("logout shop")
    assert (status, said.strip()) == (0, "forgot the API key for shop")
    assert (await told("logout shop"))[0] == 2
