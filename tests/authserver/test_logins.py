"""Logins by themselves: what time does to them, and many replicas at once."""

import asyncio
from typing import Any

import pytest

from tests.authserver.yard import new_verifier, quick_hasher
from toolyard.authserver.brakes import TooManyTriesError
from toolyard.authserver.logins import (
    CODE_SECONDS,
    GRACE_SECONDS,
    CodeRequest,
    Logins,
    SignedIn,
    TokenRequestError,
)
from toolyard.authserver.users import LocalUsers, LoginUserError, PasswordHasher
from toolyard.callers.errors import InvalidTokenError
from toolyard.callers.names import CallerNameError
from toolyard.config.callers import LoginServerConfig
from toolyard.state.memory import MemoryState
from toolyard.state.store import State
from toolyard.wire.seal import Sealer

RESOURCE = "https://yard.example/mcp"
PERSON = SignedIn(subject="anna", tenant="local", groups=("staff",))
VERIFIER, CHALLENGE = new_verifier()
REQUEST = CodeRequest(
    client_id="client",
    client="client",
    client_name="Client",
    redirect_uri="https://client.example/cb",
    is_redirect_given=True,
    challenge=CHALLENGE,
    scopes=("mcp",),
    resource=RESOURCE,
)


class Replica:
    """One of several processes with the same key and store, and a clock of its own."""

    def __init__(self, state: State, **config: Any) -> None:
        self.moment = 1_800_000_000.0
        key = Sealer(b"0123456789abcdef", "yard")
        self.logins = Logins(state, "yard", key, LoginServerConfig(**config), now=lambda: self.moment)

    async def redeem(self, code: str) -> Any:
        return await self.logins.redeem(code, "client", REQUEST.redirect_uri, VERIFIER, "")

    async def log_in(self) -> Any:
        return await self.redeem(await self.logins.issue_code(REQUEST, PERSON))

    async def refresh(self, token: str) -> Any:
        return await self.logins.refresh(token, "client", (), "")


async def test_ten_replicas_that_refresh_at_once_give_the_same_successor():
    state = MemoryState()
    replicas = [Replica(state) for _ in range(10)]
    first = await replicas[0].log_in()
    answers = await asyncio.gather(
        *(replica.refresh(first.refresh) for replica in replicas for _ in range(5))
    )
    assert len({answer.refresh for answer in answers}) == 1
    assert answers[0].refresh != first.refresh
    for answer in answers:
        await replicas[3].logins.verify(answer.access, RESOURCE)
    (login,) = await replicas[0].logins.list()
    assert (login.generation, login.state(replicas[0].moment)) == (1, "valid")


async def test_the_grace_ends():
    replica = Replica(MemoryState())
    first = await replica.log_in()
    second = await replica.refresh(first.refresh)
    replica.moment += GRACE_SECONDS
    assert (await replica.refresh(first.refresh)).refresh == second.refresh
    replica.moment += 1
    with pytest.raises(TokenRequestError, match="used before"):
        await replica.refresh(first.refresh)
    with pytest.raises(TokenRequestError, match="has ended"):
        await replica.refresh(second.refresh)
    with pytest.raises(InvalidTokenError, match="has ended"):
        await replica.logins.verify(second.access, RESOURCE)


async def test_codes_and_tokens_end():
    replica = Replica(MemoryState(), access_ttl=100.0, refresh_ttl=1000.0)
    code = await replica.logins.issue_code(REQUEST, PERSON)
    replica.moment += CODE_SECONDS
    with pytest.raises(TokenRequestError, match="expired"):
        await replica.redeem(code)
    tokens = await replica.log_in()
    assert tokens.expires_in == 100
    replica.moment += 99
    await replica.logins.verify(tokens.access, RESOURCE)
    replica.moment += 1
    with pytest.raises(InvalidTokenError, match="expired"):
        await replica.logins.verify(tokens.access, RESOURCE)
    replica.moment += 890
    last = await replica.refresh(tokens.refresh)
    assert last.expires_in == 10  # no token outlives its login
    replica.moment += 10
    with pytest.raises(TokenRequestError, match="has ended"):
        await replica.refresh(last.refresh)


