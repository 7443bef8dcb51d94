"""Servers that are called in the caller's own name: its token is exchanged, and nobody else's is used."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Raw
from yarl import URL

from tests.callers.oidc import CLIENT, SECRET, OidcProvider, oidc_provider
from tests.connections.acting import Front, Yard, acting, front_of
from toolyard import Client
from toolyard.client import RefusedError
from toolyard.config.callers import AuditConfig, IssuerConfig
from toolyard.config.models import TelemetryConfig
from toolyard.config.server_auth import IdentityProvider
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.connections.oauth.tokens import ProcessSecrets, TokenStore
from toolyard.recordings.format import HeaderLine, RecordingWriter
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.state.memory import MemoryState
from toolyard.upstream.errors import CredentialError
from toolyard.wire.call import CALLER_TOKEN, NO_CHANNEL, Call, Caller, Identity, Principal, Secret
from toolyard.wire.versions import LATEST_MODERN

GATEWAY = "https://gateway.example/mcp"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(provider: OidcProvider) -> AsyncIterator[Yard]:
    async with acting(provider) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def front(yard: Yard, tmp_path: Path) -> AsyncIterator[Front]:
    async with front_of(yard, yard.config(tmp_path, yard.auth())) as found:
        yield found


def grants(events: list[dict[str, Any]]) -> list[str]:
    return [event["grant"] for event in events]


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def identity_provider(yard: Yard) -> IdentityProvider:
    return IdentityProvider(
        token_endpoint=f"{yard.provider.url}/token",
        client_id=yard.client["client_id"],
        client_secret=yard.client["client_secret"],
    )


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_each_caller_is_who_it_is_at_the_server(front: Front, era: Any):
    ana, ben = await front.token("ana"), await front.token("ben")
    said = await asyncio.gather(*(front.call(token, era=era) for token in (ana, ben) * 3))
    assert said == [(False, "ana"), (False, "ben")] * 3
    assert grants(await front.yard.provider.exchanges()) == ["exchange", "exchange"]
    # With another token it is another session, and what the first was exchanged for is not used.
    again = await front.token("ana")
    assert await front.call(again, era=era) == (False, "ana")
    assert grants(await front.yard.provider.exchanges()) == ["exchange"]


async def test_the_server_never_sees_the_token_that_a_caller_came_with(front: Front):
    ana = await front.token("ana")
    assert await front.call(ana) == (False, "ana")
    heard = "".join(front.yard.server.heard)
    assert "Bearer" in heard
    assert not any(part in heard for part in ana.split(".")[1:])


async def test_nothing_that_is_written_has_a_callers_token(
    yard: Yard, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    writer = RecordingWriter(tmp_path / "run.jsonl", HeaderLine(command=("test",)))
    tables: dict[str, Any] = {
        "audit": AuditConfig(url=f"file:{tmp_path}/audit", arguments="redacted"),
        "telemetry": TelemetryConfig(traces=("local",), content="all", access_log=True, log_level="debug"),
    }
    config = yard.config(tmp_path / "state", yard.auth(), **tables)
    async with front_of(yard, config, tap=TrafficRecorder(writer)) as front:
        ana = await front.token("ana")
        assert await front.call(ana) == (False, "ana")
        await yard.provider.allow_exchange(ended=["ben"])
        ben = await front.token("ben")
        assert (await front.call(ben))[0]
    writer.end(0)
    written = everything_in(tmp_path)
    assert b"whoami" in written
    for token in (ana, ben):
        for part in (token, *token.split(".")[1:]):
            assert part.encode() not in written
            assert part not in caplog.text


async def test_other_credentials_get_nothing_and_are_told_what_is_needed(front: Front):
    calls = len(front.yard.server.seen)
    for token, brought in ((await front.key(), "you came with an API key"), ("", "as the local user")):
        failed, text = await front.call(token)
        assert (failed, brought in text, "access token of an issuer" in text) == (True, True, True), text
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with Client(front.url, headers=headers) as client:
            status = {"action": "status", "names": ["guarded"]}
            found: Any = (await client.call_tool("manage_connections", status)).structured
            assert brought in found["connections"][0]["message"]
    assert await front.yard.provider.exchanges() == []
    assert len(front.yard.server.seen) == calls


async def test_a_token_of_another_issuer_is_shown_to_nobody(yard: Yard, tmp_path: Path):
    auth = yard.auth(subject_issuer="https://another.example")
    async with front_of(yard, yard.config(tmp_path, auth)) as front:
        failed, text = await front.call(await front.token("ana"))
        assert failed
        assert "access token of https://another.example" in text
        assert "you came with one of another issuer" in text
        assert await yard.provider.exchanges() == []


async def test_an_opaque_token_is_exchanged_until_it_is_revoked(yard: Yard, tmp_path: Path):
    issuer = IssuerConfig(
        issuer=yard.provider.url,
        introspection_url=f"{yard.provider.url}/token/introspection",
        client_id=CLIENT,
        client_secret=SECRET,
        audiences=(GATEWAY,),
    )
    await yard.provider.tell("opaque")
    try:
        ana, ben = [await yard.provider.user_token(name, GATEWAY) for name in ("ana", "ben")]
    finally:
        await yard.provider.tell("jwt")
    async with front_of(yard, yard.config(tmp_path, yard.auth(), issuer)) as front:
        await yard.provider.allow_exchange(audience=GATEWAY)
        assert await front.call(ana) == (False, "ana")
        await yard.provider.revoke(ben)
        await yard.provider.exchanges()
        with pytest.raises(RefusedError, match="401"):
            await front.call(ben)
        assert await yard.provider.exchanges() == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"ended": ["ana"]}, ("invalid_grant", "get a new one")),
        ({"denied": ["ana"]}, ("access_denied", "does not let you use this server")),
        ({"targets": []}, ("invalid_target", "gives no tokens for this server")),
        ({"audience": "https://another.example"}, ("invalid_grant", "get a new one")),
        ({"answer": "wrong_type"}, ("another kind of token than an access token",)),
        ({"answer": "n_a"}, ("another kind of token than an access token",)),
        ({"answer": "down"}, ("answered 503",)),
        ({"answer": "html"}, ("not with JSON",)),
    ],
)
async def test_what_the_issuer_refuses_the_caller_does_not_get(
    front: Front, policy: dict[str, Any], expected: tuple[str, ...]
):
    calls = len(front.yard.server.seen)
    token = await front.token("ana")
    await front.yard.provider.allow_exchange(**policy)
    failed, text = await front.call(token)
    assert failed
    assert all(words in text for words in expected), text
    assert not any(part in text for part in token.split("."))
    assert len(front.yard.server.seen) == calls
    usual = {"audience": front.url, "targets": [front.yard.url], "denied": [], "ended": [], "answer": ""}
    await front.yard.provider.allow_exchange(**usual)
    assert await front.call(token) == (False, "ana")


async def test_without_a_credential_for_lists_everybody_is_told_what_is_missing(yard: Yard, tmp_path: Path):
    async with front_of(yard, yard.config(tmp_path, yard.auth(lists=""))) as front:
        headers = {"Authorization": f"Bearer {await front.token('ana')}"}
        async with Client(front.url, headers=headers) as client:
            status = {"action": "status", "names": ["guarded"]}
            found: Any = (await client.call_tool("manage_connections", status)).structured
        assert 'set lists = "client_credentials" in its auth' in found["connections"][0]["message"]
        assert await yard.provider.exchanges() == []


async def test_another_auth_counts_when_the_configuration_is_read_again(yard: Yard, tmp_path: Path):
    async with front_of(yard, yard.config(tmp_path, yard.auth(lists=""))) as front:
        ana = await front.token("ana")
        assert (await front.call(ana))[0]
        await front.gateway.reload(yard.config(tmp_path, yard.auth()))
        assert await front.call(ana) == (False, "ana")


async def test_lists_are_read_as_the_client_and_never_as_a_caller(front: Front):
    ana = await front.token("ana")
    assert await front.call(ana) == (False, "ana")
    heard = "".join(front.yard.server.heard)
    assert "tools/list" in heard
    events = await front.yard.provider.exchanges()
    assert grants(events) == ["exchange"]


# By the clock


class Moments:
    """One caller's calls, by a clock that the test sets."""

    def __init__(self, yard: Yard, token: str, lifetime: float) -> None:
        self.now = time.time()
        tokens = TokenStore(ProcessSecrets(), MemoryState(), clock=lambda: self.now)
        self.accounts = OAuthAccounts("guarded", yard.url, yard.auth(), tokens, MemoryState(), str)
        self.principal = Principal(
            tenant="t",
            subject="ana",
            issuer=yard.provider.url,
            kind="jwt",
            credential="one",
            expires=self.now + lifetime,
        )
        self._token = token

    async def sent(self) -> str:
        """What a call sends to the server as its authorization."""
        secret = Secret(self._token, "mark")
        caller = Caller(LATEST_MODERN, {}, identity=Identity(self.principal))
        call = Call("tools/call", Raw(b"{}"), caller, NO_CHANNEL, 1, secrets={CALLER_TOKEN: secret})
        with self.accounts.acting(call):
            found = await self.without_a_call()
        secret.forget()
        return found

    async def without_a_call(self) -> str:
        found = await self.accounts.authorizer(self.principal).headers("POST", URL("http://127.0.0.1/mcp"))
        return found["Authorization"]


