"""Grants: made, narrowed, verified, counted and revoked, in a real store."""

import asyncio
import base64
import re
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolyard import narrow_grant, show_grant
from toolyard.callers.errors import InsufficientScopeError, InvalidTokenError, VerifierUnavailableError
from toolyard.callers.grant_token import (
    MAX_BLOCKS,
    MAX_TOKEN,
    PATTERN,
    GrantError,
    GrantToken,
    new_block,
    sign,
)
from toolyard.callers.grants import (
    BELIEVED_SECONDS,
    GrantEndedError,
    Grants,
    GrantSpentError,
    GrantUnavailableError,
    open_grants,
)
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.config.callers import AuthConfig, IssuerConfig, ProxyConfig
from toolyard.state import State, open_state
from toolyard.state.store import StateUnavailableError
from toolyard.wire.call import CallBudget, Principal, Right
from toolyard.wire.seal import Sealer

SEALER = Sealer(b"a key of thirty-two bytes, or so")
START = 1_800_000_000.0
HOUR = 3600.0
AUTH = AuthConfig(
    keys=True,
    issuers=(IssuerConfig(issuer="https://id.example"),),
    proxy=ProxyConfig(addresses=("10.0.0.1",)),
)
LOCAL = Principal()
TOKEN_HOLDER = Principal(
    tenant="acme",
    agent="planner",
    subject="ana",
    issuer="https://id.example",
    client="desk",
    groups=frozenset({"dev", "ops"}),
    scopes=frozenset({"read"}),
    kind="jwt",
    credential="d1",
    expires=START + 2 * HOUR,
)


class Clock:
    """The wall clock and the monotonic one, which nobody sets back."""

    def __init__(self) -> None:
        self.time = START
        self.steady = 0.0

    def __call__(self) -> float:
        return self.time

    def pass_seconds(self, seconds: float) -> None:
        self.time += seconds
        self.steady += seconds

    def monotonic(self) -> float:
        return self.steady


class Yard:
    def __init__(self, state: State, clock: Clock, **options: Any) -> None:
        self.clock = clock
        self.state = state
        self.keys = ApiKeys(state, "yard", SEALER, now=clock)
        self.grants = self.another(**options)

    def another(self, auth: AuthConfig = AUTH, sealer: Sealer = SEALER, **options: Any) -> Grants:
        """Another process with the same store."""
        options = {"keys": self.keys, "now": self.clock, "clock": self.clock.monotonic, **options}
        return Grants(self.state, "yard", sealer, auth, **options)

    async def key_holder(self, **fields: Any) -> Principal:
        expires = fields.pop("expires", None)
        holder = KeyHolder(**{"name": "laptop", "user": "ana", "agent": "planner", **fields})
        return (await self.keys.create(holder, expires)).key.principal

    async def make(self, parent: Principal = LOCAL, name: str = "helper", **limits: Any) -> str:
        return (await self.grants.make(parent, name, **limits)).token

    async def verify(self, token: str) -> Principal:
        return await self.grants.verify(token, "/mcp")

    async def refusal(self, token: str) -> str:
        with pytest.raises(InvalidTokenError) as error:
            await self.verify(token)
        assert error.value.description == ""
        assert token not in error.value.reason
        return error.value.reason

    async def calls(self, token: str, times: int = 20) -> int:
        """How many of so many pass."""
        principal = await self.verify(token)
        passed = 0
        for _ in range(times):
            try:
                await self.grants.admit(principal)
            except GrantSpentError:
                continue
            passed += 1
        return passed


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    state = open_state("sqlite:", tmp_path)
    yard = Yard(state, Clock())
    yield yard
    await yard.keys.close()
    await state.close()


# What a grant says


