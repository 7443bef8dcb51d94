"""A gateway with its own authorization server, a person with a browser, and a client by hand."""

import asyncio
import base64
import hashlib
import html
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp

from tests.app.yard import KEY
from tests.serving import Answer, Client, modern, serving
from toolyard.app import Gateway, asgi
from toolyard.authserver.users import LocalUsers, PasswordHasher
from toolyard.config import Config, GatewayConfig
from toolyard.config.callers import AuthConfig, LoginServerConfig
from toolyard.state.factory import lasting_state
from toolyard.state.store import State

NAME, PASSWORD = "anna", "correct horse battery"
REDIRECT = "http://127.0.0.1:3030/callback"
BEHIND_PROXY = {"proxies": ("127.0.0.1",)}
"""`[gateway]` of a yard whose browsers may say in X-Forwarded-For where they are."""
_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.S)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


def quick_hasher() -> PasswordHasher:
    """Argon2id with so little work that tests need not wait for it."""
    return PasswordHasher(memory=64, iterations=1)


class LoginYard:
    """What a test needs of a running gateway with `[auth.server]`."""

    def __init__(
        self, gateway: Gateway, client: Client, state: State, users: LocalUsers, host: str = "127.0.0.1"
    ) -> None:
        self.host = host
        self.gateway = gateway
        self.client = client
        self.state = state
        self.users = users

    @property
    def base(self) -> str:
        return f"http://{self.host}:{self.client.port}"

    @property
    def resource(self) -> str:
        return f"{self.base}/mcp"

    @property
    def server(self) -> Any:
        """The app itself, whose clock a test may set."""
        return next(iter(self.gateway.callers.login_paths.values()))

    async def call(self, token: str, path: str = "/mcp") -> Answer:
        sent, message = modern("tools/list", {})
        sent = {**sent, "Host": f"{self.host}:{self.client.port}"}
        return await self.client.post({**sent, "Authorization": f"Bearer {token}"}, message, path)


def config_of(folder: Path, server: LoginServerConfig | None = None, **tables: Any) -> Config:
    auth = AuthConfig(server=server or LoginServerConfig(), required=True, **tables.pop("auth", {}))
    gateway = GatewayConfig(name="yard", state_dir=str(folder), **tables.pop("gateway", {}))
    return Config(servers=(), gateway=gateway, auth=auth, **tables)


@asynccontextmanager
async def login_yard(
    folder: Path, server: LoginServerConfig | None = None, *, host: str = "127.0.0.1", **tables: Any
) -> AsyncIterator[LoginYard]:
    """`host` is the name by which clients and browsers know it: passkeys need `localhost`."""
    config = config_of(folder, server, **tables)
    state, _ = lasting_state(config.state.url, folder, None, "logins")
    users = LocalUsers(state, "yard", quick_hasher)
    if await users.find(NAME) is None:
        await users.add(NAME, PASSWORD, groups=("staff",))
    gateway = Gateway(config, KEY)
    async with serving(asgi(gateway)) as client:
        try:
            yield LoginYard(gateway, client, state, users, host)
        finally:
            await state.close()


def new_verifier() -> tuple[str, str]:
    """A verifier and its challenge."""
    verifier = secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Browser:
    """Cookies, redirects and forms, and a person who fills them in. Never leaves our server by itself."""

    def __init__(self, language: str = "en", **headers: str) -> None:
        self.http = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"Accept-Language": language, **headers}
        )

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def get(self, url: str) -> "Page":
        return await self._open("GET", url, None)

    async def submit(self, page: "Page", **values: str) -> "Page":
        return await self._open("POST", page.action, {**page.hidden, **values})

    async def post(self, url: str, form: dict[str, str]) -> "Page":
        return await self._open("POST", url, form)

    async def _open(self, method: str, url: str, form: dict[str, str] | None) -> "Page":
        for _ in range(10):
            async with self.http.request(method, url, data=form, allow_redirects=False) as answer:
                page = Page(url, answer.status, dict(answer.headers), await answer.text())
                if answer.status not in (302, 303):
                    return page
                target = urljoin(url, answer.headers["Location"])
                if urlsplit(target).netloc != urlsplit(url).netloc:
                    return page
                method, url, form = "GET", target, None
        raise AssertionError("more redirects than a browser follows")

    async def allow(self, url: str, name: str = NAME, password: str = PASSWORD) -> dict[str, str]:
        """Sign in if asked to, allow what is asked for, and return what the client is sent."""
        page = await self.get(url)
        if "password" in page.text and page.location is None:
            page = await self.submit(page, user=name, password=password)
        assert page.status == 200, (page.status, page.text[:2000], page.location)
        page = await self.submit(page, decision="allow")
        return page.sent()


