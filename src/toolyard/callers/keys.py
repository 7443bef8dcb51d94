"""API keys: their form, and the records of them in the state store.

A key is `ty_<id>_<secret><checksum>`. Its id leads to its record with one read, however many keys there are.
The record has a keyed hash of the whole key, made with the gateway's own key, and never the key itself.
Owns names, expiry, rotation, revocation and the time of last use. Keys belong to the gateway of one name.
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..config.names import lookalikes
from ..state.factory import lasting_state
from ..state.store import State, StateError, StateUnusableError
from ..wire.call import Principal
from ..wire.seal import Sealer
from .errors import InvalidTokenError, VerifierUnavailableError
from .names import canonical_name, canonical_user

logger = logging.getLogger("toolyard.callers")

PREFIX = "ty_"
PATTERN = r"ty_[0-9a-z]{12}_[0-9A-Za-z]{38}"
"""For scanners that look for secrets in files."""
_FORM = re.compile(r"ty_([0-9a-z]{12})_([0-9A-Za-z]{32})([0-9A-Za-z]{6})")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_LENGTH = 12
_SECRET_LENGTH = 32
_CHECKSUM_LENGTH = 6
_PURPOSE = "api-key"

USE_SECONDS = 60.0
"""The time of last use is written at most this often for a key."""
USE_KEPT = 400 * 86400.0
REVOKED_KEPT = 30 * 86400.0
"""A revoked key stays in the list this long."""
_ATTEMPTS = 10

Now = Callable[[], float]


class ApiKeyError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class MalformedKeyError(ApiKeyError):
    pass


def check_key(text: str) -> str:
    """The id of a key. Raises MalformedKeyError for a key with a typo, without asking any store."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise MalformedKeyError("invalid key: form", f"a key begins with {PREFIX} and has 54 characters")
    if not hmac.compare_digest(checksum(text[:-_CHECKSUM_LENGTH]), found[3]):
        raise MalformedKeyError("invalid key: checksum", "a character of it is wrong or missing")
    return found[1]


