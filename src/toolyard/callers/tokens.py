"""JWTs of the configured issuers: shape, signature, claims, and the principal they show.

Owns the cache of verified tokens. A token is trusted for what its issuer's keys signed and nothing else: no
header of it leads to a key or to a request, except that an unknown `kid` makes the issuer's own key set be
renewed. Where keys come from is in `key_sets`, what claims mean in `claims`.
"""

import base64
import binascii
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..config.callers import AuthConfig, IssuerConfig
from ..config.errors import ConfigError
from ..wire.call import Principal
from .claims import (
    Validity,
    accepted_audiences,
    audiences,
    check_audience,
    check_kind,
    check_scopes,
    read_principal,
    validity,
)
from .errors import InvalidTokenError, RefusedTokenError
from .introspection import TokenIntrospector
from .issuer_client import IssuerClient, is_secure
from .key_sets import IssuerKeys, SignatureAlgorithm, load_algorithms

MAX_TOKEN = 16 * 1024
MAX_CACHED = 10_000
RECHECK = 300.0
"""A verified token is verified again after this, so that a key that its issuer withdraws stops counting."""
_TYPES = ("at+jwt", "application/at+jwt", "jwt", "application/jwt")
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_HEADER_STARTS = ("ey", "ew")  # the base64 of `{"`, and of `{` before white space


class _Header(Struct):
    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: Any = None
    b64: Any = None


class _Trusted:
    """An issuer, and what it takes to verify its tokens."""

    def __init__(self, config: IssuerConfig, keys: IssuerKeys) -> None:
        self.config = config
        self.keys = keys
        self.algorithms = load_algorithms(config.algorithms)


class _Verified:
    """A token that was verified. Its times are checked at each use, by the clock of that moment."""

    __slots__ = ("audiences", "principal", "recheck_at", "resources", "trusted", "validity")

    def __init__(
        self,
        principal: Principal,
        validity: Validity,
        audiences: frozenset[str],
        trusted: _Trusted,
        recheck_at: float,
        resource: str,
    ) -> None:
        self.principal = principal
        self.validity = validity
        self.audiences = audiences
        self.trusted = trusted
        self.recheck_at = recheck_at
        self.resources = None if trusted.config.audiences else {resource}
        """Those it is known to be for; None if that does not depend on the resource."""


