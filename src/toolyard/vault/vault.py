"""The vault: secrets in the state store, sealed under a key of their tenant, which a master key wraps.

Every replica with the same store and the same master key sees the same secrets. This process keeps the
opened keys of tenants, and sealed records for readers that accept one of a few seconds ago; it keeps no
opened secret.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from ..state.store import State, StateError, StateExtraError
from .base import (
    SecretAddress,
    SecretKind,
    StoredSecret,
    VaultDamagedError,
    VaultError,
    VaultKeyError,
    VaultUnavailableError,
    tenant_words,
)
from .envelope import (
    FORMAT,
    KEY_BYTES,
    MAX_SECRET,
    SECRETS,
    TENANTS,
    UNREADABLE,
    Envelope,
    TenantKeys,
    WrappedKey,
    address_in,
    aes,
    damaged,
    described,
    encode,
    open_envelope,
    read_envelope,
    read_tenant,
    seal,
    secret_key,
    secrets_prefix,
    tenant_key,
)
from .master_keys import MasterKey, MasterKeys, MissingSource

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

T = TypeVar("T")

MAX_TENANTS = 10_000
MAX_RECORDS = 100_000
"""How many opened keys and sealed records this process keeps."""
TRIES = 20


class OpenedKeys(Struct, frozen=True):
    """The keys of one tenant, ready to use."""

    current: str
    ciphers: "dict[str, AESGCM]"


class _Record(Struct, frozen=True, gc=False):
    """What the store had; None if it had nothing."""

    read_at: float
    envelope: Envelope | None


class VaultStatus(Struct, frozen=True, kw_only=True):
    key: str
    """The source of the master key."""
    master: str | None
    """The id of the current master key; None if there is none."""
    problem: str = ""
    hint: str = ""
    tenants: int = 0
    secrets: dict[str, int] = {}
    """How many there are of each kind."""
    earlier: dict[str, int] = {}
    """How many tenants still have a key wrapped by another master key, by its id."""
    unknown: tuple[str, ...] = ()
    """Those of them that are not known here: what they wrapped cannot be opened."""


class Rotation(Struct, frozen=True):
    master: str
    rewrapped: int
    total: int
    dropped: tuple[str, ...] = ()
    """The ids of keys that are in the file no more."""


class Vault:
    """A `SecretStore`. `clock` tells how old a record in memory is."""

    def __init__(
        self,
        state: State,
        keys: MasterKeys,
        *,
        owns_state: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self.keys = keys
        self._owns_state = owns_state
        self._clock = clock
        self._tenants: OrderedDict[str, OpenedKeys] = OrderedDict()
        self._records: OrderedDict[SecretAddress, _Record] = OrderedDict()
        self._opening = asyncio.Lock()

    @property
    def store(self) -> State:
        """Where its records are: all who share them can agree there who does what."""
        return self._state

    async def close(self) -> None:
        self._tenants.clear()
        self._records.clear()
        if self._owns_state:
            await self._state.close()

    # Secrets

    async def read(self, address: SecretAddress, max_age: float = 0.0) -> StoredSecret | None:
        if max_age > 0:
            known = self._records.get(address)
            if known is not None and self._clock() - known.read_at <= max_age:
                if known.envelope is None:
                    return None
                opened = self._tenants.get(address.tenant)
                cipher = None if opened is None else opened.ciphers.get(known.envelope.key)
                if cipher is not None:
                    return StoredSecret(
                        open_envelope(cipher, known.envelope, address), known.envelope.version
                    )
        read_at = self._clock()
        raw = await self._asked(self._state.get(secret_key(address)))
        envelope = None if raw is None else read_envelope(raw, address)
        self._remember(address, envelope, read_at)
        return None if envelope is None else await self._opened(address, envelope)

    async def replace(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        before = await self._asked(self._state.get(secret_key(address)))
        if (None if before is None else read_envelope(before, address).version) != seen:
            self._records.pop(address, None)
            return None
        return await self._write(address, value, before)

    async def put(self, address: SecretAddress, value: bytes) -> str:
        """Writes whatever is there now, even if that is damaged."""
        for _ in range(TRIES):
            before = await self._asked(self._state.get(secret_key(address)))
            version = await self._write(address, value, before)
            if version is not None:
                return version
        raise VaultUnavailableError(f"others keep changing {described(address)}", "try again")

    async def _write(self, address: SecretAddress, value: bytes, before: bytes | None) -> str | None:
        """Writes if the record is still `before`."""
        if len(value) > MAX_SECRET:
            raise VaultError(f"{described(address)} has {len(value)} bytes", f"at most {MAX_SECRET}")
        opened = await self._keys_of(address.tenant)
        envelope = seal(opened.ciphers[opened.current], opened.current, address, value)
        read_at = self._clock()
        if not await self._asked(self._state.swap(secret_key(address), before, encode(envelope))):
            self._records.pop(address, None)
            return None
        self._remember(address, envelope, read_at)
        return envelope.version

    async def delete(self, address: SecretAddress, seen: str | None = None) -> bool:
        key = secret_key(address)
        self._records.pop(address, None)
        if seen is None:
            return await self._asked(self._state.delete(key))
        before = await self._asked(self._state.get(key))
        if before is None or _version(before) != seen:
            return False
        return await self._asked(self._state.swap(key, before, None))

    async def list(
        self, tenant: str, principal: str | None = None, kind: SecretKind | None = None
    ) -> list[SecretAddress]:
        prefix = secrets_prefix(tenant, principal, kind)
        found = [address async for address in self._addresses(prefix)]
        return [one for one in found if kind is None or one.kind == kind]

    async def _addresses(self, prefix: str) -> AsyncIterator[SecretAddress]:
        for key in await self._asked(self._state.keys(prefix)):
            address = address_in(key)
            if address is None:
                raw = await self._asked(self._state.get(key))
                if raw is None:
                    continue
                address = _named_address(raw)
                if address is None or secret_key(address) != key:
                    raise VaultDamagedError(
                        f"the record {key[:80]!r} of the vault does not say where it belongs",
                        "restore the state store from its backup; nothing was changed",
                    )
            yield address

    async def _opened(self, address: SecretAddress, envelope: Envelope) -> StoredSecret:
        keys = await self._keys_of(address.tenant, envelope.key)
        cipher = keys.ciphers.get(envelope.key)
        if cipher is None:
            raise damaged(address)
        return StoredSecret(open_envelope(cipher, envelope, address), envelope.version)

    def _remember(self, address: SecretAddress, envelope: Envelope | None, read_at: float) -> None:
        self._records[address] = _Record(read_at, envelope)
        self._records.move_to_end(address)
        if len(self._records) > MAX_RECORDS:
            self._records.popitem(last=False)

    # Keys of tenants

    async def _keys_of(self, tenant: str, id: str = "") -> OpenedKeys:
        """The tenant's keys; they are read again if the one with this id is not known yet."""
        known = self._tenants.get(tenant)
        if known is not None and (not id or id in known.ciphers):
            return known
        async with self._opening:
            known = self._tenants.get(tenant)
            if known is not None and (not id or id in known.ciphers):
                return known
            raw = await self._asked(self._state.get(tenant_key(tenant)))
            if raw is None and id:
                raise VaultDamagedError(
                    f"the key of {tenant_words(tenant)} is missing from the store, and its secrets are there",
                    "restore the state store from its backup, or `toolyard vault import` an export",
                )
            record = await self._new_tenant(tenant) if raw is None else read_tenant(raw, tenant)
            try:
                opened = await self._opened_keys(record)
            except VaultKeyError:
                # A rotation may have moved it and dropped the old key before we read the keys.
                again = await self._tenant_at(tenant_key(tenant))
                if again is None or again == record:
                    raise
                opened = await self._opened_keys(again)
            self._tenants[tenant] = opened
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
            return opened

    async def _new_tenant(self, tenant: str) -> TenantKeys:
        """Make the tenant's key, unless another process is faster."""
        if self.keys.makes_first:
            await self.make_master()
        id, plain = os.urandom(6).hex(), os.urandom(KEY_BYTES)
        made: bytes | None = None
        by = ""
        for _ in range(TRIES):
            # Read now and not from memory: a key that was rotated away must not wrap anything new. Read again
            # when it is written: a rotation in between did not see it, and may have dropped our master key.
            await self.keys.read_again()
            master = await self.keys.current()
            if made is not None and master.id == by:
                return read_tenant(made, tenant)
            wrapped = WrappedKey(id, master.id, await asyncio.to_thread(master.wrap, tenant, plain))
            record = encode(TenantKeys(FORMAT, tenant, (wrapped,)))
            if await self._asked(self._state.swap(tenant_key(tenant), made, record)):
                made, by = record, master.id
                continue
            raw = await self._asked(self._state.get(tenant_key(tenant)))
            if raw is not None:
                return read_tenant(raw, tenant)
            made = None
        raise VaultUnavailableError("the keys in the store keep changing", "try again")

    async def make_master(self) -> bool:
        """Makes the first master key where there is none; returns whether it did.

        If another one was there, it makes none: that would hide what is lost.
        """
        source = self.keys.source
        if await asyncio.to_thread(source.exists):
            return False
        if isinstance(source, MissingSource) or await self._asked(self._state.keys(TENANTS)):
            source.load()  # raises, and says where the key is missing
        await asyncio.to_thread(source.create)
        return True

    async def _opened_keys(self, record: TenantKeys) -> OpenedKeys:
        ciphers: dict[str, AESGCM] = {}
        for each in record.keys:
            ciphers[each.id] = aes(await self._unwrapped(record.tenant, each))
        return OpenedKeys(record.keys[-1].id, ciphers)

    async def _unwrapped(self, tenant: str, key: WrappedKey) -> bytes:
        master = await self.keys.find(key.master)
        if master is None:
            raise VaultKeyError(
                f"the key of {tenant_words(tenant)} was wrapped by the master key {key.master!r}, which is "
                f"not known here (known: {', '.join(self.keys.ids)}, from {self.keys.source.shown})",
                "put that key back, or name its source in `previous` of [vault]; nothing was changed",
            )
        return await asyncio.to_thread(master.unwrap, tenant, key.wrapped)

    # Its care

    async def check(self, *, make: bool = True) -> None:
        """Raises VaultError unless there is a master key that opens what is in the store.

        The first one is made where it is missing; without `make` nothing is written.
        """
        aes(bytes(KEY_BYTES))  # raises if the extra is not installed
        if self.keys.makes_first:
            if make:
                await self.make_master()
            elif not await asyncio.to_thread(self.keys.source.exists):
                if await self._asked(self._state.keys(TENANTS)):
                    self.keys.source.load()  # raises, and says where the key is missing
                return
        await self.keys.read_again()
        for key in (await self._asked(self._state.keys(TENANTS)))[:1]:
            record = await self._tenant_at(key)
            if record is not None:
                await self._opened_keys(record)

    async def status(self) -> VaultStatus:
        """What the vault holds, and what is wrong with it; raises only if the store does not answer."""
        found = await self._status()
        # A rotation may have moved tenants between the readings of the keys and of the store.
        return await self._status() if found.unknown else found

    async def _status(self) -> VaultStatus:
        problem: VaultError | None = None
        masters: list[set[str]] = []
        counts: dict[str, int] = {}
        current = ""
        try:
            await self.keys.read_again()
            current = (await self.keys.current()).id
        except VaultUnavailableError:
            raise
        except VaultError as error:
            problem = error
        for key in await self._asked(self._state.keys(TENANTS)):
            try:
                record = await self._tenant_at(key)
            except VaultDamagedError as error:
                problem = problem or error
            else:
                masters.append({each.master for each in record.keys} if record is not None else set())
        try:
            async for address in self._addresses(SECRETS):
                counts[address.kind] = counts.get(address.kind, 0) + 1
        except VaultDamagedError as error:
            problem = problem or error
        if not masters and not counts and isinstance(problem, VaultKeyError) and self.keys.makes_first:
            problem = None  # it is made when it is needed
        earlier: dict[str, int] = {}
        for used in masters:
            for id in used - {current}:
                earlier[id] = earlier.get(id, 0) + 1
        return VaultStatus(
            key=self.keys.source.shown,
            master=current or None,
            problem="" if problem is None else problem.message,
            hint="" if problem is None else problem.hint,
            tenants=len(masters),
            secrets=counts,
            earlier=earlier,
            unknown=tuple(sorted(id for id in earlier if id not in self.keys.ids)),
        )

    async def rotate(self, on_progress: Callable[[int, int], None] | None = None) -> Rotation:
        """Wraps the keys of all tenants by the current master key.

        It may be stopped at any time and begun again: each tenant is moved in one step. Secrets are not
        touched, so running gateways go on with the keys that they have opened.
        """
        await self.keys.read_again()
        master = await self.keys.current()
        found = await self._asked(self._state.keys(TENANTS))
        rewrapped = 0
        for number, key in enumerate(found, 1):
            rewrapped += await self._rewrap(key, master)
            if on_progress is not None:
                on_progress(number, len(found))
        return Rotation(master.id, rewrapped, len(found))

    async def _rewrap(self, key: str, master: MasterKey) -> bool:
        for _ in range(TRIES):
            raw = await self._asked(self._state.get(key))
            if raw is None:
                return False
            record = read_tenant(raw, _tenant_named(raw, key))
            if all(each.master == master.id for each in record.keys):
                return False
            keys = [await self._wrapped_again(record.tenant, each, master) for each in record.keys]
            changed = TenantKeys(FORMAT, record.tenant, tuple(keys))
            if await self._asked(self._state.swap(key, raw, encode(changed))):
                return True
        raise VaultUnavailableError("the keys in the store keep changing", "run it again")

    async def _wrapped_again(self, tenant: str, key: WrappedKey, master: MasterKey) -> WrappedKey:
        if key.master == master.id:
            return key
        plain = await self._unwrapped(tenant, key)
        return WrappedKey(key.id, master.id, await asyncio.to_thread(master.wrap, tenant, plain))

    async def masters_in_use(self) -> set[str]:
        """The ids of the master keys that wrap something."""
        records = [await self._tenant_at(key) for key in await self._asked(self._state.keys(TENANTS))]
        return {each.master for record in records if record is not None for each in record.keys}

    async def all(self) -> "AsyncIterator[tuple[SecretAddress, StoredSecret]]":
        """Every secret of every tenant, for a backup."""
        async for address in self._addresses(SECRETS):
            found = await self.read(address)
            if found is not None:
                yield address, found

    async def _tenant_at(self, key: str) -> TenantKeys | None:
        raw = await self._asked(self._state.get(key))
        return None if raw is None else read_tenant(raw, _tenant_named(raw, key))

    async def _asked(self, asking: Awaitable[T]) -> T:
        try:
            return await asking
        except StateExtraError as error:
            raise VaultError(error.message, error.hint or "install it") from None
        except StateError as error:
            hint = error.hint or "the vault is in the state store; see [state]"
            raise VaultUnavailableError(f"the vault cannot be reached: {error.message}", hint) from None


_decode_tenant_name = msgspec.msgpack.Decoder(TenantKeys).decode
_decode_address = msgspec.msgpack.Decoder(Envelope).decode


def _tenant_named(raw: bytes, key: str) -> str:
    """The tenant that a record names, if it is where that tenant's record belongs."""
    try:
        tenant = _decode_tenant_name(raw).tenant
    except UNREADABLE:
        tenant = ""
    if tenant_key(tenant) == key:
        return tenant
    raise VaultDamagedError(
        f"the record {key[:80]!r} with the keys of a tenant is damaged",
        "restore the state store from its backup; nothing was changed",
    )


def _named_address(raw: bytes) -> SecretAddress | None:
    try:
        return _decode_address(raw).address
    except UNREADABLE:
        return None


def _version(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        return _decode_address(raw).version
    except UNREADABLE:
        return "damaged"
