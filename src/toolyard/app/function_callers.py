"""Who may call a function: holders of JWTs of the issuers that it was deployed with.

Owns the file that the deployment writes, and which address a function has. How a token is verified is in
`callers`. API keys, grants and logins are not here: they are in a state store, and a function has none. A
function that asks nobody does not import this.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from ..callers.authenticator import Authenticator, Challenges
from ..callers.resource import WELL_KNOWN, ProtectedResource
from ..callers.tokens import token_verifiers
from ..config.callers import AuthConfig, IssuerConfig
from ..edge.request import App, Receive, Scope, Send
from ..wire.call import Identity, Principal
from ..wire.headers import RequestHeaders

MAX_HOSTS = 16


class FunctionAuth(Struct, frozen=True):
    """What a function knows of its callers; it has no secret."""

    issuers: tuple[IssuerConfig, ...]
    scopes: tuple[str, ...] = ()
    public_url: str = ""


class FunctionCallers:
    """Tokens have to name the function: its `public_url`, else the host by which AWS routes to it."""

    def __init__(self, auth: FunctionAuth) -> None:
        """Raises ConfigError for issuers that cannot be trusted as configured."""
        self._auth = AuthConfig(required=True, issuers=auth.issuers, scopes=auth.scopes)
        self._public_url = auth.public_url
        self._verifiers = token_verifiers(self._auth)
        self._at_host: dict[bytes, tuple[Authenticator, ProtectedResource]] = {}
        self.routes: dict[str, App] = {WELL_KNOWN: self._serve_metadata}

    async def authenticate(
        self,
        headers: RequestHeaders,
        peer: str,
        *,
        resource: str,
        query: bytes = b"",
        agent: str = "",
        proxy: str = "",
    ) -> Principal:
        """Who makes this request. The host of the headers is what AWS says, and else missing."""
        authenticator, _ = self._of(headers.raw.get(b"host", b""))
        return await authenticator.authenticate(
            headers, peer, resource=resource, query=query, agent=agent, proxy=proxy
        )

    def recall(self, headers: RequestHeaders, resource: str, query: bytes = b"") -> Identity | None:
        return self._of(headers.raw.get(b"host", b""))[0].recall(headers, resource, query)

    async def _serve_metadata(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, described = self._of(dict(scope["headers"]).get(b"host", b""))
        await described(scope, receive, send)

    def _of(self, host: bytes) -> tuple[Authenticator, ProtectedResource]:
        known = self._at_host.get(host)
        if known is None:
            public = self._public_url or (f"https://{host.decode('latin-1').lower()}" if host else "")
            described = ProtectedResource(self._auth, public_url=public)
            known = (
                Authenticator(
                    self._verifiers,
                    required=True,
                    challenges=Challenges(described.metadata_url, self._auth.scopes),
                    locate=described.url,
                ),
                described,
            )
            if len(self._at_host) < MAX_HOSTS:
                self._at_host[host] = known
        return known


def read_callers(file: Path) -> FunctionCallers:
    return FunctionCallers(msgspec.json.decode(file.read_bytes(), type=FunctionAuth))
