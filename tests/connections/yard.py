"""A gateway in front of a server that wants OAuth, and a person who connects it."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import aiohttp

from tests.callers.door import GuardedServer
from tests.callers.oidc import OidcProvider, oidc_provider, visit
from tests.serving import serving
from toolyard.app.gateway import Gateway
from toolyard.app.http import asgi
from toolyard.callers.keys import KeyHolder, open_keys
from toolyard.config import Config, Http, ServerConfig
from toolyard.config.callers import AuthConfig, IssuerConfig
from toolyard.config.models import GatewayConfig, StateConfig
from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.connections.oauth.tokens import TokenRecord
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

KEY = b"a key that all replicas have"


class Guarded:
    """The server, its issuer, and where both are."""

    def __init__(self, provider: OidcProvider, server: GuardedServer, url: str) -> None:
        self.provider = provider
        self.server = server
        self.url = url


@asynccontextmanager
async def guarded() -> AsyncIterator[Guarded]:
    async with oidc_provider() as provider:
        server = GuardedServer(AuthConfig(issuers=(IssuerConfig(issuer=provider.url),), scopes=("mcp",)))
        async with serving(server) as http:
            yield Guarded(provider, server, http.url)


def config_of(url: str, folder: Path, auth: OAuthAuth | None = None, **more: Any) -> Config:
    server = ServerConfig(name="guarded", where=Http(url=url), auth=auth or OAuthAuth(), **more)
    return Config(
        servers=(server,),
        gateway=GatewayConfig(view="search", state_dir=str(folder)),
        state=StateConfig(url="sqlite:"),
    )


@asynccontextmanager
async def replica(config: Config) -> AsyncIterator[tuple[Gateway, str]]:
    """One gateway process, as far as state and vault know."""
    gateway = Gateway(config, KEY)
    async with serving(asgi(gateway)) as http:
        gateway.connections.base_url = http.url.removesuffix("/mcp")
        yield gateway, http.url


@asynccontextmanager
async def a_browser(language: str = "en") -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, headers={"Accept-Language": language}) as browser:
        yield browser


async def connect(link: str, name: str = "ana", language: str = "en") -> tuple[int, str]:
    """The person: opens the link, presses the button, logs in, agrees; returns the last page."""
    base = link.partition("/oauth/")[0]
    async with a_browser(language) as browser:
        _, status, text = await visit(browser, link, name, f"{base}/oauth/callback")
        return status, text


def oauth_of(gateway: Gateway) -> OAuthAccounts:
    accounts = gateway.connections.open_accounts["guarded"]
    assert isinstance(accounts, OAuthAccounts)
    return accounts


async def log_in(gateway: Gateway, principal: Principal, user: str) -> TokenRecord:
    """Connects a caller's account; returns the token that the gateway has then."""
    accounts = oauth_of(gateway)
    status, page = await connect((await accounts.link(principal)).url, user)
    assert status == 200, page
    held = await gateway.connections.tokens.load(accounts.address(principal))
    assert held is not None
    assert held.record.refresh_token
    return held.record


async def save_token(gateway: Gateway, principal: Principal, record: TokenRecord) -> None:
    await gateway.connections.tokens.save(oauth_of(gateway).address(principal), record)


async def key_of(config: Config, user: str) -> dict[str, str]:
    """The header of a new API key."""
    folder = Path(config.gateway.state_dir or "")
    keys = open_keys(config.state.url, folder, config.gateway.name, Sealer(KEY, config.gateway.name))
    issued = await keys.create(KeyHolder(name=f"{user}-{token_hex(4)}", user=user))
    await keys.close()
    return {"Authorization": f"Bearer {issued.text}"}


def link_in(text: str) -> str:
    start = text.index("http://127.0.0.1")
    return text[start:].split()[0]


__all__ = [
    "Guarded",
    "a_browser",
    "config_of",
    "connect",
    "contextlib",
    "guarded",
    "key_of",
    "link_in",
    "log_in",
    "oauth_of",
    "replica",
    "save_token",
]