async def test_a_grant_is_its_maker_under_another_name(yard: Yard):
    token = await yard.make(TOKEN_HOLDER, "helper", allow=["notes/*"], deny=["notes/delete"], calls=5)
    found = await yard.verify(token)
    assert found.grant is not None
    assert found == replace(
        TOKEN_HOLDER,
        agent="helper",
        kind="grant",
        credential=found.grant.id,
        grant=found.grant,
        expires=START + 2 * HOUR,
    )
    assert found.grant.rights == (Right(("notes/*",), ("notes/delete",)),)
    assert found.grant.chain == (found.grant.id,)
    assert found.grant.parent_agents == ("planner",)
    assert found.grant.budgets == (CallBudget(found.grant.id, 5, START + 2 * HOUR),)
    assert (found.owner, found.user) == (TOKEN_HOLDER.owner, TOKEN_HOLDER.user)


async def test_a_grant_of_a_key_is_the_holder_of_the_key(yard: Yard):
    parent = await yard.key_holder(groups=("dev",), scopes=("tools",), tenant="acme")
    found = await yard.verify(await yard.make(parent))
    assert (found.tenant, found.subject, found.agent) == ("acme", "ana", "helper")
    assert (found.groups, found.scopes) == (parent.groups, parent.scopes)


async def test_the_name_of_a_grant_opens_no_data_of_an_agent_with_that_name(yard: Yard):
    found = await yard.verify(await yard.make(Principal(agent="planner"), "deploy"))
    assert found.user == "planner"
    assert found.binding != Principal(agent="deploy").binding
    assert found.agents == ("planner", "deploy")


async def test_without_patterns_a_grant_has_what_its_maker_has(yard: Yard):
    assert (await yard.verify(await yard.make())).grant.rights == (Right(("*",)),)  # type: ignore[union-attr]


async def test_a_token_is_for_a_header_and_for_scanners(yard: Yard):
    token = await yard.make(TOKEN_HOLDER)
    assert yard.grants.recognizes(token)
    assert re.fullmatch(PATTERN, token)
    assert re.fullmatch(r"[A-Za-z0-9._~+/-]+", token)
    assert len(token) <= MAX_TOKEN
    assert not yard.grants.recognizes("ty_0123456789ab_x")


async def test_a_token_can_be_shown_without_what_makes_it_one(yard: Yard):
    token = narrow_grant(await yard.make(calls=3, note="for the report"), name="third", deny=["notes"])
    shown = show_grant(token)
    assert (shown["name"], shown["expires"]) == ("third", START + 24 * HOUR)
    assert [block.get("calls") for block in shown["blocks"]] == [3, None]
    assert shown["blocks"][0]["note"] == "for the report"
    assert shown["id"] == (await yard.verify(token)).credential
    assert GrantToken.read(token).signature.hex() not in str(shown)


# Narrowing


async def test_a_chain_of_three_has_less_at_every_step(yard: Yard):
    first = await yard.make(TOKEN_HOLDER, "one", allow=["notes", "mail"], calls=10, ttl=HOUR)
    second = narrow_grant(first, name="two", allow=["notes"], calls=5)
    third = narrow_grant(second, name="three", deny=["notes/delete"], calls=2)
    found = [await yard.verify(token) for token in (first, second, third)]
    grants = [one.grant for one in found if one.grant is not None]
    assert [one.agent for one in found] == ["one", "two", "three"]
    assert [len(grant.rights) for grant in grants] == [1, 2, 3]
    assert [grant.parent_agents for grant in grants] == [
        ("planner",),
        ("planner", "one"),
        ("planner", "one", "two"),
    ]
    assert grants[2].chain[:2] == grants[1].chain
    assert {grant.expires for grant in grants} == {START + HOUR}
    assert await yard.calls(third) == 2
    assert await yard.calls(second) == 3
    assert await yard.calls(first) == 5


async def test_asking_for_more_adds_nothing(yard: Yard):
    first = await yard.make(allow=["notes/read"], calls=3, ttl=60)
    wider = narrow_grant(first, allow=["*"], calls=1000, expires=START + 10 * 365 * 86400)
    found = await yard.verify(wider)
    assert found.grant is not None
    assert found.grant.rights == (Right(("notes/read",)), Right(("*",)))
    assert found.grant.expires == START + 60
    assert await yard.calls(wider) == 3


