"""Callers' accounts at one server behind OAuth, and the pages that connect them.

Where a caller's own token is exchanged, the account is that token: what was got for it is kept in this
process only, apart from what was got for any other, and ends with it.

A caller gets a link to the gateway. Its page says what will be connected for whom, and only its button sends
the browser to the server's own login, with a cookie; the answer is accepted from that browser alone, once.
So nobody can finish a login that another began, nor trick somebody into connecting their account for
another. What a login needs in between is in the vault, and where to find it in the state store: any replica
can finish what another began.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from secrets import token_urlsafe
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...config.server_auth import OAuthAuth
from ...state.store import State, StateError
from ...upstream.accounts import AccountState, ConsentLink
from ...upstream.connection import GATEWAY_CALLER
from ...upstream.errors import ConsentRequiredError, CredentialError
from ...vault.base import SecretAddress, StoredSecret, VaultError
from ...wire.call import CALLER_TOKEN, ISSUED, Call, CredentialKind, Principal, Secret
from ..flows import (
    REUSE_SECONDS,
    FlowPage,
    FlowPointer,
    FlowPointers,
    digest_of,
    is_from,
    shown_name,
    wait_connected,
)
from ..pages import PageKind
from .authorization import (
    CodeFlow,
    DeviceAuthorization,
    Discovery,
    PendingAuthorization,
    ServerProtection,
    authorize_device,
)
from .errors import ConsentDeniedError, GrantRefusedError, OAuthError
from .fetching import GuardedFetcher
from .grants import CallerSubject, MachineSource
from .metadata import Challenge, read_challenge
from .session import ExchangeSession, OAuthSession, TokenSource
from .token_endpoint import ClientIdentity, TokenEndpoint
from .tokens import TokenRecord, TokenStore

logger = logging.getLogger("toolyard.oauth")

MAX_SESSIONS = 10_000
POINTERS = "oauth/login/"
PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SHARED = Principal(tenant="local")
"""Whose the token is that all callers share."""


LISTER = GATEWAY_CALLER.principal
"""As whom lists are read where callers act for themselves."""
_BROUGHT: dict[CredentialKind, str] = {
    "local": "you came without a token, as the local user",
    "key": "you came with an API key",
    "login": "you came with a login at this gateway",
    "proxy": "you were named by a proxy",
    "grant": "you came with a grant",
    "application": "you were named by the application",
}


class _SavedFlow(Struct, frozen=True, kw_only=True):
    pending: PendingAuthorization
    tenant: str


class OAuthAccounts:
    """`callback` is the gateway's address for answers; empty if it has none, as over stdio."""

    kind = "oauth"

    def __init__(
        self,
        server: str,
        url: str,
        settings: OAuthAuth,
        tokens: TokenStore,
        state: State,
        base_url: Callable[[], str],
        on_connected: Callable[[], None] = lambda: None,
    ) -> None:
        self.server = server
        self._url = url
        self._settings = settings
        self._tokens = tokens
        self._pointers = FlowPointers(state, POINTERS)
        self._base_url = base_url
        self._on_connected = on_connected
        provider = settings.identity_provider
        trusted = [url, settings.issuer, *([provider.token_endpoint] if provider else [])]
        self._fetcher = GuardedFetcher(trusted)
        self._sessions: OrderedDict[SecretAddress, OAuthSession] = OrderedDict()
        self._beginning: dict[object, asyncio.Task[PendingAuthorization]] = {}
        self._brought: dict[SecretAddress, list[Secret]] = {}
        """The tokens of callers whose calls run now."""

    @property
    def is_personal(self) -> bool:
        return self._settings.is_personal

    def key(self, principal: Principal) -> tuple[str, ...]:
        """Whose connections they are: one caller's, those of one token of a caller, or all callers'."""
        if not self.is_personal:
            return ()
        return (principal.tenant, principal.owner, principal.credential if self._exchanges(principal) else "")

    def _exchanges(self, principal: Principal) -> bool:
        return self._settings.acts_for_caller and principal != LISTER

    def address(self, principal: Principal) -> SecretAddress:
        if self._settings.acts_for_caller and principal == LISTER:
            return SecretAddress(tenant=SHARED.tenant, kind="token", upstream=self.server, name="lists")
        who = principal if self.is_personal else SHARED
        owner = who.owner if self.is_personal else ""
        name = principal.credential if self._exchanges(principal) else ""
        return SecretAddress(
            tenant=who.tenant, kind="token", upstream=self.server, principal=owner, name=name
        )

    def authorizer(self, principal: Principal) -> OAuthSession:
        address = self.address(principal)
        found = self._sessions.get(address)
        if found is None:
            self._make_room()
            found = self._sessions[address] = self._session(principal, address)
        else:
            self._sessions.move_to_end(address)
        return found

    def _make_room(self) -> None:
        """Forget who came longest ago, and tokens of callers whose own have ended."""
        while self._sessions:
            oldest, session = next(iter(self._sessions.items()))
            has_ended = isinstance(session, ExchangeSession) and session.has_ended
            if len(self._sessions) < MAX_SESSIONS and not has_ended:
                return
            del self._sessions[oldest]

    def _session(self, principal: Principal, address: SecretAddress) -> OAuthSession:
        settings = self._settings
        source: TokenSource
        if self._exchanges(principal):
            if lacking := self._lacking(principal):
                raise CredentialError(self.server, lacking)
            subject = CallerSubject(principal.expires, lambda: self._brought.get(address, ()))
            return ExchangeSession(
                self.server, self._url, settings, address, self._fetcher, subject, self._tokens.clock
            )
        if settings.mode == "oauth":
            source = _AskingSource(self, principal)
        elif not settings.acts_for_caller:
            source = MachineSource(self._fetcher, settings, self._url, self._tokens)
        elif settings.lists:
            settings = replace(settings, mode=settings.lists, subject="")
            source = MachineSource(self._fetcher, settings, self._url, self._tokens)
        else:
            source = _NoSource()
        return OAuthSession(self.server, self._url, settings, address, self._tokens, self._fetcher, source)

    # Callers who act for themselves

    def acting(self, call: Call) -> AbstractContextManager[None]:
        """While it lasts, the token that the call brought may be exchanged.

        Raises CredentialError if the caller came with something else: nothing is sent in another's name.
        """
        return self._acting(call) if self._settings.acts_for_caller else _NOTHING

    @contextmanager
    def _acting(self, call: Call) -> Generator[None]:
        principal = call.caller.identity.principal
        if lacking := self._lacking(principal):
            raise CredentialError(self.server, lacking)
        token, address = (call.secrets or {}).get(CALLER_TOKEN), self.address(principal)
        if token is None:
            yield
            return
        running = self._brought.setdefault(address, [])
        running.append(token)
        try:
            yield
        finally:
            running.remove(token)
            if not running:
                del self._brought[address]

    def _lacking(self, principal: Principal) -> str:
        """Why this caller's credential cannot be exchanged; empty if it can."""
        wanted = self._settings.subject_issuer
        if principal.kind in ISSUED and (not wanted or principal.issuer == wanted):
            return ""
        whose = wanted or "an issuer that the gateway accepts"
        brought = _BROUGHT.get(principal.kind, "you came with one of another issuer")
        return (
            "it is called in the caller's own name: that needs an access token of "
            f"{whose}, sent as 'Authorization: Bearer …', and {brought}"
        )

    # Connections

    async def state(self, principal: Principal) -> AccountState:
        if self._settings.acts_for_caller:
            if lacking := self._lacking(principal):
                return AccountState(False, lacking)
            host = urlsplit(self._settings.issuer).netloc
            return AccountState(True, f"in your name: your own token is exchanged at {host}")
        if self._settings.mode != "oauth":
            return AccountState(True, f"by {self._settings.mode}")
        held = await self._load(principal)
        if held is None:
            return AccountState(False, "not connected")
        if held.refused:
            return AccountState(False, "its issuer does not accept the connection any more")
        if held.seconds_left(self._tokens.clock()) <= 0 and not held.refresh_token:
            return AccountState(False, "the connection has expired")
        host = urlsplit(held.issuer).hostname or ""
        scopes = f", {' '.join(held.scopes)}" if held.scopes else ""
        return AccountState(True, f"connected by {host}{scopes}")

    async def _load(self, principal: Principal) -> TokenRecord | None:
        try:
            held = await self._tokens.load(self.address(principal))
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        return None if held is None or held.record.server_url != self._url else held.record

    async def link(
        self, principal: Principal, scopes: tuple[str, ...] = (), earlier: tuple[str, ...] = ()
    ) -> ConsentLink:
        message = f"{self.server!r} needs your permission: open this page and log in."
        base = self._base_url()
        if self._settings.acts_for_caller and (lacking := self._lacking(principal)):
            raise CredentialError(self.server, lacking)
        if self._settings.mode != "oauth":
            raise CredentialError(self.server, "nobody has to connect it; see its auth in the configuration")
        if not base:
            command = f"it wants you to log in: run `toolyard login {self.server}`"
            raise ConsentRequiredError(self.server, command, scopes, earlier)
        try:
            flow = await self._begun(principal, scopes, earlier)
        except OAuthError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise CredentialError(self.server, f"nobody can log in to it: {error.message}{hint}") from error
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        except StateError as error:
            raise CredentialError(self.server, error.public_message) from error
        id = flow_id(flow.state)
        return ConsentLink(f"{base}/oauth/connect/{id}", message, id)

    async def wait(self, principal: Principal, seconds: float) -> bool:
        return await wait_connected(self, principal, seconds)

    async def disconnect(self, principal: Principal) -> bool:
        try:
            record = await self.authorizer(principal).end()
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        if record is None:
            return False
        await self.revoke(record)
        return True

    async def revoke(self, record: TokenRecord) -> bool:
        """Tell the issuer to forget a token (RFC 7009); returns whether it was told."""
        if not record.revocation_endpoint:
            return False
        token, kind = (
            (record.refresh_token, "refresh_token")
            if record.refresh_token
            else (record.access_token, "access_token")
        )
        endpoint = TokenEndpoint(self._fetcher, record.revocation_endpoint, record.client)
        members, headers = endpoint.authenticated({"token": token, "token_type_hint": kind})
        try:
            reply = await self._fetcher.post_form(record.revocation_endpoint, members, headers)
        except OAuthError as error:
            logger.warning(
                "%s: the token was forgotten here, but not revoked: %s", self.server, error.message
            )
            return False
        return reply.status == 200

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions.values()))
        await self._fetcher.close()

    # A login in the browser

    def flow(self, tenant: str, redirect: str, application: Literal["native", "web"]) -> CodeFlow:
        return CodeFlow(
            self._fetcher,
            self._settings,
            self._tokens.secrets,
            server=self.server,
            server_url=self._url,
            tenant=tenant,
            redirect=redirect,
            application=application,
            clock=self._tokens.clock,
        )

    def _flow(self, tenant: str) -> CodeFlow:
        redirect = f"{self._base_url()}/oauth/callback"
        is_local = urlsplit(redirect).hostname in ("127.0.0.1", "localhost", "::1")
        return self.flow(tenant, redirect, "native" if is_local else "web")

    async def probe(self) -> Challenge:
        """What the server says to a request without a token."""
        reply = await self._fetcher.post_json(self._url, PROBE)
        return read_challenge(reply.status, reply.headers.get("www-authenticate", ""))

    async def authorize_device(
        self,
        principal: Principal,
        protection: ServerProtection,
        challenge: Challenge,
        redirect: str,
        show: Callable[[DeviceAuthorization], None],
    ) -> TokenRecord:
        """Ask the user to agree on another device, and wait until they did."""
        return await authorize_device(
            self._fetcher,
            self._settings,
            self._tokens.secrets,
            protection,
            challenge,
            server=self.server,
            server_url=self._url,
            tenant=principal.tenant,
            redirect=redirect,
            show=show,
            clock=self._tokens.clock,
        )

    def discovery(self) -> Discovery:
        return Discovery(self._fetcher, self._url, self._settings)

    def _pending_address(self, principal: Principal) -> SecretAddress:
        return replace(self.address(principal), name="login")

    async def _begun(
        self, principal: Principal, scopes: tuple[str, ...], earlier: tuple[str, ...]
    ) -> PendingAuthorization:
        """The login that this caller is to finish. Calls that ask at the same time get the same one."""
        key = (self.address(principal), scopes, earlier)
        task = self._beginning.get(key)
        if task is None:
            task = self._beginning[key] = asyncio.create_task(self._begin(principal, scopes, earlier))
            task.add_done_callback(lambda _: self._beginning.pop(key, None))
        return await asyncio.shield(task)

    async def _pending(
        self, found: StoredSecret | None, wanted: tuple[str, ...]
    ) -> PendingAuthorization | None:
        """A login that was begun a short while ago and asks for as much."""
        saved = None if found is None else _saved(found.value)
        if saved is None or saved.pending.server_url != self._url:
            return None
        pending = saved.pending
        age = self._tokens.clock() - pending.began
        enough = set(wanted) <= set(pending.scopes)
        fits = pending.redirect == f"{self._base_url()}/oauth/callback"
        if not (0 <= age < REUSE_SECONDS and enough and fits):
            return None
        return pending if await self._pointers.find(flow_id(pending.state)) is not None else None

    async def _begin(
        self, principal: Principal, scopes: tuple[str, ...], earlier: tuple[str, ...]
    ) -> PendingAuthorization:
        secrets, address, wanted = self._tokens.secrets, self._pending_address(principal), (*scopes, *earlier)
        known = await self._pending(await secrets.read(address), wanted)
        if known is not None:
            return known
        challenge = Challenge(
            403 if earlier else 401, "bearer", "insufficient_scope" if earlier else "", scopes
        )
        asked = self._sessions.get(self.address(principal))
        if asked is not None and asked.challenge.resource_metadata:
            challenge = replace(challenge, resource_metadata=asked.challenge.resource_metadata)
        protection = await self.discovery().find(challenge)
        pending = await self._flow(principal.tenant).begin(protection, challenge, earlier)
        pointer = FlowPointer(self.server, principal.tenant, address.principal, shown_name(principal))
        # Before the login itself, so that whoever finds that can use it.
        await self._pointers.put(flow_id(pending.state), pointer)
        value = msgspec.json.encode(_SavedFlow(pending=pending, tenant=principal.tenant))
        while True:
            before = await secrets.read(address)
            known = await self._pending(before, wanted)
            if known is not None:  # another replica was faster: its link is out already
                return known
            if await secrets.replace(address, value, None if before is None else before.version) is not None:
                return pending

    async def saved_flow(self, pointer: FlowPointer) -> PendingAuthorization | None:
        found = await self._tokens.secrets.read(self._pointed(pointer))
        saved = None if found is None else _saved(found.value)
        return None if saved is None else saved.pending

    def _pointed(self, pointer: FlowPointer) -> SecretAddress:
        return SecretAddress(
            tenant=pointer.tenant,
            kind="token",
            upstream=self.server,
            principal=pointer.principal,
            name="login",
        )

    async def finish(self, pointer: FlowPointer, answer: Mapping[str, str]) -> PageKind:
        """Exchange the code of an answer, and keep the token for whom the login was begun."""
        pending = await self.saved_flow(pointer)
        if pending is None or pending.server_url != self._url:
            return "expired"
        try:
            record = await self._flow(pointer.tenant).finish(pending, answer)
        except ConsentDeniedError as error:
            logger.info("%s: a login was denied: %s", self.server, error.message)
            return "denied"
        except GrantRefusedError as error:
            logger.warning("%s: a login failed: %s", self.server, error.message)
            return "failed"
        except OAuthError as error:
            logger.warning("%s: a login failed: %s", self.server, error)
            return "failed"
        address = replace(self._pointed(pointer), name="")
        await self._tokens.save(address, record)
        await self._tokens.secrets.delete(self._pointed(pointer))
        self._on_connected()
        return "connected"


