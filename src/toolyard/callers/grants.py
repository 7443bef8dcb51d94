"""Grants: the rights that a caller lends to a sub-agent, made, verified, counted and revoked.

Owns who may lend, how long, how a grant ends with its parent, the count of calls, and the records in the
state store. The form of a token is in `grant_token`. What the rights permit is decided in `policy`: the rules
of the parent apply, those for each name of the chain, and the patterns of every block.

A grant never lasts longer than its parent. One of an API key ends when the key is revoked or expires, one of
a token when the token would have expired, one of another grant with that grant.

McpError
├── GrantEndedError            -32030  expired or revoked; under HTTP 401
├── GrantSpentError            -32030  its calls are used up; under HTTP 403
└── GrantUnavailableError      -32603  calls cannot be counted now; under HTTP 503
"""

import hmac
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..config.callers import AuthConfig
from ..config.names import lookalikes
from ..state.factory import lasting_state
from ..state.store import DAY, State, StateError, StateUnavailableError, StateUnusableError, WindowSpend
from ..wire.call import CallBudget, Grant, Principal, Right
from ..wire.errors import GRANT_ENDED, McpError, Unavailable
from ..wire.seal import Sealer, digest
from .authenticator import OUTAGE_SECONDS
from .errors import InsufficientScopeError, InvalidTokenError, VerifierUnavailableError
from .grant_token import (
    PREFIX,
    GrantBlock,
    GrantError,
    GrantParent,
    GrantToken,
    decode_block,
    encode_block,
    grant_id,
    new_block,
    signatures,
)
from .keys import ApiKey, ApiKeys

BELIEVED_SECONDS = 2.0
"""How long an answer of the store is used again: a revocation takes effect within this time."""
CLOCK_SKEW = 60.0
"""Tolerated between the clocks of gateways. A clock that was set back further makes no grant valid again."""
KEPT = DAY
"""How long counts and revocations stay after the end of their grant, in case a store's clock is ahead."""
REVOKED_KEPT = 400 * DAY
"""The same for a grant whose end is not known, because its holder made it."""
MAX_BELIEVED = 10_000
MAX_MADE_AN_HOUR = 1000
"""By one owner."""
_SHOWN_BY_TOKEN = ("jwt", "introspection", "login")
_ID = re.compile(r"[0-9a-f]{16}")
_ASK = "ask the agent that made it for another one"
_NOT_OURS = "the grant was not made by this gateway"

Now = Callable[[], float]
T = TypeVar("T")


class GrantEndedError(McpError):
    def __init__(self, message: str) -> None:
        super().__init__(GRANT_ENDED, f"{message}; {_ASK}")

    @property
    def http_status(self) -> int:
        return 401

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"www-authenticate", b'Bearer error="invalid_token"')]


class GrantSpentError(McpError):
    def __init__(self, message: str) -> None:
        super().__init__(GRANT_ENDED, f"{message}; {_ASK}")

    @property
    def http_status(self) -> int:
        return 403


class GrantUnavailableError(Unavailable):
    """Says nothing about the store; the log does."""

    def __init__(self) -> None:
        super().__init__("The calls of this grant cannot be counted just now; try again")

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", b"2")]


class GrantRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant that this gateway made, as it is listed. Grants that holders narrow have no record."""

    id: str
    name: str
    chain: tuple[str, ...]
    kind: str
    """How its first maker showed who it is."""
    credential: str
    tenant: str
    user: str
    agents: tuple[str, ...]
    """The agents above it."""
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    calls: int | None = None
    note: str = ""
    made: int
    expires: int


class IssuedGrant(Struct, frozen=True):
    """A grant at the only time that the gateway has its token."""

    record: GrantRecord
    token: str


class ListedGrant(Struct, frozen=True):
    record: GrantRecord
    used: int
    """Calls, those of grants made from it included. 0 also if they are not counted."""
    state: str


def open_grants(
    url: str,
    folder: Path | None,
    gateway: str,
    sealer: Sealer,
    auth: AuthConfig,
    state: State | None = None,
    **options: Any,
) -> "Grants":
    """The grants of a gateway, in the same store as its API keys; `options` are those of `Grants`."""
    found, is_own = lasting_state(url, folder, state, "grants")
    return Grants(found, gateway, sealer, auth, owns_state=is_own, **options)


class _Believed(Generic[T]):
    """Answers of the store that are used again for a moment, and longer while it cannot be asked."""

    def __init__(self, clock: Now) -> None:
        self._clock = clock
        self._answers: dict[str, tuple[float, T]] = {}

    async def get(self, key: str, read: Callable[[str], Awaitable[T]]) -> T:
        """Raises StateError."""
        now = self._clock()
        known = self._answers.get(key)
        if known is not None and now - known[0] < BELIEVED_SECONDS:
            return known[1]
        try:
            answer = await read(key)
        except StateError:
            if known is not None and now - known[0] < OUTAGE_SECONDS:
                return known[1]
            raise
        if len(self._answers) >= MAX_BELIEVED:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (now, answer)
        return answer

    def forget(self, key: str) -> None:
        self._answers.pop(key, None)


class Grants:
    """The grants of one gateway. A `TokenVerifier`, and the maker of their tokens.

    `keys` are the API keys whose holders may lend rights, `agents` the names that no grant may imitate.
    `admits_local`: whether callers without a credential are let in anywhere.
    """

    def __init__(
        self,
        state: State,
        gateway: str,
        sealer: Sealer,
        auth: AuthConfig,
        *,
        keys: ApiKeys | None = None,
        agents: Sequence[str] = (),
        admits_local: bool = True,
        owns_state: bool = False,
        now: Now = time.time,
        clock: Now = time.monotonic,
    ) -> None:
        self._state = state
        self._start = f"callers:{quote(gateway, safe='')[:200]}"
        self._root = sealer.derive("grant")
        self._owns_state = owns_state
        self._now = now
        self._revoked = _Believed[bytes | None](clock)
        self._records = _Believed[ApiKey | None](clock)
        self.configure(auth, keys=keys, agents=agents, admits_local=admits_local)

    def configure(
        self,
        auth: AuthConfig,
        *,
        keys: ApiKeys | None = None,
        agents: Sequence[str] = (),
        admits_local: bool = True,
    ) -> None:
        """Take over a changed configuration. Grants of callers that are not accepted any more end."""
        self._auth = auth
        self._keys = keys if auth.keys else None
        self._agents = {form: agent for agent in agents for form in lookalikes(agent)}
        self._admits_local = admits_local
        self._issuers = frozenset(issuer.issuer for issuer in auth.issuers)

    async def close(self) -> None:
        if self._owns_state:
            self._owns_state = False
            await self._state.close()

    # Verifying

    def recognizes(self, token: str) -> bool:
        return token.startswith(PREFIX)

    async def verify(self, token: str, resource: str) -> Principal:
        """Who has it. The same for every resource. Raises CallerError."""
        if not self._auth.grants:
            raise InvalidTokenError("grants are off")
        try:
            found = GrantToken.read(token)
            tags = signatures(self._root, found.blocks)
            if not hmac.compare_digest(tags[-1], found.signature):
                raise InvalidTokenError(_NOT_OURS)
            blocks = found.contents()
        except GrantError as error:
            raise InvalidTokenError(error.message) from None
        chain = tuple(map(grant_id, tags))
        try:
            return await self._principal(found.blocks, blocks, chain)
        except StateError as error:
            raise VerifierUnavailableError(error.message) from None

    async def _principal(
        self, raw: tuple[bytes, ...], blocks: tuple[GrantBlock, ...], chain: tuple[str, ...]
    ) -> Principal:
        first = blocks[0]
        assert first.parent is not None  # as `decode_block` has it
        assert first.made is not None
        grant = _limits(blocks, chain, raw)
        now = self._now()
        if now >= grant.expires:
            raise InvalidTokenError(f"the grant {grant.id!r} is expired")
        if now < first.made - CLOCK_SKEW:
            raise InvalidTokenError(f"the grant {grant.id!r} is not valid yet: this clock is behind")
        await self._check_revoked(chain)
        parent = await self._parent(first.parent)
        names = [parent.agent, *(block.name for block in blocks if block.name)]
        self._check_names(names)
        above = tuple(dict.fromkeys(name for name in names[1:-1] if name != names[-1]))
        return replace(
            parent,
            agent=names[-1],
            kind="grant",
            credential=grant.id,
            grant=replace(grant, parent_agents=(parent.agent, *above)),
            expires=grant.expires,
        )

    async def _check_revoked(self, chain: tuple[str, ...]) -> None:
        for id in chain:
            if await self._revoked.get(self._key("grant-revoked", id), self._state.get) is not None:
                raise InvalidTokenError(f"the grant {id!r} is revoked")

    async def _parent(self, parent: GrantParent) -> Principal:
        """The caller that lent its rights, as it is now; refused if it would not be let in itself."""
        if parent.kind == "key":
            return await self._key_holder(parent.id)
        if parent.kind in _SHOWN_BY_TOKEN:
            is_login = parent.kind == "login"
            accepted = self._auth.server is not None if is_login else parent.issuer in self._issuers
            if accepted and not set(self._auth.scopes) <= set(parent.scopes):
                raise InsufficientScopeError(self._auth.scopes)
        elif parent.kind == "proxy":
            accepted = self._auth.proxy is not None
        else:
            accepted = parent.kind == "local" and self._admits_local
        if not accepted:
            raise InvalidTokenError(f"callers known by {parent.kind!r} are not accepted any more")
        return Principal(
            tenant=parent.tenant,
            agent=parent.agent,
            subject=parent.subject,
            issuer=parent.issuer,
            client=parent.client,
            groups=frozenset(parent.groups),
            scopes=frozenset(parent.scopes),
        )

    async def _key_holder(self, id: str) -> Principal:
        if self._keys is None:
            raise InvalidTokenError("API keys are not accepted any more")
        record = await self._records.get(id, self._keys.get)
        if record is None or self._keys.is_foreign(record):
            raise InvalidTokenError(f"there is no key {id!r} any more")
        if (state := record.state(self._now())) != "valid":
            raise InvalidTokenError(f"the key {id!r} is {state}")
        return record.principal

    def _check_names(self, names: Sequence[str]) -> None:
        """Names that holders chose: none may look like an agent's and be another."""
        known = dict(self._agents)
        for name in names:
            for form in lookalikes(name):
                if name and known.setdefault(form, name) != name:
                    raise InvalidTokenError(f"the name {name!a} looks like {known[form]!a}")

    # Calls

    async def admit(self, principal: Principal) -> None:
        """Count a call of the principal, if it has a grant. Whoever is refused is not counted.

        Also asks whether the grant is still valid: a connection may be older than the end of its grant.
        Raises GrantEndedError, GrantSpentError and GrantUnavailableError.
        """
        grant = principal.grant
        if grant is None:
            return
        if self._now() >= grant.expires:
            raise GrantEndedError(f"The grant {principal.agent!r} is expired")
        try:
            await self._check_alive(principal, grant)
            if grant.budgets:
                await self._count(principal, grant)
        except StateError:
            raise GrantUnavailableError from None

    async def _check_alive(self, principal: Principal, grant: Grant) -> None:
        try:
            await self._check_revoked(grant.chain)
            parent = decode_block(grant.blocks[0], is_first=True).parent
            assert parent is not None
            await self._parent(parent)
        except (InvalidTokenError, InsufficientScopeError):
            raise GrantEndedError(f"The grant {principal.agent!r} is revoked") from None

    async def _count(self, principal: Principal, grant: Grant) -> None:
        """All counts of the chain in one step of the store, so that none is exceeded or spent in vain."""
        result = await self._state.spend([self._spend_of(budget) for budget in grant.budgets])
        if result.refused:
            budget = grant.budgets[result.refused[0].position]
            whose = f"The grant {principal.agent!r}"
            if budget.id != grant.id:
                whose = f"A grant above {principal.agent!r}"
            raise GrantSpentError(f"{whose} has used its {_calls(budget.calls)}")

    def _spend_of(self, budget: CallBudget) -> WindowSpend:
        # Windows begin at multiples of the period, so this one began in 1970 and ends with the grant.
        period = budget.expires + KEPT
        return WindowSpend(self._key("grant-calls", budget.id), 1, budget.calls, period)

    # Making

    async def make(
        self,
        parent: Principal,
        name: str,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] = (),
        ttl: float | None = None,
        calls: int | None = None,
        note: str = "",
    ) -> IssuedGrant:
        """Lend the parent's rights, or some of them. Raises GrantError and StateError.

        The grant ends after `ttl` seconds, and at the latest after `grant_ttl` or with its parent. Asking
        for more than the parent has adds nothing: the rules for the parent apply as well.
        """
        if not self._auth.grants:
            raise GrantError("grants are off", "set grants = true in [auth]")
        if not name:
            raise GrantError("a grant needs a name", "name the agent that is to use it")
        made = int(self._now())
        expires = self._end(parent, made, ttl)
        limits: dict[str, Any] = {"allow": allow, "deny": deny, "expires": expires, "calls": calls}
        if parent.grant is not None:
            tags = signatures(self._root, parent.grant.blocks)
            block = new_block(name=name, note=note, **limits)
            token = GrantToken(parent.grant.blocks, tags[-1]).narrowed(block)
        else:
            block = new_block(name=name, note=note, parent=_lender(parent), made=made, **limits)
            raw = encode_block(block, is_first=True)
            token = GrantToken((raw,), signatures(self._root, [raw])[-1])
            GrantToken.read(token.text)  # its length is limited
        lender = token.contents()[0].parent
        assert lender is not None
        record = GrantRecord(
            id=token.id,
            name=block.name,
            chain=tuple(map(grant_id, signatures(self._root, token.blocks))),
            kind=lender.kind,
            credential=lender.id,
            tenant=parent.tenant,
            user=parent.user,
            agents=parent.agents,
            allow=block.allow,
            deny=block.deny,
            calls=calls,
            note=note,
            made=made,
            expires=expires,
        )
        # What could not be used is not handed out.
        await self._verify_new(token)
        await self._check_pace(parent)
        await self._take_name(parent, record)
        await self._state.put(self._key("grant", record.id), msgspec.json.encode(record), expires - made)
        return IssuedGrant(record, token.text)

    def _end(self, parent: Principal, made: int, ttl: float | None) -> int:
        longest = self._auth.grant_ttl
        if ttl is not None and not ttl >= 1:
            raise GrantError("a grant lasts at least one second")
        if parent.kind in _SHOWN_BY_TOKEN and parent.expires is None:
            raise GrantError("the end of the parent's token is not known")
        ends = [made + (longest if ttl is None else min(ttl, longest))]
        ends += [end for end in (parent.expires, parent.grant and parent.grant.expires) if end is not None]
        if min(ends) <= made:
            raise GrantError("the parent's credential ends now")
        return int(min(ends))

    async def _verify_new(self, token: GrantToken) -> None:
        try:
            await self.verify(token.text, "")
        except (InvalidTokenError, InsufficientScopeError) as error:
            raise GrantError(f"the grant would not be accepted: {error.reason}") from None
        except VerifierUnavailableError as error:
            raise StateUnavailableError(error.reason) from None

    async def _check_pace(self, parent: Principal) -> None:
        """Each grant has a record in the store, so nobody may make any number of them."""
        key = self._key("grants-made", digest(parent.owner.encode()))
        result = await self._state.spend([WindowSpend(key, 1, MAX_MADE_AN_HOUR, 3600.0)])
        if result.refused:
            raise GrantError(
                f"{MAX_MADE_AN_HOUR} grants were made in this hour",
                "narrow one that you have: that asks nobody",
            )

    async def _take_name(self, parent: Principal, record: GrantRecord) -> None:
        """Refuse a name that looks like one that this caller or an API key has, and remember it."""
        name = record.name
        places = [
            self._key("grant-name", digest(parent.owner.encode(), form.encode()))
            for form in dict.fromkeys(lookalikes(name))
        ]
        similar = None if self._keys is None else await self._keys.similar_agent(name)
        for place in places:
            similar = await self._other_name(place, name) or similar
        if similar is None:
            for place in places:
                similar = await self._note_name(place, name) or similar
        if similar is not None:
            raise GrantError(
                f"the name {name!a} differs from {similar!a} only by case, by Unicode form or by look",
                f"use {similar!a}, or choose another name",
            )

    async def _other_name(self, place: str, name: str) -> str | None:
        known = await self._state.get(place)
        return None if known is None or known.decode() == name else known.decode()

    async def _note_name(self, place: str, name: str) -> str | None:
        """Returns the name that another process has noted in this moment instead."""
        for known in (None, name.encode()):
            if await self._state.swap(place, known, name.encode(), self._auth.grant_ttl):
                return None
        return await self._other_name(place, name)

    # Managing

    async def list(self) -> list[ListedGrant]:
        """The grants that this gateway made and that have not expired, the latest first."""
        start = self._key("grant", "")
        counted = await self._state.counters(self._key("grant-calls", ""))
        used = {one.key: one.used for one in counted.counters}
        found: list[ListedGrant] = []
        for place in await self._state.keys(start):
            raw = await self._state.get(place)
            if raw is not None:
                record = _decode(raw)
                count = used.get(self._key("grant-calls", record.id), 0)
                found.append(ListedGrant(record, count, await self._state_of(record, count)))
        return sorted(found, key=lambda one: (-one.record.made, one.record.id))

    async def _state_of(self, record: GrantRecord, used: int) -> str:
        for id in record.chain:
            if await self._state.get(self._key("grant-revoked", id)) is not None:
                return "revoked" if id == record.id else "revoked above"
        if self._now() >= record.expires:
            return "expired"
        if record.kind == "key":
            try:
                await self._key_holder(record.credential)
            except InvalidTokenError:
                return "its key ended"
        return "used up" if record.calls is not None and used >= record.calls else "valid"

    async def revoke(self, id_or_token: str) -> GrantRecord | None:
        """End a grant, and all that were made from it, at every gateway within `BELIEVED_SECONDS`.

        Returns its record, or None for one that its holder made. Raises GrantError and StateError.
        """
        id, expires = id_or_token, None
        if self.recognizes(id_or_token):
            token = GrantToken.read(id_or_token)
            if not hmac.compare_digest(signatures(self._root, token.blocks)[-1], token.signature):
                raise GrantError(_NOT_OURS)
            id, expires = token.id, token.contents()[0].expires
        elif _ID.fullmatch(id) is None:
            raise GrantError(f"{id[:40]!a} is no id of a grant", "`toolyard grant list` shows ids")
        raw = await self._state.get(self._key("grant", id))
        record = None if raw is None else _decode(raw)
        if record is not None:
            expires = record.expires
        now = self._now()
        kept = REVOKED_KEPT if expires is None else max(0.0, expires - now) + KEPT
        place = self._key("grant-revoked", id)
        await self._state.put(place, b"%d" % now, kept)
        self._revoked.forget(place)
        return record

    def _key(self, kind: str, *parts: str) -> str:
        return ":".join((self._start, kind, *(quote(part, safe="") for part in parts)))


