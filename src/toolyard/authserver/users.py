"""Local users: their records in the state store, their passwords by Argon2id, and the brake on guessing.

A record has the hash of a password in the form of PHC strings, and never the password. Users belong to the
gateway of one name.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..callers.names import canonical_name, canonical_user, lookalikes
from ..extras import install_command
from ..state.store import State, WindowSpend
from ..wire.call import Principal

MIN_PASSWORD, MAX_PASSWORD = 10, 1024
MEMORY_KIB, ITERATIONS, LANES = 64 * 1024, 3, 1
"""RFC 9106 has four lanes for these; one lane keeps a core free. A check takes about 0.2 s."""
MAX_CHECKS = 2
"""Passwords checked at a time: each takes 64 MiB."""
TRIES_WINDOW = 15 * 60.0
TRIES_OF_USER, TRIES_OF_PEER, TRIES_OF_PAIR = 50, 50, 8
"""Wrong passwords in a window: for a user, from an address, and for both together."""
_ATTEMPTS = 10


class LoginUserError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class TooManyTriesError(Exception):
    """`wait` is in seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__(f"too many wrong passwords; wait {wait:.0f} seconds")
        self.wait = wait


class LocalUser(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`version` changes with the password, and ends the sessions of browsers."""

    name: str
    password: str
    tenant: str = Principal().tenant
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """Scopes that this user may give to a client, beside those that everybody may."""
    created: float
    version: str

    def __repr__(self) -> str:
        return f"LocalUser({self.name!r})"


class PasswordHasher:
    """Argon2id. Raises LoginUserError if the package for it is not installed."""

    def __init__(self, memory: int = MEMORY_KIB, iterations: int = ITERATIONS) -> None:
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
        except ImportError:
            raise LoginUserError(
                "passwords of local users need cryptography 46 or newer", install_command("auth")
            ) from None
        self._kdf = Argon2id
        self._memory, self._iterations = memory, iterations
        self._slots = asyncio.Semaphore(MAX_CHECKS)
        try:
            self._nobody = self._hash(secrets.token_hex(16))
        except UnsupportedAlgorithm:
            raise LoginUserError(
                "this OpenSSL has no Argon2id", "use the wheel of cryptography from PyPI"
            ) from None

    def _hash(self, password: str) -> str:
        made = self._kdf(
            salt=secrets.token_bytes(16),
            length=32,
            iterations=self._iterations,
            lanes=LANES,
            memory_cost=self._memory,
        )
        return made.derive_phc_encoded(password.encode())

    async def hash(self, password: str) -> str:
        async with self._slots:
            return await asyncio.to_thread(self._hash, password)

    async def verify(self, password: str, known: str | None) -> bool:
        """`known` is the hash; None for a user who does not exist, which takes as long."""
        async with self._slots:
            same = await asyncio.to_thread(self._verify, password, known or self._nobody)
        return same and known is not None

    def _verify(self, password: str, known: str) -> bool:
        from cryptography.exceptions import InvalidKey

        try:
            self._kdf.verify_phc_encoded(password.encode(), known)
        except (InvalidKey, ValueError):
            return False
        return True


class LocalUsers:
    def __init__(
        self,
        state: State,
        gateway: str,
        hasher: Callable[[], PasswordHasher] = PasswordHasher,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`hasher` is called at first use: its package takes a while to load."""
        self._state = state
        self._start = f"logins:{quote(gateway, safe='')[:200]}"
        self._make_hasher = hasher
        self._hasher: PasswordHasher | None = None
        self._now = now

    # Signing in

    async def sign_in(self, name: str, password: str, peer: str) -> LocalUser | None:
        """The user, if this is the password. Raises TooManyTriesError, whether it is right or not.

        A try is counted before it is made, so that many at once gain nothing.
        """
        form = _form(name)
        tries = self._tries(form, peer, 1)
        outcome = await self._state.spend(tries)
        if outcome.refused:
            raise TooManyTriesError(max(refused.wait for refused in outcome.refused))
        user = await self.find(name)
        if len(password) > MAX_PASSWORD:
            password, user = "", None
        good = await self._hashing().verify(password, None if user is None else user.password)
        if not good or user is None:
            return None
        await self._state.spend(self._tries(form, peer, -1))
        return user

    def _tries(self, form: str, peer: str, amount: int) -> list[WindowSpend]:
        user, address = quote(form, safe="")[:200], quote(peer, safe="")[:100]
        limits = {
            f"tries-pair:{user}:{address}": TRIES_OF_PAIR,
            f"tries-user:{user}": TRIES_OF_USER,
            f"tries-peer:{address}": TRIES_OF_PEER,
        }
        return [
            WindowSpend(f"{self._start}:{key}", amount, ceiling if amount > 0 else None, TRIES_WINDOW)
            for key, ceiling in limits.items()
        ]

    async def find(self, name: str) -> LocalUser | None:
        raw = await self._state.get(self._key(_form(name)))
        return None if raw is None else msgspec.json.decode(raw, type=LocalUser)

    # Managing

    async def add(
        self,
        name: str,
        password: str,
        *,
        tenant: str = Principal().tenant,
        groups: Sequence[str] = (),
        scopes: Sequence[str] = (),
    ) -> LocalUser:
        """Raises LoginUserError, and CallerNameError for a name that cannot be used."""
        user = LocalUser(
            name=canonical_user(name),
            password=await self._hashed(password),
            tenant=canonical_name(tenant, "tenant"),
            groups=tuple(canonical_name(group, "group") for group in groups),
            scopes=tuple(scopes),
            created=self._now(),
            version=secrets.token_hex(8),
        )
        if not await self._state.swap(self._key(_form(user.name)), None, msgspec.json.encode(user)):
            raise LoginUserError(
                f"there is a user {user.name!r}, or one whose name differs by case only",
                "choose another name",
            )
        return user

    async def change(
        self,
        name: str,
        password: str | None = None,
        groups: Sequence[str] | None = None,
        scopes: Sequence[str] | None = None,
    ) -> LocalUser:
        """What is None stays. A new password ends the sessions of browsers."""
        changed: dict[str, object] = {}
        if password is not None:
            changed |= {"password": await self._hashed(password), "version": secrets.token_hex(8)}
        if groups is not None:
            changed["groups"] = tuple(canonical_name(group, "group") for group in groups)
        if scopes is not None:
            changed["scopes"] = tuple(scopes)
        place = self._key(_form(name))
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(place)
            if raw is None:
                raise _unknown(name)
            user = replace(msgspec.json.decode(raw, type=LocalUser), **changed)
            if await self._state.swap(place, raw, msgspec.json.encode(user)):
                return user
        raise LoginUserError(f"the user {name!r} is being changed by others", "try again")

    async def remove(self, name: str) -> None:
        if not await self._state.delete(self._key(_form(name))):
            raise _unknown(name)

    async def list(self) -> list[LocalUser]:
        found = [await self._state.get(key) for key in await self._state.keys(f"{self._start}:user:")]
        return [msgspec.json.decode(raw, type=LocalUser) for raw in found if raw is not None]

    async def _hashed(self, password: str) -> str:
        if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
            raise LoginUserError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
        return await self._hashing().hash(password)

    def _hashing(self) -> PasswordHasher:
        if self._hasher is None:
            self._hasher = self._make_hasher()
        return self._hasher

    def _key(self, form: str) -> str:
        return f"{self._start}:user:{quote(form, safe='')[:600]}"


def _form(name: str) -> str:
    """The form by which names are compared: without regard to case and forms of Unicode."""
    return lookalikes(name.strip()[:400])[0]


def _unknown(name: str) -> LoginUserError:
    return LoginUserError(f"no user {name[:80]!r}", "`toolyard logins users list` shows them")
