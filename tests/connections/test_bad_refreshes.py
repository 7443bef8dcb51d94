"""Refreshes that go wrong: no token is lost, a good one goes on being used, and the caller reads why."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from yarl import URL

from tests.connections.token_endpoint import (
    ADDRESS,
    LIFETIME,
    SERVER_URL,
    AskingSource,
    Clock,
    WrittenEndpoint,
    granted,
    http,
    refused,
    session_of,
    token,
    written_endpoint,
)
from toolyard.connections.oauth.session import OAuthSession
from toolyard.connections.oauth.tokens import ProcessSecrets, TokenStore
from toolyard.state import MemoryState
from toolyard.upstream.errors import ConsentRequiredError, CredentialError
from toolyard.vault.base import SecretAddress, VaultUnavailableError
from toolyard.vault.master_keys import MasterKeys, MemorySource
from toolyard.vault.vault import Vault

URL_OF_SERVER = URL(SERVER_URL)
NEW, OLD = {"Authorization": "Bearer new"}, {"Authorization": "Bearer old"}
ALMOST = LIFETIME - 10
"""An age at which a token is refreshed, and still good."""


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[WrittenEndpoint]:
    async with written_endpoint() as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> TokenStore:
    state = MemoryState()
    return TokenStore(Vault(state, MasterKeys(MemorySource())), state, clock=clock)


async def sent(session: OAuthSession) -> dict[str, str]:
    return dict(await session.headers("POST", URL_OF_SERVER))


async def settled(session: OAuthSession) -> None:
    """The refresh that a call has begun comes to its end."""
    await session.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    """An answer that never ends, and never stops either."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    closed = asyncio.ensure_future(writer.wait_closed())
    while not closed.done():
        writer.write(b"1\r\n \r\n")
        await asyncio.wait({closed}, timeout=0.02)


async def never(writer: asyncio.StreamWriter) -> None:
    await writer.wait_closed()


async def half(writer: asyncio.StreamWriter) -> None:
    writer.write(granted()[:-20])
    writer.close()


UNUSABLE: dict[str, Any] = {
    "a page": http("<html>Sign in</html>", 200, "text/html"),
    "nothing": b"",
    "half of it": half,
    "never": never,
    "without end": drip,
    "500": http("{}", 500),
    "503 that looks like a refusal": refused("invalid_grant", 503),
    "429": http('{"error": "slow"}', 429),
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "invalid JSON": http('{"access_token": "new"'),
    "a list": http('["new"]'),
    "deep JSON": http("[" * 100_000),
    "too much": http(" " * 300_000),
    "no token": granted(access_token=None),
    "a number for a token": granted(access_token=7),
    "a token that breaks the header": granted(access_token="new\r\nX-Admin: 1"),
    "a token with a space": granted(access_token="new and more"),
    "a token that is no ASCII": granted(access_token="n\u00e9w"),
    "half a character": granted(access_token="\ud800"),
    "an unknown type": granted(token_type="mac"),
    "come back later": refused("temporarily_unavailable"),
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_an_answer_that_is_of_no_use_loses_nothing(
    endpoint: WrittenEndpoint, tokens: TokenStore, clock: Clock, answer: Any
):
    endpoint.answer = answer
    seconds = 0.3 if answer in (never, drip) else 20.0
    session = session_of(tokens, seconds=seconds)
    before = await tokens.save(ADDRESS, token(endpoint, obtained=clock.now))
    clock.now += ALMOST
    assert await sent(session) == OLD, "nobody waits while the token is good"
    await settled(session)
    assert await sent(session) == OLD
    clock.now += 20
    session = session_of(tokens, seconds=seconds)
    with pytest.raises(CredentialError, match=r"'guarded': no token .* its issuer does not answer") as raised:
        await sent(session)
    assert not isinstance(raised.value, ConsentRequiredError)
    assert "X-Admin" not in str(raised.value)
    assert endpoint.asked == ["r1", "r1"], "once in time, and once when it had to be"
    assert await tokens.load(ADDRESS) == before


async def test_an_issuer_that_answers_again_is_asked_again(
    endpoint: WrittenEndpoint, tokens: TokenStore, clock: Clock
):
    endpoint.answer = http("", 500)
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    session = session_of(tokens)
    with pytest.raises(CredentialError):
        await sent(session)
    endpoint.answer = granted()
    assert await sent(session) == NEW
    assert endpoint.asked == ["r1", "r1"]


async def test_replicas_do_not_ask_a_silent_issuer_one_after_the_other(
    clock: Clock, endpoint: WrittenEndpoint
):
    state, secrets = MemoryState(), ProcessSecrets()
    replicas = [TokenStore(secrets, state, clock=clock) for _ in range(10)]
    await replicas[0].save(ADDRESS, token(endpoint, obtained=0.0))
    endpoint.answer = http("", 500)
    asking = [session_of(tokens).headers("POST", URL_OF_SERVER) for tokens in replicas]
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(each) for each in found} == {CredentialError}
    assert endpoint.asked == ["r1"]


