"""Links that a person opens to connect an account: what each leads to, and which browser it belongs to.

A link is known to the state store, so any replica can show its page and finish what another began. A page
answers to one browser: whoever sends the answer has to bring the cookie that was set there. Kinds of
accounts (`oauth`, `keys`) say what their pages show and what an answer means.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ..state.store import State
from ..upstream.accounts import Accounts
from ..wire.call import Principal
from .pages import KeyForm, PageKind

FLOW_SECONDS = 600.0
"""How long a link is good for."""
REUSE_SECONDS = 300.0
"""For so long a link is given again to those who ask again, so that the first one they got still works."""
POLL_SECONDS = 0.3


class FlowPointer(Struct, frozen=True, array_like=True):
    """Whose account a link connects, and at which server."""

    server: str
    tenant: str
    principal: str
    user: str
    browser: str = ""
    """The digest of the cookie of the browser that has it; empty before."""
    attempts: int = 0


class FlowPage(Struct, frozen=True):
    """What a page shows. With `location` the browser is sent on; `cookie` binds the link to it."""

    kind: PageKind
    server: str = ""
    details: dict[str, str] = {}
    location: str = ""
    cookie: str = ""
    form_targets: str = "'none'"
    """Where the page's form may lead, redirects included."""
    form: KeyForm | None = None


class FlowPointers:
    """The links of one kind, in the state store by `prefix` and their ids."""

    def __init__(self, state: State, prefix: str) -> None:
        self._state = state
        self._prefix = prefix

    async def put(self, id: str, pointer: FlowPointer) -> None:
        await self._state.put(self._key(id), msgspec.json.encode(pointer), FLOW_SECONDS)

    async def find(self, id: str) -> FlowPointer | None:
        if len(id) != 32 or not id.isalnum():
            return None
        value = await self._state.get(self._key(id))
        try:
            return None if value is None else msgspec.json.decode(value, type=FlowPointer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    async def replace(self, id: str, before: FlowPointer, after: FlowPointer | None) -> bool:
        """Returns False, and changes nothing, if the link was used meanwhile. None ends it."""
        value = None if after is None else msgspec.json.encode(after)
        return await self._state.swap(self._key(id), msgspec.json.encode(before), value, FLOW_SECONDS)

    async def delete(self, id: str) -> None:
        await self._state.delete(self._key(id))

    def _key(self, id: str) -> str:
        return f"{self._prefix}{id}"


def is_from(pointer: FlowPointer, id: str, cookies: Mapping[str, str]) -> bool:
    """Whether a request comes from the browser that the link belongs to."""
    given = digest_of(cookies.get(cookie_name(id), ""))
    return bool(pointer.browser) and hmac.compare_digest(given, pointer.browser)


def cookie_name(id: str) -> str:
    return f"toolyard-login-{id[:12]}"


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def shown_name(principal: Principal) -> str:
    """Empty for the local user, whom a page calls `you`."""
    return principal.user or principal.agent


def runs_gateway(principal: Principal) -> bool:
    """Whether it is the local user. Callers who are told apart by their keys came without credentials too."""
    return principal.kind == "local" and principal.owner == Principal().owner


async def wait_connected(accounts: Accounts, principal: Principal, seconds: float) -> bool:
    """Waits until an account is connected; returns whether it is."""
    until = time.monotonic() + seconds
    while not (await accounts.state(principal)).connected:
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, until - time.monotonic())))
    return True
