"""Who a request is from: by token, by a trusted proxy, or by where it comes from; and who is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, until
from toolyard.callers.authenticator import (
    FREE_REFUSALS,
    LONGEST_REFUSAL,
    MAX_CREDENTIAL,
    MAX_WAITING,
    OUTAGE_SECONDS,
    RECHECK_SECONDS,
    REFUSAL_SECONDS,
    Authenticator,
    Challenges,
)
from toolyard.callers.errors import InsufficientScopeError, InvalidTokenError, VerifierUnavailableError
from toolyard.callers.keys import ApiKeys, IssuedKey, KeyHolder
from toolyard.config.callers import ProxyConfig
from toolyard.edge.request import Refused
from toolyard.state import open_state
from toolyard.wire.call import Principal
from toolyard.wire.headers import RequestHeaders
from toolyard.wire.seal import Sealer

HERE, THERE = "127.0.0.1", "203.0.113.9"
PROXY = ProxyConfig(addresses=("10.0.0.0/8", "::1"), tenant="x-tenant", agent="x-agent")


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


class Opaque:
    """Tokens of another kind, as an issuer would have them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.fault: Exception | None = None

    def recognizes(self, token: str) -> bool:
        return token.startswith("opaque-")

    async def verify(self, token: str, resource: str) -> Principal:
        self.asked.append((token, resource))
        if self.fault is not None:
            raise self.fault
        return Principal(tenant="issuer", subject=token, kind="jwt")


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    opened = ApiKeys(open_state("sqlite:", tmp_path), "yard", Sealer(b"0123456789abcdef"), owns_state=True)
    yield opened
    await opened.close()


@pytest.fixture
async def anna(keys: ApiKeys) -> IssuedKey:
    return await keys.create(KeyHolder(name="anna", agent="coder"))


def headers(*pairs: tuple[str, str]) -> RequestHeaders:
    return RequestHeaders.of([(b"host", b"yard"), *((a.encode(), b.encode()) for a, b in pairs)])


def bearer(token: str) -> RequestHeaders:
    return headers(("authorization", f"Bearer {token}"))


async def ask(
    who: Authenticator, sent: RequestHeaders, peer: str = THERE, *, query: bytes = b""
) -> Principal:
    return await who.authenticate(sent, peer, resource="/mcp", query=query)


async def refused(
    who: Authenticator, sent: RequestHeaders, peer: str = THERE, *, query: bytes = b""
) -> Refused:
    with pytest.raises(Refused) as error:
        await ask(who, sent, peer, query=query)
    return error.value


def challenge(refusal: Refused) -> str:
    return dict(refusal.headers)[b"www-authenticate"].decode()


# Keys


async def test_a_key_identifies_its_caller_from_anywhere(keys: ApiKeys, anna: IssuedKey):
    who = Authenticator([keys])
    for peer in (HERE, THERE, ""):
        principal = await ask(who, bearer(anna.text), peer)
        assert (principal.subject, principal.agent, principal.kind) == ("anna", "coder", "key")


async def test_a_credential_seen_before_gives_the_same_principal_without_asking_anybody(time: Time):
    opaque = Opaque()
    who = Authenticator([opaque], clock=time)
    first = await ask(who, bearer("opaque-1"))
    assert await ask(who, bearer("opaque-1")) is first
    assert len(opaque.asked) == 1
    time.now += RECHECK_SECONDS
    assert await ask(who, bearer("opaque-1")) is first
    assert len(opaque.asked) == 2


async def test_a_credential_seen_before_is_recalled_until_it_has_to_be_verified_again(time: Time):
    who = Authenticator([Opaque()], clock=time)
    assert who.recall(bearer("opaque-1"), resource="/mcp") is None
    principal = await ask(who, bearer("opaque-1"))
    known = who.recall(bearer("opaque-1"), resource="/mcp")
    assert known is not None
    assert known.principal is principal
    assert who.recall(bearer("opaque-1"), resource="/mcp") is known
    assert who.recall(bearer("opaque-2"), resource="/mcp") is None
    assert who.recall(bearer("opaque-1"), resource="/mcp/git") is None
    assert who.recall(headers(), resource="/mcp") is None
    time.now += RECHECK_SECONDS
    assert who.recall(bearer("opaque-1"), resource="/mcp") is None