ODD: dict[str, tuple[bytes, float | None]] = {
    "no time": (granted(expires_in=None), None),
    "negative": (granted(expires_in=-5), None),
    "zero": (granted(expires_in=0), None),
    "a word": (granted(expires_in="soon"), None),
    "digits of another script": (granted(expires_in="²"), None),
    "true": (granted(expires_in=True), None),
    "not a number": (granted(expires_in=float("nan")), None),
    "text": (granted(expires_in="60"), 60.0),
    "longer than numbers": (granted(expires_in=10**400), 10 * 365 * 86400.0),
    "longer text": (granted(expires_in="9" * 5000), 10 * 365 * 86400.0),
    "without end": (granted(expires_in=float("inf")), 10 * 365 * 86400.0),
}


@pytest.mark.parametrize(("answer", "lifetime"), ODD.values(), ids=ODD.keys())
async def test_a_token_without_a_sensible_end_is_used_until_the_server_refuses_it(
    endpoint: WrittenEndpoint, tokens: TokenStore, clock: Clock, answer: bytes, lifetime: float | None
):
    endpoint.answer = answer
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    assert await sent(session_of(tokens)) == NEW
    held = await tokens.load(ADDRESS)
    assert held is not None
    assert held.record.lifetime == lifetime
    if lifetime is None:
        clock.now += 10 * LIFETIME
        session = session_of(tokens)
        assert await sent(session) == NEW
        assert endpoint.asked == ["r1"]
        endpoint.answer = granted(access_token="newer")
        assert await session.refused(401, {"WWW-Authenticate": "Bearer"}, NEW, URL_OF_SERVER, 1)
        assert await sent(session) == {"Authorization": "Bearer newer"}
        assert endpoint.asked == ["r1", "r2"]


@pytest.mark.parametrize("successor", [None, 7, "", "r\r\n2", "\ud800", "x" * 100_000])
async def test_without_a_usable_successor_the_refresh_token_stays(
    endpoint: WrittenEndpoint, tokens: TokenStore, successor: Any
):
    endpoint.answer = granted(refresh_token=successor)
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    assert await sent(session_of(tokens)) == NEW
    held = await tokens.load(ADDRESS)
    assert held is not None
    assert held.record.refresh_token == "r1"


async def test_a_second_answer_is_not_taken_for_that_to_the_next_request(
    endpoint: WrittenEndpoint, tokens: TokenStore, clock: Clock
):
    endpoint.answer = granted() + granted(access_token="nobody-asked-for-it")
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    session = session_of(tokens)
    assert await sent(session) == NEW
    endpoint.answer = granted(access_token="newer", refresh_token="r3")
    clock.now += LIFETIME + 1
    session.forget()
    assert await sent(session) == {"Authorization": "Bearer newer"}
    assert endpoint.asked == ["r1", "r2"]
    assert endpoint.connections == 2


