"""A kit server behind tokens: what a gateway does at its door, with nothing else of a gateway."""

from toolyard.callers.authenticator import Authenticator, Challenges
from toolyard.callers.resource import WELL_KNOWN, ProtectedResource
from toolyard.callers.tokens import token_verifiers
from toolyard.config.callers import AuthConfig
from toolyard.edge.request import Headers, Receive, Scope, Send
from toolyard.kit import Context, Server
from toolyard.wire.call import Principal
from toolyard.wire.headers import RequestHeaders


class GuardedServer:
    path = "/mcp"

    def __init__(self, auth: AuthConfig) -> None:
        self.resource = ProtectedResource(auth)
        self.verifiers = token_verifiers(auth)
        self.authenticator = Authenticator(
            self.verifiers,
            required=True,
            challenges=Challenges(self.resource.metadata_url, auth.scopes),
            locate=self.resource.url,
        )
        self.seen: list[Principal] = []
        server = Server("guarded", key=b"0123456789abcdef")
        server.tool(self.whoami)
        self.edge = server.asgi(identify=self.identify)

    async def whoami(self, ctx: Context) -> str:
        """Who calls?"""
        self.seen.append(ctx.caller.principal)
        return ctx.caller.principal.subject

    async def identify(self, headers: Headers) -> Principal:
        return await self.authenticator.authenticate(RequestHeaders.of(headers), "127.0.0.1", resource="/mcp")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(WELL_KNOWN):
            await self.resource(scope, receive, send)
        else:
            await self.edge(scope, receive, send)

    async def close(self) -> None:
        for verifier in self.verifiers:
            await verifier.close()
        await self.edge.close()