class JwtVerifier:
    def __init__(
        self,
        issuers: tuple[IssuerConfig, ...],
        scopes: tuple[str, ...],
        client: IssuerClient,
        endpoint: str = "/mcp",
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is the time of day, which tokens mean; `clock` does not jump."""
        self._trusted = {
            issuer.issuer: _Trusted(issuer, IssuerKeys(issuer, client, clock)) for issuer in issuers
        }
        self._scopes = scopes
        self._client = client
        self._endpoint = endpoint
        self._now = now
        self._clock = clock
        self._verified: dict[bytes, _Verified] = {}

    def recognizes(self, token: str) -> bool:
        return token.startswith(_HEADER_STARTS) and token.count(".") == 2

    async def verify(self, token: str, resource: str) -> Principal:
        if len(token) > MAX_TOKEN:
            raise RefusedTokenError(f"The token is longer than {MAX_TOKEN} characters")
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        known = self._verified.get(digest)
        if known is not None and self._clock() < known.recheck_at:
            now = self._now()
            if known.validity.begins <= now < known.validity.ends:
                if known.resources is not None and resource not in known.resources:
                    self._check_audience(known.audiences, known.trusted, resource)
                    known.resources.add(resource)
                return known.principal
        try:
            verified = await self._verify(token, digest, resource)
        except InvalidTokenError:
            self._verified.pop(digest, None)
            raise
        if known is not None and known.principal == verified.principal:
            verified.principal = known.principal
        self._keep(digest, verified)
        return verified.principal

    async def problems(self) -> dict[str, str]:
        """For operators: why the keys of an issuer cannot be read, by issuer. Fetches them if need be."""
        for trusted in self._trusted.values():
            await trusted.keys.renew()
        return {name: why for name, trusted in self._trusted.items() if (why := trusted.keys.failure)}

    async def close(self) -> None:
        for trusted in self._trusted.values():
            await trusted.keys.close()
        await self._client.close()

    async def _verify(self, token: str, digest: bytes, resource: str) -> _Verified:
        if not _JWT.fullmatch(token):
            raise RefusedTokenError("The token is not a JWT")
        head, body, signature = token.split(".")
        header = _read_header(_decode(head))
        claims = _read_claims(_decode(body))
        trusted = self._issuer_of(claims)
        signed = f"{head}.{body}".encode()
        await _check_signature(trusted.keys, trusted.algorithms, header, signed, _decode(signature))
        check_kind(claims, declared=(header.typ or "").lower().endswith("at+jwt"))
        times = validity(claims, trusted.config.leeway)
        times.check(self._now())
        named = audiences(claims)
        self._check_audience(named, trusted, resource)
        principal = read_principal(claims, trusted.config, "jwt", digest.hex()[:16])
        check_scopes(principal, self._scopes)
        return _Verified(principal, times, named, trusted, self._clock() + RECHECK, resource)

    def _issuer_of(self, claims: dict[str, Any]) -> _Trusted:
        name = claims.get("iss")
        trusted = self._trusted.get(name) if isinstance(name, str) else None
        if trusted is None:
            raise RefusedTokenError("The token is of an issuer that is not trusted here")
        return trusted

    def _check_audience(self, named: frozenset[str], trusted: _Trusted, resource: str) -> None:
        check_audience(named, accepted_audiences(trusted.config.audiences, resource, self._endpoint))

    def _keep(self, digest: bytes, verified: _Verified) -> None:
        self._verified.pop(digest, None)
        while len(self._verified) >= MAX_CACHED:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = verified


async def _check_signature(
    known: IssuerKeys,
    algorithms: Mapping[str, SignatureAlgorithm],
    header: _Header,
    signed: bytes,
    signature: bytes,
) -> None:
    algorithm = algorithms.get(header.alg)
    if algorithm is None:
        raise RefusedTokenError(f"The token's algorithm {header.alg[:20]!r} is not allowed")
    keys = await known.find(header.kid, header.alg)
    if any(key.verify(algorithm, signed, signature) for key in keys):
        return
    # Without a name in the token, a new key looks like a wrong signature.
    if header.kid is None and await known.renew():
        keys = await known.find(None, header.alg)
        if any(key.verify(algorithm, signed, signature) for key in keys):
            return
    raise RefusedTokenError("The token's signature is wrong")


async def signed_claims(
    token: str, keys: IssuerKeys, algorithms: Mapping[str, SignatureAlgorithm]
) -> dict[str, Any]:
    """The claims of a JWT that these keys have signed, of whatever kind; nothing else of it is checked.

    Raises CallerError.
    """
    if len(token) > MAX_TOKEN or not _JWT.fullmatch(token):
        raise RefusedTokenError("The token is not a JWT")
    head, body, signature = token.split(".")
    header, claims = _read_header(_decode(head)), _read_claims(_decode(body))
    await _check_signature(keys, algorithms, header, f"{head}.{body}".encode(), _decode(signature))
    return claims


def _decode(segment: str) -> bytes:
    """Accepts one spelling of the bytes only: a token in another spelling would pass for another token."""
    try:
        data = base64.b64decode(segment + "=" * (-len(segment) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise RefusedTokenError("The token is not a JWT") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=") != segment.encode():
        raise RefusedTokenError("The token is not a JWT")
    return data


def _read_header(data: bytes) -> _Header:
    try:
        header = msgspec.json.decode(data, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedTokenError("The token's header cannot be read") from None
    if header.crit is not None or header.b64 is not None:
        raise RefusedTokenError("The token's header asks for an extension ('crit') that is not known here")
    if header.typ is not None and header.typ.lower() not in _TYPES:
        raise RefusedTokenError(f"This is no access token: its type is {header.typ[:40]!r}")
    return header


def _read_claims(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedTokenError("The token's claims cannot be read") from None


IssuerVerifier = JwtVerifier | TokenIntrospector


def token_verifiers(auth: AuthConfig, endpoint: str = "/mcp") -> tuple[IssuerVerifier, ...]:
    """The verifiers of all issuers, in the order in which they are asked.

    Raises ConfigError for issuers that cannot be trusted as configured.
    """
    if not auth.issuers:
        return ()
    _check(auth.issuers)
    client = IssuerClient()
    asked = next((issuer for issuer in auth.issuers if issuer.introspection_url), None)
    jwts = JwtVerifier(auth.issuers, auth.scopes, client, endpoint)
    if asked is None:
        return (jwts,)
    return (jwts, TokenIntrospector(asked, auth.scopes, client, endpoint))


def _check(issuers: tuple[IssuerConfig, ...]) -> None:
    names = [issuer.issuer for issuer in issuers]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"[[auth.issuers]] has {name!r} twice", "join the two tables")
    for issuer in issuers:
        for url in (issuer.issuer, issuer.jwks_url, issuer.introspection_url):
            if url and not is_secure(url) and not issuer.plain_http:
                raise ConfigError(
                    f"[[auth.issuers]] has {url!r}, which anybody on the way could answer",
                    "use https, or set plain_http = true if the network between is yours",
                )
    if sum(1 for issuer in issuers if issuer.introspection_url) > 1:
        raise ConfigError(
            "[[auth.issuers]] has 'introspection_url' twice",
            "an opaque token does not say whose it is, and must not be shown to a stranger: keep one",
        )