async def test_a_request_with_more_to_check_is_not_recalled(time: Time):
    who = Authenticator([Opaque()], clock=time)
    await ask(who, bearer("opaque-1"))
    sent = ("authorization", "Bearer opaque-1")
    assert who.recall(headers(sent), resource="/mcp", query=b"access_token=x") is None
    assert who.recall(headers(sent, sent), resource="/mcp") is None
    assert who.recall(headers(sent, ("transfer-encoding", "chunked")), resource="/mcp") is None


async def test_a_token_is_verified_for_each_resource(time: Time):
    opaque = Opaque()
    who = Authenticator([opaque], clock=time)
    for resource in ("/mcp", "/mcp/git", "/mcp"):
        await who.authenticate(bearer("opaque-1"), THERE, resource=resource)
    assert opaque.asked == [("opaque-1", "/mcp"), ("opaque-1", "/mcp/git")]


async def test_a_revoked_key_is_refused_within_seconds(keys: ApiKeys, anna: IssuedKey, time: Time):
    who = Authenticator([keys], clock=time, sleep=time.sleep)
    await ask(who, bearer(anna.text))
    await keys.revoke(anna.key.id)
    time.now += RECHECK_SECONDS
    assert (await refused(who, bearer(anna.text))).status == 401


async def test_many_requests_at_once_verify_a_stale_token_once(time: Time):
    opaque = Opaque()
    who = Authenticator([opaque], clock=time)
    await ask(who, bearer("opaque-1"))
    time.now += RECHECK_SECONDS
    await asyncio.gather(*(ask(who, bearer("opaque-1")) for _ in range(50)))
    assert len(opaque.asked) == 2


async def test_a_token_that_is_wrong_is_refused_even_where_none_would_be_needed(keys: ApiKeys):
    who = Authenticator([keys], proxy=PROXY, is_open=True)
    sent = headers(("authorization", "Bearer ty_wrong"), ("x-forwarded-user", "root"))
    for peer in (HERE, "10.1.1.1"):
        refusal = await refused(who, sent, peer)
        assert (refusal.status, challenge(refusal)) == (401, 'Bearer error="invalid_token"')
        assert "ty_wrong" not in refusal.message
    assert (await refused(who, bearer("of-nobody"), HERE)).status == 401


async def test_a_token_without_a_scope_gets_403_with_all_that_are_needed(time: Time):
    opaque = Opaque()
    opaque.fault = InsufficientScopeError(["read", "write"])
    refusal = await refused(Authenticator([opaque]), bearer("opaque-1"))
    assert refusal.status == 403
    assert challenge(refusal) == 'Bearer error="insufficient_scope", scope="read write"'


async def test_a_store_that_dies_leaves_known_callers_alone_for_a_while(time: Time):
    opaque = Opaque()
    who = Authenticator([opaque], clock=time)
    await ask(who, bearer("opaque-1"))
    opaque.fault = VerifierUnavailableError("gone")
    time.now += RECHECK_SECONDS
    assert (await ask(who, bearer("opaque-1"))).subject == "opaque-1"
    refusal = await refused(who, bearer("opaque-2"))
    assert (refusal.status, dict(refusal.headers)[b"retry-after"]) == (503, b"5")
    time.now += OUTAGE_SECONDS
    assert (await refused(who, bearer("opaque-1"))).status == 503
    opaque.fault = None
    assert (await ask(who, bearer("opaque-1"))).subject == "opaque-1"


