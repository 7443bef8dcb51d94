"""The authorization code flow and the device flow: who we are to an issuer, where users go, what returns.

`Discovery` finds the issuer of a server. `CodeFlow` begins an authorization and finishes it; between the two
the user is in a browser, perhaps in front of another replica, so all that is needed is in
`PendingAuthorization`. Tokens are kept elsewhere (`tokens`).
"""

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_urlsafe
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...config.server_auth import OAuthAuth
from ...vault.base import SecretAddress, SecretStore
from ..flows import FLOW_SECONDS
from .client_document import CLIENT_NAME
from .errors import (
    AuthorityUnavailableError,
    ConsentDeniedError,
    GrantRefusedError,
    NoClientError,
    UnknownClientError,
    UntrustedAuthorityError,
    shown_code,
)
from .fetching import GuardedFetcher, shown_url
from .metadata import (
    AuthorityInfo,
    Challenge,
    ResourceDescription,
    canonical_resource,
    find_authority,
    find_resource,
    old_authority,
    same_issuer,
    scopes_of,
)
from .proofs import DpopKey, new_dpop_key
from .token_endpoint import DEVICE_GRANT, ClientIdentity, SigningKey, TokenEndpoint, TokenReply
from .tokens import TokenRecord

OFFLINE = "offline_access"
MAX_CLIENT_ID = 2048
ApplicationType = Literal["native", "web"]


class ServerProtection(Struct, frozen=True):
    """Who issues the tokens for a server, and what it says that they need."""

    authority: AuthorityInfo
    resource: ResourceDescription | None = None


class Discovery:
    """Finds the issuer of one server. Keeps nothing: a server may move to another issuer at any time."""

    def __init__(self, fetcher: GuardedFetcher, url: str, settings: OAuthAuth) -> None:
        self._fetcher = fetcher
        self._url = url
        self._settings = settings

    async def find(self, challenge: Challenge) -> ServerProtection:
        """Raises UntrustedAuthorityError if the metadata lie, AuthorityUnavailableError if nobody answers."""
        settings = self._settings
        resource = await find_resource(
            self._fetcher, self._url, challenge.resource_metadata, settings.resource
        )
        issuer = settings.issuer or (resource.issuers[0] if resource and resource.issuers else "")
        if issuer:
            authority = await find_authority(self._fetcher, issuer)
            if authority is None:
                raise AuthorityUnavailableError(f"the issuer {shown_url(issuer)} publishes no metadata")
            return ServerProtection(authority, resource)
        # Servers of 2025-03-26 are their own issuer.
        parts = urlsplit(self._url)
        origin = f"{parts.scheme}://{parts.netloc}"
        found = await find_authority(self._fetcher, origin)
        if found is None and resource is not None:
            raise UntrustedAuthorityError("the server's metadata name no authorization server")
        return ServerProtection(found or old_authority(self._url), resource)


class PendingAuthorization(Struct, frozen=True, kw_only=True):
    """An authorization that the user has to agree to. It is secret: it holds the verifier."""

    state: str
    verifier: str
    url: str
    """Where the user agrees."""
    redirect: str
    server_url: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str
    sends_issuer: bool
    client: ClientIdentity
    resource: str
    scopes: tuple[str, ...]
    dpop_key: dict[str, Any] | None = None
    began: float = 0.0
    sent: int = 0
    """How often a browser was sent to the issuer with it."""

    def __repr__(self) -> str:
        return f"PendingAuthorization(issuer={self.issuer!r})"