_NOTHING = nullcontext()


class _NoSource:
    """Lists without a token: no caller's may show others what it is shown."""

    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        raise OAuthError(
            "its lists need one, and no caller's is used for that",
            'set lists = "client_credentials" in its auth, or have it show them without one',
        )

    async def forget_client(self, client: ClientIdentity) -> None:
        """There is none."""


class _AskingSource:
    """A gateway's callers are not in front of it: they are told where to go."""

    def __init__(self, accounts: OAuthAccounts, principal: Principal) -> None:
        self._accounts = accounts
        self._principal = principal

    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        earlier = before.scopes if before is not None and challenge.wants_scopes else ()
        server = self._accounts.server
        what = "more of your permission" if earlier else "you to log in"
        reason = f"it wants {what}: use manage_connections, or run `toolyard login {server}`"
        raise ConsentRequiredError(server, reason, challenge.scopes, earlier)

    async def forget_client(self, client: ClientIdentity) -> None:
        flow = self._accounts.flow(self._principal.tenant, client.redirect, "native")
        await flow.forget_client(client)


class LoginPages:
    """The two pages of all servers: where a login begins, and where it ends."""

    def __init__(self, state: State, accounts: Callable[[str], OAuthAccounts | None]) -> None:
        self._pointers = FlowPointers(state, POINTERS)
        self._accounts = accounts

    async def show(self, id: str) -> FlowPage:
        """What a link leads to: a question, which nothing but its button answers."""
        found = await self._find(id)
        if found is None:
            return FlowPage("expired")
        accounts, pointer, pending = found
        details = {"user": pointer.user, "host": urlsplit(pending.issuer).netloc}
        if pending.scopes:
            details["scopes"] = " ".join(pending.scopes)
        parts = urlsplit(pending.url)
        return FlowPage(
            "confirm", accounts.server, details, form_targets=f"'self' {parts.scheme}://{parts.netloc}"
        )

    async def begin(self, id: str) -> FlowPage:
        """The button: bind the login to this browser, and send it to the server's own login."""
        found = await self._find(id)
        if found is None:
            return FlowPage("expired")
        accounts, pointer, pending = found
        cookie = token_urlsafe(24)
        if not await self._pointers.replace(id, pointer, replace(pointer, browser=digest_of(cookie))):
            return FlowPage("expired", accounts.server)
        return FlowPage("confirm", accounts.server, location=pending.url, cookie=cookie)

    async def end(self, answer: Mapping[str, str], cookies: Mapping[str, str]) -> FlowPage:
        """The browser is back. An answer counts once, and only from the browser that was sent."""
        state = answer.get("state", "")
        id = flow_id(state)
        found = await self._find(id) if state else None
        if found is None:
            return FlowPage("expired")
        accounts, pointer, _ = found
        if not is_from(pointer, id, cookies):
            return FlowPage("elsewhere", accounts.server)
        if not await self._pointers.replace(id, pointer, None):
            return FlowPage("expired", accounts.server)
        return FlowPage(await accounts.finish(pointer, answer), accounts.server)

    async def _find(self, id: str) -> tuple[OAuthAccounts, FlowPointer, PendingAuthorization] | None:
        pointer = await self._pointers.find(id)
        accounts = None if pointer is None else self._accounts(pointer.server)
        pending = None if accounts is None or pointer is None else await accounts.saved_flow(pointer)
        if accounts is None or pointer is None or pending is None or flow_id(pending.state) != id:
            return None
        return accounts, pointer, pending


def flow_id(state: str) -> str:
    """Names a login in addresses; `state` itself is only in the answer."""
    return hashlib.sha256(state.encode()).hexdigest()[:32]


def _saved(value: bytes) -> _SavedFlow | None:
    try:
        return msgspec.json.decode(value, type=_SavedFlow)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