async def test_a_grant_lasts_no_longer_than_the_configuration_permits(yard: Yard):
    issued = await yard.grants.make(LOCAL, "helper", ttl=365 * 86400)
    assert issued.record.expires == START + AUTH.grant_ttl


async def test_the_gateway_narrows_a_grant_for_its_holder(yard: Yard):
    holder = await yard.verify(await yard.make(TOKEN_HOLDER, allow=["notes"], calls=4, ttl=60))
    found = await yard.verify(await yard.make(holder, "third", allow=["*"], ttl=HOUR))
    assert found.grant is not None
    assert found.grant.rights == (Right(("notes",)), Right(("*",)))
    assert (found.grant.expires, found.grant.chain[0]) == (START + 60, holder.credential)
    assert found.agents == ("planner", "helper", "third")


async def test_an_empty_list_permits_nothing(yard: Yard):
    found = await yard.verify(narrow_grant(await yard.make(), allow=[]))
    assert found.grant is not None
    assert found.grant.rights[-1] == Right(())


async def test_a_chain_and_its_token_have_a_longest_form(yard: Yard):
    token = await yard.make()
    for _ in range(MAX_BLOCKS - 1):
        token = narrow_grant(token)
    assert await yard.verify(token)
    with pytest.raises(GrantError, match="15 times"):
        narrow_grant(token)
    with pytest.raises(GrantError, match="4096"):
        narrow_grant(await yard.make(), allow=[f"server/{n}{'x' * 400}" for n in range(20)])
    with pytest.raises(GrantError, match="too long"):
        await yard.make(allow=[f"server/{n}{'x' * 400}" for n in range(20)])


@pytest.mark.parametrize(
    "limits",
    [
        {"calls": 0},
        {"calls": -1},
        {"allow": [""]},
        {"allow": ["a\nb"]},
        {"deny": "notes"},
        {"note": "x" * 201},
        {"name": "a/b"},
        {"name": "a b"},
        {"allow": ["a"] * 2 + [f"s{n}" for n in range(101)]},
    ],
)
async def test_what_cannot_be_a_limit_is_said(yard: Yard, limits: dict[str, Any]):
    token = await yard.make()
    with pytest.raises(GrantError):
        narrow_grant(token, **limits)
    with pytest.raises(GrantError):
        await yard.make(**limits)


async def test_nobody_fills_the_store_with_grants(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolyard.callers.grants.MAX_MADE_AN_HOUR", 3)
    token, *_ = [await yard.make() for _ in range(3)]
    with pytest.raises(GrantError, match="in this hour"):
        await yard.make()
    assert await yard.make(TOKEN_HOLDER)
    assert await yard.verify(narrow_grant(token))


# Forged


def with_checksum(raw: bytes) -> str:
    body = "tyg_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return body + base64.urlsafe_b64encode(zlib.crc32(body.encode()).to_bytes(4, "big")).decode().rstrip("=")


def raw_of(token: str) -> bytes:
    text = token[4:-6]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def chain_of_three(yard: Yard) -> GrantToken:
    first = await yard.make(allow=["notes"], calls=3)
    return GrantToken.read(narrow_grant(narrow_grant(first, deny=["notes/x"]), calls=1, name="third"))


async def test_every_changed_character_is_noticed(yard: Yard):
    token = (await chain_of_three(yard)).text
    for at in range(len(token)):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        if yard.grants.recognizes(changed):
            assert await yard.refusal(changed)


async def test_every_changed_bit_is_noticed_though_the_checksum_fits(yard: Yard):
    raw = raw_of((await chain_of_three(yard)).text)
    for at in range(len(raw)):
        assert await yard.refusal(with_checksum(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]))


async def test_a_token_that_is_cut_off_is_no_token(yard: Yard):
    token = await chain_of_three(yard)
    for length in range(4, len(token.text), 7):
        assert await yard.refusal(token.text[:length])
    raw = raw_of(token.text)
    for length in range(0, len(raw), 7):
        assert await yard.refusal(with_checksum(raw[:length]))


