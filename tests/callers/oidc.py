"""The certified `oidc-provider` of npm as an issuer on loopback, and a person who signs in there."""

import asyncio
import base64
import hashlib
import json
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp
import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "build/oidc/node_modules/oidc-provider"
PROGRAM = Path(__file__).with_name("oidc_provider.mjs")
REDIRECT = "http://127.0.0.1:3030/callback"
CLIENT, SECRET = "yard", "yard-secret-of-the-tests"
BASIC = {"Authorization": f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"}


class OidcProvider:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    async def wait_for(self, word: bytes) -> None:
        assert self._process.stdout
        async with asyncio.timeout(PATIENCE):
            while (line := await self._process.stdout.readline()).strip() != word:
                assert line, "oidc-provider has ended"

    async def tell(self, word: str) -> None:
        """`rotate`, `withdraw`, `opaque`, `jwt`, `revoke` and so on: see `oidc_provider.mjs`."""
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n".encode())
        await self.wait_for(b"done")

    async def refreshes(self) -> int:
        """How many refresh tokens were exchanged."""
        return await self._ask("count")

    async def allow_exchange(self, **policy: Any) -> None:
        """What may be exchanged, and what is answered; see `oidc_exchange.mjs`."""
        await self.tell(f"exchange {json.dumps(policy)}")

    async def exchanges(self) -> list[dict[str, Any]]:
        """What was asked for in exchange since the last time: grant, client, and more."""
        return await self._ask("exchanged")

    async def _ask(self, word: str) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{word}\n".encode())
        while (line := (await self._process.stdout.readline()).strip())[:1] not in b"[0123456789":
            assert line, "oidc-provider has ended"
        await self.wait_for(b"done")
        return json.loads(line)

    async def register(self, **metadata: Any) -> dict[str, Any]:
        """A client of these metadata."""
        async with aiohttp.ClientSession() as http, http.post(f"{self.url}/reg", json=metadata) as answer:
            found = await answer.json()
            assert answer.status == 201, found
            return found

    async def user_token(self, name: str, resource: str, scope: str = "mcp") -> str:
        """The access token of a person who signs in for this resource."""
        client = await self.register(
            redirect_uris=[REDIRECT], token_endpoint_auth_method="none", application_type="native"
        )
        verifier = "a-verifier-of-the-tests-that-is-long-enough-for-PKCE"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": client["client_id"],
            "redirect_uri": REDIRECT,
            "scope": scope,
            "resource": resource,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        answer = await sign_in(f"{self.url}/auth?{urlencode(asked)}", name, REDIRECT)
        form = {
            "grant_type": "authorization_code",
            "client_id": client["client_id"],
            "code": answer["code"],
            "redirect_uri": REDIRECT,
            "code_verifier": verifier,
            "resource": resource,
        }
        async with aiohttp.ClientSession() as http, http.post(f"{self.url}/token", data=form) as reply:
            found = await reply.json()
            assert reply.status == 200, found
            return found["access_token"]

    async def service_token(self, resource: str, scope: str = "mcp") -> str:
        """A token of the client itself, for this resource."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        async with (
            aiohttp.ClientSession(headers=BASIC) as http,
            http.post(f"{self.url}/token", data=form) as answer,
        ):
            found = await answer.json()
            assert answer.status == 200, found
            return found["access_token"]

    async def revoke(self, token: str) -> None:
        async with (
            aiohttp.ClientSession(headers=BASIC) as http,
            http.post(f"{self.url}/token/revocation", data={"token": token}) as answer,
        ):
            assert answer.status == 200, await answer.text()


def node_program(needed: Path) -> str:
    """Node, if it is there, and what it is to run."""
    beside = Path(sys.executable).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    if node is None or not needed.exists():
        pytest.fail(f"node or {needed.name} is missing; hint: `make test` installs what the tests need")
    return node


@asynccontextmanager
async def oidc_provider(issuer: str = "") -> AsyncIterator[OidcProvider]:
    """`issuer` is its address behind a proxy, if there is one."""
    node = node_program(PACKAGE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pipe = asyncio.subprocess.PIPE
    arguments = [node, str(PROGRAM), str(PACKAGE), str(port), *([issuer] if issuer else [])]
    process = await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe, stderr=None)
    provider = OidcProvider(process, port)
    try:
        await provider.wait_for(b"ready")
        yield provider
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


async def visit(browser: aiohttp.ClientSession, url: str, name: str, until: str) -> tuple[str, int, str]:
    """Clicks through pages from `url` on; returns address, status and text of the first one below `until`."""
    method, form = "GET", None
    headers = {"Sec-Fetch-Site": "same-origin"}
    for _ in range(12):
        async with browser.request(method, url, data=form, allow_redirects=False, headers=headers) as page:
            text = await page.text()
            if page.status in (302, 303):
                url, method, form = urljoin(url, page.headers["Location"]), "GET", None
                continue
            found = _FORM.search(text)
            if url.startswith(until) or (found is None and "<button>" not in text):
                return url, page.status, text
            method = "POST"
            if found is not None:
                url = urljoin(url, found[1])
                form = {**dict(_HIDDEN.findall(found[2])), "login": name, "password": "any"}
    raise AssertionError("more pages than a person would read")


_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.S)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


async def sign_in(url: str, name: str, redirect: str) -> dict[str, str]:
    """Opens an authorization URL as a browser would, fills in both forms, and reads the redirect's answer."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        method, form = "GET", None
        for _ in range(10):
            async with browser.request(method, url, data=form, allow_redirects=False) as page:
                if page.status in (302, 303):
                    url, method, form = urljoin(url, page.headers["Location"]), "GET", None
                    if url.startswith(redirect):
                        return {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
                    continue
                text = await page.text()
                found = _FORM.search(text)
                assert found, f"{page.status}: {text[:500]}"
                url, method = urljoin(url, found[1]), "POST"
                form = {**dict(_HIDDEN.findall(found[2])), "login": name, "password": "any"}
    raise AssertionError("more pages than a person would read")
