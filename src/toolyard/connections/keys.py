"""Callers' API keys at one server: entered once by a person, kept in the vault, sent with each request.

A key is never asked for in a form of the client, only on a page of the gateway or by `toolyard login`. It is
tried at the server before it is kept. Belongs to one principal, or to all if the configuration says so; then
only whoever runs the gateway enters it. A key that the server refuses stays, marked, and its owner is asked
for another. The refusal of one request is not enough for that: the key is tried again by itself.
"""

import asyncio
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from secrets import token_hex, token_urlsafe
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..config.server_auth import KeyAuth
from ..languages import said
from ..state.store import State, StateError
from ..upstream.accounts import AccountState, ConsentLink
from ..upstream.errors import ConsentRequiredError, CredentialError, UpstreamError
from ..vault.base import SecretAddress, SecretStore, VaultError
from ..wire.call import MAX_KEY_LENGTH, Call, Principal
from ..wire.seal import digest
from .flows import (
    REUSE_SECONDS,
    FlowPage,
    FlowPointer,
    FlowPointers,
    cookie_name,
    digest_of,
    is_from,
    runs_gateway,
    shown_name,
    wait_connected,
)
from .pages import KeyForm, KeyProblem

if TYPE_CHECKING:
    from yarl import URL

MAX_SESSIONS = 10_000
RECHECK_SECONDS = 30.0
"""After this time the vault is asked again whether the key is still there."""
ATTEMPTS = 5
POINTERS = "connections/key/"
LATEST = "connections/key-of/"
SHARED = Principal(tenant="local")
_USABLE = re.compile(r"[\x21-\x7e]+")

KeyTrial = Callable[[str], Awaitable[bool]]
"""Whether a server accepts a key; True if it cannot be told. Raises UpstreamError if it does not answer.

With an empty text: whether it lets anybody in, so that the trial tells nothing about a key.
"""


class KeyRecord(Struct, frozen=True, kw_only=True):
    key: str
    place: str
    """What it was entered for. It is sent nowhere else."""
    entered: float = 0.0
    refused: bool = False

    def __repr__(self) -> str:
        return f"KeyRecord(place={self.place!r}, refused={self.refused})"


class HeldKey(Struct, frozen=True):
    record: KeyRecord
    version: str


class KeySession:
    """One principal's key at one server: what a connection asks for headers (`EndpointAuth`)."""

    def __init__(self, accounts: "KeyAccounts", address: SecretAddress) -> None:
        self._accounts = accounts
        self._address = address
        self._held: HeldKey | None = None
        self._headers: Mapping[str, str] = {}
        self._fresh_until = float("-inf")
        self._forgotten = 0
        self._judging = asyncio.Lock()
        self._judged: tuple[str, float, bool | None] = ("", 0.0, None)
        """The version of a key, until when the verdict on it counts, and the verdict."""
        self.on_forget: Callable[[], None] | None = None
        """Called when a key that was used must not be used any more."""

    @property
    def version(self) -> str:
        """Of the key that is used now; empty if there is none."""
        return "" if self._held is None else self._held.version

    @property
    def in_use(self) -> str:
        """The key that is sent now; empty if there is none."""
        return "" if self._held is None else self._held.record.key

    async def current(self) -> HeldKey | None:
        """The key as of half a minute ago at most, if it can be used. Raises CredentialError."""
        if time.monotonic() < self._fresh_until:
            return self._held
        return await self._load()

    async def require(self) -> HeldKey:
        """Raises ConsentRequiredError if somebody has to enter a key first."""
        return await self.current() or await self._wanted()

    async def _load(self) -> HeldKey | None:
        while True:
            before = self._forgotten
            held = await self._accounts.load(self._address)
            if held is None or held.record.refused:
                self.forget()
                return None
            if before == self._forgotten:  # else it may have been read before it was deleted
                break
        if self._held is None or self._held.version != held.version:
            settings = self._accounts.settings
            self._headers = {settings.sent_header: settings.header_value(held.record.key)}
        self._held = held
        self._fresh_until = time.monotonic() + RECHECK_SECONDS
        return held

    async def _wanted(self) -> HeldKey:
        raise ConsentRequiredError(self._accounts.server, await self._accounts.wanted(self._address))

    # EndpointAuth

    @property
    def is_ready(self) -> bool:
        return time.monotonic() < self._fresh_until

    async def prepare(self) -> None:
        await self.current()

    def ready(self, method: str, url: "URL") -> Mapping[str, str] | None:
        return self._headers if time.monotonic() < self._fresh_until else None

    async def headers(self, method: str, url: "URL") -> Mapping[str, str]:
        """Without a key there are none: lists may be open to everybody."""
        return {} if await self.current() is None else self._headers

    async def refused(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str], url: "URL", attempt: int
    ) -> bool:
        if status == 403:  # perhaps of this one request: the key itself may be good
            return False
        used = dict(sent)
        held = await self._load()
        if held is not None and self._headers != used:
            return True  # somebody has entered another one meanwhile
        if held is not None:
            try:
                accepts = await self.judge(held)
            except UpstreamError:
                return False  # a server that does not answer says nothing about the key
            if attempt == 1 and accepts is not False:
                return True  # perhaps it was for a moment; what was refused was not done
            if accepts:
                return False  # it was for this one request, as 403 would be
            await self.mark_refused(held)
        await self._wanted()
        return False

    async def judge(self, held: HeldKey) -> bool | None:
        """Whether the server accepts the key itself; None if that cannot be told. Raises UpstreamError.

        Callers can provoke refusals of requests, and not all of them may end a key that others use too.
        """
        async with self._judging:
            version, until, accepts = self._judged
            if version == held.version and time.monotonic() < until:
                return accepts
            accepts = await self._accounts.judge(held.record.key)
            self._judged = (held.version, time.monotonic() + RECHECK_SECONDS, accepts)
            return accepts

    async def mark_refused(self, held: HeldKey) -> None:
        """The server does not accept this key. It is kept until its owner enters another."""
        self.forget()
        await self._accounts.mark_refused(self._address, held)

    def forget(self) -> None:
        was_used = self._held is not None
        self._forgotten += 1
        self._held = None
        self._headers = {}
        self._fresh_until = float("-inf")
        if was_used and self.on_forget is not None:
            self.on_forget()


