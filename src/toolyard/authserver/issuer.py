"""Signing in at an issuer of OpenID Connect, whose client we are: code flow with PKCE and nonce.

Owns what is sent there and which answers count. Keeps nothing of the issuer's: its ID token is read once, and
its access token is dropped. Nothing is stored for a login under way: verifier and nonce are derived from the
gateway's key and a value that the browser holds.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from ..callers.claims import audiences, read_principal, validity
from ..callers.errors import CallerError
from ..callers.issuer_client import IssuerClient, is_secure
from ..callers.key_sets import IssuerKeys, load_algorithms
from ..callers.tokens import signed_claims
from ..config.callers import IssuerConfig, LoginServerConfig
from ..wire.seal import Sealer
from .logins import SignedIn

MAX_DOCUMENT = 512 * 1024
METADATA_FRESH = 3600.0


class IssuerLoginError(Exception):
    """Why the issuer's answer does not count. For the log: it may quote what the issuer said."""


class _Metadata(Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _TokenAnswer(Struct):
    id_token: str


class IssuerSignIn:
    def __init__(
        self,
        config: LoginServerConfig,
        sealer: Sealer,
        client: IssuerClient | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigError if the extra for signatures is not installed."""
        self._config = config
        self._sealer = sealer
        self._client = client or IssuerClient()
        self._now = now
        self._clock = clock
        self._issuer = IssuerConfig(
            issuer=config.issuer, claims=config.claims, tenant=config.tenant, plain_http=config.plain_http
        )
        self._algorithms = load_algorithms(self._issuer.algorithms)
        self._keys = IssuerKeys(self._issuer, self._client, clock)
        self._metadata: _Metadata | None = None
        self._read_at = float("-inf")

    async def address(self, state: str, secret: str, redirect_uri: str, prompt: str = "") -> str:
        """Where the browser has to go. `secret` stands for this browser and this login."""
        metadata = await self._discover()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self._verifier(secret).encode()).digest())
        values = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._config.issuer_scopes),
            "state": state,
            "nonce": self._nonce(secret),
            "code_challenge": challenge.rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        } | ({"prompt": prompt} if prompt else {})
        mark = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{mark}{urlencode(values)}"

    async def check_issuer(self, iss: str) -> None:
        """Raises IssuerLoginError if an answer is of another issuer, or should say whose it is (RFC 9207)."""
        metadata = await self._discover()
        if iss and iss != self._config.issuer:
            raise IssuerLoginError("the answer is of another issuer")
        if not iss and metadata.authorization_response_iss_parameter_supported:
            raise IssuerLoginError("the answer does not name its issuer")

    async def finish(self, code: str, secret: str, redirect_uri: str) -> SignedIn:
        """Who has signed in. Raises IssuerLoginError."""
        try:
            claims = await self._claims(code, secret, redirect_uri)
            principal = read_principal(claims, self._issuer, "login", "")
        except CallerError as error:
            raise IssuerLoginError(error.reason) from None
        return SignedIn(
            subject=principal.subject,
            tenant=principal.tenant,
            issuer=principal.issuer,
            groups=tuple(sorted(principal.groups)),
        )

    async def close(self) -> None:
        await self._keys.close()
        await self._client.close()

    async def _claims(self, code: str, secret: str, redirect_uri: str) -> dict[str, Any]:
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": self._verifier(secret),
        }
        headers: dict[str, str] = {"Accept": "application/json"}
        id, password = self._config.client_id, self._config.client_secret
        if password and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(id, safe='')}:{quote(password, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": id} | ({"client_secret": password} if password else {})
        reply = await self._client.post(metadata.token_endpoint, form, headers, MAX_DOCUMENT)
        if reply.status != 200:
            raise IssuerLoginError(f"the issuer's token endpoint answered with status {reply.status}")
        try:
            answer = msgspec.json.decode(reply.body, type=_TokenAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise IssuerLoginError("the issuer's token endpoint sent no ID token") from None
        claims = await signed_claims(answer.id_token, self._keys, self._algorithms)
        self._check(claims, secret)
        return claims

    def _check(self, claims: dict[str, Any], secret: str) -> None:
        if claims.get("iss") != self._config.issuer:
            raise IssuerLoginError("the ID token is of another issuer")
        named = audiences(claims)
        if self._config.client_id not in named:
            raise IssuerLoginError("the ID token is for another client")
        if len(named) > 1 and claims.get("azp") != self._config.client_id:
            raise IssuerLoginError("the ID token was made for another client")
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), self._nonce(secret).encode()
        ):
            raise IssuerLoginError("the ID token is of another login")
        validity(claims, self._issuer.leeway).check(self._now())

    async def _discover(self) -> _Metadata:
        if self._metadata is not None and self._clock() - self._read_at < METADATA_FRESH:
            return self._metadata
        url = f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            reply = await self._client.get(url, MAX_DOCUMENT)
            if reply.status != 200:
                raise IssuerLoginError(f"{url} answered with status {reply.status}")
            found = msgspec.json.decode(reply.body, type=_Metadata)
        except CallerError as error:
            raise IssuerLoginError(error.reason) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise IssuerLoginError(f"{url} is not the metadata of an issuer") from None
        if found.issuer != self._config.issuer:
            raise IssuerLoginError(f"{url} is about another issuer, {found.issuer[:200]!r}")
        for endpoint in (found.authorization_endpoint, found.token_endpoint):
            if not is_secure(endpoint) and not self._config.plain_http:
                raise IssuerLoginError(f"the issuer's endpoint {endpoint[:200]!r} is not https")
        self._metadata, self._read_at = found, self._clock()
        return found

    def _verifier(self, secret: str) -> str:
        return self._sealer.fingerprint(secret, "idp-verifier-1") + self._sealer.fingerprint(
            secret, "idp-verifier-2"
        )

    def _nonce(self, secret: str) -> str:
        return self._sealer.fingerprint(secret, "idp-nonce")
