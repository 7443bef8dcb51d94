"""Logins: what a user has allowed a client, with its codes and tokens.

A login is a family of tokens. The store has one record of it, which says whose it is, for which client, what
it may, and how often its refresh token was renewed. Tokens are sealed with the gateway's key and name their
login, so the store has no secret that lets anybody in.

A refresh token counts once. Whoever shows the last but one within `GRACE_SECONDS` gets the same successor, as
two processes of a client do that renew at once; whoever shows an older one has a copy, and the login ends.
"""

import base64
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..callers.claims import accepted_audiences, check_scopes
from ..callers.errors import InvalidTokenError, RefusedTokenError, VerifierUnavailableError
from ..config.callers import LoginServerConfig
from ..state.store import State, StateError
from ..wire.call import Principal
from ..wire.seal import BrokenSeal, Sealer

logger = logging.getLogger("toolyard.authserver")

ACCESS_PREFIX, REFRESH_PREFIX, CODE_PREFIX = "tyl_", "tyr_", "tyo_"
CODE_SECONDS = 60.0
CODE_KEPT = 15 * 60.0
"""How long it is remembered that a code was used, so that a second use ends the login."""
GRACE_SECONDS = 45.0
ENDED_KEPT = 7 * 86400.0
"""A login that has ended stays in the list this long."""
LEEWAY = 60.0
"""Seconds by which the clocks of replicas may differ."""
_ATTEMPTS = 10
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")

Ending = Literal["", "revoked", "reused"]


class TokenRequestError(Exception):
    """`code` is that of RFC 6749; the description has no secret in it."""

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.status = status


class SignedIn(Struct, frozen=True, kw_only=True):
    """A person who has shown who they are: here, or at the issuer."""

    subject: str
    tenant: str
    issuer: str = ""
    """Empty for a local user."""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """Those that this person may give to a client, beside those that everybody may."""
    version: str = ""
    """Of a local user's record."""