async def test_blocks_cannot_be_removed_moved_doubled_or_exchanged(yard: Yard):
    token = await chain_of_three(yard)
    one, two, three = token.blocks
    other = GrantToken.read(await yard.make(allow=["*"]))
    for blocks in (
        (one,),
        (one, two),
        (one, three),
        (one, three, two),
        (two, one, three),
        (one, two, three, three),
        (one, two, two, three),
        (other.blocks[0], two, three),
        (other.blocks[0],),
    ):
        assert await yard.refusal(GrantToken(blocks, token.signature).text)
    assert await yard.refusal(GrantToken(token.blocks, other.signature).text)
    assert await yard.refusal(GrantToken(token.blocks, bytes(32)).text)


async def test_a_block_in_another_spelling_is_refused_though_its_holder_signed_it(yard: Yard):
    token = GrantToken.read(await yard.make())
    nonce = b'{"nonce":"AAAAAAAAAAA"'
    fine = nonce + b"}"
    for block in (
        nonce + b',"name":""}',
        nonce + b' ,"calls":1}',
        nonce + b',"calls":1,"calls":2}',
        nonce + b',"calls":1e1}',
        nonce + b',"more":1}',
        nonce + b',"allow":"*"}',
        nonce + b',"made":1}',
        nonce + b',"parent":{"kind":"local"}}',
        nonce + b',"expires":-1}',
        nonce + b',"name":"He\\u0301"}',
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 2000,
    ):
        signed = GrantToken((*token.blocks, block), sign(token.signature, block))
        assert await yard.refusal(signed.text), block
    assert await yard.verify(GrantToken((*token.blocks, fine), sign(token.signature, fine)).text)


async def test_a_grant_of_another_gateway_or_key_is_refused(yard: Yard):
    token = await yard.make()
    others = (
        Sealer(b"another key of thirty-two bytes!"),
        Sealer(b"a key of thirty-two bytes, or so", "else"),
    )
    for sealer in others:
        with pytest.raises(InvalidTokenError):
            await yard.another(sealer=sealer).verify(token, "/mcp")


@pytest.mark.parametrize("text", ["tyg_", "tyg_x", "tyg_" + "A" * 5000, "tyg_" + "é" * 50, "tyg_" + "A" * 99])
async def test_what_is_no_token_is_refused(yard: Yard, text: str):
    assert await yard.refusal(text)
    with pytest.raises(GrantError):
        show_grant(text)


# Names


async def test_a_name_that_looks_like_an_agent_is_refused(yard: Yard):
    await yard.key_holder(name="ci", agent="deploy")
    for name in ("Deploy", "dep1oy", "dерlоу"):  # noqa: RUF001
        with pytest.raises(GrantError, match="only by case"):
            await yard.make(name=name)
    assert (await yard.verify(await yard.make(name="deploy"))).agent == "deploy"


async def test_a_name_that_looks_like_another_grant_of_the_caller_is_refused(yard: Yard):
    await yard.make(name="helper")
    with pytest.raises(GrantError, match="only by case"):
        await yard.make(name="Helper")
    assert await yard.make(name="helper")
    assert await yard.make(Principal(tenant="other"), name="Helper")


async def test_of_two_names_that_look_alike_one_is_taken_at_the_same_moment(yard: Yard):
    made = await asyncio.gather(yard.make(name="coder"), yard.make(name="Coder"), return_exceptions=True)
    assert {type(one) for one in made} == {str, GrantError}, made


async def test_holders_cannot_imitate_agents_that_the_configuration_names(yard: Yard):
    token = await yard.make(TOKEN_HOLDER)
    grants = yard.another(agents=["deploy"])
    for name in ("Deploy", "PLANNER", "heIper"):
        with pytest.raises(InvalidTokenError, match="looks like"):
            await grants.verify(narrow_grant(token, name=name), "/mcp")
    assert (await grants.verify(narrow_grant(token, name="deploy"), "/mcp")).agent == "deploy"
    with pytest.raises(GrantError, match="looks like"):
        await grants.make(TOKEN_HOLDER, "dep1oy")