async def test_a_clock_that_jumps_lets_nobody_in_for_longer():
    state = MemoryState()
    ahead, right = Replica(state), Replica(state)
    ahead.moment += 30 * 86400
    tokens = await ahead.log_in()
    with pytest.raises(InvalidTokenError, match="not valid yet"):
        await right.logins.verify(tokens.access, RESOURCE)
    # A renewal that happened "in a month" is no renewal of the last seconds.
    await ahead.refresh(tokens.refresh)
    with pytest.raises(TokenRequestError, match="used before"):
        await right.refresh(tokens.refresh)


async def test_replicas_whose_clocks_differ_a_little_agree():
    state = MemoryState()
    ahead, right = Replica(state), Replica(state)
    ahead.moment += 20
    tokens = await ahead.log_in()
    await right.logins.verify(tokens.access, RESOURCE)
    second = await ahead.refresh(tokens.refresh)
    assert (await right.refresh(tokens.refresh)).refresh == second.refresh


async def test_a_token_is_of_this_gateway_and_resource():
    state = MemoryState()
    replica = Replica(state)
    tokens = await replica.log_in()
    stranger = Logins(state, "yard", Sealer(b"fedcba9876543210", "yard"), LoginServerConfig())
    with pytest.raises(InvalidTokenError, match="not made by this gateway"):
        await stranger.verify(tokens.access, RESOURCE)
    with pytest.raises(InvalidTokenError, match="another audience"):
        await replica.logins.verify(tokens.access, "https://other.example/mcp")
    await replica.logins.verify(tokens.access, f"{RESOURCE}/demo")  # which offers less


# Users


async def test_users_are_kept_by_a_hash_and_told_apart_by_more_than_case():
    state = MemoryState()
    users = LocalUsers(state, "yard", quick_hasher)
    user = await users.add("Anna", "long enough password", tenant="acme", groups=("staff",))
    assert user.password.startswith("$argon2id$v=19$m=")
    assert "long enough" not in repr(user)
    for name, why in (("anna", "differs by case"), ("Anna", "differs by case")):
        with pytest.raises(LoginUserError, match=why):
            await users.add(name, "long enough password")
    for name in ("", "a b", "a\u202eb", "x" * 300):
        with pytest.raises(CallerNameError):
            await users.add(name, "long enough password")
    for password in ("", "short", "x" * 2000):
        with pytest.raises(LoginUserError, match="10 to 1024"):
            await users.add("other", password)
    assert await users.sign_in("ANNA", "long enough password", "peer") == user
    assert await users.sign_in("anna", "long enough passwort", "peer") is None
    assert await users.sign_in("anna", "x" * 100_000, "peer") is None
    await users.change("anna", groups=("board",))
    assert [found.groups for found in await users.list()] == [("board",)]
    await users.remove("anna")
    assert await users.sign_in("anna", "long enough password", "peer") is None
    with pytest.raises(LoginUserError, match="no user"):
        await users.remove("anna")


async def test_a_right_password_costs_no_try():
    users = LocalUsers(MemoryState(), "yard", quick_hasher)
    await users.add("anna", "long enough password")
    for _ in range(20):
        assert await users.sign_in("anna", "long enough password", "peer")
    for _ in range(8):
        assert await users.sign_in("anna", "wrong password", "peer") is None
    with pytest.raises(TooManyTriesError):
        await users.sign_in("anna", "long enough password", "peer")
    assert await users.sign_in("anna", "long enough password", "elsewhere")


async def test_the_hash_takes_the_work_that_is_documented():
    hasher = PasswordHasher()
    made = await hasher.hash("long enough password")
    assert "$m=65536,t=3,p=1$" in made
    assert await hasher.verify("long enough password", made)
    assert not await hasher.verify("long enough password", "$argon2id$damaged")
    assert not await hasher.verify("long enough password", None)
