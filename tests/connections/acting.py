"""A gateway that acts for whoever calls, an issuer that exchanges people's tokens, and a guarded server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.callers.door import GuardedServer
from tests.callers.oidc import OidcProvider
from tests.connections.yard import KEY
from tests.serving import serving
from toolyard import Client
from toolyard.app.gateway import Gateway
from toolyard.app.http import asgi
from toolyard.callers.keys import KeyHolder
from toolyard.config import Config, Http, ServerConfig
from toolyard.config.callers import AuthConfig, IssuerConfig
from toolyard.config.models import GatewayConfig, StateConfig
from toolyard.config.server_auth import OAuthAuth
from toolyard.edge.request import Receive, Scope, Send

TOOL = {"tool": "mcp__guarded__whoami", "arguments": {}}
GRANTS = {
    "client_credentials": "client_credentials",
    "token_exchange": "urn:ietf:params:oauth:grant-type:token-exchange",
    "jwt_bearer": "urn:ietf:params:oauth:grant-type:jwt-bearer",
}


class WatchedServer(GuardedServer):
    """Remembers everything that was sent to it."""

    def __init__(self, auth: AuthConfig) -> None:
        super().__init__(auth)
        self.heard: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        self.heard.append(repr((scope["path"], scope["query_string"], scope["headers"])))

        async def hear() -> Any:
            event = await receive()
            self.heard.append(repr(event.get("body", b"")))
            return event

        await super().__call__(scope, hear, send)


class Yard:
    """An issuer, a server that takes its tokens, and the client that the gateway is to the issuer."""

    def __init__(self, provider: OidcProvider, server: WatchedServer, url: str, client: dict[str, Any]):
        self.provider = provider
        self.server = server
        self.url = url
        self.client = client

    def auth(self, mode: Any = "token_exchange", **more: Any) -> OAuthAuth:
        usual: dict[str, Any] = {
            "mode": mode,
            "subject": "caller",
            "issuer": self.provider.url,
            "lists": "client_credentials",
            "client_id": self.client["client_id"],
            "client_secret": self.client["client_secret"],
        }
        return OAuthAuth(**usual | more)

    def config(
        self, folder: Path, auth: OAuthAuth, issuer: IssuerConfig | None = None, **tables: Any
    ) -> Config:
        callers = AuthConfig(issuers=(issuer or IssuerConfig(issuer=self.provider.url),), keys=True)
        server = ServerConfig(name="guarded", where=Http(url=self.url), auth=auth)
        return Config(
            servers=(server,),
            gateway=GatewayConfig(view="search", state_dir=str(folder)),
            state=StateConfig(url="sqlite:"),
            auth=callers,
            **tables,
        )


class Front:
    """The gateway, as people reach it."""

    def __init__(self, yard: Yard, gateway: Gateway, url: str) -> None:
        self.yard = yard
        self.gateway = gateway
        self.url = url

    async def token(self, name: str) -> str:
        return await self.yard.provider.user_token(name, self.url)

    async def key(self) -> str:
        keys = self.gateway.callers.keys(self.gateway.config)
        return (await keys.create(KeyHolder(name="robot"))).text

    async def call(self, token: str = "", **options: Any) -> tuple[bool, str]:
        """Call the tool; returns whether it failed, and what it says."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with Client(self.url, headers=headers, **options) as client:
            result = await client.call_tool("call_tool", TOOL)
            return bool(result.is_error), result.text


@asynccontextmanager
async def acting(provider: OidcProvider) -> AsyncIterator[Yard]:
    server = WatchedServer(AuthConfig(issuers=(IssuerConfig(issuer=provider.url),), scopes=("mcp",)))
    client = await provider.register(grant_types=[*GRANTS.values()], redirect_uris=[], response_types=[])
    async with serving(server) as http:
        yield Yard(provider, server, http.url, client)


@asynccontextmanager
async def front_of(yard: Yard, config: Config, **parts: Any) -> AsyncIterator[Front]:
    gateway = Gateway(config, KEY, **parts)
    async with serving(asgi(gateway)) as http:
        await yard.provider.allow_exchange(
            audience=http.url, targets=[yard.url], denied=[], ended=[], answer="", type="access_token"
        )
        await yard.provider.exchanges()
        yield Front(yard, gateway, http.url)


__all__ = ["GRANTS", "TOOL", "Front", "WatchedServer", "Yard", "acting", "front_of"]