def choose_scopes(
    settings: OAuthAuth, challenge: Challenge, protection: ServerProtection, earlier: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What to ask for: never less than before, because a new token replaces the old one."""
    listed = protection.resource.scopes if protection.resource is not None else ()
    chosen = settings.scopes or challenge.scopes or listed
    if challenge.wants_scopes:
        chosen = (*settings.scopes, *challenge.scopes)
    scopes = tuple(dict.fromkeys((*earlier, *chosen)))
    if scopes and OFFLINE in protection.authority.scopes and OFFLINE not in scopes:
        scopes = (*scopes, OFFLINE)
    return scopes


class CodeFlow:
    """`redirect` is where the browser returns to; `application` is what we are to the issuer."""

    def __init__(
        self,
        fetcher: GuardedFetcher,
        settings: OAuthAuth,
        secrets: SecretStore,
        *,
        server: str,
        server_url: str,
        tenant: str,
        redirect: str,
        application: ApplicationType = "native",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._registrations = ClientRegistrations(
            fetcher,
            settings,
            secrets,
            server=server,
            tenant=tenant,
            redirect=redirect,
            application=application,
            clock=clock,
        )
        self._server_url = server_url
        self._redirect = redirect
        self._clock = clock

    async def begin(
        self,
        protection: ServerProtection,
        challenge: Challenge,
        earlier: tuple[str, ...] = (),
        *,
        failed_client: str = "",
        state: str = "",
    ) -> PendingAuthorization:
        """`failed_client` is a client id that the issuer may not know any more: it gets another one."""
        authority, settings = protection.authority, self._settings
        if "S256" not in authority.challenge_methods:
            raise UntrustedAuthorityError(
                f"{shown_url(authority.issuer)} does not say that it supports PKCE with S256",
                "without it a stolen code could be used by others; its operator has to switch it on",
            )
        if not authority.authorization_endpoint:
            raise UntrustedAuthorityError(f"{shown_url(authority.issuer)} has no authorization endpoint")
        scopes = choose_scopes(settings, challenge, protection, earlier)
        client = await self._registrations.get(authority, scopes, failed_client)
        resource = resource_of(settings, self._server_url, protection)
        verifier, state = token_urlsafe(48), state or token_urlsafe(32)
        query = {
            **settings.parameters,
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": self._redirect,
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        if resource:
            query["resource"] = resource
        if settings.audience:
            query["audience"] = settings.audience
        prompt = settings.prompt or ("consent" if OFFLINE in scopes else "")
        if prompt:
            query.setdefault("prompt", prompt)
        joint = "&" if "?" in authority.authorization_endpoint else "?"
        return PendingAuthorization(
            state=state,
            verifier=verifier,
            url=f"{authority.authorization_endpoint}{joint}{urlencode(query)}",
            redirect=self._redirect,
            server_url=self._server_url,
            issuer=authority.issuer,
            token_endpoint=authority.token_endpoint,
            revocation_endpoint=authority.revocation_endpoint,
            sends_issuer=authority.sends_issuer,
            client=client,
            resource=resource,
            scopes=scopes,
            dpop_key=new_dpop_key() if settings.dpop else None,
            began=self._clock(),
        )

    async def finish(self, pending: PendingAuthorization, answer: Mapping[str, str]) -> TokenRecord:
        """Exchange the code. Raises ConsentDeniedError, GrantRefusedError, UntrustedAuthorityError."""
        code = read_answer(pending, answer)
        endpoint = TokenEndpoint(
            self._fetcher,
            pending.token_endpoint,
            pending.client,
            key=signing_key(self._settings),
            dpop=None if pending.dpop_key is None else DpopKey(pending.dpop_key, self._clock),
            clock=self._clock,
        )
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect,
            "code_verifier": pending.verifier,
        }
        if pending.resource:
            form["resource"] = pending.resource
        try:
            reply = await endpoint.request(form)
        except UnknownClientError:
            await self._registrations.forget(pending.client)
            raise
        await self._registrations.proved(pending.client)
        return record_of(reply, pending, self._clock())

    async def mark_sent(self, pending: PendingAuthorization) -> None:
        """The user is sent to the issuer now: if nothing comes back, the next flow registers anew.

        An issuer that has forgotten a client shows an error to the user and tells us nothing.
        """
        await self._registrations.doubt(pending.client)

    async def forget_client(self, client: ClientIdentity) -> None:
        """The issuer does not know this client any more: the next flow registers anew."""
        await self._registrations.forget(client)


def record_of(reply: TokenReply, pending: PendingAuthorization, now: float) -> TokenRecord:
    return TokenRecord(
        access_token=reply.access_token,
        token_type=reply.token_type,
        obtained=now,
        granted=now,
        lifetime=reply.lifetime,
        refresh_token=reply.refresh_token,
        scopes=pending.scopes if reply.scopes is None else reply.scopes,
        issuer=pending.issuer,
        token_endpoint=pending.token_endpoint,
        revocation_endpoint=pending.revocation_endpoint,
        client=pending.client,
        resource=pending.resource,
        server_url=pending.server_url,
        dpop_key=pending.dpop_key,
    )


def read_answer(pending: PendingAuthorization, answer: Mapping[str, str]) -> str:
    """The code in an authorization response, if it is the answer to this request of this issuer.

    Repeats nothing of an answer that may be somebody else's.
    """
    if not hmac.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
        raise UntrustedAuthorityError("the answer belongs to another login", "begin the login again")
    issuer = answer.get("iss")
    if issuer is None and pending.sends_issuer:
        raise UntrustedAuthorityError(
            "the answer does not say which issuer it is from, though this one always does",
            "it may be forged; begin the login again",
        )
    if issuer is not None and issuer != pending.issuer:
        raise UntrustedAuthorityError(
            "the answer is from another issuer than the one that was asked",
            "it may be forged; nothing was sent",
        )
    if "error" in answer:
        code = shown_code(answer["error"])
        advice = {"invalid_scope": "set 'scopes' in the server's auth to those that it grants"}
        raise ConsentDeniedError(
            f"{shown_url(pending.issuer)} did not grant access ({code})", advice.get(code, "log in again")
        )
    code = answer.get("code", "")
    if not code or len(code) > 8192:
        raise ConsentDeniedError(f"{shown_url(pending.issuer)} sent no code", "log in again")
    return code


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def resource_of(settings: OAuthAuth, url: str, protection: ServerProtection) -> str:
    """What token requests name as `resource`; empty: nothing."""
    if settings.omit_resource:
        return ""
    if settings.resource:
        return settings.resource
    if protection.resource is not None:
        return protection.resource.resource
    # A query may hold a key, which is none of the issuer's business.
    return canonical_resource(url).partition("?")[0]


def signing_key(settings: OAuthAuth) -> SigningKey | None:
    if not settings.private_key:
        return None
    return SigningKey(settings.private_key, settings.algorithm, settings.key_id)


# Client ids

_METHODS = ("none", "client_secret_post", "client_secret_basic")
_CLIENT_ID = re.compile(rf"[\x20-\x7e]{{1,{MAX_CLIENT_ID}}}")


class _Registration(Struct, frozen=True, kw_only=True):
    """A registration at rest."""

    client: ClientIdentity
    doubted: bool = False
    """Whether a flow began with it and did not come back."""
    expires: float = 0.0
    """When its secret ends, in seconds since 1970; 0: never."""
    scopes: tuple[str, ...] = ()
    """Those that it may ask for: some issuers refuse all others."""


class ClientRegistrations:
    """The client id for an issuer: configured, else our metadata document, else registered (RFC 7591)."""

    def __init__(
        self,
        fetcher: GuardedFetcher,
        settings: OAuthAuth,
        secrets: SecretStore,
        *,
        server: str,
        tenant: str,
        redirect: str,
        application: ApplicationType,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._secrets = secrets
        self._server = server
        self._tenant = tenant
        self._redirect = redirect
        self._application = application
        self._clock = clock

    async def get(
        self, authority: AuthorityInfo, scopes: tuple[str, ...] = (), failed: str = ""
    ) -> ClientIdentity:
        """The client for an issuer, not `failed` if there is a choice; raises NoClientError if there is none.

        A metadata document is for issuers that take clients without a secret, as it can hold none.
        """
        settings = self._settings
        if settings.client_id:
            if settings.issuer and not same_issuer(settings.issuer, authority.issuer):
                raise NoClientError(
                    f"'client_id' is of {shown_url(settings.issuer)}, "
                    f"and the server uses {shown_url(authority.issuer)}"
                )
            await self._confirm_issuer(authority.issuer)
            return configured_client(settings, authority)
        can_register = bool(authority.registration_endpoint)
        fits = "none" in authority.auth_methods and settings.client_metadata_url != failed
        if settings.client_metadata_url and authority.takes_metadata_ids and (fits or not can_register):
            return ClientIdentity(
                id=settings.client_metadata_url,
                issuer=authority.issuer,
                source="metadata",
                redirect=self._redirect,
            )
        if can_register:
            return await self._registered(authority, scopes, failed)
        raise NoClientError(
            f"{shown_url(authority.issuer)} registers no clients by itself",
            f"register one there with the redirect {self._redirect}, and set client_id in the server's auth",
        )

    async def forget(self, client: ClientIdentity) -> None:
        """Delete a registration, unless it is another one by now."""
        if client.source != "registered":
            return
        address = self._address(client.issuer)
        found = await self._secrets.read(address)
        if found is not None and (known := _registration(found.value)) and known.client.id == client.id:
            await self._secrets.delete(address, found.version)

    async def doubt(self, client: ClientIdentity) -> None:
        """A flow leaves with this client, and may not come back."""
        await self._mark(client, doubted=True)

    async def proved(self, client: ClientIdentity) -> None:
        """A flow ended well with this client."""
        await self._mark(client, doubted=False)

    async def _mark(self, client: ClientIdentity, *, doubted: bool) -> None:
        if client.source != "registered":
            return
        address = self._address(client.issuer)
        found = await self._secrets.read(address)
        known = None if found is None else _registration(found.value)
        if found is None or known is None or known.client.id != client.id or known.doubted == doubted:
            return
        await self._secrets.replace(
            address, msgspec.json.encode(replace(known, doubted=doubted)), found.version
        )

    async def _registered(
        self, authority: AuthorityInfo, scopes: tuple[str, ...], failed: str
    ) -> ClientIdentity:
        address = self._address(authority.issuer)
        found = await self._secrets.read(address)
        known = None if found is None else _registration(found.value)
        ended = known is not None and 0 < known.expires <= self._clock() + FLOW_SECONDS
        usable = known is not None and not known.doubted and not ended and known.client.id != failed
        if known is not None and usable and {*scopes} <= {*known.scopes}:
            return known.client
        made = await self._register(authority, scopes)
        seen = None if found is None else found.version
        if await self._secrets.replace(address, msgspec.json.encode(made), seen) is None:
            newer = await self._secrets.read(address)
            theirs = None if newer is None else _registration(newer.value)
            return made.client if theirs is None else theirs.client
        return made.client

    async def _confirm_issuer(self, issuer: str) -> None:
        """A configured client belongs to the issuer that it was first used at, unless one is configured.

        Otherwise a server could have its secret sent anywhere by naming another issuer.
        """
        if self._settings.issuer:
            return
        address = replace(self._address(""), name=f"issuer of {self._settings.client_id}")
        if await self._secrets.replace(address, issuer.encode(), None) is not None:
            return
        found = await self._secrets.read(address)
        if found is not None and found.value != issuer.encode():
            known = shown_url(found.value.decode())
            raise NoClientError(
                f"'client_id' belongs to {known}, and the server names {shown_url(issuer)} now",
                "if it has moved, register a client there, and set client_id and issuer in the server's auth",
            )

    async def _register(self, authority: AuthorityInfo, scopes: tuple[str, ...]) -> _Registration:
        method = _preferred(authority.auth_methods)
        grants = ["authorization_code", "refresh_token"]
        if authority.device_endpoint and DEVICE_GRANT in authority.grant_types:
            grants.append(DEVICE_GRANT)
        document = {
            "client_name": CLIENT_NAME,
            "redirect_uris": [self._redirect],
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": self._application,
            **({"scope": " ".join(scopes)} if scopes else {}),
        }
        reply = await self._fetcher.post_json(authority.registration_endpoint, document)
        members = reply.json()
        if reply.status >= 500 or reply.status == 429:
            raise AuthorityUnavailableError(
                f"{shown_url(authority.registration_endpoint)} answered {reply.status}"
            )
        found = members.get("client_id") if members is not None and reply.status in (200, 201) else None
        if members is None or not isinstance(found, str) or not _CLIENT_ID.fullmatch(found):
            code = shown_code((members or {}).get("error"))
            raise NoClientError(
                f"{shown_url(authority.issuer)} refused to register a client ({reply.status}, {code})",
                "set client_id in the server's auth to one that you registered there",
            )
        registration = self._read_registration(members, found, authority.issuer, method)
        return replace(registration, scopes=scopes)

    def _read_registration(
        self, members: Mapping[str, Any], id: str, issuer: str, asked: str
    ) -> _Registration:
        """An issuer may register something else than what was asked for: it has to be something of use."""
        redirects, method = members.get("redirect_uris"), members.get("token_endpoint_auth_method", asked)
        secret, ends = members.get("client_secret", ""), members.get("client_secret_expires_at", 0)
        problem = ""
        if isinstance(redirects, list) and self._redirect not in redirects:
            problem = "for another redirect"
        elif method not in _METHODS:
            problem = "with a method that we do not have"
        elif method != "none" and not (isinstance(secret, str) and secret):
            problem = "without its secret"
        if problem:
            raise NoClientError(
                f"{shown_url(issuer)} registered a client {problem}",
                "set client_id in the server's auth to one that you registered there",
            )
        client = ClientIdentity(
            id=id,
            issuer=issuer,
            secret=secret if isinstance(secret, str) and method != "none" else "",
            method=method,
            source="registered",
            redirect=self._redirect,
        )
        expires = float(ends) if isinstance(ends, int | float) and method != "none" else 0.0
        return _Registration(client=client, expires=expires)

    def _address(self, issuer: str) -> SecretAddress:
        return SecretAddress(
            tenant=self._tenant, kind="registration", upstream=self._server, name=f"{issuer} {self._redirect}"
        )


def configured_client(settings: OAuthAuth, authority: AuthorityInfo) -> ClientIdentity:
    method = settings.token_auth
    if method == "auto":
        if settings.private_key:
            method = "private_key_jwt"
        elif not settings.client_secret:
            method = "none"
        else:
            offered = authority.auth_methods
            by_post = "client_secret_post" in offered and "client_secret_basic" not in offered
            method = "client_secret_post" if by_post else "client_secret_basic"
    return ClientIdentity(
        id=settings.client_id, issuer=authority.issuer, secret=settings.client_secret, method=method
    )


def _preferred(offered: tuple[str, ...]) -> str:
    """A client on a desktop keeps no secret, so none is the honest choice where it is offered."""
    return next((method for method in _METHODS if method in offered), "none")


def _registration(value: bytes) -> _Registration | None:
    try:
        return msgspec.json.decode(value, type=_Registration)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# Device flow (RFC 8628)


class DeviceAuthorization(Struct, frozen=True, kw_only=True):
    user_code: str
    address: str
    """Where the user types the code."""
    complete_address: str = ""
    """The same with the code in it."""


class _DeviceReply(Struct):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 600.0
    interval: float = 5.0


async def authorize_device(
    fetcher: GuardedFetcher,
    settings: OAuthAuth,
    secrets: SecretStore,
    protection: ServerProtection,
    challenge: Challenge,
    *,
    server: str,
    server_url: str,
    tenant: str,
    redirect: str,
    show: Callable[[DeviceAuthorization], None],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.time,
) -> TokenRecord:
    """Ask the user to agree on another device, and wait until they did."""
    authority = protection.authority
    if not authority.device_endpoint:
        raise NoClientError(f"{shown_url(authority.issuer)} has no device codes", "log in without --device")
    registrations = ClientRegistrations(
        fetcher, settings, secrets, server=server, tenant=tenant, redirect=redirect, application="native"
    )
    scopes = choose_scopes(settings, challenge, protection)
    client = await registrations.get(authority, scopes)
    resource = resource_of(settings, server_url, protection)
    dpop_key = new_dpop_key() if settings.dpop else None
    endpoint = TokenEndpoint(
        fetcher,
        authority.token_endpoint,
        client,
        key=signing_key(settings),
        dpop=None if dpop_key is None else DpopKey(dpop_key, clock),
        clock=clock,
    )
    form = {"client_id": client.id}
    form |= {"scope": " ".join(scopes)} if scopes else {}
    form |= {"resource": resource} if resource else {}
    members, headers = endpoint.authenticated(form)
    reply = await fetcher.post_form(authority.device_endpoint, members, headers)
    try:
        begun = msgspec.json.decode(reply.body, type=_DeviceReply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = shown_code((reply.json() or {}).get("error"))
        if code in ("invalid_client", "unauthorized_client"):
            await registrations.forget(client)  # the next attempt makes another
        raise GrantRefusedError(f"{shown_url(authority.issuer)} gave no device code ({code})", code) from None
    for address in (begun.verification_uri, begun.verification_uri_complete or begun.verification_uri):
        fetcher.check(address)
    show(
        DeviceAuthorization(
            user_code="".join(sign if sign.isprintable() else "?" for sign in begun.user_code[:40]),
            address=begun.verification_uri,
            complete_address=begun.verification_uri_complete,
        )
    )
    pause, until = max(1.0, begun.interval), clock() + min(begun.expires_in, 1800.0)
    asked = {"grant_type": DEVICE_GRANT, "device_code": begun.device_code}
    asked |= {"resource": resource} if resource else {}
    while clock() < until:
        await sleep(pause)
        try:
            token = await endpoint.request(asked)
        except GrantRefusedError as error:
            if error.code == "access_denied":
                raise ConsentDeniedError("access was denied on the other device", "log in again") from None
            if error.code == "expired_token":
                break
            if error.code != "authorization_pending":
                raise
        except AuthorityUnavailableError:  # also slow_down
            pause += 5.0
        else:
            await registrations.proved(client)
            return TokenRecord(
                access_token=token.access_token,
                token_type=token.token_type,
                obtained=clock(),
                granted=clock(),
                lifetime=token.lifetime,
                refresh_token=token.refresh_token,
                scopes=scopes if token.scopes is None else token.scopes,
                issuer=authority.issuer,
                token_endpoint=authority.token_endpoint,
                revocation_endpoint=authority.revocation_endpoint,
                client=client,
                resource=resource,
                server_url=server_url,
                dpop_key=dpop_key,
            )
    raise ConsentDeniedError("nobody entered the code in time", "log in again")


__all__ = [
    "CodeFlow",
    "DeviceAuthorization",
    "Discovery",
    "PendingAuthorization",
    "ServerProtection",
    "authorize_device",
    "scopes_of",
]
