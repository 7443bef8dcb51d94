"""Where tokens come from: a user in front of this program, or a request that needs nobody.

`UserSource` runs the authorization code flow and waits for its end, for programs with a user.
`MachineSource` has the modes without one: client credentials, token exchange (RFC 8693), enterprise-managed
authorization (ID-JAG) and workload identity (RFC 7523). What is exchanged is a token of the configuration, or
the one with which a caller came (`CallerSubject`).
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from ...callers.issuer_client import is_secure
from ...config.server_auth import IdentityProvider, OAuthAuth
from ...wire.call import Secret
from .authorization import (
    CodeFlow,
    Discovery,
    ServerProtection,
    choose_scopes,
    configured_client,
    resource_of,
    signing_key,
)
from .errors import (
    GrantRefusedError,
    NoClientError,
    OAuthError,
    UnknownClientError,
    UntrustedAuthorityError,
)
from .fetching import GuardedFetcher, shown_url
from .metadata import Challenge
from .proofs import DpopKey, new_dpop_key
from .token_endpoint import (
    ACCESS_TOKEN_TYPE,
    ID_JAG_TYPE,
    ID_TOKEN_TYPE,
    JWT_BEARER_GRANT,
    TOKEN_EXCHANGE,
    ClientIdentity,
    TokenEndpoint,
    TokenReply,
)
from .tokens import TokenRecord, TokenStore

Authorize = Callable[[str], Awaitable[str]]
"""Has the user open an address, and returns the address that the browser was sent to in the end."""
MAX_ASSERTION = 64 * 1024
_REFUSED = {
    "invalid_grant": "it does not accept the token that you came with; get a new one, and call again",
    "invalid_request": "it does not accept the token that you came with; get a new one, and call again",
    "invalid_target": "it gives no tokens for this server; whoever runs the gateway has to register it there",
    "invalid_scope": "it does not give you the scopes that the server asks for",
    "access_denied": "it does not let you use this server; whoever runs it can",
}
"""What a caller can do about it, by the issuer's error code."""


def answer_in(url: str) -> dict[str, str]:
    """The parameters of an authorization response; one that comes twice is not believed."""
    pairs = parse_qsl(urlsplit(url.strip()).query, keep_blank_values=True)
    if len({name for name, _ in pairs}) != len(pairs):
        raise OAuthError("the answer has a parameter twice", "begin the login again")
    return dict(pairs)


class UserSource:
    """A user who agrees while the program waits."""

    def __init__(self, discovery: Discovery, flow: CodeFlow, authorize: Authorize) -> None:
        self._discovery = discovery
        self._flow = flow
        self._authorize = authorize

    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        protection = await self._discovery.find(challenge)
        same = before is not None and before.issuer == protection.authority.issuer
        earlier = before.scopes if before is not None and same and challenge.wants_scopes else ()
        try:
            return await self._attempt(protection, challenge, earlier)
        except UnknownClientError:
            # The issuer has forgotten our registration; it was dropped, and a new one is made.
            return await self._attempt(protection, challenge, earlier)

    async def _attempt(
        self, protection: ServerProtection, challenge: Challenge, earlier: tuple[str, ...]
    ) -> TokenRecord:
        pending = await self._flow.begin(protection, challenge, earlier)
        await self._flow.mark_sent(pending)
        return await self._flow.finish(pending, answer_in(await self._authorize(pending.url)))

    async def forget_client(self, client: ClientIdentity) -> None:
        await self._flow.forget_client(client)


class CallerSubject:
    """The token with which a caller came, as long as a call runs that brought it."""

    def __init__(self, expires: float | None, brought: Callable[[], Sequence[Secret]]) -> None:
        """`brought` are those of the calls that run now; each is the same token."""
        self.expires = expires
        self._brought = brought

    def reveal(self, now: float) -> str:
        """For the one request that exchanges it. Raises OAuthError if no call with it is there any more."""
        if self.expires is not None and now >= self.expires:
            raise OAuthError("the token that you came with has ended", "call again with a new one")
        for token in self._brought():
            with contextlib.suppress(RuntimeError):  # its request is over
                return token.reveal()
        raise OAuthError(
            "it is exchanged for the token that a request brings, and the request is over", "call again"
        )

    def remaining(self, lifetime: float | None, now: float) -> float | None:
        """How long a token may be used that was got for this one: no longer than this one."""
        if self.expires is None:
            return lifetime
        left = max(0.0, self.expires - now)
        return left if lifetime is None else min(lifetime, left)


