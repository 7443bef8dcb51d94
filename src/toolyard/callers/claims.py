"""What the claims of a token say: for whom it is, how long, and whom it shows.

Reads claims that are known to be the issuer's: of a JWT whose signature was verified, or of an answer to
introspection. Both are held to the same rules.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from ..config.callers import IssuerConfig
from ..wire.call import CredentialKind, Principal
from .errors import InsufficientScopeError, RefusedTokenError

Claims = Mapping[str, Any]

MAX_NAME = 512
MAX_TIME = 2.0**53
MAX_NAMES = 1000
"""Groups, or scopes, of one token."""
_ACCESS_TYPES = ("bearer", "jwt", "at+jwt", "application/at+jwt", "access", "access_token")
_ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash", "s_hash")
_CLIENT_CLAIMS = ("client_id", "azp", "appid", "cid")


class Validity(Struct, frozen=True):
    """From when to when a token counts, in seconds since 1970, the leeway included."""

    begins: float
    ends: float

    def check(self, now: float) -> None:
        if now >= self.ends:
            raise RefusedTokenError("The token has expired")
        if now < self.begins:
            raise RefusedTokenError("The token is not valid yet")


def validity(claims: Claims, leeway: float) -> Validity:
    """Raises InvalidTokenError if the token has no end, or a time that is none."""
    ends = _time(claims, "exp")
    if ends is None:
        raise RefusedTokenError("The token has no 'exp': it must expire")
    starts = [found for name in ("nbf", "iat") if (found := _time(claims, name)) is not None]
    return Validity(max(starts, default=0.0) - leeway, ends + leeway)


def _time(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_TIME:
        raise RefusedTokenError(f"The token's {name!r} is not a time")
    return float(value)


def audiences(claims: Claims) -> frozenset[str]:
    named = claims.get("aud")
    found: list[Any] = cast("list[Any]", named) if isinstance(named, list) else [named]
    return frozenset(value for value in found if isinstance(value, str))


def check_audience(named: frozenset[str], accepted: frozenset[str]) -> None:
    if not accepted:
        what = "The server does not know its own address, so no token can be for it"
        raise RefusedTokenError(f"{what}: set 'public_url' of [gateway], or 'audiences' of the issuer")
    if not named:
        raise RefusedTokenError("The token has no 'aud': it must name this server")
    if not named & accepted:
        raise RefusedTokenError("The token is for another audience")


@lru_cache(maxsize=256)
def accepted_audiences(configured: tuple[str, ...], resource: str, endpoint: str) -> frozenset[str]:
    """Those of the configuration; without any, the address of this resource.

    A token for the main endpoint counts at the endpoints below it too, which offer less.
    """
    if configured:
        return frozenset(configured)
    if not resource:
        return frozenset()
    parts = urlsplit(resource)
    before, found, _ = parts.path.partition(f"{endpoint}/")
    main = [f"{parts.scheme}://{parts.netloc}{before}{endpoint}"] if found else []
    plain = [resource.rstrip("/"), *main]
    return frozenset([*plain, *(f"{url}/" for url in plain)])


def check_kind(claims: Claims, declared: bool = False) -> None:
    """Raises InvalidTokenError for what is no access token, or one that takes more than to have it.

    `declared`: its header says that it is one (RFC 9068). Few issuers do, so ID tokens are told by their
    claims; Keycloak and Cognito say in a claim of their own which is which.
    """
    kinds = [claims.get(name) for name in ("typ", "token_use")]
    for kind in kinds:
        if isinstance(kind, str) and kind.lower() not in _ACCESS_TYPES:
            raise RefusedTokenError(f"This is a token of the type {kind[:40]!r}: send an access token")
    is_access = declared or any(isinstance(kind, str) for kind in kinds)
    if not is_access and any(name in claims for name in _ID_TOKEN_CLAIMS):
        raise RefusedTokenError("This is an ID token: send an access token")
    if "events" in claims:
        raise RefusedTokenError("This is a token that reports events: send an access token")
    if "cnf" in claims:
        raise RefusedTokenError("The token is bound to a key (DPoP or mutual TLS): send a plain bearer token")


def read_principal(claims: Claims, issuer: IssuerConfig, kind: CredentialKind, credential: str) -> Principal:
    """The principal of a token. Raises InvalidTokenError if the user or the tenant cannot be told from it."""
    named = issuer.claims
    client = _name(claims, named["client"]) if "client" in named else _first(claims, _CLIENT_CLAIMS)
    return Principal(
        tenant=_tenant(claims, issuer),
        agent=_name(claims, named["agent"]) if "agent" in named else "",
        subject=_subject(claims, issuer, client),
        issuer=issuer.issuer,
        client=client,
        groups=_names(claims, named.get("groups", "groups")),
        scopes=_names(claims, "scope") | _names(claims, "scp"),
        kind=kind,
        credential=credential,
        expires=_time(claims, "exp"),
    )


def check_scopes(principal: Principal, needed: tuple[str, ...]) -> None:
    if not principal.scopes.issuperset(needed):
        raise InsufficientScopeError(needed)


def _subject(claims: Claims, issuer: IssuerConfig, client: str) -> str:
    """The user; for a token that a client got for itself, the client, as RFC 9068 has it in `sub`."""
    path = issuer.claims.get("subject", "sub")
    subject = _name(claims, path) or (client if path == "sub" else "")
    if not subject:
        raise RefusedTokenError(f"The token has no {path!r}, which names its user")
    return subject


def _tenant(claims: Claims, issuer: IssuerConfig) -> str:
    if issuer.tenant:
        return issuer.tenant
    if "tenant" in issuer.claims:
        tenant = _name(claims, issuer.claims["tenant"])
        if not tenant:  # never another tenant in its place
            raise RefusedTokenError(f"The token has no {issuer.claims['tenant']!r}, which names its tenant")
        return tenant
    return urlsplit(issuer.issuer).hostname or issuer.issuer


def _claim(claims: Claims, path: str) -> Any:
    """A claim by its name, which may have dots itself; else a dot leads into an object."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for step in path.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = cast("Claims", found)[step]
    return found


def _name(claims: Claims, path: str) -> str:
    value = _claim(claims, path)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _is_usable(value):
        raise RefusedTokenError(f"The token's {path!r} is not a usable name")
    return value


def _first(claims: Claims, paths: tuple[str, ...]) -> str:
    return next((found for path in paths if (found := _name(claims, path))), "")


def _names(claims: Claims, path: str) -> frozenset[str]:
    """A list of names, or a text of them between blanks."""
    value = _claim(claims, path)
    if value is None:
        return frozenset()
    found: Any = value.split() if isinstance(value, str) else value
    if not isinstance(found, list) or len(cast("list[Any]", found)) > MAX_NAMES:
        raise RefusedTokenError(f"The token's {path!r} is not a list of names, or a very long one")
    names = cast("list[Any]", found)
    if not all(isinstance(name, str) and _is_usable(name) for name in names):
        raise RefusedTokenError(f"The token's {path!r} has something that is not a usable name")
    return frozenset(names)


def _is_usable(name: str) -> bool:
    """Names go into logs, tables and keys of stores: no control characters, and no end of text."""
    return 0 < len(name) <= MAX_NAME and name.isprintable()
