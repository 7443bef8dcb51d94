"""Guessing is slowed down, and work that strangers cause is bounded; for everybody else nothing changes."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.authserver.yard import (
    BEHIND_PROXY,
    NAME,
    PASSWORD,
    REDIRECT,
    Browser,
    login_yard,
    post_form,
    quick_hasher,
    registered,
)
from toolyard.authserver.brakes import Bulkhead, BusyError, TooManyTriesError
from toolyard.authserver.users import LocalUsers, PasswordHasher
from toolyard.config.callers import LoginClientConfig, LoginServerConfig
from toolyard.state import open_state
from toolyard.state.memory import MemoryState
from toolyard.state.store import State

OWNER = "198.51.100.1"


def users_of(state: State | None = None) -> LocalUsers:
    return LocalUsers(state or MemoryState(clock=lambda: 1e9), "yard", quick_hasher)


async def refusals(users: LocalUsers, name: str, addresses: list[str]) -> int:
    """How many tries with a wrong password were not made."""
    found = 0
    for address in addresses:
        try:
            assert await users.sign_in(name, "a wrong password", address) is None
        except TooManyTriesError:
            found += 1
    return found


def hosts(count: int) -> list[str]:
    return [f"203.0.113.{number}" for number in range(1, count + 1)]


# Whose address counts


async def test_made_up_addresses_are_no_addresses_without_a_proxy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with login_yard(tmp_path) as yard:
        client = await registered(yard)
        found: list[int] = []
        with caplog.at_level(logging.WARNING, "toolyard.authserver"):
            for address in hosts(10):
                async with Browser(**{"X-Forwarded-For": address}) as browser:
                    page = await browser.get(client.url())
                    page = await browser.submit(page, user=NAME, password="a wrong password")
                    found.append(page.status)
    assert found == [401] * 8 + [429] * 2
    (warned,) = [record.getMessage() for record in caplog.records]
    assert warned.startswith("127.0.0.1 passes on requests and is not in 'proxies' of [gateway]")


async def test_what_a_client_writes_itself_is_not_believed_behind_a_proxy_either(tmp_path: Path):
    async with login_yard(tmp_path, gateway=BEHIND_PROXY) as yard:
        client = await registered(yard)
        found: list[int] = []
        for address in hosts(10):
            async with Browser(**{"X-Forwarded-For": f"{address}, 192.0.2.7"}) as browser:
                page = await browser.get(client.url())
                page = await browser.submit(page, user=NAME, password="a wrong password")
                found.append(page.status)
        assert found == [401] * 8 + [429] * 2


# Passwords


async def test_the_owner_gets_in_while_others_try_his_password():
    users = users_of()
    await users.add(NAME, PASSWORD)
    assert await refusals(users, NAME, hosts(120)) == 0
    assert await users.sign_in(NAME, PASSWORD, OWNER)
    # From each of the other addresses they have fewer tries now.
    assert await refusals(users, NAME, ["192.0.2.200"] * 8) == 5
    assert await refusals(users, NAME, [hosts(1)[0]] * 8) == 6
    # Who mistypes once or twice is not out.
    assert await users.sign_in(NAME, "a wrong password", OWNER) is None
    assert await users.sign_in(NAME, PASSWORD, OWNER)


async def test_an_address_has_so_many_tries_whatever_the_names_are():
    users = users_of()
    await users.add(NAME, PASSWORD)
    names = [f"user {number}" for number in range(60)]
    found = [await refusals(users, name, ["192.0.2.1"]) for name in names]
    assert found == [0] * 50 + [1] * 10
    with pytest.raises(TooManyTriesError):
        await users.sign_in(NAME, PASSWORD, "192.0.2.1")
    assert await users.sign_in(NAME, PASSWORD, OWNER)


async def test_of_ipv6_a_block_is_one_address():
    users = users_of()
    same = [f"2001:db8:1:2::{number}" for number in range(1, 12)]
    assert await refusals(users, NAME, same) == 3
    assert await refusals(users, NAME, ["2001:db8:1:3::1"]) == 0


async def test_a_name_that_does_not_exist_is_counted_like_one_that_does():
    found: list[list[int]] = []
    for known in (True, False):
        users = users_of()
        if known:
            await users.add(NAME, PASSWORD)
        tries = [["192.0.2.1"] * 12, hosts(100), ["192.0.2.200"] * 8]
        found.append([await refusals(users, NAME, addresses) for addresses in tries])
    assert found[0] == found[1] == [4, 0, 5]


async def test_tries_count_for_all_replicas_and_outlive_a_restart(tmp_path: Path):
    one, two = open_state("sqlite:", tmp_path), open_state("sqlite:", tmp_path)
    for state in (one, two):
        assert await refusals(users_of(state), NAME, ["192.0.2.1"] * 4) == 0
        await state.close()
    again = open_state("sqlite:", tmp_path)
    assert await refusals(users_of(again), NAME, ["192.0.2.1"]) == 1
    await again.close()


async def test_what_a_brake_remembers_ends_and_names_nobody():
    moment = 1e9
    state = MemoryState(clock=lambda: moment)
    users = users_of(state)
    await refusals(users, "a password typed as a name" * 40, ["192.0.2.1"] * 60)
    counters = (await state.counters("")).counters
    assert len(counters) == 3
    assert not any("password" in each.key for each in counters)
    assert all(each.until <= moment + 900 for each in counters)
    moment += 901
    assert (await state.counters("")).counters == ()


class HeldHasher(PasswordHasher):
    """Checks passwords when it may."""

    def __init__(self) -> None:
        super().__init__(memory=64, iterations=1)
        self.begun = asyncio.Queue[None]()
        self.may = asyncio.Event()

    async def verify(self, password: str, known: str | None) -> bool:
        self.begun.put_nowait(None)
        await self.may.wait()
        return await super().verify(password, known)


async def test_one_address_cannot_take_all_the_places_where_passwords_are_checked():
    hasher = HeldHasher()
    users = LocalUsers(MemoryState(clock=lambda: 1e9), "yard", lambda: hasher)
    await users.add(NAME, PASSWORD)
    guesses = [asyncio.create_task(users.sign_in(f"user {n}", "guess", "192.0.2.1")) for n in range(40)]
    owner = asyncio.create_task(users.sign_in(NAME, PASSWORD, OWNER))
    for _ in range(17):
        await hasher.begun.get()
    hasher.may.set()
    assert await owner
    found = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(each) for each in found].count(BusyError) == 24
    assert found.count(None) == 16


def test_who_is_not_admitted_takes_no_place():
    bulkhead = Bulkhead(3)
    bulkhead.enter({"a": 1})
    for _ in range(5):
        with pytest.raises(BusyError):
            bulkhead.enter({"a": 1, "b": 1})
    bulkhead.enter({"b": 1})
    bulkhead.enter({"c": 1})
    with pytest.raises(BusyError):
        bulkhead.enter({"d": 1})
    bulkhead.leave({"a": 1})
    bulkhead.enter({"a": 1})


# Secrets of clients


async def test_guessing_the_secret_of_a_client_is_slowed_down(tmp_path: Path):
    secret = "its secret"
    static = LoginClientConfig(id="static", redirect_uris=(REDIRECT,), secret=secret)
    server = LoginServerConfig(clients=(static,))
    async with login_yard(tmp_path, server, gateway=BEHIND_PROXY) as yard:

        async def ask(given: str, address: str, path: str = "token") -> tuple[int, Any]:
            form: dict[str, str | None] = {
                "grant_type": "refresh_token",
                "refresh_token": "none",
                "token": "none",
                "client_id": "static",
                "client_secret": given,
            }
            return await post_form(f"{yard.base}/oauth/{path}", form, {"X-Forwarded-For": address})

        for _ in range(12):  # the right one costs nothing
            assert (await ask(secret, OWNER))[1]["error"] == "invalid_grant"
        paths = ["token", "revoke"] * 5
        found = [await ask(f"guess {n}", "203.0.113.9", path) for n, path in enumerate(paths)]
        assert [status for status, _ in found] == [401] * 8 + [429] * 2
        assert found[-1][1]["error"] == "temporarily_unavailable"
        assert (await ask(secret, "203.0.113.9"))[0] == 429
        assert (await ask(secret, OWNER))[1]["error"] == "invalid_grant"