def _calls(number: int) -> str:
    return "one call" if number == 1 else f"{number} calls"


def _limits(blocks: Sequence[GrantBlock], chain: tuple[str, ...], raw: tuple[bytes, ...]) -> Grant:
    """What all blocks together permit."""
    end = min(block.expires for block in blocks if block.expires is not None)
    ends: list[int] = []
    for block in blocks:
        before = ends[-1] if ends else block.expires or 0
        ends.append(before if block.expires is None else min(before, block.expires))
    return Grant(
        id=chain[-1],
        chain=chain,
        rights=tuple(Right(("*",) if block.allow is None else block.allow, block.deny) for block in blocks),
        expires=float(end),
        budgets=tuple(
            CallBudget(id, block.calls, float(end))
            for id, block, end in zip(chain, blocks, ends, strict=True)
            if block.calls is not None
        ),
        blocks=raw,
    )


def _lender(parent: Principal) -> GrantParent:
    match parent.kind:
        case "key":
            return GrantParent("key", parent.credential)
        case "jwt" | "introspection" | "proxy" | "local":
            return GrantParent(
                parent.kind,
                parent.credential[:100],
                tenant=parent.tenant,
                subject=parent.subject,
                issuer=parent.issuer,
                client=parent.client,
                agent=parent.agent,
                groups=tuple(sorted(parent.groups)),
                scopes=tuple(sorted(parent.scopes)),
            )
        case _:
            raise GrantError(
                f"a caller known by {parent.kind!r} cannot make grants", "the gateway must know it by [auth]"
            )


def _decode(raw: bytes) -> GrantRecord:
    try:
        return msgspec.json.decode(raw, type=GrantRecord)
    except msgspec.DecodeError as error:
        raise StateUnusableError(f"the record of a grant cannot be read: {error}") from None