class Page:
    def __init__(self, url: str, status: int, headers: dict[str, str], text: str) -> None:
        self.url = url
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.text = text

    @property
    def location(self) -> str | None:
        return self.headers.get("location")

    @property
    def action(self) -> str:
        found = _FORM.search(self.text)
        assert found, self.text[:2000]
        return urljoin(self.url, found[1])

    @property
    def hidden(self) -> dict[str, str]:
        return {name: html.unescape(value) for name, value in _HIDDEN.findall(self.text)}

    def sent(self) -> dict[str, str]:
        """The parameters of the redirect to the client."""
        assert self.location, (self.status, self.text[:2000])
        query = parse_qs(urlsplit(self.location).query, keep_blank_values=True)
        assert all(len(values) == 1 for values in query.values())
        return {name: values[0] for name, values in query.items()}


class ListeningProgram:
    """A program on this machine to which browsers are sent with a code. It answers with one page."""

    def __init__(self, page: str = "back") -> None:
        self.port = 0
        self.page = page
        self._got: asyncio.Queue[str] = asyncio.Queue()

    @property
    def redirect(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def __aenter__(self) -> "ListeningProgram":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self._got.put_nowait(head.split(" ")[1])
        body = self.page.encode()
        head = f"Content-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + body)
        writer.close()

    async def code(self) -> str:
        path = await self._got.get()
        while not path.startswith("/callback"):  # its icon
            path = await self._got.get()
        return parse_qs(urlsplit(path).query)["code"][0]


class HandMadeClient:
    """A client of OAuth of which a test controls every parameter."""

    def __init__(self, yard: LoginYard, registration: dict[str, Any], redirect: str = REDIRECT) -> None:
        self.yard = yard
        self.id: str = registration["client_id"]
        self.secret: str = registration.get("client_secret", "")
        self.redirect = redirect
        self.verifier, self.challenge = new_verifier()

    def url(self, **changed: str | None) -> str:
        """The authorization URL; a parameter that is None is left out."""
        values: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "state": "the state",
            "resource": self.yard.resource,
        }
        kept = {name: value for name, value in (values | changed).items() if value is not None}
        return f"{self.yard.base}/oauth/authorize?{urlencode(kept)}"

    async def redeem(self, code: str, **changed: str | None) -> tuple[int, dict[str, Any]]:
        values: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": self.verifier,
            "client_id": self.id,
            "client_secret": self.secret or None,
            "resource": self.yard.resource,
        }
        return await post_form(f"{self.yard.base}/oauth/token", values | changed)

    async def refresh(self, token: str, **changed: str | None) -> tuple[int, dict[str, Any]]:
        values: dict[str, str | None] = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": self.id,
            "client_secret": self.secret or None,
        }
        return await post_form(f"{self.yard.base}/oauth/token", values | changed)

    async def log_in(self, browser: Browser | None = None, **changed: str | None) -> dict[str, Any]:
        """The whole way; returns the token answer."""
        if browser is None:
            async with Browser() as own:
                return await self.log_in(own, **changed)
        answer = await browser.allow(self.url(**changed))
        status, tokens = await self.redeem(answer["code"])
        assert status == 200, tokens
        return tokens


async def post_form(
    url: str, values: dict[str, str | None], headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    form = {name: value for name, value in values.items() if value is not None}
    async with aiohttp.ClientSession() as http, http.post(url, data=form, headers=headers) as answer:
        return answer.status, await answer.json() if answer.content_type == "application/json" else {}


async def register(
    yard: LoginYard, redirects: list[str] | None = None, **more: Any
) -> tuple[int, dict[str, Any]]:
    body = {
        "client_name": "tests",
        "redirect_uris": redirects or [REDIRECT],
        "token_endpoint_auth_method": "none",
        **more,
    }
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{yard.base}/oauth/register", json=body) as answer,
    ):
        return answer.status, await answer.json()


async def registered(
    yard: LoginYard, redirects: list[str] | None = None, redirect: str | None = None, **more: Any
) -> HandMadeClient:
    status, answer = await register(yard, redirects, **more)
    assert status == 201, answer
    return HandMadeClient(yard, answer, redirect or (redirects or [REDIRECT])[0])
