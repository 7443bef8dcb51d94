"""One principal's credential at one server: sends it, renews it in time, and answers the server's challenges.

`OAuthSession` is what a connection asks for headers (`EndpointAuth`). Where a token comes from is the work of
a `TokenSource`: a user who agrees, or a request that needs nobody (`grants`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from ...config.server_auth import OAuthAuth
from ...state.memory import MemoryState
from ...upstream.errors import CredentialError, UpstreamError
from ...vault.base import SecretAddress, VaultError
from .authorization import Discovery, signing_key
from .errors import (
    AuthorityUnavailableError,
    GrantRefusedError,
    OAuthError,
    UnknownClientError,
    UntrustedAuthorityError,
)
from .fetching import SECONDS, GuardedFetcher
from .grants import CallerSubject, MachineSource
from .metadata import Challenge, read_challenge
from .proofs import DpopKey
from .token_endpoint import ClientIdentity, TokenEndpoint
from .tokens import HeldToken, ProcessSecrets, TokenRecord, TokenStore

if TYPE_CHECKING:
    from yarl import URL

logger = logging.getLogger("toolyard.oauth")

RECHECK_SECONDS = 30.0
"""After this time the store is asked again whether the token is still there."""
LOOK_SECONDS = 0.5
"""The same while the token is being refreshed, here or elsewhere."""
RETRY_SECONDS = 5.0
"""After a failed refresh a token that is still good is used for so long before the next attempt."""
YOUNG_SECONDS = 5.0
"""A token that is refused at this age is not refreshed: another one would not do better."""
MAX_STEP_UPS = 2
MAX_SCOPE_SETS = 50
"""A server that asks for ever other scopes is not followed without end."""


class TokenSource(Protocol):
    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        """A token that the challenge asks for.

        Raises ConsentRequiredError if its owner has to agree first, OAuthError if there is no way to one.
        """
        ...

    async def forget_client(self, client: ClientIdentity) -> None:
        """The issuer does not know this client any more."""
        ...


class OAuthSession:
    def __init__(
        self,
        server: str,
        url: str,
        settings: OAuthAuth,
        address: SecretAddress,
        tokens: TokenStore,
        fetcher: GuardedFetcher,
        source: TokenSource,
    ) -> None:
        self.server = server
        self.url = url
        self._settings = settings
        self.address = address
        self._tokens = tokens
        self._fetcher = fetcher
        self._source = source
        self._held: HeldToken | None = None
        self._forgotten = 0
        self._headers: Mapping[str, str] = {}
        self._fresh_until = float("-inf")
        self._dpop: DpopKey | None = None
        self._working: asyncio.Task[HeldToken] | None = None
        self.challenge = Challenge()
        """The last one of the server."""
        self._step_ups: dict[tuple[str, ...], list[float]] = {}
        """For each set of scopes that the server asked for: the grants, by time, that did not have them."""

    @property
    def in_use(self) -> str:
        """The token that is sent now; empty if there is none."""
        return "" if self._held is None else self._held.record.access_token

    # Before a request

    def ready(self, method: str, url: "URL") -> Mapping[str, str] | None:
        """`self._headers` are the same for all requests, but those of DPoP, which proves each by itself."""
        if time.monotonic() >= self._fresh_until:
            return None
        return self._headers if self._dpop is None else self._proved(method, url)

    @property
    def is_ready(self) -> bool:
        return time.monotonic() < self._fresh_until

    async def prepare(self) -> None:
        await self._has_token()

    async def headers(self, method: str, url: "URL") -> Mapping[str, str]:
        """Raises CredentialError. Without a token there are none: the server's refusal says what it wants."""
        if not await self._has_token():
            return {}
        return self._headers if self._dpop is None else self._proved(method, url)

    async def _has_token(self) -> bool:
        try:
            while True:
                before = self._forgotten
                held = await self._current()
                if before == self._forgotten:  # else it may have been read before it was deleted
                    break
        except OAuthError as error:
            raise self._failed(error) from error
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        if held is None:
            return False
        self._use(held)
        return True

    async def _current(self) -> HeldToken | None:
        held = await self._load()
        if held is None or held.record.refused:
            return None
        record = held.record
        left = record.seconds_left(self._tokens.clock())
        if left > record.margin:
            return held
        if not record.refresh_token:
            return held if left > 0 else None
        work = self._renew_in_background(held, Challenge())
        if left > 0:  # good for this request: nobody waits for the next one
            return held
        found = await asyncio.shield(work)
        return None if found.record.refused else found

    async def _load(self) -> HeldToken | None:
        held = await self._tokens.load(self.address)
        # A token is for the address that it was obtained for, not for whatever has its name now.
        return None if held is None or held.record.server_url != self.url else held

    def _use(self, held: HeldToken) -> None:
        record = held.record
        if self._held is None or self._held.version != held.version:
            self._headers = {"Authorization": f"{record.token_type} {record.access_token}"}
            bound = record.token_type == "DPoP" and record.dpop_key is not None
            self._dpop = DpopKey(record.dpop_key or {}, self._tokens.clock) if bound else None
        self._held = held
        left = record.seconds_left(self._tokens.clock())
        early = left - record.margin
        # Within the margin a refresh is under way: the store is asked again soon.
        known = min(early, RECHECK_SECONDS) if early > 0 else min(max(left, 0.0), LOOK_SECONDS)
        self._fresh_until = time.monotonic() + known

    def _proved(self, method: str, url: "URL") -> Mapping[str, str]:
        assert self._dpop is not None
        assert self._held is not None
        proof = self._dpop.proof(method, str(url), self._held.record.access_token)
        return {**self._headers, "DPoP": proof}

    def _failed(self, error: OAuthError) -> CredentialError:
        if isinstance(error, AuthorityUnavailableError):
            reason = f"no token for it now, because its issuer does not answer: {error.message}; try later"
            return CredentialError(self.server, reason)
        hint = f" ({error.hint})" if error.hint else ""
        return CredentialError(self.server, f"no token for it — {error.message}{hint}")

    # After a refusal

    async def refused(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str], url: "URL", attempt: int
    ) -> bool:
        challenge = read_challenge(status, headers.get("WWW-Authenticate", ""))
        self.challenge = challenge
        nonce = headers.get("DPoP-Nonce", "")
        if self._dpop is not None and self._dpop.note_nonce(str(url), nonce) and challenge.wants_nonce:
            return True
        if status == 403 and not challenge.wants_scopes:
            return False
        try:
            return await self._answer(challenge, sent.get("Authorization", ""), attempt)
        except OAuthError as error:
            raise self._failed(error) from error
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error

    async def _answer(self, challenge: Challenge, used: str, attempt: int) -> bool:
        held = await self._load()
        if held is not None and not held.record.refused:
            if f"{held.record.token_type} {held.record.access_token}" != used:
                self._use(held)  # somebody has renewed it meanwhile
                return True
            if challenge.wants_scopes:
                if not self._may_step_up(challenge.scopes, held.record):
                    return False
                held = await self._renewed(held, challenge)
            else:
                moved = await self._has_moved(held.record, challenge)
                if not moved and self._is_young(held.record):
                    return False
                held = await self._renewed(held, replace(challenge, error="moved") if moved else challenge)
        else:
            held = await self._renewed(held, challenge)
        self._use(held)
        return True

    def _may_step_up(self, scopes: tuple[str, ...], record: TokenRecord) -> bool:
        """Whether to ask for more: not if what was granted for these scopes did not satisfy the server.

        Calls with the same grant count once: their user may not have had the time to agree.
        """
        grant = record.granted or record.obtained
        lacking = self._step_ups.get(scopes)
        if lacking is None:
            if len(self._step_ups) >= MAX_SCOPE_SETS:
                return False
            lacking = self._step_ups[scopes] = []
        if grant not in lacking:
            lacking.append(grant)
            del lacking[: -MAX_STEP_UPS - 1]
        return len(lacking) <= MAX_STEP_UPS

    def _is_young(self, record: TokenRecord) -> bool:
        return 0 <= self._tokens.clock() - record.obtained < YOUNG_SECONDS

    async def _has_moved(self, record: TokenRecord, challenge: Challenge) -> bool:
        """Whether the server takes tokens of another issuer now: then ours is asked nothing any more."""
        if self._settings.mode != "oauth":
            return False
        try:
            found = await Discovery(self._fetcher, self.url, self._settings).find(challenge)
        except AuthorityUnavailableError:
            return False
        return found.authority.issuer != record.issuer

    # Renewing

    async def _renewed(self, held: HeldToken | None, challenge: Challenge) -> HeldToken:
        found = await asyncio.shield(self._renew_in_background(held, challenge))
        if found.record.refused:
            # The refresh was refused: what is left is to ask its owner.
            found = await asyncio.shield(self._renew_in_background(found, challenge))
        return found

    def _renew_in_background(self, held: HeldToken | None, challenge: Challenge) -> "asyncio.Task[HeldToken]":
        """One renewal at a time in this process; the store sees to the others."""
        if self._working is None:
            self._working = asyncio.create_task(self._renew(held, challenge))
            self._working.add_done_callback(self._renewal_ended)
        return self._working

    def _renewal_ended(self, task: "asyncio.Task[HeldToken]") -> None:
        self._working = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if not task.result().record.refused:
                self._use(task.result())
        elif isinstance(error, OAuthError | VaultError):
            left = 0.0 if self._held is None else self._held.record.seconds_left(self._tokens.clock())
            if left > 0:
                logger.warning("%s: a token was not refreshed in time: %s", self.server, error.message)
                self._fresh_until = time.monotonic() + min(left, RETRY_SECONDS)
        elif not isinstance(error, UpstreamError):
            logger.error("%s: a token was not refreshed", self.server, exc_info=error)

    async def _renew(self, held: HeldToken | None, challenge: Challenge) -> HeldToken:
        async def make(record: TokenRecord | None) -> TokenRecord:
            can_refresh = record is not None and bool(record.refresh_token) and not record.refused
            if (
                record is not None
                and can_refresh
                and not challenge.wants_scopes
                and challenge.error != "moved"
            ):
                return await self._refresh(record)
            return await self._source.obtain(challenge, record)

        return await self._tokens.renew(self.address, None if held is None else held.version, make)

    async def _refresh(self, record: TokenRecord) -> TokenRecord:
        """The successor; or the same token marked as refused, so that no process tries it again."""
        endpoint = TokenEndpoint(
            self._fetcher,
            record.token_endpoint,
            record.client,
            key=signing_key(self._settings),
            dpop=None if record.dpop_key is None else DpopKey(record.dpop_key, self._tokens.clock),
            clock=self._tokens.clock,
        )
        form = {"grant_type": "refresh_token", "refresh_token": record.refresh_token}
        if record.resource:
            form["resource"] = record.resource
        try:
            reply = await endpoint.request(form)
        except UnknownClientError as error:
            await self._source.forget_client(record.client)
            return replace(record, refused=error.code)
        except GrantRefusedError as error:
            return replace(record, refused=error.code)
        except UntrustedAuthorityError:
            return replace(record, refused="untrusted")
        return replace(
            record,
            access_token=reply.access_token,
            token_type=reply.token_type,
            obtained=self._tokens.clock(),
            lifetime=reply.lifetime,
            refresh_token=reply.refresh_token or record.refresh_token,
            scopes=record.scopes if reply.scopes is None else reply.scopes,
        )

    async def end(self) -> TokenRecord | None:
        """Delete the token, here and in memory; returns what it was."""
        record = await self._tokens.delete(self.address)
        self.forget()
        return record

    def forget(self) -> None:
        """The token was deleted: do not use what is in memory any more."""
        self._forgotten += 1
        self._held = None
        self._headers = {}
        self._dpop = None
        self._step_ups.clear()
        self._fresh_until = float("-inf")

    async def close(self) -> None:
        """A refresh under way comes to its end: what it gets is the only copy of the next token."""
        if self._working is not None:
            await asyncio.wait({self._working}, timeout=SECONDS)
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)


class ExchangeSession(OAuthSession):
    """What one token of a caller was exchanged for. It is kept in this process only, and ends with it.

    Nothing is sent without a token: a server that lets strangers in must not take the caller for one.
    """

    def __init__(
        self,
        server: str,
        url: str,
        settings: OAuthAuth,
        address: SecretAddress,
        fetcher: GuardedFetcher,
        subject: CallerSubject,
        clock: Callable[[], float],
    ) -> None:
        tokens = TokenStore(ProcessSecrets(), MemoryState(), clock=clock)
        source = MachineSource(fetcher, settings, url, tokens, subject)
        super().__init__(server, url, settings, address, tokens, fetcher, source)
        self._expires = subject.expires

    @property
    def has_ended(self) -> bool:
        return self._expires is not None and self._expires <= self._tokens.clock()

    async def _current(self) -> HeldToken | None:
        held = await super()._current()
        return await self._renewed(await self._load(), Challenge()) if held is None else held
