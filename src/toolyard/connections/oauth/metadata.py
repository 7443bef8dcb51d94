"""Finds out who protects a server: its challenge, its metadata (RFC 9728), its issuer's (RFC 8414, OIDC).

Owns the order in which documents are looked for, and which of them are believed. Keeps nothing.
"""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Struct

from .errors import AuthorityUnavailableError, UntrustedAuthorityError
from .fetching import FetchedReply, GuardedFetcher, shown_url

RESOURCE_WELL_KNOWN = "/.well-known/oauth-protected-resource"
SERVER_WELL_KNOWN = "/.well-known/oauth-authorization-server"
OPENID_WELL_KNOWN = "/.well-known/openid-configuration"

# Possessive, so that a hostile header costs no more than its length. Not what is between quotes: each of its
# characters fits one alternative only, and Python before 3.11.5 errs there.
_SCHEME = re.compile(r"[\s,]*+([A-Za-z][A-Za-z0-9_-]*+)(?=\s|$|,)")
_PARAM = re.compile(r"""[\s,]*+([A-Za-z0-9_*-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*)"|([^\s,"]++))""")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
MAX_SCOPES = 100
MAX_CHALLENGE = 16 * 1024
REQUEST_PARAMETERS = frozenset(
    (
        "response_type",
        "response_mode",
        "client_id",
        "redirect_uri",
        "state",
        "nonce",
        "scope",
        "resource",
        "code_challenge",
        "code_challenge_method",
        "dpop_jkt",
        "request",
        "request_uri",
    )
)
"""What an authorization request consists of, or could be replaced by."""


class Challenge(Struct, frozen=True):
    """What a 401 or 403 says about the token that it wants."""

    status: int = 401
    scheme: str = ""
    error: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""

    @property
    def wants_nonce(self) -> bool:
        return self.error == "use_dpop_nonce"

    @property
    def wants_scopes(self) -> bool:
        return self.status == 403 and self.error == "insufficient_scope"


def read_challenge(status: int, header: str) -> Challenge:
    """Read `WWW-Authenticate`: the first challenge for a bearer or DPoP token; never fails."""
    at, header = 0, header[:MAX_CHALLENGE]
    while (found := _SCHEME.match(header, at)) is not None:
        scheme, at = found[1].lower(), found.end()
        members: dict[str, str] = {}
        while (member := _PARAM.match(header, at)) is not None:
            quoted = member[2]
            members.setdefault(
                member[1].lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else member[3]
            )
            at = member.end()
        if scheme in ("bearer", "dpop"):
            return Challenge(
                status,
                scheme,
                members.get("error", ""),
                scopes_of(members.get("scope")),
                members.get("resource_metadata", ""),
            )
    return Challenge(status)


def scopes_of(text: object) -> tuple[str, ...]:
    """The scopes in a text or a list, each once, without what is none."""
    words: list[Any] = text.split(" ") if isinstance(text, str) else text if isinstance(text, list) else []  # pyright: ignore[reportUnknownVariableType]
    found = dict.fromkeys(word for word in words if isinstance(word, str) and _SCOPE.fullmatch(word))
    return tuple(found)[:MAX_SCOPES]


class ResourceDescription(Struct, frozen=True):
    """What a protected resource says about itself."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


class AuthorityInfo(Struct, frozen=True, kw_only=True):
    """What an authorization server says about itself, checked."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    device_endpoint: str = ""
    challenge_methods: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    grant_types: tuple[str, ...] = ()
    takes_metadata_ids: bool = False
    """Whether a client may name itself by the URL of its metadata (CIMD)."""
    sends_issuer: bool = False
    """Whether its authorization responses carry `iss`."""
    dpop_algorithms: tuple[str, ...] = ()


class _ResourceDocument(Struct):
    resource: str
    authorization_servers: list[str] = []
    scopes_supported: Any = None


class _AuthorityDocument(Struct):
    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    code_challenge_methods_supported: list[str] | None = None
    scopes_supported: Any = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    dpop_signing_alg_values_supported: list[str] | None = None


