"""The public keys of one issuer: found by its metadata, fetched, kept, renewed.

Owns when keys are fetched: at first use, again after `FRESH` in the background, and at once when a token
names an unknown key, but never twice within `MIN_INTERVAL` and never twice at a time. Keys outlive an outage
of the issuer by `KEEP`. Owns which keys are usable: public ones of an allowed algorithm, of a sound size.
Verifies no token.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..config.callers import IssuerConfig
from ..config.errors import ConfigError
from ..extras import install_command
from .errors import IssuerUnavailableError, RefusedTokenError
from .issuer_client import IssuerClient, display_url, is_secure

logger = logging.getLogger("toolyard.callers")

FRESH = 600.0
MIN_INTERVAL = 10.0
KEEP = 24 * 3600.0
"""Keys that could not be renewed for so long are forgotten: one of them may have been withdrawn."""
METADATA_FRESH = 3600.0
MAX_DOCUMENT = 512 * 1024
MAX_KEYS = 64
MAX_TRIED = 8
"""Keys that are tried for a token that names none."""
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
"""Smaller keys are weak, bigger ones slow."""

_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_EDWARDS = ("Ed25519", "Ed448")
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


class SignatureAlgorithm(Protocol):
    """How joserfc offers an algorithm."""

    def verify(self, msg: bytes, sig: bytes, key: Any) -> bool: ...


class VerificationKey(Struct, frozen=True):
    kid: str
    """Empty if the issuer gave none."""
    algorithms: tuple[str, ...]
    key: Any
    """As joserfc has it."""

    def verify(self, algorithm: SignatureAlgorithm, signed: bytes, signature: bytes) -> bool:
        return algorithm.verify(signed, signature, self.key)


def load_algorithms(names: tuple[str, ...]) -> dict[str, SignatureAlgorithm]:
    """The implementations of the allowed algorithms. Raises ConfigError if the extra is not installed."""
    try:
        from joserfc.jws import JWSRegistry  # 70 ms of CPU, and only where tokens are verified
    except ImportError:
        raise ConfigError(
            "[[auth.issuers]] needs joserfc and cryptography, which are not installed",
            install_command("auth"),
        ) from None
    return {name: JWSRegistry.algorithms[name] for name in names}


class _KeyDocument(Struct):
    keys: list[dict[str, Any]]


class _MetadataDocument(Struct):
    issuer: str
    jwks_uri: str


def read_key_set(body: bytes, allowed: tuple[str, ...]) -> tuple[VerificationKey, ...]:
    """The usable keys of a document; raises ValueError if it is none. Keys of other kinds are left out."""
    try:
        document = msgspec.json.decode(body, type=_KeyDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("it is not a key set") from error
    found = [key for entry in document.keys[:MAX_KEYS] if (key := _read_key(entry, allowed)) is not None]
    return tuple(found)


def _read_key(entry: dict[str, Any], allowed: tuple[str, ...]) -> VerificationKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    algorithms = tuple(name for name in _algorithms_of(entry) if name in allowed)
    kid = entry.get("kid", "")
    if not algorithms or not isinstance(kid, str):
        return None
    # Only the public numbers: what else an issuer may have put there has no effect on the key.
    public: dict[str, Any] = {name: entry.get(name) for name in ("kty", *_PUBLIC[entry["kty"]])}
    if not all(isinstance(value, str) for value in public.values()):
        return None
    if max(len(value) for value in public.values()) > MAX_RSA_BITS // 6 + 2 or len(public.get("e", "")) > 11:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of weak keys, which are left out below
            key: Any = import_key(public)
    except (JoseError, ValueError, TypeError, OverflowError):
        return None
    if entry["kty"] == "RSA" and key.raw_value.key_size < MIN_RSA_BITS:
        return None
    return VerificationKey(kid, algorithms, key)


def _algorithms_of(entry: dict[str, Any]) -> tuple[str, ...]:
    """What a key may verify, by its type and by what it says of itself; nothing for secrets (`oct`)."""
    uses: Any = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        return ()
    kind, curve = entry.get("kty"), entry.get("crv")
    fitting: tuple[str, ...] = ()
    if kind == "RSA":
        fitting = _RSA
    elif kind == "EC" and isinstance(curve, str) and curve in _CURVES:
        fitting = (_CURVES[curve],)
    elif kind == "OKP" and curve in _EDWARDS:
        fitting = ("EdDSA",)
    own = entry.get("alg")
    return fitting if own is None else tuple(name for name in fitting if name == own)


class IssuerKeys:
    def __init__(
        self,
        issuer: IssuerConfig,
        client: IssuerClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` does not jump. Nothing is fetched yet."""
        self._issuer = issuer
        self._client = client
        self._clock = clock
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self.failure = ""
        """Why the last attempt to fetch the keys failed, for operators; empty if it did not."""
        self._key_set_url = issuer.jwks_url
        self._described = float("-inf")
        self._renewal: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        """The keys that may have signed a token.

        Raises InvalidTokenError if the issuer has no such key, IssuerUnavailableError if nobody can say.
        """
        age = self._clock() - self._fetched
        if age > KEEP:
            self._keys = ()
        elif age > FRESH:
            self._start_renewal()
        found = self._matching(kid, algorithm)
        if not found:
            await self.renew()
            found = self._matching(kid, algorithm)
        if found:
            return found
        if self.failure:
            wait = MIN_INTERVAL - (self._clock() - self._tried)
            raise IssuerUnavailableError("The token's issuer cannot be asked for its keys now", wait)
        raise RefusedTokenError("The token is signed with a key that its issuer does not publish")

    async def renew(self) -> bool:
        """Fetches the keys, unless that was just tried, and returns whether it was done. Never raises."""
        self._start_renewal()
        if self._renewal is None:
            return False
        await asyncio.shield(self._renewal)
        return not self.failure

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    def _matching(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        if kid is not None:
            named = [key for key in fitting if key.kid == kid]
            fitting = named or [key for key in fitting if not key.kid]
        return fitting[:MAX_TRIED]

    def _start_renewal(self) -> None:
        if self._renewal is None and self._clock() - self._tried >= MIN_INTERVAL:
            self._renewal = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            body = await self._fetch(await self._locate())
            keys = read_key_set(body, self._issuer.algorithms)
            if not keys:
                raise IssuerUnavailableError("its key set has no key of an allowed algorithm")
        except (IssuerUnavailableError, ValueError) as error:
            if not self.failure:
                logger.warning("the keys of %s cannot be read: %s", self._issuer.issuer, error)
            self.failure = str(error)
            self._described = float("-inf")  # its keys may have moved
        else:
            if self.failure:
                logger.info("the keys of %s can be read again", self._issuer.issuer)
            self._keys, self.failure, self._fetched = keys, "", self._clock()
        finally:
            self._tried = self._clock()
            self._renewal = None

    async def _locate(self) -> str:
        """The address of the key set."""
        if self._issuer.jwks_url:
            return self._issuer.jwks_url
        if self._clock() - self._described > METADATA_FRESH:
            self._key_set_url = await self._read_metadata()
            self._described = self._clock()
        return self._key_set_url

    async def _read_metadata(self) -> str:
        """The address of the key set, from the first document that is this issuer's.

        Some servers answer every path with a page, so a document that cannot be used does not end the search.
        """
        problem = "it has no metadata; set 'jwks_url'"
        for url in metadata_urls(self._issuer.issuer):
            reply = await self._client.get(url, MAX_DOCUMENT)
            if reply.status >= 500:
                raise IssuerUnavailableError(f"{display_url(url)} answered {reply.status}")
            if reply.status != 200:
                continue
            try:
                return self._key_set_of(msgspec.json.decode(reply.body, type=_MetadataDocument))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                problem = f"{display_url(url)} has no usable metadata"
            except ValueError as error:
                problem = f"{display_url(url)}: {error}"
        raise IssuerUnavailableError(problem)

    def _key_set_of(self, document: _MetadataDocument) -> str:
        issuer = self._issuer.issuer
        if document.issuer != issuer:
            what = f"these are the metadata of {document.issuer[:200]!r}"
            raise ValueError(f"{what}; 'issuer' must be the very same text")
        if is_secure(issuer) and not is_secure(document.jwks_uri):
            raise ValueError("the key set is not at an https address")
        return document.jwks_uri

    async def _fetch(self, url: str) -> bytes:
        accept = "application/jwk-set+json, application/json"
        reply = await self._client.get(url, MAX_DOCUMENT, accept)
        if reply.status != 200:
            raise IssuerUnavailableError(f"{display_url(url)} answered {reply.status}")
        return reply.body


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where an issuer's metadata may be: RFC 8414, then OpenID Connect in both of its spellings."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    )
    return (*inserted, f"{origin}{path}/.well-known/openid-configuration") if path else inserted
