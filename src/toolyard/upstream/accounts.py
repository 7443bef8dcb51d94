"""The accounts of callers at a server: what a kind of credential has to offer to the gateway."""

from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from ..wire.call import Call, Principal
from .http.client import EndpointAuth


class AccountState(Struct, frozen=True):
    connected: bool
    reason: str = ""
    """Why it is not connected, or what is known of the connection."""


class ConsentLink(Struct, frozen=True):
    url: str
    message: str
    id: str
    """Names the question to clients of the legacy era."""


class AccountAuth(EndpointAuth, Protocol):
    """One account's credential."""

    @property
    def is_ready(self) -> bool:
        """Whether a request has nothing to wait for."""
        ...

    async def prepare(self) -> None:
        """Wait for what a request would wait for, where that keeps nobody else waiting."""
        ...


class Accounts(Protocol):
    """All callers' accounts at one server."""

    @property
    def server(self) -> str: ...

    @property
    def kind(self) -> str:
        """How it is connected, as a search names it: `oauth` or `api_key`."""
        ...

    @property
    def is_personal(self) -> bool:
        """Whether each caller has one of its own; otherwise all share one."""
        ...

    def key(self, principal: Principal) -> tuple[str, ...]:
        """Callers with the same key share connections."""
        ...

    def authorizer(self, principal: Principal) -> AccountAuth: ...

    def acting(self, call: Call) -> AbstractContextManager[None]:
        """While it lasts, what the call brought may be used to get a credential.

        Raises CredentialError if the caller cannot have one.
        """
        ...

    async def state(self, principal: Principal) -> AccountState: ...

    async def link(
        self, principal: Principal, scopes: tuple[str, ...] = (), earlier: tuple[str, ...] = ()
    ) -> ConsentLink:
        """Where the caller connects its account. Raises CredentialError if there is no such place."""
        ...

    async def wait(self, principal: Principal, seconds: float) -> bool:
        """Wait until the account is connected; returns whether it is."""
        ...

    async def disconnect(self, principal: Principal) -> bool:
        """Forget the credential, here and at its issuer; returns whether there was one."""
        ...

    async def close(self) -> None: ...
