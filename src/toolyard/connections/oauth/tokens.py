"""Tokens at rest, and refreshing them once for all processes that share them.

A refresh token that rotates must be used once: two uses look like theft, and end the connection. So whoever
refreshes holds a lease in the state store, reads the token again after winning it, and writes the successor
only over the version that it read. Whoever loses takes what the winner wrote; nobody deletes a token because
of a lost race. The lease is short and renewed by its holder, so that one who dies is soon succeeded. No
lock is held while calls run: a token is used until it ends, and refreshed before. An issuer that does not
answer is not asked by one process after the other: whoever waited for an attempt shares its failure.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ...state.store import State, StateError
from ...vault.base import SecretAddress, SecretStore, StoredSecret, VaultUnavailableError
from ...wire.seal import digest
from .errors import AuthorityUnavailableError
from .token_endpoint import ClientIdentity

LEASE_SECONDS = 5.0
NOTE_SECONDS = 2.0
"""For so long those who wait can read that the issuer has not answered."""
WRITE_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Between attempts to write a successor: no store has a copy of it, and the token before it is used up."""
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5
MARGIN, MARGIN_SHARE = 60.0, 0.2
"""A token is refreshed so many seconds before its end, or earlier in the life of a short one."""
_FAILED = b"failed: "
_ENDED = "the connection was ended while its token was refreshed"


class TokenRecord(Struct, frozen=True, kw_only=True):
    """A principal's token for one server, with all that refreshing and revoking it need."""

    access_token: str
    token_type: str = "Bearer"
    obtained: float = 0.0
    """Seconds since 1970."""
    granted: float = 0.0
    """When its owner agreed, which refreshing does not change; 0 if nobody was asked."""
    lifetime: float | None = None
    refresh_token: str = ""
    scopes: tuple[str, ...] = ()
    issuer: str = ""
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    client: ClientIdentity
    resource: str = ""
    """What token requests name as `resource`; empty if they name none."""
    server_url: str = ""
    """The address that the token was obtained for. It is sent nowhere else."""
    dpop_key: dict[str, Any] | None = None
    refused: str = ""
    """Why it cannot be used any more: the code with which a refresh was refused."""

    def __repr__(self) -> str:
        return f"TokenRecord(issuer={self.issuer!r}, lifetime={self.lifetime})"

    def seconds_left(self, now: float) -> float:
        """Never more than its lifetime, so that a clock that was set back does not prolong it."""
        if self.lifetime is None:
            return float("inf")
        return self.lifetime - max(0.0, now - self.obtained)

    @property
    def margin(self) -> float:
        return 0.0 if self.lifetime is None else min(MARGIN, self.lifetime * MARGIN_SHARE)


class HeldToken(Struct, frozen=True):
    record: TokenRecord
    version: str


class CachingSecrets(Protocol):
    """A secret store that may answer from memory."""

    async def read(self, address: SecretAddress, max_age: float = 0.0) -> StoredSecret | None: ...