class Login(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a login."""

    id: str
    person: SignedIn
    client: str
    """The client's label."""
    client_id: str
    """A digest: the id of a registered client is long."""
    client_name: str = ""
    scopes: tuple[str, ...]
    resource: str
    created: float
    expires: float
    generation: int = 0
    """How often its refresh token was renewed."""
    renewed: float = 0.0
    ended: Ending = ""

    def state(self, now: float) -> str:
        return self.ended or ("expired" if now >= self.expires else "valid")


class CodeRequest(Struct, frozen=True, kw_only=True):
    """What a code is bound to."""

    client_id: str
    client: str
    client_name: str
    redirect_uri: str
    is_redirect_given: bool
    """Whether the request named it, so that the client has to repeat it."""
    challenge: str
    scopes: tuple[str, ...]
    resource: str


class _Code(Struct, frozen=True, kw_only=True, omit_defaults=True):
    request: CodeRequest | None = None
    person: SignedIn | None = None
    expires: float = 0.0
    login: str = ""
    """Set once it was used."""


class _Access(Struct, frozen=True, array_like=True):
    login: str
    expires: int
    resource: str
    scopes: tuple[str, ...]
    nonce: str


class _Refresh(Struct, frozen=True, array_like=True):
    login: str
    generation: int


class IssuedTokens(Struct, frozen=True):
    access: str
    refresh: str
    expires_in: int
    scopes: tuple[str, ...]

    def answer(self) -> dict[str, object]:
        return {
            "access_token": self.access,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": self.refresh,
            "scope": " ".join(self.scopes),
        }


def is_challenge(text: str) -> bool:
    """Whether it can be a challenge of S256."""
    return _CHALLENGE.fullmatch(text) is not None


class Logins:
    """The logins of one gateway. A `TokenVerifier` for their access tokens."""

    def __init__(
        self,
        state: State,
        gateway: str,
        sealer: Sealer,
        config: LoginServerConfig,
        *,
        endpoint: str = "/mcp",
        required: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        """`required` are the scopes that every token needs."""
        self._state = state
        self._start = f"logins:{quote(gateway, safe='')[:200]}"
        self._sealer = sealer
        self._config = config
        self._endpoint = endpoint
        self._required = tuple(required)
        self._now = now

    # Codes

    async def issue_code(self, request: CodeRequest, person: SignedIn) -> str:
        """A code that counts once, for a minute, for this client, redirect and verifier."""
        code = CODE_PREFIX + secrets.token_urlsafe(32)
        kept = _Code(request=request, person=person, expires=self._now() + CODE_SECONDS)
        await self._state.put(self._code_key(code), msgspec.json.encode(kept), CODE_SECONDS)
        return code

    async def redeem(
        self, code: str, client_id: str, redirect_uri: str, verifier: str, resource: str
    ) -> IssuedTokens:
        """Raises TokenRequestError. A code that is shown twice ends the login that it led to."""
        place = self._code_key(code)
        raw = await self._state.get(place)
        if raw is None:
            raise _bad_grant("the code is unknown or has expired")
        kept = msgspec.json.decode(raw, type=_Code)
        if kept.login or kept.request is None or kept.person is None:
            logger.warning("the code of the login %r was shown a second time: the login ends", kept.login)
            await self.end(kept.login, "reused")
            raise _bad_grant("the code was used before")
        request = kept.request
        if not hmac.compare_digest(client_id.encode(), request.client_id.encode()):
            raise _bad_grant("the code is for another client")
        if self._now() >= kept.expires:
            raise _bad_grant("the code is unknown or has expired")
        if redirect_uri != request.redirect_uri and (redirect_uri or request.is_redirect_given):
            raise _bad_grant("redirect_uri is not the one of the authorization request")
        if not _matches(verifier, request.challenge):
            raise _bad_grant("code_verifier does not match")
        self._check_resource(resource, request.resource)
        login = self._new_login(request, kept.person)
        # Written first, so that whoever shows the code a second time finds what to end.
        await self._write(login)
        if not await self._state.swap(place, raw, msgspec.json.encode(_Code(login=login.id)), CODE_KEPT):
            await self._state.delete(self._login_key(login.id))
            return await self.redeem(code, client_id, redirect_uri, verifier, resource)
        return self._tokens(login, login.scopes)

    def _new_login(self, request: CodeRequest, person: SignedIn) -> Login:
        now = self._now()
        return Login(
            id=secrets.token_hex(8),
            person=person,
            client=request.client,
            client_id=self._digest(request.client_id),
            client_name=request.client_name,
            scopes=request.scopes,
            resource=request.resource,
            created=now,
            expires=now + self._config.refresh_ttl,
            renewed=now,
        )

    # Refreshing

    async def of_refresh_token(self, token: str) -> Login | None:
        try:
            return await self.find(self._open_refresh(token).login)
        except TokenRequestError:
            return None

    async def refresh(self, token: str, client_id: str, scopes: Sequence[str], resource: str) -> IssuedTokens:
        """Raises TokenRequestError."""
        shown = self._open_refresh(token)
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(self._login_key(shown.login))
            if raw is None:
                raise _bad_grant("the login has ended")
            login = msgspec.json.decode(raw, type=Login)
            now = self._now()
            if login.state(now) != "valid":
                raise _bad_grant("the login has ended")
            if not hmac.compare_digest(login.client_id, self._digest(client_id)):
                raise _bad_grant("the token is of another client")
            self._check_resource(resource, login.resource)
            if not set(scopes) <= set(login.scopes):
                raise TokenRequestError("invalid_scope", "the user has not allowed these scopes")
            granted = tuple(scopes) or login.scopes
            if shown.generation == login.generation:
                renewed = replace(login, generation=login.generation + 1, renewed=now)
                left = max(1.0, login.expires - now) + ENDED_KEPT
                encoded = msgspec.json.encode(renewed)
                if await self._state.swap(self._login_key(login.id), raw, encoded, left):
                    return self._tokens(renewed, granted)
                continue  # somebody was faster: the next round sees what they wrote
            if shown.generation == login.generation - 1 and abs(now - login.renewed) <= GRACE_SECONDS:
                return self._tokens(login, granted)
            logger.warning("an old refresh token of the login %r was shown: the login ends", login.id)
            await self.end(login.id, "reused")
            raise _bad_grant("the token was used before; the login has ended")
        raise TokenRequestError("temporarily_unavailable", "try again", 503)

    def _tokens(self, login: Login, scopes: tuple[str, ...]) -> IssuedTokens:
        now = self._now()
        life = int(min(self._config.access_ttl, max(1.0, login.expires - now)))
        access = _Access(login.id, int(now) + life, login.resource, scopes, secrets.token_hex(8))
        refresh = _Refresh(login.id, login.generation)
        return IssuedTokens(
            ACCESS_PREFIX + self._sealer.seal(msgspec.json.encode(access), "login-access"),
            REFRESH_PREFIX + self._sealer.seal(msgspec.json.encode(refresh), "login-refresh"),
            life,
            scopes,
        )

    def _open_refresh(self, token: str) -> _Refresh:
        try:
            raw = self._sealer.open(token.removeprefix(REFRESH_PREFIX), "login-refresh")
            if token.startswith(REFRESH_PREFIX):
                return msgspec.json.decode(raw, type=_Refresh)
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise _bad_grant("the refresh token is not valid")

    def _open_access(self, token: str) -> _Access:
        try:
            raw = self._sealer.open(token.removeprefix(ACCESS_PREFIX), "login-access")
            return msgspec.json.decode(raw, type=_Access)
        except (BrokenSeal, msgspec.DecodeError):
            raise RefusedTokenError("The token was not made by this gateway") from None

    # Verifying

    def recognizes(self, token: str) -> bool:
        return token.startswith(ACCESS_PREFIX)

    async def verify(self, token: str, resource: str) -> Principal:
        access = self._open_access(token)
        now = self._now()
        if now >= access.expires:
            raise RefusedTokenError("The token has expired")
        if access.expires - now > self._config.access_ttl + LEEWAY:
            raise RefusedTokenError("The token is not valid yet")  # made while the clock was ahead
        accepted = accepted_audiences((), resource, self._endpoint)
        if access.resource not in accepted:
            raise RefusedTokenError("The token is for another audience")
        try:
            login = await self.find(access.login)
        except StateError as error:
            raise VerifierUnavailableError(error.message) from None
        if login is None or login.state(now) != "valid":
            raise InvalidTokenError(f"the login {access.login!r} has ended")
        person = login.person
        principal = Principal(
            tenant=person.tenant,
            subject=person.subject,
            issuer=person.issuer,
            client=login.client,
            groups=frozenset(person.groups),
            scopes=frozenset(access.scopes),
            kind="login",
            credential=login.id,
            expires=float(access.expires),
        )
        check_scopes(principal, self._required)
        return principal

    # Managing

    async def find(self, id: str) -> Login | None:
        raw = await self._state.get(self._login_key(id))
        return None if raw is None else msgspec.json.decode(raw, type=Login)

    async def list(self) -> list[Login]:
        """All of them, those that ended lately included, the newest first."""
        keys = await self._state.keys(self._login_key(""))
        found = [await self._state.get(key) for key in keys]
        logins = [msgspec.json.decode(raw, type=Login) for raw in found if raw is not None]
        return sorted(logins, key=lambda login: -login.created)

    async def revoke(self, token: str, client_id: str) -> bool:
        """End the login of an access or refresh token, if it is this client's."""
        try:
            is_access = self.recognizes(token)
            id = self._open_access(token).login if is_access else self._open_refresh(token).login
        except (InvalidTokenError, TokenRequestError):
            return False
        login = await self.find(id)
        if login is None or not hmac.compare_digest(login.client_id, self._digest(client_id)):
            return False
        return await self.end(id, "revoked")

    async def end(self, id: str, how: Ending) -> bool:
        """Takes effect at every gateway within seconds. Returns whether there was something to end."""
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(self._login_key(id)) if id else None
            if raw is None:
                return False
            login = msgspec.json.decode(raw, type=Login)
            if login.ended:
                return False
            ended = msgspec.json.encode(replace(login, ended=how))
            if await self._state.swap(self._login_key(id), raw, ended, ENDED_KEPT):
                return True
        raise StateError(f"the login {id!r} is being changed by others", "try again")

    async def update(self, login: Login, person: SignedIn, scopes: tuple[str, ...]) -> None:
        """Note that a person's groups or scopes have changed."""
        place = self._login_key(login.id)
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(place)
            if raw is None or (known := msgspec.json.decode(raw, type=Login)).ended:
                return
            changed = msgspec.json.encode(replace(known, person=person, scopes=scopes))
            left = max(1.0, known.expires - self._now()) + ENDED_KEPT
            if await self._state.swap(place, raw, changed, left):
                return

    async def _write(self, login: Login) -> None:
        left = max(1.0, login.expires - self._now()) + ENDED_KEPT
        await self._state.put(self._login_key(login.id), msgspec.json.encode(login), left)

    def _check_resource(self, asked: str, allowed: str) -> None:
        if asked and asked.rstrip("/") != allowed:
            raise TokenRequestError("invalid_target", "the user has allowed another resource")

    def _digest(self, client_id: str) -> str:
        return hashlib.sha256(client_id.encode()).hexdigest()

    def _login_key(self, id: str) -> str:
        return f"{self._start}:login:{id}"

    def _code_key(self, code: str) -> str:
        return f"{self._start}:code:{hashlib.sha256(code.encode()).hexdigest()}"


def _matches(verifier: str, challenge: str) -> bool:
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode())


def _bad_grant(description: str) -> TokenRequestError:
    return TokenRequestError("invalid_grant", description)
