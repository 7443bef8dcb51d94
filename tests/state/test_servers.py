"""Redis and PostgreSQL go away, come back, and refuse; what is said about it has no password in it."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from tests.stores import PASSWORD, PostgresServer, RedisServer
from tests.waiting import until
from toolyard.state import open_state
from toolyard.state.store import StateUnavailableError, StateUnusableError

Server = RedisServer | PostgresServer


async def test_after_a_restart_of_the_server_nothing_has_to_be_done(server: Server, mine: str) -> None:
    state = open_state(server.url, None)
    key = f"{mine}key"
    await state.put(key, b"one")
    await asyncio.to_thread(server.restart)
    # The first thing that meets the old connection, and it may not be done twice.
    assert await state.swap(key, b"one", b"two")
    await asyncio.to_thread(server.restart)
    assert await state.get(key) == b"two"
    await state.close()


async def test_while_the_server_is_away_the_error_says_where_and_what_to_do(
    server: Server, mine: str
) -> None:
    state = open_state(server.url, None)
    await state.put(f"{mine}key", b"value")
    await asyncio.to_thread(server.stop)
    try:
        for attempt in (state.get(f"{mine}key"), state.swap(f"{mine}key", None, b""), state.keys(mine)):
            with pytest.raises(StateUnavailableError) as caught:
                await attempt
            assert str(getattr(server, "port", server.folder)) in str(caught.value)
            assert "is the url of [state] right?" in str(caught.value)
            assert PASSWORD not in str(caught.value)
    finally:
        await asyncio.to_thread(server.start)
    assert await state.get(f"{mine}key") == b"value"
    await state.close()


async def test_a_wrong_password_is_told_apart_and_not_repeated(server: Server) -> None:
    state = open_state(server.url.replace(PASSWORD, "wrong-secret"), None)
    with pytest.raises(StateUnusableError, match="check user and password") as caught:
        await state.get("key")
    assert "wrong-secret" not in str(caught.value)
    await state.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://:se/cret@127.0.0.1:1/0",
        "redis://:se@cret@127.0.0.1:1/0",
        "redis://127.0.0.1:1/0?password=secret",
        "redis://:secret@127.0.0.1:port/0",
        "postgresql://yard:se/cret@127.0.0.1:1/name",
        "postgresql://yard:se?cret@127.0.0.1:1/name",
        "postgresql://127.0.0.1:1/name?password=secret",
        "postgresql://yard:secret@127.0.0.1:port/name",
    ],
)
async def test_an_address_that_is_written_wrongly_gives_no_part_of_the_password_away(url: str) -> None:
    state = open_state(url, None)
    with pytest.raises((StateUnavailableError, StateUnusableError)) as caught:
        await state.get("key")
    told = str(caught.value)
    assert "127.0.0.1" in told
    assert "cret" not in told
    assert "se/" not in told
    await state.close()


async def test_what_has_expired_does_not_pile_up_in_the_table(
    postgres_server: PostgresServer, mine: str
) -> None:
    first = open_state(postgres_server.url, None)
    for number in range(50):
        await first.put(f"{mine}{number:02}", b"value", 0.01)

    async def gone() -> bool:
        return not await first.keys(mine)

    await until(gone)
    second = open_state(postgres_server.url, None)
    await second.put(f"{mine}last", b"value")
    with psycopg.connect(postgres_server.url) as line:
        rows = line.execute("SELECT key FROM toolyard_state WHERE starts_with(key, %s)", [mine]).fetchall()
    assert rows == [(f"{mine}last",)]
    await first.close()
    await second.close()


async def test_the_table_is_made_again_when_somebody_drops_it(
    postgres_server: PostgresServer, mine: str
) -> None:
    state = open_state(postgres_server.url, None)
    await state.put(f"{mine}key", b"value")
    with psycopg.connect(postgres_server.url) as line:
        line.execute("DROP TABLE toolyard_state")
    assert await state.get(f"{mine}key") is None
    assert await state.swap(f"{mine}key", None, b"value")
    await state.close()


async def test_a_user_who_may_only_use_the_table_needs_no_right_to_make_one(
    postgres_server: PostgresServer, mine: str
) -> None:
    owner = open_state(postgres_server.url, None)
    await owner.put(f"{mine}key", b"value")
    await owner.close()
    with psycopg.connect(postgres_server.url) as line:
        line.execute("DROP ROLE IF EXISTS guest")
        line.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        line.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON toolyard_state TO guest")
    guest = open_state(postgres_server.url.replace(f"yard:{PASSWORD}", "guest:guest"), None)
    assert await guest.swap(f"{mine}key", b"value", b"other")
    await guest.close()
    with psycopg.connect(postgres_server.url) as line:
        line.execute("DROP OWNED BY guest")

    stranger = open_state(postgres_server.url.replace(f"yard:{PASSWORD}", "guest:guest"), None)
    with pytest.raises(StateUnusableError, match="let the user create a table"):
        await stranger.get(f"{mine}key")
    await stranger.close()


async def test_redis_keys_stand_under_a_name_of_ours(
    redis_server: RedisServer, mine: str, tmp_path: Path
) -> None:
    from redis.asyncio import Redis

    state = open_state(redis_server.url, tmp_path)
    await state.put(f"{mine}key", b"value")
    async with Redis.from_url(redis_server.url) as other:
        assert await other.get(f"toolyard:{mine}key") == b"value"
        await other.set(f"{mine}key", b"somebody else's")
    assert await state.keys(mine) == [f"{mine}key"]
    await state.close()