class Hanging(Opaque):
    """Does not answer while its store hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()

    async def verify(self, token: str, resource: str) -> Principal:
        await self.answers.wait()
        return await super().verify(token, resource)


async def test_a_store_that_hangs_holds_up_no_known_caller_twice(time: Time):
    store = Hanging()
    who = Authenticator([store], clock=time, sleep=time.sleep)
    await ask(who, bearer("opaque-1"))
    store.fault = VerifierUnavailableError("no answer within 5 s")
    time.now += RECHECK_SECONDS
    await ask(who, bearer("opaque-1"))
    store.answers.clear()
    async with asyncio.timeout(PATIENCE):
        for _ in range(20):
            time.now += RECHECK_SECONDS
            assert (await ask(who, bearer("opaque-1"))).subject == "opaque-1"
    before = len(store.asked)
    store.fault = InvalidTokenError("revoked meanwhile")
    store.answers.set()

    async def checked() -> bool:
        return len(store.asked) > before

    await until(checked)
    assert len(store.asked) == before + 1, "it was asked once, however many requests there were"
    assert (await refused(who, bearer("opaque-1"))).status == 401


async def test_an_outage_ends_for_a_caller_who_never_waited(time: Time):
    store = Opaque()
    who = Authenticator([store], clock=time)
    first = await ask(who, bearer("opaque-1"))
    store.fault = VerifierUnavailableError("gone")
    time.now += RECHECK_SECONDS
    await ask(who, bearer("opaque-1"))
    store.fault = None
    time.now += OUTAGE_SECONDS - RECHECK_SECONDS - 1
    assert await ask(who, bearer("opaque-1")) is first
    asked = len(store.asked)

    async def checked() -> bool:
        return len(store.asked) > asked

    await until(checked)
    time.now += OUTAGE_SECONDS - 1
    store.fault = VerifierUnavailableError("gone again")
    assert await ask(who, bearer("opaque-1")) is first, "it was verified in between"


async def test_an_outage_does_not_fill_the_log(time: Time, caplog: pytest.LogCaptureFixture):
    store = Opaque()
    who = Authenticator([store], clock=time)
    known = [f"opaque-{number}" for number in range(20)]
    for token in known:
        await ask(who, bearer(token))
    store.fault = VerifierUnavailableError("gone")
    time.now += RECHECK_SECONDS
    for token in known:
        await ask(who, bearer(token))
        assert (await refused(who, bearer(f"{token}-new"))).status == 503
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


# Bad input


async def test_two_authorization_headers_are_refused(keys: ApiKeys, anna: IssuedKey):
    twice = headers(("authorization", "Bearer ty_other"), ("authorization", f"Bearer {anna.text}"))
    refusal = await refused(Authenticator([keys]), twice)
    assert (refusal.status, refusal.message) == (400, "The header 'authorization' came more than once")
    joined = bearer(f"{anna.text}, Bearer {anna.text}")
    assert (await refused(Authenticator([keys]), joined)).status == 400


@pytest.mark.parametrize("query", [b"access_token=x", b"a=b&access_token=", b"%61ccess_token=x"])
async def test_a_token_in_the_address_is_refused(keys: ApiKeys, anna: IssuedKey, query: bytes):
    who = Authenticator([keys], is_open=True)
    refusal = await refused(who, bearer(anna.text), query=query)
    assert refusal.status == 400
    assert "Authorization: Bearer" in refusal.message
    assert await ask(who, bearer(anna.text), query=b"x=1&y=%20")


async def test_a_token_of_a_megabyte_is_refused_before_anything_is_done_with_it():
    opaque = Opaque()
    refusal = await refused(Authenticator([opaque]), bearer("opaque-" + "x" * 1_000_000))
    assert (refusal.status, opaque.asked) == (431, [])
    longest = "opaque-" + "x" * (MAX_CREDENTIAL - len("Bearer opaque-"))
    assert (await ask(Authenticator([opaque]), bearer(longest))).subject == longest


@pytest.mark.parametrize("value", ["Bearer", "Bearer ", "Bearer a b", "Bearer é", "Bearer \x00"])
async def test_a_malformed_header_is_refused(keys: ApiKeys, value: str):
    assert (await refused(Authenticator([keys]), headers(("authorization", value)), HERE)).status == 400


async def test_another_scheme_is_refused(keys: ApiKeys):
    refusal = await refused(Authenticator([keys]), headers(("authorization", "Basic YTpi")), HERE)
    assert (refusal.status, challenge(refusal)) == (401, "Bearer")


async def test_the_scheme_may_be_in_any_case(keys: ApiKeys, anna: IssuedKey):
    sent = headers(("authorization", f"bEARER   {anna.text} "))
    assert (await ask(Authenticator([keys]), sent)).subject == "anna"


# Guessing


async def test_every_refusal_takes_the_same_time_whatever_was_wrong(
    keys: ApiKeys, anna: IssuedKey, time: Time
):
    who = Authenticator([keys], clock=time, sleep=time.sleep)
    for wrong in ("ty_x", f"{anna.text[:-1]}!", "of-nobody", anna.text[:-1]):
        with suppress(Refused):
            await ask(who, bearer(wrong))
    assert set(time.slept) == {REFUSAL_SECONDS}


async def test_guessing_is_slowed_down_for_the_guesser_only(keys: ApiKeys, anna: IssuedKey, time: Time):
    who = Authenticator([keys], clock=time, sleep=time.sleep)
    for number in range(FREE_REFUSALS + 12):
        await refused(who, bearer(f"ty_{number}"))
    assert time.slept[FREE_REFUSALS - 1] == REFUSAL_SECONDS
    assert time.slept[FREE_REFUSALS + 1] > REFUSAL_SECONDS
    assert time.slept[-1] == LONGEST_REFUSAL
    waited = len(time.slept)
    assert (await ask(who, bearer(anna.text))).subject == "anna"
    assert len(time.slept) == waited
    await refused(who, bearer("ty_1"), "198.51.100.7")
    assert time.slept[-1] == REFUSAL_SECONDS
    time.now += 3600
    await refused(who, bearer("ty_1"))
    assert time.slept[-1] == REFUSAL_SECONDS


async def test_a_block_of_ipv6_is_one_guesser(keys: ApiKeys, time: Time):
    who = Authenticator([keys], clock=time, sleep=time.sleep)
    for number in range(FREE_REFUSALS + 5):
        await refused(who, bearer("ty_1"), f"2001:db8::{number:x}")
    assert time.slept[-1] > REFUSAL_SECONDS


async def test_refusals_that_wait_are_bounded(keys: ApiKeys, anna: IssuedKey, time: Time):
    go = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await go.wait()

    who = Authenticator([keys], clock=time, sleep=sleep)
    guesses = [asyncio.create_task(refused(who, bearer(f"ty_{number}"))) for number in range(MAX_WAITING + 5)]
    done, _ = await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
    refusal = done.pop().result()
    assert refusal.status == 429
    assert b"retry-after" in dict(refusal.headers)
    assert (await ask(who, bearer(anna.text))).subject == "anna"
    go.set()
    assert sorted({each.status for each in await asyncio.gather(*guesses)}) == [401, 429]


# A trusted proxy


IDENTIFIED = (("x-forwarded-user", "zoë"), ("x-forwarded-groups", "dev, ops,"), ("x-tenant", "acme"))


async def test_a_trusted_proxy_says_who_calls():
    who = Authenticator(proxy=PROXY, required=True)
    principal = await ask(who, headers(*IDENTIFIED), "10.2.3.4")
    assert principal == Principal(
        tenant="acme", subject="zoë", groups=frozenset({"dev", "ops"}), kind="proxy", credential="zoë"
    )
    assert await ask(who, headers(*IDENTIFIED), "::ffff:10.2.3.4") is principal


@pytest.mark.parametrize("peer", [THERE, HERE, "11.0.0.1", "", "10.0.0.1.evil"])
async def test_the_same_headers_from_elsewhere_identify_nobody(peer: str):
    refusal = await refused(Authenticator(proxy=PROXY, required=True), headers(*IDENTIFIED), peer)
    assert refusal.status == 401


async def test_from_this_machine_they_make_nobody_but_the_local_user():
    assert await ask(Authenticator(proxy=PROXY), headers(*IDENTIFIED), HERE) == Principal()


async def test_a_proxy_that_names_nobody_is_not_the_local_user():
    who = Authenticator(proxy=PROXY)
    assert (await refused(who, headers(), "::1")).status == 401
    assert (await refused(who, headers(("x-forwarded-user", "")), "::1")).status == 401


async def test_a_proxys_header_that_came_twice_is_refused():
    who = Authenticator(proxy=PROXY)
    twice = headers(("x-forwarded-user", "anna"), ("x-forwarded-user", "root"))
    assert (await refused(who, twice, "10.0.0.1")).status == 400


@pytest.mark.parametrize("user", ["a\u202eb", "x" * 2000, "a\tb"])
async def test_a_proxys_header_that_is_no_name_is_refused(user: str):
    who = Authenticator(proxy=PROXY)
    assert (await refused(who, headers(("x-forwarded-user", user)), "10.0.0.1")).status == 400


@pytest.mark.parametrize("peer", ["10.0.0.1", THERE, HERE])
async def test_a_password_that_comes_along_is_refused(keys: ApiKeys, peer: str):
    sent = headers(("authorization", "Basic YTpi"), ("x-forwarded-user", "anna"))
    for who in (Authenticator([keys], proxy=PROXY), Authenticator(proxy=PROXY)):
        assert (await refused(who, sent, peer)).status == 401


async def test_where_there_is_only_a_proxy_a_token_is_not_for_us():
    sent = headers(("authorization", "Bearer of-the-proxy"), ("x-forwarded-user", "anna"))
    who = Authenticator(proxy=PROXY)
    assert (await ask(who, sent, "10.0.0.1")).subject == "anna"
    assert (await refused(who, sent, THERE)).status == 401


async def test_a_key_comes_before_the_proxys_word(keys: ApiKeys, anna: IssuedKey):
    sent = headers(("authorization", f"Bearer {anna.text}"), ("x-forwarded-user", "zoe"))
    principal = await ask(Authenticator([keys], proxy=PROXY), sent, "10.0.0.1")
    assert (principal.subject, principal.kind) == ("anna", "key")


# The local user


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_a_caller_on_this_machine_is_the_local_user(keys: ApiKeys, peer: str):
    assert await ask(Authenticator([keys]), headers(), peer) == Principal()
    assert (await refused(Authenticator([keys], required=True), headers(), peer)).status == 401


@pytest.mark.parametrize("peer", [THERE, "10.0.0.1", "", "localhost", "2001:db8::1"])
async def test_a_caller_from_elsewhere_is_nobody(keys: ApiKeys, peer: str):
    assert (await refused(Authenticator([keys]), headers(), peer)).status == 401
    assert await ask(Authenticator([keys], is_open=True), headers(), peer) == Principal()


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
async def test_who_comes_through_a_proxy_on_this_machine_is_not_local(keys: ApiKeys, header: str):
    assert (await refused(Authenticator([keys]), headers((header, "x")), HERE)).status == 401


# Challenges


async def test_without_issuers_a_challenge_is_plain(keys: ApiKeys):
    assert challenge(await refused(Authenticator([keys]), headers())) == "Bearer"


async def test_with_issuers_a_challenge_says_where_to_get_a_token(keys: ApiKeys):
    challenges = Challenges(lambda resource: f"https://yard/.well-known/x{resource}", ["a", "b"])
    who = Authenticator([keys], challenges=challenges)
    where = 'resource_metadata="https://yard/.well-known/x/mcp", scope="a b"'
    assert challenge(await refused(who, headers())) == f"Bearer {where}"
    assert challenge(await refused(who, bearer("x"))) == f'Bearer error="invalid_token", {where}'


async def test_a_description_cannot_break_out_of_its_quotes():
    opaque = Opaque()
    opaque.fault = InvalidTokenError("x", 'expired", evil="\r\nSet-Cookie: a')
    written = challenge(await refused(Authenticator([opaque]), bearer("opaque-1")))
    assert written == 'Bearer error="invalid_token", error_description="expired, evil=Set-Cookie: a"'