async def test_a_name_has_one_form(yard: Yard):
    assert (await yard.verify(await yard.make(name="cafe\u0301"))).agent == "café"


# The end


async def test_a_grant_ends_when_it_says(yard: Yard):
    token = await yard.make(ttl=60)
    principal = await yard.verify(token)
    yard.clock.pass_seconds(59)
    assert await yard.verify(token) == principal
    yard.clock.pass_seconds(1)
    assert "expired" in await yard.refusal(token)
    with pytest.raises(GrantEndedError, match="expired"):
        await yard.grants.admit(principal)


async def test_a_narrower_grant_ends_earlier_and_never_later(yard: Yard):
    first = await yard.make(ttl=60)
    earlier, later = narrow_grant(first, expires=START + 30), narrow_grant(first, expires=START + 90)
    assert [(await yard.verify(token)).expires for token in (earlier, later)] == [START + 30, START + 60]
    assert (await yard.verify(narrow_grant(earlier, expires=START + 50))).expires == START + 30
    yard.clock.pass_seconds(30)
    assert "expired" in await yard.refusal(earlier)
    assert await yard.verify(later)
    assert show_grant(narrow_grant(first, ttl=60, expires=5))["expires"] == 5


async def test_clocks_that_jump_lengthen_nothing(yard: Yard):
    first = await yard.make(ttl=60, calls=2)
    assert await yard.calls(first, 1) == 1
    yard.clock.time = START + 10 * HOUR
    assert "expired" in await yard.refusal(first)
    yard.clock.time = START - HOUR
    assert "clock is behind" in await yard.refusal(first)
    yard.clock.time = START - 30
    assert await yard.verify(first)
    yard.clock.time = START + 30
    assert await yard.calls(first, 3) == 1


async def test_a_grant_of_a_key_ends_with_the_key(yard: Yard):
    parent = await yard.key_holder()
    token = await yard.make(parent)
    principal = await yard.verify(token)
    await yard.keys.rotate(parent.credential, 0.0)
    assert await yard.verify(token)
    await yard.keys.revoke(parent.credential)
    yard.clock.pass_seconds(BELIEVED_SECONDS)
    assert "revoked" in await yard.refusal(token)
    with pytest.raises(GrantEndedError, match="revoked"):
        await yard.grants.admit(principal)
    with pytest.raises(GrantError, match="revoked"):
        await yard.make(parent)


async def test_a_grant_of_a_key_expires_with_the_key(yard: Yard):
    parent = await yard.key_holder(expires=START + 60)
    issued = await yard.grants.make(parent, "helper")
    assert issued.record.expires == START + 60
    yard.clock.pass_seconds(60)
    assert "expired" in await yard.refusal(issued.token)


async def test_a_grant_of_a_token_ends_with_the_token(yard: Yard):
    issued = await yard.grants.make(TOKEN_HOLDER, "helper", ttl=10 * HOUR)
    assert issued.record.expires == START + 2 * HOUR
    with pytest.raises(GrantError, match="not known"):
        await yard.make(replace(TOKEN_HOLDER, expires=None))
    yard.clock.pass_seconds(2 * HOUR)
    with pytest.raises(GrantError, match="ends now"):
        await yard.make(TOKEN_HOLDER)


@pytest.mark.parametrize(
    ("parent", "without"),
    [
        (TOKEN_HOLDER, {"issuers": ()}),
        (Principal(kind="proxy", subject="ana"), {"proxy": None}),
        (LOCAL, {"grants": False}),
    ],
)
async def test_a_grant_ends_when_its_maker_is_not_let_in_any_more(
    yard: Yard, parent: Principal, without: dict[str, Any]
):
    token = await yard.make(parent)
    assert await yard.verify(token)
    yard.grants.configure(replace(AUTH, **without), keys=yard.keys)
    assert await yard.refusal(token)