async def test_an_exchanged_token_ends_with_the_one_it_was_got_for(front: Front):
    moments = Moments(front.yard, await front.token("ana"), 600.0)
    await front.yard.provider.exchanges()
    first = await moments.sent()
    moments.now += 599.0
    assert await moments.sent() == first
    assert grants(await front.yard.provider.exchanges()) == ["exchange"]
    moments.now += 2.0
    with pytest.raises(CredentialError, match="the token that you came with has ended"):
        await moments.sent()
    assert await front.yard.provider.exchanges() == []
    await moments.accounts.close()


async def test_when_an_exchanged_token_has_ended_the_next_call_exchanges_its_own(front: Front):
    token = await front.token("ana")
    await front.yard.provider.tell("ttl 60")
    await front.yard.provider.allow_exchange(answer="refresh")  # a refresh token, which must not be used
    try:
        moments = Moments(front.yard, token, 3600.0)
        first = await moments.sent()
        moments.now += 61.0
        with pytest.raises(CredentialError, match="the request is over"):
            await moments.without_a_call()
        assert await moments.sent() != first
        assert grants(await front.yard.provider.exchanges()) == ["exchange", "exchange"]
    finally:
        await front.yard.provider.tell("ttl 3600")
    await moments.accounts.close()


async def test_what_was_got_for_a_caller_can_be_given_back(front: Front):
    moments = Moments(front.yard, await front.token("ana"), 3600.0)
    first = await moments.sent()
    assert await moments.accounts.disconnect(moments.principal)
    assert not await moments.accounts.disconnect(moments.principal)
    assert await moments.sent() != first
    await moments.accounts.close()