def checksum(text: str) -> str:
    """The last characters of a key, from those before them."""
    number = zlib.crc32(text.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _random(length: int, digits: str = _DIGITS) -> str:
    return "".join(secrets.choice(digits) for _ in range(length))


def _new_text(id: str) -> str:
    start = f"{PREFIX}{id}_{_random(_SECRET_LENGTH)}"
    return start + checksum(start)


class KeyDigest(Struct, frozen=True, omit_defaults=True):
    """One secret of a key, hashed. A rotated one is valid for a while beside its successor."""

    digest: str
    until: float | None = None


class ApiKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a key."""

    id: str
    name: str
    tenant: str
    digests: tuple[KeyDigest, ...]
    signer: str
    """Tells whether the gateway's key is still the one that hashed it."""
    user: str = ""
    agent: str = ""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    created: float
    expires: float | None = None
    revoked: float | None = None

    @property
    def principal(self) -> Principal:
        return Principal(
            tenant=self.tenant,
            agent=self.agent,
            subject=self.user or self.name,
            groups=frozenset(self.groups),
            scopes=frozenset(self.scopes),
            kind="key",
            credential=self.id,
            expires=self.expires,
        )

    def state(self, now: float) -> str:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"


class KeyHolder(Struct, frozen=True, kw_only=True):
    """Whom a new key is for."""

    name: str
    tenant: str = Principal().tenant
    user: str = ""
    """Whose data it reaches; the key's own name unless given."""
    agent: str = ""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()


class IssuedKey(Struct, frozen=True):
    """A key at the only time that its text is known."""

    key: ApiKey
    text: str


def open_keys(
    url: str, folder: Path | None, gateway: str, sealer: Sealer, state: State | None = None
) -> "ApiKeys":
    """The keys of a gateway, in its state store; `state` is that store if it is open already."""
    found, is_own = lasting_state(url, folder, state, "API keys")
    return ApiKeys(found, gateway, sealer, owns_state=is_own)


class ApiKeys:
    """The keys of one gateway. A `TokenVerifier`; the other methods are for the command line."""

    def __init__(
        self,
        state: State,
        gateway: str,
        sealer: Sealer,
        *,
        owns_state: bool = False,
        now: Now = time.time,
    ) -> None:
        self._state = state
        self._start = f"callers:{quote(gateway, safe='')[:200]}"
        self._sealer = sealer
        self._signer = sealer.fingerprint("signer", _PURPOSE)[:8]
        self._owns_state = owns_state
        self._now = now
        self._written: dict[str, float] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._foreign: set[str] = set()
        # Compared with if there is no record, so that an unknown id takes as long as a wrong secret.
        self._nobody = ApiKey(
            id="", name="", tenant="", digests=(KeyDigest("0" * 32),), signer=self._signer, created=0.0
        )

    # Verifying

    def recognizes(self, token: str) -> bool:
        return token.startswith(PREFIX)

    async def verify(self, token: str, resource: str) -> Principal:
        try:
            id = check_key(token)
        except MalformedKeyError as error:
            raise InvalidTokenError(error.message) from None
        try:
            record = await self._read(id)
        except StateError as error:
            raise VerifierUnavailableError(error.message) from None
        now = self._now()
        if not self._matches(record or self._nobody, token, now) or record is None:
            self._warn_if_foreign(record)
            raise InvalidTokenError(f"no key {id!r} with this secret")
        if (state := record.state(now)) != "valid":
            raise InvalidTokenError(f"the key {id!r} is {state}")
        self._note_use(id, now)
        return record.principal

    def _matches(self, record: ApiKey, token: str, now: float) -> bool:
        digest = self._sealer.fingerprint(token, _PURPOSE)
        found = False
        for each in record.digests:
            same = hmac.compare_digest(each.digest, digest)
            found |= same and (each.until is None or now < each.until)
        return found

    def _warn_if_foreign(self, record: ApiKey | None) -> None:
        if record is not None and record.signer != self._signer and record.id not in self._foreign:
            self._foreign.add(record.id)
            logger.warning(
                "the key %r was made with another TOOLYARD_KEY, so it is refused; rotate it", record.id
            )

    def is_foreign(self, key: ApiKey) -> bool:
        """Whether the gateway's key has changed since, so that this key is not accepted."""
        return key.signer != self._signer

    def _note_use(self, id: str, now: float) -> None:
        """In the background, and rarely: no request waits for it."""
        # The absolute difference: a clock that was set back must not silence it for long.
        if abs(now - self._written.get(id, 0.0)) < USE_SECONDS:
            return
        self._written[id] = now
        task = asyncio.create_task(self._write_use(id, now))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_use(self, id: str, now: float) -> None:
        try:
            await self._state.put(self._key("used", id), b"%d" % now, USE_KEPT)
        except StateError as error:
            logger.debug("the last use of key %r was not written: %s", id, error)

    async def close(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing)
        if self._owns_state:
            self._owns_state = False
            await self._state.close()

    # Managing

    async def create(self, holder: KeyHolder, expires: float | None = None) -> IssuedKey:
        """`expires` is a time, as of `time.time`."""
        holder = _canonical(holder)
        await self._register_names(holder)
        for _ in range(_ATTEMPTS):
            id = _random(_ID_LENGTH, _DIGITS[:36])
            text = _new_text(id)
            key = ApiKey(
                id=id,
                digests=(KeyDigest(self._sealer.fingerprint(text, _PURPOSE)),),
                signer=self._signer,
                created=self._now(),
                expires=expires,
                **{name: getattr(holder, name) for name in holder.__struct_fields__},
            )
            if await self._state.swap(self._key("key", id), None, msgspec.json.encode(key)):
                break
        else:
            raise ApiKeyError("no free id for a key was found")
        try:
            await self._take_name(key)
        except BaseException:
            await self._state.delete(self._key("key", id))
            raise
        return IssuedKey(key, text)

    async def list(self) -> list[ApiKey]:
        """All of them, those that are revoked included, by name."""
        start = self._key("key", "")
        found = [await self._read(name.removeprefix(start)) for name in await self._state.keys(start)]
        return sorted((key for key in found if key is not None), key=lambda key: (key.name, key.created))

    async def last_use(self, id: str) -> float | None:
        raw = await self._state.get(self._key("used", id))
        return None if raw is None else float(raw)

    async def find(self, name_or_id: str) -> ApiKey:
        """By name the key that is valid, else the latest of that name."""
        raw = await self._state.get(self._key("name", lookalikes(name_or_id)[0]))
        key = await self._read(raw.decode()) if raw is not None else None
        if key is None and re.fullmatch(r"[0-9a-z]{12}", name_or_id):
            key = await self._read(name_or_id)
        if key is None:
            raise ApiKeyError(f"no key {name_or_id!r}", "`toolyard keys list` shows names and ids")
        return key

    async def get(self, id: str) -> ApiKey | None:
        return await self._read(id)

    async def similar_agent(self, name: str) -> str | None:
        """A known agent whose name differs from this one only by case, by Unicode form or by look."""
        for form in dict.fromkeys(lookalikes(name)):
            known = await self._state.get(self._key("agent-name", "", form))
            if known is not None and known.decode() != name:
                return known.decode()
        return None

    async def revoke(self, id: str) -> ApiKey:
        """Takes effect at every gateway within `RECHECK_SECONDS`."""

        def revoked(key: ApiKey) -> ApiKey:
            return key if key.revoked is not None else replace(key, revoked=self._now())

        return await self._change(id, revoked, REVOKED_KEPT)

    async def rotate(self, id: str, overlap: float, expires: float | None = None) -> IssuedKey:
        """A new secret for the key. The old ones are valid for `overlap` seconds more, and not longer."""
        text = _new_text(id)
        digest = KeyDigest(self._sealer.fingerprint(text, _PURPOSE))

        def rotated(key: ApiKey) -> ApiKey:
            if key.revoked is not None:
                raise ApiKeyError(
                    f"the key {key.name!r} is revoked", "`toolyard keys create` makes a new one"
                )
            now = self._now()
            end = now + overlap
            older = [
                replace(each, until=end if each.until is None else min(each.until, end))
                for each in key.digests
                if each.until is None or each.until > now
            ]
            kept = tuple(older) if overlap > 0 else ()
            return replace(key, digests=(digest, *kept), signer=self._signer, expires=expires or key.expires)

        return IssuedKey(await self._change(id, rotated), text)

    async def _change(self, id: str, change: Callable[[ApiKey], ApiKey], ttl: float | None = None) -> ApiKey:
        place = self._key("key", id)
        for _ in range(_ATTEMPTS):
            raw = await self._state.get(place)
            if raw is None:
                raise ApiKeyError(f"no key {id!r}", "`toolyard keys list` shows names and ids")
            changed = change(_decode(raw))
            if await self._state.swap(place, raw, msgspec.json.encode(changed), ttl):
                return changed
        raise ApiKeyError(f"the key {id!r} is being changed by others", "try again")

    # Names

    async def _take_name(self, key: ApiKey) -> None:
        """A name has one key at a time that is not revoked. Both forms of it are taken."""
        for form in dict.fromkeys(lookalikes(key.name)):
            place = self._key("name", form)
            raw = await self._state.get(place)
            holder = await self._read(raw.decode()) if raw is not None else None
            if holder is not None and holder.revoked is None and holder.id != key.id:
                if holder.name == key.name:
                    raise ApiKeyError(
                        f"a key {key.name!r} exists", "rotate or revoke it, or choose another name"
                    )
                raise _too_similar("key", key.name, holder.name)
            if not await self._state.swap(place, raw, key.id.encode()):
                raise ApiKeyError(f"the name {key.name!r} was taken at the same moment", "try again")

    async def _register_names(self, holder: KeyHolder) -> None:
        """Refuse a name that looks like one that is known; then all of them are known."""
        named = [("tenant", "", holder.tenant), ("user", holder.tenant, holder.user or holder.name)]
        named += [("agent", "", holder.agent)] if holder.agent else []
        named += [("group", "", name) for name in holder.groups]
        places = [
            (self._key(f"{what}-name", within, form), what, name)
            for what, within, name in named
            for form in dict.fromkeys(lookalikes(name))
        ]
        for place, what, name in places:
            known = await self._state.get(place)
            if known is not None and known.decode() != name:
                raise _too_similar(what, name, known.decode())
        for place, what, name in places:
            if not await self._state.swap(place, None, name.encode()):
                known = await self._state.get(place)
                if known is not None and known.decode() != name:
                    raise _too_similar(what, name, known.decode())

    def _key(self, kind: str, *parts: str) -> str:
        return ":".join((self._start, kind, *(quote(part, safe="") for part in parts)))

    async def _read(self, id: str) -> ApiKey | None:
        raw = await self._state.get(self._key("key", id))
        return None if raw is None else _decode(raw)


def _canonical(holder: KeyHolder) -> KeyHolder:
    return KeyHolder(
        name=canonical_name(holder.name, "name of a key"),
        tenant=canonical_name(holder.tenant, "tenant"),
        user=canonical_user(holder.user) if holder.user else "",
        agent=canonical_name(holder.agent, "agent") if holder.agent else "",
        groups=tuple(dict.fromkeys(canonical_name(name, "group") for name in holder.groups)),
        scopes=tuple(dict.fromkeys(map(_checked_scope, holder.scopes))),
    )


def _checked_scope(scope: str) -> str:
    if not _SCOPE.fullmatch(scope):
        raise ApiKeyError(f"{scope[:80]!a} is not a scope", "printable ASCII without blanks and quotes")
    return scope


def _decode(raw: bytes) -> ApiKey:
    try:
        return msgspec.json.decode(raw, type=ApiKey)
    except msgspec.DecodeError as error:
        raise StateUnusableError(f"the record of a key cannot be read: {error}") from None


def _too_similar(what: str, name: str, known: str) -> ApiKeyError:
    return ApiKeyError(
        f"the {what} {name!a} differs from {known!a} only by case, by Unicode form or by look",
        f"use {known!a}, or choose another name",
    )
