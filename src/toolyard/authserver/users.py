"""Local users: their records in the state store, passwords and passkeys.

A record has the hash of a password (Argon2id, in the form of PHC strings) and public keys: nothing that lets
anybody in. Users belong to the gateway of one name. A user gets a passkey by a link that counts once. The
brake on guessing is in `brakes`.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..callers.names import canonical_name, canonical_user
from ..config.names import lookalikes
from ..edge.proxies import block_of
from ..extras import install_command
from ..state.store import State
from ..wire.call import Principal
from .brakes import Bulkhead, GuessBrake
from .passkeys import Assertion, Passkey, PasskeyError, RelyingParty, verify_assertion

logger = logging.getLogger("toolyard.authserver")

MIN_PASSWORD, MAX_PASSWORD = 10, 1024
MEMORY_KIB, ITERATIONS, LANES = 64 * 1024, 3, 1
"""RFC 9106 has four lanes for these; one lane keeps a core free. A check takes about 0.2 s."""
MAX_CHECKS = 2
"""Passwords checked at a time: each takes 64 MiB."""
MAX_SIGNING_IN, MAX_SIGNING_IN_OF_ADDRESS = 64, 16
"""Passwords that are being checked or wait for it."""
ENROLMENT_PREFIX = "tye_"
ENROLMENT_SECONDS, MAX_ENROLMENT_SECONDS = 15 * 60.0, 7 * 86400.0
MAX_PASSKEYS = 20
CHALLENGE_KEPT = 20 * 60.0
"""How long it is remembered that a challenge was used: longer than any lives."""
_ATTEMPTS = 10


class LoginUserError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class LocalUser(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`version` changes with the password or a removed passkey, and ends the sessions of browsers."""

    name: str
    password: str
    """Empty for a user who has passkeys only."""
    tenant: str = Principal().tenant
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """Scopes that this user may give to a client, beside those that everybody may."""
    created: float
    version: str
    handle: str = ""
    """Random, and named by passkeys; empty before the first link to make one."""
    passkeys: tuple[Passkey, ...] = ()

    def __repr__(self) -> str:
        return f"LocalUser({self.name!r})"


class _Enrolment(Struct, frozen=True):
    """Who may make a passkey with a link. By the handle, so that a later user of the same name may not."""

    user: str
    handle: str
    expires: float


