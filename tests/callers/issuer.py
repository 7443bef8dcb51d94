"""An issuer on loopback of which a test decides every byte, with real keys; and clocks that a test turns."""

import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from tests.rest.loopback import Loopback, loopback, reply
from toolyard.callers.introspection import TokenIntrospector
from toolyard.callers.issuer_client import IssuerClient
from toolyard.callers.tokens import JwtVerifier
from toolyard.config.callers import IssuerConfig
from toolyard.wire.call import Principal

RESOURCE = "http://127.0.0.1:8321/mcp"
METADATA = "/.well-known/oauth-authorization-server"
KEYS = "GET /keys"
START = 1_800_000_000.0


def segment(data: Any) -> str:
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign(header: Any, claims: Any, key: Key, algorithm: str = "") -> str:
    """A token with any header and any claims; `algorithm` if it is not the one of the header."""
    signed = f"{segment(header)}.{segment(claims)}"
    model = JWSRegistry.algorithms[algorithm or header["alg"]]
    return f"{signed}.{segment(model.sign(signed.encode(), key))}"


RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
"""Another key under the name of the first."""


class Clocks:
    def __init__(self) -> None:
        self.day = START
        """What tokens mean; it may jump."""
        self.steady = 0.0

    def pass_by(self, seconds: float) -> None:
        self.day += seconds
        self.steady += seconds


class Issuer:
    """What it publishes, and tokens of its making."""

    def __init__(self, web: Loopback) -> None:
        self.web = web
        self.url = web.url
        self.clocks = Clocks()
        self.client = IssuerClient(timeout=5.0)
        self.publish(RSA, EC, ED)
        web.on(f"GET {METADATA}", reply({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}))

    def publish(self, *keys: Key) -> None:
        self.web.on(KEYS, reply({"keys": [key.as_dict(private=False) for key in keys]}))

    @property
    def fetched(self) -> int:
        """How often the key set was fetched."""
        return sum(1 for asked in self.web.asked if asked.path == "/keys")

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Good ones. A claim that is set to None is left out."""
        now = int(self.clocks.day)
        good = {"iss": self.url, "aud": RESOURCE, "sub": "anna", "iat": now, "exp": now + 3600}
        return {name: value for name, value in (good | changed).items() if value is not None}

    def token(self, key: Key = RSA, alg: str = "RS256", header: Any = None, **changed: Any) -> str:
        head = {"alg": alg, "kid": key.kid, "typ": "at+jwt"} | (header or {})
        head = {name: value for name, value in head.items() if value is not None}
        return sign(head, self.claims(**changed), key, alg)

    def config(self, **changed: Any) -> IssuerConfig:
        settings: dict[str, Any] = {"issuer": self.url} | changed
        return IssuerConfig(**settings)

    def verifier(self, scopes: tuple[str, ...] = (), **changed: Any) -> JwtVerifier:
        clocks = self.clocks
        return JwtVerifier(
            (self.config(**changed),),
            scopes,
            self.client,
            now=lambda: clocks.day,
            clock=lambda: clocks.steady,
        )

    def introspector(self, scopes: tuple[str, ...] = (), **changed: Any) -> TokenIntrospector:
        clocks = self.clocks
        settings = {
            "introspection_url": f"{self.url}/introspect",
            "client_id": "yard",
            "client_secret": "p:w ü",
        }
        return TokenIntrospector(
            self.config(**(settings | changed)),
            scopes,
            self.client,
            now=lambda: clocks.day,
            clock=lambda: clocks.steady,
        )


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    async with loopback() as web:
        issuer = Issuer(web)
        try:
            yield issuer
        finally:
            await issuer.client.close()


async def shown(verifier: JwtVerifier | TokenIntrospector, token: str, resource: str = RESOURCE) -> Principal:
    assert verifier.recognizes(token)
    return await verifier.verify(token, resource)


def sign_hmac(header: Any, claims: Any, secret: bytes) -> str:
    """By hand: the library refuses to take a public key for a secret, and attackers do not."""
    signed = f"{segment(header)}.{segment(claims)}"
    return f"{signed}.{segment(hmac.digest(secret, signed.encode(), 'sha256'))}"


def public_pem(key: RSAKey) -> bytes:
    return key.as_pem(private=False)
