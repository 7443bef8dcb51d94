"""Upstreams of servers with accounts: how long they live, and what is left of them when they end."""

import asyncio
import time

import pytest
from msgspec import Raw
from yarl import URL

from toolyard.config import Config
from toolyard.config.server_auth import KeyAuth, OAuthAuth
from toolyard.connections.keys import KeyAccounts
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.connections.oauth.token_endpoint import ClientIdentity
from toolyard.connections.oauth.tokens import TokenRecord, TokenStore
from toolyard.dispatch.accounts import AccountUpstream
from toolyard.upstream.base import Forward, Outcome, StatelessUpstream
from toolyard.upstream.connection import GATEWAY_CALLER, UpstreamInfo
from toolyard.upstream.errors import CredentialError, NotReachedError
from toolyard.vault.base import SecretAddress, SecretKind, SecretStore, StoredSecret
from toolyard.vault.factory import open_vault
from toolyard.wire.call import NO_CHANNEL, Call, Principal
from toolyard.wire.seal import Sealer

SEALER = Sealer(b"0123456789abcdef")


class Place(StatelessUpstream):
    def __init__(self) -> None:
        self.is_closed = False

    async def send(self, forward: Forward) -> Outcome:
        assert not self.is_closed, "it has no second life"
        return Outcome.of(b"{}")

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        raise NotImplementedError

    async def close(self) -> None:
        self.is_closed = True


async def accepted(key: str) -> bool:
    return True


def accounts() -> KeyAccounts:
    vault = open_vault(Config(), None)
    return KeyAccounts("shop", "there", "there", KeyAuth(), vault, vault.store, lambda: "", accepted)


def forward() -> Forward:
    call = Call("tools/list", Raw(b"{}"), GATEWAY_CALLER, NO_CHANNEL, 1)
    return Forward.of(call)


async def test_the_only_upstream_of_all_callers_is_there_however_long_nobody_called():
    place = Place()
    upstream = AccountUpstream(accounts(), lambda _: place, Principal, SEALER, idle=-1.0, is_one=True)
    await upstream.send(forward())
    upstream.close_idle()
    await upstream.idle()
    await upstream.send(forward())
    await upstream.close()
    assert place.is_closed


async def test_the_upstream_of_one_caller_is_closed_when_it_is_not_used():
    places: list[Place] = []

    def opened(_: Principal) -> Place:
        places.append(Place())
        return places[-1]

    upstream = AccountUpstream(accounts(), opened, Principal, SEALER, idle=-1.0)
    await upstream.send(forward())
    upstream.close_idle()
    await upstream.send(forward())
    await upstream.close()
    assert [place.is_closed for place in places] == [True, True]


async def test_a_call_that_comes_after_the_end_opens_nothing():
    places: list[Place] = []

    def opened(_: Principal) -> Place:
        places.append(Place())
        return places[-1]

    upstream = AccountUpstream(accounts(), opened, Principal, SEALER)
    await upstream.close()
    with pytest.raises(NotReachedError, match="unmounted"):
        await upstream.send(forward())
    assert not places


class SlowVault:
    """A vault whose answers can be held back on their way."""

    def __init__(self, inner: SecretStore) -> None:
        self._inner = inner
        self.is_quick = asyncio.Event()
        self.is_quick.set()
        self.has_read = asyncio.Event()

    async def read(self, address: SecretAddress, max_age: float = 0.0) -> StoredSecret | None:
        found = await self._inner.read(address, max_age)
        self.has_read.set()
        await self.is_quick.wait()
        return found

    async def replace(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        return await self._inner.replace(address, value, seen)

    async def delete(self, address: SecretAddress, seen: str | None = None) -> bool:
        return await self._inner.delete(address, seen)

    async def list(
        self, tenant: str, principal: str | None = None, kind: SecretKind | None = None
    ) -> list[SecretAddress]:
        return await self._inner.list(tenant, principal, kind)


async def test_a_key_that_was_read_before_its_owner_disconnected_is_not_used_after():
    vault = open_vault(Config(), None)
    slow = SlowVault(vault)
    keys = KeyAccounts("shop", "there", "there", KeyAuth(), slow, vault.store, lambda: "", accepted)
    owner = Principal(subject="ana")
    assert await keys.enter(keys.address(owner), "key-of-ana") is None
    slow.is_quick.clear()
    slow.has_read.clear()
    asked = asyncio.create_task(keys.authorizer(owner).current())
    await slow.has_read.wait()
    assert await keys.disconnect(owner)
    slow.is_quick.set()
    assert await asked is None
    assert keys.authorizer(owner).in_use == ""


URL_OF_SHOP = "https://shop.example/mcp"
ANA = Principal(subject="ana")


def a_token() -> TokenRecord:
    return TokenRecord(
        access_token="token-of-the-owner",
        token_type="Bearer",
        obtained=time.time(),
        lifetime=3600.0,
        issuer="https://issuer.example",
        token_endpoint="https://issuer.example/token",
        client=ClientIdentity(id="us", issuer="https://issuer.example"),
        server_url=URL_OF_SHOP,
    )


async def test_a_token_that_was_read_before_its_owner_disconnected_is_not_used_after():
    vault = open_vault(Config(), None)
    slow = SlowVault(vault)
    tokens = TokenStore(slow, vault.store)
    accounts = OAuthAccounts("shop", URL_OF_SHOP, OAuthAuth(), tokens, vault.store, lambda: "")
    await tokens.save(accounts.address(ANA), a_token())
    slow.is_quick.clear()
    slow.has_read.clear()
    asked = asyncio.create_task(accounts.authorizer(ANA).headers("POST", URL(URL_OF_SHOP)))
    await slow.has_read.wait()
    await vault.delete(accounts.address(ANA))
    accounts.authorizer(ANA).forget()
    slow.is_quick.set()
    assert await asked == {}
    await accounts.close()


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(Principal(subject="ana", kind="key"), id="with credentials"),
        pytest.param(Principal(tenant="key:f00"), id="told apart by a key for another server"),
        pytest.param(Principal(subject="ana"), id="named by an application"),
    ],
)
async def test_a_caller_cannot_take_from_all_what_all_share(caller: Principal):
    vault = open_vault(Config(), None)
    tokens = TokenStore(vault, vault.store)
    machine = OAuthAuth(mode="client_credentials", client_id="us", client_secret="secret-of-ours")
    oauth = OAuthAccounts("shop", URL_OF_SHOP, machine, tokens, vault.store, lambda: "")
    await tokens.save(oauth.address(caller), a_token())
    shared = KeyAuth(per="all")
    keys = KeyAccounts("shop", "there", "there", shared, vault, vault.store, lambda: "http://here", accepted)
    await keys.enter(keys.address(caller), "key-of-the-house")
    for attempt in (oauth.disconnect, keys.disconnect, keys.link):
        with pytest.raises(CredentialError, match="all callers"):
            await attempt(caller)
    assert await tokens.load(oauth.address(caller)) is not None
    assert (await keys.state(caller)).connected
    assert await oauth.disconnect(Principal())
    assert await keys.disconnect(Principal())
    await oauth.close()