# Enterprise-managed authorization


@pytest_asyncio.fixture(loop_scope="module")
async def enterprise(yard: Yard, tmp_path: Path) -> AsyncIterator[Front]:
    auth = yard.auth("id_jag", identity_provider=identity_provider(yard))
    async with front_of(yard, yard.config(tmp_path, auth)) as found:
        yield found


async def test_id_jag_is_made_for_each_caller_and_used_once(enterprise: Front):
    ana, ben = await enterprise.token("ana"), await enterprise.token("ben")
    assert await enterprise.call(ana) == (False, "ana")
    assert await enterprise.call(ben) == (False, "ben")
    assert await enterprise.call(ana) == (False, "ana")
    events = await enterprise.yard.provider.exchanges()
    assert grants(events) == ["id-jag", "jwt-bearer"] * 2
    assert {event["audience"] for event in events[::2]} == {enterprise.yard.provider.url}
    assert len({event["jti"] for event in events[1::2]}) == 2
    heard = "".join(enterprise.yard.server.heard)
    assert not any(part in heard for token in (ana, ben) for part in token.split(".")[1:])


async def test_the_type_of_what_is_exchanged_is_a_setting(yard: Yard, tmp_path: Path):
    kind = "urn:ietf:params:oauth:token-type:jwt"
    auth = yard.auth("id_jag", identity_provider=identity_provider(yard), subject_token_type=kind)
    async with front_of(yard, yard.config(tmp_path, auth)) as front:
        await yard.provider.allow_exchange(type="jwt")
        assert await front.call(await front.token("ana")) == (False, "ana")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"denied": ["ana"]}, ("access_denied", "does not let you use this server")),
        ({"ended": ["ana"]}, ("invalid_grant", "get a new one")),
        ({"answer": "wrong_type"}, ("another kind of token than an ID-JAG",)),
        ({"targets": []}, ("invalid_target",)),
    ],
)
async def test_an_identity_provider_that_refuses_gives_nothing(
    enterprise: Front, policy: dict[str, Any], expected: tuple[str, ...]
):
    calls = len(enterprise.yard.server.seen)
    await enterprise.yard.provider.allow_exchange(**policy)
    failed, text = await enterprise.call(await enterprise.token("ana"))
    assert failed
    assert all(words in text for words in expected), text
    assert len(enterprise.yard.server.seen) == calls
