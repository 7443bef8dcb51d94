"""Signatures of the client: assertions that authenticate it (RFC 7523), and DPoP proofs (RFC 9449).

Imports joserfc where something is signed: most connections sign nothing.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Any

from ...extras import install_command
from .errors import OAuthError

ASSERTION_SECONDS = 60
DPOP_ALGORITHM = "ES256"


class DpopKey:
    """A key of one connection, whose possession is proved with each request; tokens are bound to it."""

    def __init__(self, jwk: dict[str, Any], clock: Callable[[], float] = time.time) -> None:
        """`jwk` is private, as `new_dpop_key` makes it."""
        _joserfc()
        from joserfc.jwk import ECKey

        self._key: Any = ECKey.import_key(jwk)
        self._public: dict[str, Any] = self._key.as_dict(private=False)
        self._clock = clock
        self.nonces: dict[str, str] = {}
        """The last nonce of each origin."""

    def proof(self, method: str, url: str, token: str = "") -> str:
        """A proof for one request; `token` is the access token that goes with it."""
        address = url.partition("?")[0].partition("#")[0]
        claims: dict[str, Any] = {
            "jti": token_urlsafe(16),
            "htm": method,
            "htu": address,
            "iat": int(self._clock()),
        }
        if token:
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        nonce = self.nonces.get(origin_of(url))
        if nonce:
            claims["nonce"] = nonce
        public = {name: self._public[name] for name in ("kty", "crv", "x", "y")}
        return _signed({"typ": "dpop+jwt", "alg": DPOP_ALGORITHM, "jwk": public}, claims, self._key)

    def note_nonce(self, url: str, nonce: str) -> bool:
        """Remember a nonce; returns whether it is a new one."""
        origin = origin_of(url)
        if not nonce or len(nonce) > 1024 or self.nonces.get(origin) == nonce:
            return False
        self.nonces[origin] = nonce
        return True


def new_dpop_key() -> dict[str, Any]:
    _joserfc()
    from joserfc.jwk import ECKey

    return dict(ECKey.generate_key("P-256").as_dict(private=True))


def client_assertion(
    pem: str,
    algorithm: str,
    key_id: str,
    client_id: str,
    audience: str,
    clock: Callable[[], float] = time.time,
) -> str:
    """A JWT that shows that we are the client, for one request to `audience`."""
    _joserfc()
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    kind: Any = RSAKey if algorithm[:2] in ("RS", "PS") else OKPKey if algorithm == "EdDSA" else ECKey
    try:
        key = kind.import_key(pem)
    except (JoseError, ValueError, TypeError):
        raise OAuthError(
            f"'private_key' is not a PEM key for {algorithm}", "set 'algorithm' to what the key is for"
        ) from None
    now = int(clock())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": token_urlsafe(16),
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
    }
    header = {"alg": algorithm, "typ": "JWT"} | ({"kid": key_id} if key_id else {})
    return _signed(header, claims, key)


def origin_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _signed(header: dict[str, Any], claims: dict[str, Any], key: Any) -> str:
    from joserfc import jws

    payload = json.dumps(claims, separators=(",", ":")).encode()
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    return jws.serialize_compact(header, payload, key, registry=registry)


def _joserfc() -> None:
    try:
        import joserfc  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise OAuthError(
            "signing needs joserfc and cryptography, which are not installed", install_command("auth")
        ) from None