def check_enrolment(seconds: float) -> None:
    """Raises LoginUserError if a link cannot be valid for so long."""
    if not 1 <= seconds <= MAX_ENROLMENT_SECONDS:
        raise LoginUserError(
            "a link to make a passkey cannot be valid for that time", "it may be a second to a week, as 3d"
        )


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
        self.brake = GuessBrake(state, self._start)
        self._signing_in = Bulkhead(MAX_SIGNING_IN)
        self._make_hasher = hasher
        self._hasher: PasswordHasher | None = None
        self._now = now

    # Signing in

    async def sign_in(self, name: str, password: str, peer: str) -> LocalUser | None:
        """The user, if this is the password. Raises TooManyTriesError and BusyError, whether it is or not."""
        shares = {block_of(peer): MAX_SIGNING_IN_OF_ADDRESS}
        self._signing_in.enter(shares)
        try:
            await self.brake.count(peer, _form(name))
            user = await self._checked(name, password)
            if user is not None:
                await self.brake.forgive(peer, _form(name))
            return user
        finally:
            self._signing_in.leave(shares)

    async def _checked(self, name: str, password: str) -> LocalUser | None:
        user = await self.find(name)
        if len(password) > MAX_PASSWORD:
            password, user = "", None
        good = await self._hashing().verify(password, (user.password or None) if user else None)
        return user if good else None

    async def sign_in_by_passkey(
        self, assertion: Assertion, party: RelyingParty, challenge: str
    ) -> LocalUser:
        """The user whose passkey has signed the challenge, which counts once. Raises PasskeyError."""
        user = await self._of_handle(assertion.handle)
        passkey = None if user is None else _passkey_of(user, assertion.credential)
        if user is None or passkey is None:
            raise PasskeyError("no user has this passkey")
        used = verify_assertion(assertion, passkey, party, challenge)
        place = f"{self._start}:challenge:{challenge}"
        if not await self._state.swap(place, None, b"used", CHALLENGE_KEPT):
            raise PasskeyError("the challenge was used before")
        now = self._now()
        went_back = bool(used.count or passkey.count) and used.count <= passkey.count
        if went_back:
            logger.warning(
                "the counter of the passkey %r of %r went back: there may be a copy", passkey.id, user.name
            )

        def note(current: LocalUser) -> LocalUser:
            known = _passkey_of(current, assertion.credential)
            if known is None or current.handle != assertion.handle:
                raise PasskeyError("the passkey was removed")
            noted = replace(known, count=used.count, synced=used.synced, used=now)
            return _with_passkey(current, replace(noted, went_back=now) if went_back else noted)

        return await self._change(user.name, note)

    async def _of_handle(self, handle: str) -> LocalUser | None:
        if not 0 < len(handle) <= 64 or not handle.isascii() or not handle.isprintable():
            return None
        form = await self._state.get(self._handle_key(handle))
        raw = None if form is None else await self._state.get(self._key(form.decode()))
        user = None if raw is None else msgspec.json.decode(raw, type=LocalUser)
        return user if user is not None and user.handle == handle else None

    # Making passkeys

    async def open_enrolment(self, name: str, seconds: float = ENROLMENT_SECONDS) -> str:
        """The secret of a link with which a user makes one passkey. Raises LoginUserError."""
        check_enrolment(seconds)

        def give_handle(user: LocalUser) -> LocalUser:
            if len(user.passkeys) >= MAX_PASSKEYS:
                raise LoginUserError(
                    f"{user.name!r} has {MAX_PASSKEYS} passkeys, which is the most",
                    f"`toolyard logins passkeys remove {user.name} ID` removes one",
                )
            return user if user.handle else replace(user, handle=secrets.token_urlsafe(24))

        user = await self._change(name, give_handle)
        await self._state.put(self._handle_key(user.handle), _form(user.name).encode())
        ticket = ENROLMENT_PREFIX + secrets.token_urlsafe(32)
        kept = _Enrolment(user.name, user.handle, self._now() + seconds)
        await self._state.put(self._ticket_key(ticket), msgspec.json.encode(kept), seconds)
        return ticket

    async def find_enrolment(self, ticket: str) -> LocalUser | None:
        """Who may make a passkey with it now; None if it was used, is too old, or the user is gone."""
        raw = await self._state.get(self._ticket_key(ticket))
        kept = None if raw is None else msgspec.json.decode(raw, type=_Enrolment)
        if kept is None or self._now() >= kept.expires:
            return None
        user = await self.find(kept.user)
        return user if user is not None and user.handle == kept.handle else None

    async def enrol(self, ticket: str, passkey: Passkey) -> LocalUser | None:
        """Give the user of a link this passkey; None if the link does not count (any more)."""
        user = await self.find_enrolment(ticket)
        # Deleted first, so that of two browsers with the same link one succeeds.
        if user is None or not await self._state.delete(self._ticket_key(ticket)):
            return None
        handle, made = user.handle, replace(passkey, created=self._now())

        def give(current: LocalUser) -> LocalUser:
            if current.handle != handle:
                raise _unknown(current.name)
            return _with_passkey(current, made)

        return await self._change(user.name, give)

    async def remove_passkey(self, name: str, id: str, *, lock_out: bool = False) -> LocalUser:
        """Browsers have to sign in again. `lock_out` permits to remove the last way in."""

        def remove(user: LocalUser) -> LocalUser:
            left = tuple(passkey for passkey in user.passkeys if passkey.id != id)
            if len(left) == len(user.passkeys):
                raise LoginUserError(
                    f"{user.name!r} has no passkey {id[:40]!r}",
                    f"`toolyard logins passkeys list {user.name}` shows them",
                )
            if not left and not user.password and not lock_out:
                raise LoginUserError(
                    f"this is the only way in for {user.name!r}",
                    f"`toolyard logins passkeys add {user.name}` gives another;"
                    " with --lock-out it is removed nevertheless",
                )
            return replace(user, passkeys=left, version=secrets.token_hex(8))

        return await self._change(name, remove)

    async def get(self, name: str) -> LocalUser:
        """Raises LoginUserError if there is no such user."""
        user = await self.find(name)
        if user is None:
            raise _unknown(name)
        return user

    async def find(self, name: str) -> LocalUser | None:
        raw = await self._state.get(self._key(_form(name)))
        return None if raw is None else msgspec.json.decode(raw, type=LocalUser)

    # Managing

    async def add(
        self,
        name: str,
        password: str | None,
        *,
        tenant: str = Principal().tenant,
        groups: Sequence[str] = (),
        scopes: Sequence[str] = (),
    ) -> LocalUser:
        """Raises LoginUserError, and CallerNameError for a name that cannot be used.

        A user without a password gets in once there is a passkey.
        """
        user = LocalUser(
            name=canonical_user(name),
            password="" if password is None else await self._hashed(password),
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
        return await self._change(name, lambda user: replace(user, **changed))

    async def remove_password(self, name: str) -> LocalUser:
        """Leave a user passkeys only. Browsers have to sign in again."""

        def remove(user: LocalUser) -> LocalUser:
            if not user.password:
                raise LoginUserError(
                    f"{user.name!r} has no password", "`toolyard logins users list` shows how users sign in"
                )
            if not user.passkeys:
                raise LoginUserError(
                    f"the password is the only way in for {user.name!r}",
                    f"`toolyard logins passkeys add {user.name}` gives another",
                )
            return replace(user, password="", version=secrets.token_hex(8))

        return await self._change(name, remove)

    async def _change(self, name: str, change: Callable[[LocalUser], LocalUser]) -> LocalUser:
        place = self._key(_form(name))
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(place)
            if raw is None:
                raise _unknown(name)
            before = msgspec.json.decode(raw, type=LocalUser)
            user = change(before)
            if user is before or await self._state.swap(place, raw, msgspec.json.encode(user)):
                return user
        raise LoginUserError(f"the user {name!r} is being changed by others", "try again")

    async def remove(self, name: str) -> None:
        user = await self.find(name)
        if not await self._state.delete(self._key(_form(name))):
            raise _unknown(name)
        if user is not None and user.handle:
            await self._state.delete(self._handle_key(user.handle))

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

    def _handle_key(self, handle: str) -> str:
        return f"{self._start}:handle:{quote(handle, safe='')}"

    def _ticket_key(self, ticket: str) -> str:
        return f"{self._start}:enrolment:{hashlib.sha256(ticket.encode()).hexdigest()}"


def _form(name: str) -> str:
    """The form by which names are compared: without regard to case and forms of Unicode."""
    return lookalikes(name.strip()[:400])[0]


def _unknown(name: str) -> LoginUserError:
    return LoginUserError(f"no user {name[:80]!r}", "`toolyard logins users list` shows them")


def _passkey_of(user: LocalUser, credential: bytes) -> Passkey | None:
    return next((passkey for passkey in user.passkeys if passkey.credential == credential), None)


def _with_passkey(user: LocalUser, passkey: Passkey) -> LocalUser:
    """With this passkey, in the place of an older one of the same credential."""
    if _passkey_of(user, passkey.credential) is None:
        return replace(user, passkeys=(*user.passkeys, passkey))
    kept = (passkey if known.credential == passkey.credential else known for known in user.passkeys)
    return replace(user, passkeys=tuple(kept))
