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
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...config.server_auth import OAuthAuth
from ...languages import said
from ...state.store import State, StateError
from ...upstream.accounts import AccountState, ConsentLink
from ...upstream.connection import GATEWAY_CALLER
from ...upstream.errors import ConsentRequiredError, CredentialError
from ...vault.base import SecretAddress, VaultError
from ...wire.call import CALLER_TOKEN, ISSUED, Call, CredentialKind, Principal, Secret
from ..flows import (
    REUSE_SECONDS,
    FlowPage,
    FlowPointer,
    FlowPointers,
    digest_of,
    is_from,
    runs_gateway,
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
    signing_key,
)
from .client_document import document_url, is_readable
from .errors import (
    AuthorityUnavailableError,
    ConsentDeniedError,
    NoClientError,
    OAuthError,
)
from .fetching import GuardedFetcher
from .grants import CallerSubject, MachineSource
from .metadata import Challenge, read_challenge, same_issuer
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
_BROUGHT: dict[CredentialKind, tuple[str, str]] = {
    "local": ("you came without a token, as the local user", "você veio sem token, como o usuário local"),
    "key": ("you came with an API key", "você veio com uma chave de API"),
    "login": ("you came with a login at this gateway", "você veio com um login neste gateway"),
    "proxy": ("you were named by a proxy", "um proxy disse quem você é"),
    "grant": ("you came with a grant", "você veio com uma concessão"),
    "application": ("you were named by the application", "a aplicação disse quem você é"),
}
_ANOTHER = ("you came with one of another issuer", "você veio com o de outro emissor")


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
        self.is_personal = settings.is_personal
        self._acts_for_caller = settings.acts_for_caller
        self._tokens = tokens
        self._pointers = FlowPointers(state, POINTERS)
        self._base_url = base_url
        self._on_connected = on_connected
        provider = settings.identity_provider
        trusted = [url, settings.issuer, *([provider.token_endpoint] if provider else [])]
        self._fetcher = GuardedFetcher(trusted)
        self._sessions: OrderedDict[SecretAddress, OAuthSession] = OrderedDict()
        self._beginning: WeakValueDictionary[SecretAddress, asyncio.Lock] = WeakValueDictionary()
        """One login begins at a time for each principal: calls that come together get the same link."""
        self._brought: dict[SecretAddress, list[Secret]] = {}
        """The tokens of callers whose calls run now."""

    def key(self, principal: Principal) -> tuple[str, ...]:
        """Whose connections they are: one caller's, those of one token of a caller, or all callers'."""
        if not self.is_personal:
            return ()
        if not self._exchanges(principal):
            return (principal.tenant, principal.owner)
        return (principal.tenant, principal.owner, principal.credential)

    def _exchanges(self, principal: Principal) -> bool:
        return self._acts_for_caller and principal != LISTER

    def address(self, principal: Principal) -> SecretAddress:
        if self._acts_for_caller and principal == LISTER:
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
        return self._acting(call) if self._acts_for_caller else _NOTHING

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
        whose = wanted or said("an issuer that the gateway accepts", "um emissor que o gateway aceita")
        brought = said(*_BROUGHT.get(principal.kind, _ANOTHER))
        return said(
            "it is called in the caller's own name: that needs an access token of "
            f"{whose}, sent as 'Authorization: Bearer …', and {brought}",
            "é chamado em nome de quem chama: isso exige um token de acesso de "
            f"{whose}, enviado como 'Authorization: Bearer …', e {brought}",
        )

    # Connections

    async def state(self, principal: Principal) -> AccountState:
        if self._settings.acts_for_caller:
            if lacking := self._lacking(principal):
                return AccountState(False, lacking)
            host = urlsplit(self._settings.issuer).netloc
            return AccountState(
                True,
                said(
                    f"in your name: your own token is exchanged at {host}",
                    f"em seu nome: o seu próprio token é trocado em {host}",
                ),
            )
        if self._settings.mode != "oauth":
            mode = self._settings.mode
            return AccountState(True, said(f"by {mode}", f"por {mode}"))
        held = await self._load(principal)
        if held is None:
            return AccountState(False, said("not connected", "não conectado"))
        if held.refused:
            return AccountState(
                False,
                said(
                    "its issuer does not accept the connection any more",
                    "o emissor não aceita mais a conexão",
                ),
            )
        if held.seconds_left(self._tokens.clock()) <= 0 and not held.refresh_token:
            return AccountState(False, said("the connection has expired", "a conexão expirou"))
        host = urlsplit(held.issuer).hostname or ""
        scopes = f", {' '.join(held.scopes)}" if held.scopes else ""
        return AccountState(True, said(f"connected by {host}{scopes}", f"conectado por {host}{scopes}"))

    async def _load(self, principal: Principal) -> TokenRecord | None:
        try:
            held = await self._tokens.load(self.address(principal))
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        return None if held is None or held.record.server_url != self._url else held.record

    async def link(
        self, principal: Principal, scopes: tuple[str, ...] = (), earlier: tuple[str, ...] = ()
    ) -> ConsentLink:
        message = said(
            f"{self.server!r} needs your permission: open this page and log in.",
            f"{self.server!r} precisa da sua permissão: abra esta página e entre.",
        )
        base = self._base_url()
        if self._settings.acts_for_caller and (lacking := self._lacking(principal)):
            raise CredentialError(self.server, lacking)
        if self._settings.mode != "oauth":
            raise CredentialError(
                self.server,
                said(
                    "nobody has to connect it; see its auth in the configuration",
                    "ninguém precisa conectá-lo; veja auth na configuração dele",
                ),
            )
        if not base:
            command = said(
                f"it wants you to log in; run `toolyard login {self.server}`",
                f"ele quer que você entre; rode `toolyard login {self.server}`",
            )
            raise ConsentRequiredError(self.server, command, scopes, earlier)
        lock = self._beginning.setdefault(self.address(principal), asyncio.Lock())
        try:
            async with lock:
                flow = await self._pending(principal, scopes, earlier)
                if flow is None:
                    flow = await self._begin(principal, scopes, earlier)
        except OAuthError as error:
            logger.warning("%s: nobody can log in: %s", self.server, error)
            hint = f" ({error.hint})" if error.hint else ""
            # What is before the colon is for everybody; the rest may have a server's own words.
            reason = f"nobody can log in to it, {_why(error)}; the gateway's log has details"
            raise CredentialError(self.server, f"{reason}: {error.message}{hint}") from error
        except VaultError as error:
            raise CredentialError(self.server, f"{error.message}; {error.hint}") from error
        except StateError as error:
            raise CredentialError(self.server, error.public_message) from error
        id = flow_id(flow.state)
        return ConsentLink(f"{base}/oauth/connect/{id}", message, id)

    async def wait(self, principal: Principal, seconds: float) -> bool:
        return await wait_connected(self, principal, seconds)

    async def disconnect(self, principal: Principal) -> bool:
        if not self.is_personal and not runs_gateway(principal):
            raise CredentialError(
                self.server,
                said(
                    "one token serves all callers; nobody has to connect it",
                    "um só token serve a todos; ninguém precisa conectá-lo",
                ),
            )
        try:
            # A login that is under way ends too: its owner does not want it any more.
            await self._tokens.secrets.delete(self._pending_address(principal))
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
        endpoint = TokenEndpoint(
            self._fetcher, record.revocation_endpoint, record.client, key=signing_key(self._settings)
        )
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

    def flow(
        self,
        tenant: str,
        redirect: str,
        application: Literal["native", "web"],
        client_document: str = "",
    ) -> CodeFlow:
        settings = self._settings
        if not settings.client_metadata_url:
            settings = replace(settings, client_metadata_url=client_document)
        return CodeFlow(
            self._fetcher,
            settings,
            self._tokens.secrets,
            server=self.server,
            server_url=self._url,
            tenant=tenant,
            redirect=redirect,
            application=application,
            clock=self._tokens.clock,
        )

    def _flow(self, tenant: str, client_document: str = "") -> CodeFlow:
        redirect = f"{self._base_url()}/oauth/callback"
        parts = urlsplit(redirect)
        # What has TLS is a web application to an issuer, wherever it is.
        is_native = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
        return self.flow(tenant, redirect, "native" if is_native else "web", client_document)

    async def _client_document(self) -> str:
        """Our client id at issuers that read metadata of clients; empty if they could not read ours."""
        base = self._base_url()
        url = document_url(base)
        return url if url and await is_readable(base) else ""

    async def probe(self) -> Challenge:
        """What the server says to a request without a token."""
        reply = await self._fetcher.post_json(self._url, PROBE)
        return read_challenge(reply.status, reply.headers.get("www-authenticate", ""))

    async def _said(self, address: SecretAddress) -> Challenge:
        """What the server says now to somebody without a token; else what it said in this session before."""
        try:
            found = await self.probe()
        except OAuthError:
            found = Challenge()
        session = self._sessions.get(address)
        return session.challenge if not found.scheme and session is not None else found

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

    async def _pending(
        self, principal: Principal, scopes: tuple[str, ...], earlier: tuple[str, ...]
    ) -> PendingAuthorization | None:
        """A login that was begun a short while ago and asks for as much."""
        pending = (await self._read_flow(self._pending_address(principal)))[0]
        if pending is None or not self._is_current(pending):
            return None
        age = self._tokens.clock() - pending.began
        enough = {*scopes, *earlier} <= set(pending.scopes)
        fits = pending.redirect == f"{self._base_url()}/oauth/callback"
        if not (0 <= age < REUSE_SECONDS and enough and fits):
            return None
        return pending if await self._pointers.find(flow_id(pending.state)) is not None else None

    async def _begin(
        self, principal: Principal, scopes: tuple[str, ...], earlier: tuple[str, ...]
    ) -> PendingAuthorization:
        challenge = Challenge(
            403 if earlier else 401, "bearer", "insufficient_scope" if earlier else "", scopes
        )
        address = self._pending_address(principal)
        before, version = await self._read_flow(address)
        failed = before.client.id if before is not None and before.sent else ""
        pending = await self._ask_issuer(address, challenge, earlier, failed)
        while not await self._write_flow(address, pending, version):
            theirs = await self._pending(principal, scopes, earlier)  # begun by another replica
            if theirs is not None:
                return theirs
            before, version = await self._read_flow(address)
        if before is not None:
            await self._pointers.delete(flow_id(before.state))
        pointer = FlowPointer(self.server, principal.tenant, address.principal, shown_name(principal))
        await self._pointers.put(flow_id(pending.state), pointer)
        return pending

    async def _ask_issuer(
        self,
        address: SecretAddress,
        challenge: Challenge,
        earlier: tuple[str, ...] = (),
        failed_client: str = "",
        state: str = "",
    ) -> PendingAuthorization:
        """Find out where to log in, and as which client."""
        said = await self._said(replace(address, name=""))
        challenge = replace(
            challenge,
            scopes=challenge.scopes or said.scopes,
            resource_metadata=said.resource_metadata,
        )
        protection = await self.discovery().find(challenge)
        flow = self._flow(address.tenant, await self._client_document())
        return await flow.begin(protection, challenge, earlier, failed_client=failed_client, state=state)

    async def leave(self, pointer: FlowPointer) -> PendingAuthorization | None:
        """The browser is about to be sent to the issuer; None if the login has ended.

        One that was sent before and is here again may have read that the issuer does not know our client any
        more, which nobody tells us: it is sent with another one, once.
        """
        address = self._pointed(pointer)
        pending, version = await self._read_flow(address)
        if pending is None or not self._is_current(pending):
            return None
        sent = pending.sent + 1
        if sent == 2 and pending.client.source != "configured":
            challenge = Challenge(401, "bearer", scopes=pending.scopes)
            pending = await self._ask_issuer(address, challenge, (), pending.client.id, pending.state)
        pending = replace(pending, sent=sent)
        return pending if await self._write_flow(address, pending, version) else None

    def _is_current(self, pending: PendingAuthorization) -> bool:
        """Whether the server's entry is still as it was when the login began."""
        issuer = self._settings.issuer
        return pending.server_url == self._url and (not issuer or same_issuer(issuer, pending.issuer))

    async def _read_flow(self, address: SecretAddress) -> tuple[PendingAuthorization | None, str | None]:
        """The login that is under way, and the version of what is stored."""
        found = await self._tokens.secrets.read(address)
        if found is None:
            return None, None
        saved = _saved(found.value)
        return None if saved is None else saved.pending, found.version

    async def _write_flow(
        self, address: SecretAddress, pending: PendingAuthorization, seen: str | None
    ) -> bool:
        value = msgspec.json.encode(_SavedFlow(pending=pending, tenant=address.tenant))
        return await self._tokens.secrets.replace(address, value, seen) is not None

    async def saved_flow(self, pointer: FlowPointer) -> PendingAuthorization | None:
        return (await self._read_flow(self._pointed(pointer)))[0]

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
        pending, version = await self._read_flow(self._pointed(pointer))
        if pending is None or not self._is_current(pending):
            return "expired"
        try:
            record = await self._flow(pointer.tenant).finish(pending, answer)
        except OAuthError as error:
            await self._tokens.secrets.delete(self._pointed(pointer), version)
            if isinstance(error, ConsentDeniedError):
                logger.info("%s: a login was denied: %s", self.server, error.message)
                return "denied"
            logger.warning("%s: a login failed: %s", self.server, error)
            return "failed"
        # Whoever disconnected meanwhile, or began another login, does not want this token.
        if not await self._tokens.secrets.delete(self._pointed(pointer), version):
            await self.revoke(record)
            return "expired"
        await self._tokens.save(replace(self._pointed(pointer), name=""), record)
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
        what = (
            said("more of your permission", "mais da sua permissão")
            if earlier
            else said("you to log in", "que você entre")
        )
        reason = said(
            f"it wants {what}; use manage_connections, or run `toolyard login {server}`",
            f"ele quer {what}; use manage_connections, ou rode `toolyard login {server}`",
        )
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
        parts = urlsplit(pending.url)
        # The host that the browser is sent to, which an issuer may have put on another one's login.
        details = {"user": pointer.user, "host": parts.netloc}
        if pending.scopes:
            details["scopes"] = " ".join(pending.scopes)
        return FlowPage(
            "confirm", accounts.server, details, form_targets=f"'self' {parts.scheme}://{parts.netloc}"
        )

    async def begin(self, id: str) -> FlowPage:
        """The button: bind the login to this browser, and send it to the server's own login."""
        found = await self._find(id)
        if found is None:
            return FlowPage("expired")
        accounts, pointer, _ = found
        try:
            pending = await accounts.leave(pointer)
        except OAuthError as error:
            logger.warning("%s: a login failed: %s", accounts.server, error)
            return FlowPage("failed", accounts.server)
        cookie = token_urlsafe(24)
        bound = replace(pointer, browser=digest_of(cookie))
        if pending is None or not await self._pointers.replace(id, pointer, bound):
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


def _why(error: OAuthError) -> str:
    if isinstance(error, NoClientError):
        return "because the gateway has no client id there"
    if isinstance(error, AuthorityUnavailableError):
        return "because its issuer does not answer"
    return "because its metadata cannot be trusted"


def flow_id(state: str) -> str:
    """Names a login in addresses; `state` itself is only in the answer."""
    return hashlib.sha256(state.encode()).hexdigest()[:32]


def _saved(value: bytes) -> _SavedFlow | None:
    try:
        return msgspec.json.decode(value, type=_SavedFlow)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