async def test_a_grant_of_the_local_user_ends_when_nobody_is_local_any_more(yard: Yard):
    token = await yard.make()
    yard.grants.configure(AUTH, keys=yard.keys, admits_local=False)
    assert await yard.refusal(token)
    with pytest.raises(GrantError, match="not accepted"):
        await yard.make()


async def test_a_grant_of_a_key_ends_when_keys_are_not_accepted_any_more(yard: Yard):
    token = await yard.make(await yard.key_holder())
    yard.grants.configure(replace(AUTH, keys=False), keys=yard.keys)
    assert await yard.refusal(token)


async def test_a_token_that_lacks_a_scope_by_now_lends_nothing(yard: Yard):
    token = await yard.make(TOKEN_HOLDER)
    yard.grants.configure(replace(AUTH, scopes=("admin",)), keys=yard.keys)
    with pytest.raises(InsufficientScopeError):
        await yard.verify(token)


async def test_an_application_that_knows_its_callers_itself_makes_no_grants(yard: Yard):
    with pytest.raises(GrantError, match="cannot make grants"):
        await yard.make(Principal(kind="application"))


# Revoked


async def test_a_revoked_grant_takes_those_made_from_it_along(yard: Yard):
    first = await yard.grants.make(LOCAL, "one")
    second = narrow_grant(first.token, name="two")
    beside = await yard.make(name="beside")
    principal = await yard.verify(second)
    elsewhere = yard.another()
    assert await elsewhere.verify(second, "/mcp")
    assert (await yard.grants.revoke(first.record.id)) == first.record
    for token in (first.token, second):
        assert "revoked" in await yard.refusal(token)
    with pytest.raises(GrantEndedError, match="revoked"):
        await yard.grants.admit(principal)
    assert await yard.verify(beside)
    yard.clock.pass_seconds(BELIEVED_SECONDS)
    with pytest.raises(InvalidTokenError, match="revoked"):
        await elsewhere.verify(second, "/mcp")


async def test_a_revoked_grant_does_not_harm_the_one_it_was_made_from(yard: Yard):
    first = await yard.make(name="one")
    second = narrow_grant(first)
    id = (await yard.verify(second)).credential
    assert await yard.grants.revoke(id) is None
    assert "revoked" in await yard.refusal(second)
    assert await yard.verify(first)
    assert await yard.verify(narrow_grant(first))


async def test_a_grant_is_revoked_by_its_token_too(yard: Yard):
    token = narrow_grant(await yard.make())
    await yard.grants.revoke(token)
    assert await yard.refusal(token)
    with pytest.raises(GrantError, match="not made by this gateway"):
        await yard.another(sealer=Sealer(b"another key of thirty-two bytes!")).revoke(token)
    with pytest.raises(GrantError, match="no id"):
        await yard.grants.revoke("helper")


async def test_grants_are_listed_with_their_calls_and_their_state(yard: Yard):
    parent = await yard.key_holder()
    one = await yard.grants.make(LOCAL, "one", calls=3)
    two = await yard.grants.make(parent, "two", ttl=HOUR)
    three = await yard.grants.make(await yard.verify(two.token), "three", calls=1)
    assert await yard.calls(one.token, 2) == 2
    assert await yard.calls(three.token, 2) == 1
    found = {each.record.name: (each.used, each.state) for each in await yard.grants.list()}
    assert found == {"one": (2, "valid"), "two": (0, "valid"), "three": (1, "used up")}
    await yard.grants.revoke(two.record.id)
    await yard.keys.revoke(parent.credential)
    found = {each.record.name: each.state for each in await yard.grants.list()}
    assert found == {"one": "valid", "two": "revoked", "three": "revoked above"}
    assert one.token not in str(await yard.grants.list())


# Counted