@pytest.mark.parametrize(
    ("answer", "forgets"),
    [
        (refused("invalid_grant"), False),
        (refused("invalid_scope"), False),
        (refused("<script>"), False),
        (refused("invalid_client", 401), True),
        (refused("unauthorized_client"), True),
    ],
    ids=["invalid_grant", "invalid_scope", "a strange code", "invalid_client", "unauthorized_client"],
)
async def test_a_refusal_asks_the_user_and_is_not_tried_again(
    endpoint: WrittenEndpoint, tokens: TokenStore, answer: bytes, forgets: bool
):
    endpoint.answer = answer
    source = AskingSource()
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    session = session_of(tokens, source)
    for _ in range(3):
        assert await sent(session) == {}
        with pytest.raises(ConsentRequiredError, match="log in") as raised:
            await session.refused(401, {"WWW-Authenticate": "Bearer"}, {}, URL_OF_SERVER, 1)
        assert "theirs" not in str(raised.value)
    assert endpoint.asked == ["r1"]
    assert source.forgotten == (["yard"] if forgets else [])
    held = await tokens.load(ADDRESS)
    assert held is not None
    assert held.record.refresh_token == "r1", "kept, so that it can be revoked"


async def test_a_clock_that_jumps_ahead_causes_one_refresh_and_one_that_jumps_back_none(
    endpoint: WrittenEndpoint, tokens: TokenStore, clock: Clock
):
    endpoint.answer = granted()
    start = clock.now
    await tokens.save(ADDRESS, token(endpoint, obtained=start))
    clock.now = start + 365 * 86400
    sessions = [session_of(tokens) for _ in range(5)]
    assert await asyncio.gather(*map(sent, sessions)) == [NEW] * 5
    clock.now = start - 365 * 86400
    assert await sent(session_of(tokens)) == NEW
    assert endpoint.asked == ["r1"]
    # Its end is not known by this clock; the server knows it.
    endpoint.answer = granted(access_token="newer")
    assert await sessions[0].refused(401, {"WWW-Authenticate": "Bearer"}, NEW, URL_OF_SERVER, 1)
    assert await sent(sessions[0]) == {"Authorization": "Bearer newer"}
    assert endpoint.asked == ["r1", "r2"]


async def test_a_refresh_under_way_is_finished_before_a_gateway_ends(
    endpoint: WrittenEndpoint, tokens: TokenStore
):
    endpoint.answer = granted()
    endpoint.gate.clear()
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    session = session_of(tokens)
    call = asyncio.create_task(session.headers("POST", URL_OF_SERVER))
    await endpoint.arrived.wait()
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)  # it has begun
    call.cancel()
    endpoint.gate.set()
    await closing
    held = await tokens.load(ADDRESS)
    assert held is not None
    assert (held.record.access_token, held.record.refresh_token) == ("new", "r2")


class FailingSecrets(ProcessSecrets):
    """A store that does not take what is written, for a while."""

    failures = 0

    async def replace(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        if self.failures:
            self.failures -= 1
            raise VaultUnavailableError("the vault cannot be reached", "wait")
        return await super().replace(address, value, seen)


async def test_a_successor_is_kept_though_the_store_is_away_when_it_comes(endpoint: WrittenEndpoint):
    secrets = FailingSecrets()
    tokens = TokenStore(secrets, MemoryState())
    endpoint.answer = granted()
    await tokens.save(ADDRESS, token(endpoint, obtained=0.0))
    secrets.failures = 2
    assert await sent(session_of(tokens)) == NEW
    held = await tokens.load(ADDRESS)
    assert held is not None
    assert held.record.refresh_token == "r2"
    assert json.loads((await secrets.read(ADDRESS)).value)["access_token"] == "new"  # pyright: ignore[reportOptionalMemberAccess]
