"""Upstreams of servers with accounts: how long they live, and what is left of them when they end."""

import pytest
from msgspec import Raw

from toolyard.config import Config
from toolyard.config.server_auth import KeyAuth
from toolyard.connections.keys import KeyAccounts
from toolyard.dispatch.accounts import AccountUpstream
from toolyard.upstream.base import Forward, Outcome, Upstream
from toolyard.upstream.connection import GATEWAY_CALLER, UpstreamInfo
from toolyard.upstream.errors import NotReachedError
from toolyard.vault.factory import open_vault
from toolyard.wire.call import NO_CHANNEL, Call, Principal
from toolyard.wire.seal import Sealer

SEALER = Sealer(b"0123456789abcdef")


class Place(Upstream):
    def __init__(self) -> None:
        self.is_closed = False

    async def send(self, forward: Forward) -> Outcome:
        assert not self.is_closed, "it has no second life"
        return Outcome.of(b"{}")

    async def info(self) -> UpstreamInfo:
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