def canonical_resource(url: str) -> str:
    """The URI that names a server in `resource`: without fragment, and without a slash that means nothing."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    default = {"https": 443, "http": 80}.get(parts.scheme.lower())
    port = "" if parts.port in (None, default) else f":{parts.port}"
    path = "" if parts.path == "/" else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{host}{port}{path}{query}"


def speaks_for(resource: str, place: str, url: str, chosen: str = "") -> bool:
    """Whether metadata of `resource`, found at `place`, are those of the server at `url`.

    By RFC 9728 the resource is the server itself, or that at whose well-known place they are: a server may
    share its host with others, and could otherwise ask for a token of all of them. `chosen` is the resource
    in the operator's configuration.
    """
    above = resource_at(place)
    is_below = bool(above) and f"{canonical_resource(url)}/".startswith(f"{above.rstrip('/')}/")
    return (
        same_resource(resource, url)
        or bool(chosen and same_resource(resource, chosen))
        or (is_below and same_resource(resource, above))
    )


def same_resource(resource: str, url: str) -> bool:
    """Whether both are one address. A slash at the end and a query that is left out mean nothing."""
    if "#" in resource or "@" in resource.partition("://")[2].partition("/")[0]:
        return False
    try:
        theirs, ours = urlsplit(canonical_resource(resource)), urlsplit(canonical_resource(url))
    except ValueError:
        return False
    same = (theirs.scheme, theirs.netloc, theirs.path.rstrip("/"))
    return same == (ours.scheme, ours.netloc, ours.path.rstrip("/")) and theirs.query in ("", ours.query)


def resource_at(place: str) -> str:
    """The resource whose well-known place this is; empty if it is none."""
    parts = urlsplit(place)
    rest = parts.path.removeprefix(RESOURCE_WELL_KNOWN)
    if rest == parts.path or not (rest == "" or rest.startswith("/")):
        return ""
    return canonical_resource(f"{parts.scheme}://{parts.netloc}{rest}")


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    root = f"{origin}{RESOURCE_WELL_KNOWN}"
    return (f"{root}{path}", root) if path else (root,)


def authority_metadata_urls(issuer: str) -> tuple[str, ...]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = (f"{origin}{SERVER_WELL_KNOWN}{path}", f"{origin}{OPENID_WELL_KNOWN}{path}")
    return (*inserted, f"{origin}{path}{OPENID_WELL_KNOWN}") if path else inserted


async def find_resource(
    fetcher: GuardedFetcher, url: str, named: str = "", chosen: str = ""
) -> ResourceDescription | None:
    """The metadata of the server at `url`; `named` is where its challenge says they are.

    `chosen` is the resource in the configuration.

    None if it has none. Raises UntrustedAuthorityError if they are of another resource, or are not where the
    challenge says: a server that has metadata is not treated as an old one without.
    """
    for place in (named,) if named else resource_metadata_urls(url):
        document = _document(await fetcher.get(place), _ResourceDocument, place)
        if document is None:
            continue
        if not speaks_for(document.resource, place, url, chosen):
            raise UntrustedAuthorityError(
                f"the metadata at {shown_url(place)} are of {shown_url(document.resource)}, another one",
                "its operator has to correct them: a token for it would be somebody else's; "
                "if it may have that, set it as 'resource' in the server's auth",
            )
        return ResourceDescription(
            document.resource, tuple(document.authorization_servers[:8]), scopes_of(document.scopes_supported)
        )
    if named:
        raise UntrustedAuthorityError(f"there are no metadata at {shown_url(named)}, which the server names")
    return None


def same_issuer(one: str, other: str) -> bool:
    """Whether both are one text; an issuer without a path may have a slash at its end or not.

    Servers of the SDK add that slash, and both forms lead to the same document.
    """
    short, long = sorted((one, other), key=len)
    return short == long or (short.count("/") == 2 and long == f"{short}/")


async def find_authority(fetcher: GuardedFetcher, issuer: str) -> AuthorityInfo | None:
    """The metadata of an issuer; None if it publishes none."""
    fetcher.check(issuer)
    if "?" in issuer or "#" in issuer:
        raise UntrustedAuthorityError(f"{shown_url(issuer)} with a query or a fragment is no issuer")
    for place in authority_metadata_urls(issuer):
        document = _document(await fetcher.get(place), _AuthorityDocument, place)
        if document is None:
            continue
        if not same_issuer(document.issuer, issuer):
            raise UntrustedAuthorityError(
                f"the metadata at {shown_url(place)} are of the issuer {shown_url(document.issuer)}, "
                f"and {shown_url(issuer)} was asked for",
                "both have to be the very same text",
            )
        return _authority(fetcher, document)
    return None


def old_authority(url: str) -> AuthorityInfo:
    """The endpoints that servers of 2025-03-26 have at their own origin if they publish nothing."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return AuthorityInfo(
        issuer=origin,
        token_endpoint=f"{origin}/token",
        authorization_endpoint=f"{origin}/authorize",
        registration_endpoint=f"{origin}/register",
        challenge_methods=("S256",),
        auth_methods=("none", "client_secret_post", "client_secret_basic"),
    )


def _authority(fetcher: GuardedFetcher, document: _AuthorityDocument) -> AuthorityInfo:
    endpoints = (
        document.token_endpoint,
        document.authorization_endpoint,
        document.registration_endpoint,
        document.revocation_endpoint,
        document.device_authorization_endpoint,
    )
    for endpoint in filter(None, endpoints):
        fetcher.check(endpoint)
        if "#" in endpoint:
            raise UntrustedAuthorityError(f"{shown_url(endpoint)} has a fragment, which no endpoint may have")
    asked = urlsplit(document.authorization_endpoint).query
    for name, _ in parse_qsl(asked, keep_blank_values=True):
        if name in REQUEST_PARAMETERS:
            raise UntrustedAuthorityError(
                f"the authorization endpoint of {shown_url(document.issuer)} has {name!r} in its address",
                "which of two such parameters counts would be a guess",
            )
    methods = document.token_endpoint_auth_methods_supported
    return AuthorityInfo(
        issuer=document.issuer,
        token_endpoint=document.token_endpoint,
        authorization_endpoint=document.authorization_endpoint,
        registration_endpoint=document.registration_endpoint,
        revocation_endpoint=document.revocation_endpoint,
        device_endpoint=document.device_authorization_endpoint,
        challenge_methods=tuple(document.code_challenge_methods_supported or ()),
        scopes=scopes_of(document.scopes_supported),
        auth_methods=("client_secret_basic",) if methods is None else tuple(methods),
        grant_types=tuple(document.grant_types_supported or ()),
        takes_metadata_ids=document.client_id_metadata_document_supported,
        sends_issuer=document.authorization_response_iss_parameter_supported,
        dpop_algorithms=tuple(document.dpop_signing_alg_values_supported or ()),
    )


def _document(reply: FetchedReply, kind: type[Any], place: str) -> Any:
    """The document; None if there is none, which many servers say with a page instead of a status."""
    if reply.status >= 500:
        raise AuthorityUnavailableError(f"{shown_url(place)} answered {reply.status}")
    if reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