class KeyAccounts:
    """`place` names what keys are entered for, such as the server's address; `shown_place` says it to people.

    `base_url` is the gateway's address for browsers; empty if it has none, as over stdio.
    """

    kind = "api_key"

    def __init__(
        self,
        server: str,
        place: str,
        shown_place: str,
        settings: KeyAuth,
        secrets: SecretStore,
        state: State,
        base_url: Callable[[], str],
        trial: KeyTrial,
        on_connected: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server = server
        self.place = place
        self.shown_place = shown_place
        self.settings = settings
        self._secrets = secrets
        self._state = state
        self._pointers = FlowPointers(state, POINTERS)
        self._base_url = base_url
        self._trial = trial
        self._on_connected = on_connected
        self._clock = clock
        self._sessions: OrderedDict[SecretAddress, KeySession] = OrderedDict()

    @property
    def is_personal(self) -> bool:
        return self.settings.is_personal

    def key(self, principal: Principal) -> tuple[str, ...]:
        return (principal.tenant, principal.owner) if self.is_personal else ()

    def acting(self, call: Call) -> AbstractContextManager[None]:
        return nullcontext()

    def address(self, principal: Principal) -> SecretAddress:
        who, owner = (principal, principal.owner) if self.is_personal else (SHARED, "")
        return SecretAddress(tenant=who.tenant, kind="key", upstream=self.server, principal=owner)

    def authorizer(self, principal: Principal) -> KeySession:
        address = self.address(principal)
        found = self._sessions.get(address)
        if found is None:
            while len(self._sessions) >= MAX_SESSIONS:
                self._sessions.popitem(last=False)
            found = self._sessions[address] = KeySession(self, address)
        else:
            self._sessions.move_to_end(address)
        return found

    # Connections

    async def state(self, principal: Principal) -> AccountState:
        held = await self.load(self.address(principal))
        if held is None:
            whose = "" if self.is_personal else f"; {self._who_enters()}"
            return AccountState(
                False,
                said(
                    f"no API key was entered yet{whose}", f"nenhuma chave de API foi informada ainda{whose}"
                ),
            )
        if held.record.refused:
            whose = "" if self.is_personal else f"; {self._who_enters()}"
            return AccountState(
                False,
                said(
                    f"the server does not accept the API key any more{whose}",
                    f"o servidor não aceita mais a chave de API{whose}",
                ),
            )
        if self.is_personal:
            return AccountState(True, said("by your API key", "pela sua chave de API"))
        return AccountState(True, said("by the API key of all callers", "pela chave de API de todos"))

    async def link(
        self, principal: Principal, scopes: tuple[str, ...] = (), earlier: tuple[str, ...] = ()
    ) -> ConsentLink:
        self._check_may_change(principal)
        base = self._base_url()
        if not base:
            raise ConsentRequiredError(self.server, await self.wanted(self.address(principal)))
        held = await self.load(self.address(principal))
        is_refused = held is not None and held.record.refused
        if is_refused:
            message = said(
                f"{self.server!r} does not accept your API key any more: open this page and enter one.",
                f"{self.server!r} não aceita mais a sua chave de API: abra esta página e informe outra.",
            )
        else:
            message = said(
                f"{self.server!r} wants an API key: open this page and enter one.",
                f"{self.server!r} quer uma chave de API: abra esta página e informe uma.",
            )
        try:
            id = await self._link_id(principal)
        except StateError as error:
            raise CredentialError(self.server, error.public_message) from error
        return ConsentLink(f"{base}/connections/key/{id}", message, id)

    async def _link_id(self, principal: Principal) -> str:
        """The link of a short while ago, if it still works, so that nobody is sent from one to the next."""
        address = self.address(principal)
        latest = f"{LATEST}{digest(msgspec.json.encode(address))}"
        known = ((await self._state.get(latest)) or b"").decode("ascii", "ignore")
        if known and await self._pointers.find(known) is not None:
            return known
        id = token_hex(16)
        pointer = FlowPointer(self.server, address.tenant, address.principal, shown_name(principal))
        await self._pointers.put(id, pointer)
        await self._state.put(latest, id.encode(), REUSE_SECONDS)
        return id

    async def wait(self, principal: Principal, seconds: float) -> bool:
        return await wait_connected(self, principal, seconds)

    async def disconnect(self, principal: Principal) -> bool:
        self._check_may_change(principal)
        address = self.address(principal)
        try:
            had = await self._secrets.delete(address)
        except VaultError as error:
            raise self._unavailable(error) from error
        self._forget(address)
        return had

    async def close(self) -> None:
        for session in self._sessions.values():
            session.forget()

    def _check_may_change(self, principal: Principal) -> None:
        if not self.is_personal and not runs_gateway(principal):
            who = self._who_enters()
            raise CredentialError(
                self.server,
                said(f"one API key serves all callers; {who}", f"uma só chave de API serve a todos; {who}"),
            )

    def _who_enters(self) -> str:
        return said(
            f"whoever runs the gateway enters it with `toolyard login {self.server}`",
            f"quem opera o gateway a informa com `toolyard login {self.server}`",
        )

    async def wanted(self, address: SecretAddress) -> str:
        """Says why there is no key, and what to do."""
        held = await self.load(address)
        if not self.is_personal:
            who = self._who_enters()
            if held is None:
                return said(f"it wants an API key; {who}", f"ele quer uma chave de API; {who}")
            return said(
                f"it does not accept its API key any more; {who}",
                f"ele não aceita mais a chave de API; {who}",
            )
        command = f"toolyard login {self.server}"
        how = said(
            f"use manage_connections, or run `{command}`", f"use manage_connections, ou rode `{command}`"
        )
        if held is None:
            return said(f"it wants an API key of yours: {how}", f"ele quer uma chave de API sua: {how}")
        return said(
            f"it does not accept your API key any more: {how}",
            f"ele não aceita mais a sua chave de API: {how}",
        )

    # Keys in the vault

    async def load(self, address: SecretAddress) -> HeldKey | None:
        try:
            found = await self._secrets.read(address)
        except VaultError as error:
            raise self._unavailable(error) from error
        if found is None:
            return None
        try:
            record = msgspec.json.decode(found.value, type=KeyRecord)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # of a version of ours that is not this one: its owner is asked again
        # A key is for the place that it was entered for, not for whatever has its name now.
        return HeldKey(record, found.version) if record.place == self.place else None

    async def judge(self, key: str) -> bool | None:
        """Whether the server accepts a key; None if its answer does not depend on keys."""
        if not await self._trial(key):
            return False
        return None if await self._trial("") else True

    async def mark_refused(self, address: SecretAddress, held: HeldKey) -> None:
        """Writes only over the key that was refused: a newer one counts."""
        value = msgspec.json.encode(replace(held.record, refused=True))
        try:
            await self._secrets.replace(address, value, held.version)
        except VaultError as error:
            raise self._unavailable(error) from error

    async def enter(self, address: SecretAddress, text: str) -> KeyProblem | None:
        """Tries a key and keeps it; returns why not. Raises VaultError."""
        key = text.strip()
        if not key:
            return "empty"
        if len(key) > MAX_KEY_LENGTH:
            return "long"
        if not _USABLE.fullmatch(key):
            return "characters"
        try:
            if not await self._trial(key):
                return "refused"
        except UpstreamError:
            return "unreachable"
        value = msgspec.json.encode(KeyRecord(key=key, place=self.place, entered=self._clock()))
        while True:
            before = await self._secrets.read(address)
            seen = None if before is None else before.version
            if await self._secrets.replace(address, value, seen) is not None:
                break
        self._forget(address)
        self._on_connected()
        return None

    def _forget(self, address: SecretAddress) -> None:
        session = self._sessions.get(address)
        if session is not None:
            session.forget()

    def _unavailable(self, error: VaultError) -> CredentialError:
        return CredentialError(self.server, f"{error.message}; {error.hint}")


class KeyPages:
    """The page of all servers where a key is entered."""

    def __init__(self, state: State, accounts: Callable[[str], KeyAccounts | None]) -> None:
        self._pointers = FlowPointers(state, POINTERS)
        self._accounts = accounts

    async def show(self, id: str, cookies: Mapping[str, str]) -> FlowPage:
        """What a link leads to. Nobody has it yet: programs look at links too."""
        found = await self._find(id)
        if found is None:
            return FlowPage("expired")
        accounts, pointer = found
        if pointer.browser and not is_from(pointer, id, cookies):
            return FlowPage("elsewhere", accounts.server)
        cookie = cookies.get(cookie_name(id), "")
        if not re.fullmatch(r"[\w-]{32}", cookie):
            cookie = token_urlsafe(24)
        return self._form(id, accounts, pointer, cookie)

    async def submit(self, id: str, cookies: Mapping[str, str], form: Mapping[str, str]) -> FlowPage:
        """A key was entered. The first attempt binds the link to its browser; one that works ends it."""
        found = await self._find(id)
        if found is None:
            return FlowPage("expired")
        accounts, pointer = found
        cookie = cookies.get(cookie_name(id), "")
        ours = hmac.compare_digest(
            form.get("form", "").encode(), self._token(id, cookie, accounts.place).encode()
        )
        if not cookie or not ours or (pointer.browser and not is_from(pointer, id, cookies)):
            return FlowPage("elsewhere", accounts.server)
        tried = replace(pointer, browser=digest_of(cookie), attempts=pointer.attempts + 1)
        if not await self._pointers.replace(id, pointer, tried):
            return FlowPage("expired", accounts.server)
        problem = await accounts.enter(_pointed(tried), form.get("key", ""))
        if problem is None:
            await self._pointers.replace(id, tried, None)
            return FlowPage("connected", accounts.server)
        if tried.attempts >= ATTEMPTS:
            await self._pointers.replace(id, tried, None)
            return FlowPage("expired", accounts.server)
        return self._form(id, accounts, tried, cookie, problem)

    def _form(
        self,
        id: str,
        accounts: KeyAccounts,
        pointer: FlowPointer,
        cookie: str,
        problem: KeyProblem | None = None,
    ) -> FlowPage:
        settings = accounts.settings
        details = {"user": pointer.user, "place": accounts.shown_place}
        form = KeyForm(
            self._token(id, cookie, accounts.place),
            settings.label,
            settings.help,
            not settings.is_personal,
            problem,
            ATTEMPTS - pointer.attempts,
        )
        return FlowPage("key", accounts.server, details, cookie=cookie, form_targets="'self'", form=form)

    def _token(self, id: str, cookie: str, place: str) -> str:
        """Binds the form to the browser that loaded it, and to what the page said."""
        return digest_of("\0".join(("key form", id, cookie, place)))

    async def _find(self, id: str) -> tuple[KeyAccounts, FlowPointer] | None:
        pointer = await self._pointers.find(id)
        accounts = None if pointer is None else self._accounts(pointer.server)
        if accounts is None or pointer is None:
            return None
        # The configuration may say something else by now than when the link was made.
        return (accounts, pointer) if accounts.is_personal == bool(pointer.principal) else None


def _pointed(pointer: FlowPointer) -> SecretAddress:
    return SecretAddress(
        tenant=pointer.tenant, kind="key", upstream=pointer.server, principal=pointer.principal
    )