class TokenStore:
    def __init__(
        self,
        secrets: SecretStore,
        state: State,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secrets = secrets
        self._state = state
        self._lease_seconds = lease_seconds
        self.clock = clock

    @property
    def secrets(self) -> SecretStore:
        return self._secrets

    async def load(self, address: SecretAddress) -> HeldToken | None:
        return _held(await self._secrets.read(address))

    async def save(self, address: SecretAddress, record: TokenRecord) -> HeldToken:
        """Keep a token that its owner has just agreed to, whatever was there before."""
        value = msgspec.json.encode(record)
        while True:
            before = await self._secrets.read(address)
            version = await self._secrets.replace(address, value, None if before is None else before.version)
            if version is not None:
                return HeldToken(record, version)

    async def delete(self, address: SecretAddress) -> TokenRecord | None:
        """Forget a token because its owner wants that; returns what it was."""
        before = _held(await self._secrets.read(address))
        await self._secrets.delete(address)
        return None if before is None else before.record

    async def renew(
        self,
        address: SecretAddress,
        seen: str | None,
        make: Callable[[TokenRecord | None], Awaitable[TokenRecord]],
    ) -> HeldToken:
        """Have one process replace the version `seen`, and return what is there then.

        `make` gets the token as it is and returns its successor. What it raises is raised here, unless
        somebody else has written a successor meanwhile. AuthorityUnavailableError of another process is
        raised here too, if this one waited for it.
        """
        try:
            async with self._lease(address, seen) as winner:
                found = _held(await self._secrets.read(address))
                if found is not None and found.version != seen:
                    return found
                if not winner:
                    raise AuthorityUnavailableError(_ENDED)
                return await self._replace(address, found, make)
        except StateError as error:
            raise AuthorityUnavailableError(error.public_message) from error

    async def _replace(
        self,
        address: SecretAddress,
        found: HeldToken | None,
        make: Callable[[TokenRecord | None], Awaitable[TokenRecord]],
    ) -> HeldToken:
        seen = None if found is None else found.version
        try:
            record = await make(None if found is None else found.record)
        except Exception:
            # Refused, perhaps because somebody was faster: then theirs counts.
            newer = _held(await self._secrets.read(address))
            if newer is not None and newer.version != seen:
                return newer
            raise
        version = await self._write(address, msgspec.json.encode(record), seen)
        if version is not None:
            return HeldToken(record, version)
        newer = _held(await self._secrets.read(address))
        if newer is None:
            raise AuthorityUnavailableError(_ENDED)
        return newer

    async def _write(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        for pause in WRITE_PAUSES:
            try:
                return await self._secrets.replace(address, value, seen)
            except VaultUnavailableError:
                await asyncio.sleep(pause)
        return await self._secrets.replace(address, value, seen)

    @asynccontextmanager
    async def _lease(self, address: SecretAddress, seen: str | None) -> AsyncGenerator[bool]:
        """Wait until this process holds the lease (True), or another one has written a token (False).

        Raises AuthorityUnavailableError if the one that it waited for has failed.
        """
        key = f"oauth/refresh/{digest(msgspec.json.encode(address))}"
        holder = token_hex(8).encode()
        pause, has_waited = FIRST_LOOK, False
        while not await self._state.swap(key, None, holder, self._lease_seconds):
            found = await self._secrets.read(address)
            if found is not None and found.version != seen:
                yield False
                return
            noted = await self._state.get(key)
            if noted is not None and noted.startswith(_FAILED):
                if has_waited:
                    raise AuthorityUnavailableError(noted.removeprefix(_FAILED).decode())
                if await self._state.swap(key, noted, holder, self._lease_seconds):
                    break  # it failed before this one came
            has_waited = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_LOOK, pause * 2)
        beating = asyncio.create_task(self._keep(key, holder))
        left: bytes | None = None
        try:
            yield True
        except AuthorityUnavailableError as error:
            left = _FAILED + error.message.encode()
            raise
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            with contextlib.suppress(StateError):  # it ends by itself
                await self._state.swap(key, holder, left, None if left is None else NOTE_SECONDS)

    async def _keep(self, key: str, holder: bytes) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            with contextlib.suppress(StateError):
                if not await self._state.swap(key, holder, holder, self._lease_seconds):
                    return


def _held(found: StoredSecret | None) -> HeldToken | None:
    if found is None:
        return None
    try:
        return HeldToken(msgspec.json.decode(found.value, type=TokenRecord), found.version)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # of a version of ours that is not this one: the owner is asked again


class ProcessSecrets:
    """Secrets of this process, forgotten with it: for a client without a vault."""

    def __init__(self) -> None:
        self._values: dict[SecretAddress, StoredSecret] = {}
        self._versions = 0

    async def read(self, address: SecretAddress, max_age: float = 0.0) -> StoredSecret | None:
        return self._values.get(address)

    async def replace(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        known = self._values.get(address)
        if (None if known is None else known.version) != seen:
            return None
        self._versions += 1
        self._values[address] = StoredSecret(value, str(self._versions))
        return str(self._versions)

    async def delete(self, address: SecretAddress, seen: str | None = None) -> bool:
        known = self._values.get(address)
        if known is None or (seen is not None and known.version != seen):
            return False
        del self._values[address]
        return True

    async def list(
        self, tenant: str, principal: str | None = None, kind: str | None = None
    ) -> list[SecretAddress]:
        return [
            address
            for address in self._values
            if address.tenant == tenant
            and principal in (None, address.principal)
            and kind in (None, address.kind)
        ]
