"""A kit server behind tokens: what a gateway does at its door, with nothing else of a gateway."""

from toolyard.callers.errors import CredentialError, InvalidTokenError
from toolyard.callers.resource import WELL_KNOWN, ProtectedResource
from toolyard.callers.tokens import TokenVerifier, token_verifiers
from toolyard.config.callers import AuthConfig
from toolyard.edge.request import Headers, Receive, Refused, Scope, Send
from toolyard.kit import Context, Server
from toolyard.wire.call import Principal


class GuardedServer:
    path = "/mcp"

    def __init__(self, auth: AuthConfig) -> None:
        self.resource = ProtectedResource(auth)
        self.verifiers: tuple[TokenVerifier, ...] = token_verifiers(auth)
        self.seen: list[Principal] = []
        server = Server("guarded", key=b"0123456789abcdef")
        server.tool(self.whoami)
        self.edge = server.asgi(identify=self.identify)

    async def whoami(self, ctx: Context) -> str:
        """Who calls?"""
        self.seen.append(ctx.caller.principal)
        return ctx.caller.principal.subject

    async def identify(self, headers: Headers) -> Principal:
        sent = dict(headers)
        resource = self.resource.url("/mcp", sent.get(b"host", b"").decode("latin-1"))
        scheme, _, token = sent.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            challenge = self.resource.challenge(resource).encode()
            raise Refused(401, "A token is needed", [(b"www-authenticate", challenge)])
        try:
            for verifier in self.verifiers:
                if verifier.recognizes(token):
                    return await verifier.verify(token, resource)
            raise InvalidTokenError("This is no token that is accepted here")
        except CredentialError as error:
            status, added = self.resource.refusal(error, resource)
            raise Refused(status, error.reason, added) from None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(WELL_KNOWN):
            await self.resource(scope, receive, send)
        else:
            await self.edge(scope, receive, send)

    async def close(self) -> None:
        for verifier in self.verifiers:
            await verifier.close()
        await self.edge.close()