class MachineSource:
    """Requests that need nobody: what they show is in the configuration, or is a caller's token."""

    def __init__(
        self,
        fetcher: GuardedFetcher,
        settings: OAuthAuth,
        url: str,
        tokens: TokenStore,
        subject: CallerSubject | None = None,
    ) -> None:
        """`subject` is what is exchanged where that is not `subject_token`."""
        self._fetcher = fetcher
        self._settings = settings
        self._subject = subject
        self._url = url
        self._clock = tokens.clock
        self._discovery = Discovery(fetcher, url, settings)

    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        settings = self._settings
        protection = await self._discovery.find(challenge)
        authority = protection.authority
        known = before is not None and before.server_url == self._url and not settings.issuer
        if known and before is not None and before.issuer != authority.issuer:
            # What is shown there belongs to one issuer: a server cannot have it sent elsewhere.
            raise NoClientError(
                f"its tokens came from {shown_url(before.issuer)}, "
                f"and it names {shown_url(authority.issuer)} now",
                "if it has moved, set 'issuer' in the server's auth",
            )
        client = configured_client(settings, authority) if settings.client_id else None
        resource = resource_of(settings, self._url, protection)
        earlier = before.scopes if before is not None and challenge.wants_scopes else ()
        scopes = tuple(
            scope
            for scope in choose_scopes(settings, challenge, protection, earlier)
            if scope != "offline_access"
        )
        form = await self._form(protection, resource)
        form |= {"scope": " ".join(scopes)} if scopes else {}
        form |= {"resource": resource} if resource else {}
        form |= {"audience": settings.audience} if settings.audience else {}
        dpop_key = None
        if settings.dpop:
            dpop_key = before.dpop_key if before is not None and before.dpop_key else new_dpop_key()
        endpoint = TokenEndpoint(
            self._fetcher,
            authority.token_endpoint,
            client,
            key=signing_key(settings),
            dpop=None if dpop_key is None else DpopKey(dpop_key, self._clock),
            clock=self._clock,
        )
        reply = await self._request(endpoint, form)
        now, lifetime = self._clock(), reply.lifetime
        return TokenRecord(
            access_token=reply.access_token,
            token_type=reply.token_type,
            obtained=now,
            lifetime=lifetime if self._subject is None else self._subject.remaining(lifetime, now),
            scopes=scopes if reply.scopes is None else reply.scopes,
            issuer=authority.issuer,
            token_endpoint=authority.token_endpoint,
            revocation_endpoint=authority.revocation_endpoint,
            client=client or ClientIdentity(id="", issuer=authority.issuer),
            resource=resource,
            server_url=self._url,
            dpop_key=dpop_key,
        )

    async def forget_client(self, client: ClientIdentity) -> None:
        """Clients of machines are configured: there is nothing to forget."""

    async def _form(self, protection: ServerProtection, resource: str) -> dict[str, str]:
        mode = self._settings.mode
        if mode == "client_credentials":
            return {"grant_type": "client_credentials"}
        if mode == "token_exchange":
            return {
                "grant_type": TOKEN_EXCHANGE,
                "requested_token_type": ACCESS_TOKEN_TYPE,
                **self._exchanged(protection.authority.token_endpoint, ACCESS_TOKEN_TYPE),
            }
        if mode == "id_jag":
            return {"grant_type": JWT_BEARER_GRANT, "assertion": await self._id_jag(protection, resource)}
        if mode == "workload_identity":
            return {"grant_type": JWT_BEARER_GRANT, "assertion": self._assertion()}
        raise NoClientError(f"{mode!r} needs a user")

    def _exchanged(self, endpoint: str, usual: str) -> dict[str, str]:
        """What is exchanged at `endpoint`; `usual` is its type if all callers share it."""
        kind = self._settings.subject_token_type
        if self._subject is None:
            return {"subject_token": self._settings.subject_token, "subject_token_type": kind or usual}
        if not is_secure(endpoint):
            raise UntrustedAuthorityError(
                f"{shown_url(endpoint)} is not an https address", "callers' tokens are sent nowhere else"
            )
        token = self._subject.reveal(self._clock())
        return {"subject_token": token, "subject_token_type": kind or ACCESS_TOKEN_TYPE}

    async def _request(self, endpoint: TokenEndpoint, form: Mapping[str, str]) -> TokenReply:
        try:
            return await endpoint.request(form)
        except GrantRefusedError as error:
            if self._subject is None or isinstance(error, UnknownClientError):
                hint = f"check the server's auth ({self._settings.mode})"
            else:
                hint = _REFUSED.get(error.code, "its operator decides what may be exchanged")
            raise OAuthError(error.message, hint) from None

    async def _id_jag(self, protection: ServerProtection, resource: str) -> str:
        """The first leg: at the identity provider, the ID token becomes an assertion for the issuer."""
        provider = self._settings.identity_provider
        assert provider is not None, "the configuration was checked"
        form: Mapping[str, str] = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG_TYPE,
            "audience": protection.authority.issuer,
            **self._exchanged(provider.token_endpoint, ID_TOKEN_TYPE),
            **({"resource": resource} if resource else {}),
            **({"scope": " ".join(self._settings.scopes)} if self._settings.scopes else {}),
        }
        endpoint = TokenEndpoint(
            self._fetcher, provider.token_endpoint, _client_of(provider), clock=self._clock
        )
        return (await self._request(endpoint, form)).access_token

    def _assertion(self) -> str:
        """The workload's own token: whoever runs it puts a fresh one there."""
        try:
            with Path(self._settings.assertion_file).open("rb") as file:
                text = file.read(MAX_ASSERTION).decode().strip()
        except (OSError, UnicodeDecodeError):
            text = ""
        if not text:
            raise OAuthError(
                "the file with the workload's token cannot be read",
                "see 'assertion_file' of the server's auth",
            )
        return text


def _client_of(provider: IdentityProvider) -> ClientIdentity:
    method = "client_secret_post" if provider.client_secret else "none"
    return ClientIdentity(id=provider.client_id, issuer="", secret=provider.client_secret, method=method)
