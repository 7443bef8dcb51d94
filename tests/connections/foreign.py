"""Servers behind OAuth that are none of ours: on the official SDK, and on FastMCP.

The SDK's is a resource server: its tokens come from `oidc-provider`, which it asks about each (RFC 7662), so
that a token that was revoked there is refused at once. FastMCP's is its own authorization server.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from tests.callers.oidc import CLIENT, SECRET, OidcProvider
from tests.stores import free_port

_BASIC = {"Authorization": f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"}


class Introspection:
    """The SDK's `TokenVerifier`, as its own example has it."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer

    async def verify_token(self, token: str) -> AccessToken | None:
        async with (
            aiohttp.ClientSession(headers=_BASIC) as http,
            http.post(f"{self._issuer}/token/introspection", data={"token": token}) as answer,
        ):
            found = await answer.json()
        if not found.get("active"):
            return None
        return AccessToken(
            token=token,
            client_id=found["client_id"],
            scopes=found.get("scope", "").split(),
            expires_at=found["exp"],
            resource=found.get("aud"),
            subject=found["sub"],
        )


def sdk_server(provider: OidcProvider, url: str, issuer: str = "") -> Starlette:
    """An SDK server at `url` that wants a token of the provider for itself, with the scope `mcp`.

    `issuer` is the provider's address for others, if it is behind a proxy.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server = MCPServer(
        "sdk",
        token_verifier=Introspection(provider.url),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(issuer or provider.url),
            resource_server_url=AnyHttpUrl(url),
            required_scopes=["mcp"],
            validate_token_resource=True,
        ),
        log_level="WARNING",
    )

    @server.tool()
    def whoami() -> str:
        """Who calls?"""
        token = get_access_token()
        assert token is not None
        return token.subject or ""

    return server.streamable_http_app(transport_security=security)


def fastmcp_server(url: str) -> tuple[Starlette, InMemoryOAuthProvider]:
    """A FastMCP server that is its own authorization server, and grants everything to everybody."""
    provider = InMemoryOAuthProvider(
        base_url=url.removesuffix("/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["user"]),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["user"],
    )
    server = FastMCP("fastmcp", auth=provider)

    @server.tool
    def whoami() -> str:
        """Who calls?"""
        token = get_access_token()
        assert token is not None
        return f"a client with {' '.join(token.scopes)}"

    return server.http_app(), provider


@asynccontextmanager
async def starlette(app: Starlette, port: int) -> AsyncIterator[None]:
    """Serve it as its authors do: with uvicorn, and with its lifespan."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", ws="none"))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    try:
        yield
    finally:
        await server.shutdown()


@asynccontextmanager
async def sdk_upstream(provider: OidcProvider) -> AsyncIterator[str]:
    await provider.tell("opaque")
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with starlette(sdk_server(provider, url), port):
        yield url


@asynccontextmanager
async def fastmcp_upstream() -> AsyncIterator[tuple[str, InMemoryOAuthProvider]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    app, provider = fastmcp_server(url)
    async with starlette(app, port):
        yield url, provider