async def test_a_grant_is_refused_after_its_calls_also_under_concurrency_and_after_a_restart(tmp_path: Path):
    clock = Clock()
    states = [open_state("sqlite:", tmp_path) for _ in range(3)]
    replicas = [Yard(state, clock) for state in states]
    token = await replicas[0].make(calls=25)

    async def call(yard: Yard) -> bool:
        try:
            await yard.grants.admit(await yard.verify(token))
        except GrantSpentError:
            return False
        return True

    passed = await asyncio.gather(*(call(replicas[n % 3]) for n in range(60)))
    assert sum(passed) == 25
    for state in states:
        await state.close()
    again = open_state("sqlite:", tmp_path)
    assert await Yard(again, clock).calls(token) == 0
    await again.close()


async def test_a_refused_call_is_counted_by_no_grant_of_the_chain(yard: Yard):
    first = await yard.make(calls=10)
    second = narrow_grant(first, calls=1)
    assert await yard.calls(second, 8) == 1
    assert await yard.calls(first, 20) == 9
    with pytest.raises(GrantSpentError, match="A grant above 'helper' has used its 10 calls"):
        await yard.grants.admit(await yard.verify(narrow_grant(first, calls=3)))


async def test_two_narrowings_alike_have_counts_of_their_own(yard: Yard):
    first = await yard.make()
    assert await yard.calls(narrow_grant(first, calls=2), 5) == 2
    assert await yard.calls(narrow_grant(first, calls=2), 5) == 2


async def test_callers_without_a_grant_are_not_counted(yard: Yard):
    await yard.grants.admit(TOKEN_HOLDER)
    assert (await yard.state.counters("")).counters == ()


async def test_the_refusals_travel_under_their_status(yard: Yard):
    principal = await yard.verify(await yard.make(calls=1))
    await yard.grants.admit(principal)
    with pytest.raises(GrantSpentError) as spent:
        await yard.grants.admit(principal)
    await yard.grants.revoke(principal.credential)
    with pytest.raises(GrantEndedError) as ended:
        await yard.grants.admit(principal)
    assert (spent.value.http_status, ended.value.http_status) == (403, 401)
    assert ended.value.http_headers == [(b"www-authenticate", b'Bearer error="invalid_token"')]


# The store


class Outage:
    """A store that can be told to be away."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.is_down = False

    def __getattr__(self, name: str) -> Any:
        async def away(*args: Any, **options: Any) -> Any:
            raise StateUnavailableError("redis at 10.0.0.9 does not answer")

        return away if self.is_down else getattr(self._state, name)


async def test_while_the_store_is_away_calls_are_not_counted_and_so_refused(tmp_path: Path):
    state = open_state("sqlite:", tmp_path)
    outage = Outage(state)
    yard = Yard(outage, Clock())  # type: ignore[arg-type]
    counted, free = await yard.make(calls=5), await yard.make()
    principals = [await yard.verify(token) for token in (counted, free)]
    outage.is_down = True
    yard.clock.pass_seconds(10)
    with pytest.raises(GrantUnavailableError) as error:
        await yard.grants.admit(principals[0])
    assert error.value.http_status == 503
    assert "10.0.0.9" not in str(error.value)
    await yard.grants.admit(principals[1])
    with pytest.raises(VerifierUnavailableError):
        await yard.verify(narrow_grant(free))
    yard.clock.pass_seconds(400)
    with pytest.raises(VerifierUnavailableError):
        await yard.verify(free)
    with pytest.raises(StateUnavailableError):
        await yard.make()
    outage.is_down = False
    assert await yard.calls(counted) == 5
    await state.close()


async def test_grants_outlive_a_process_though_its_state_is_in_memory(tmp_path: Path):
    first = open_grants("memory:", tmp_path, "yard", SEALER, AUTH)
    token = (await first.make(LOCAL, "helper", calls=1)).token
    await first.admit(await first.verify(token, "/mcp"))
    await first.close()
    again = open_grants("memory:", tmp_path, "yard", SEALER, AUTH)
    with pytest.raises(GrantSpentError):
        await again.admit(await again.verify(token, "/mcp"))
    await again.close()


def test_a_block_is_different_every_time():
    assert new_block().nonce != new_block().nonce
