"""Credential profiles: per tenant, encrypted at rest, named and defaulted as one expects."""

import asyncio
import logging
import os
import stat
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

import toolyard
from tests.stores import RedisServer
from toolyard.sessions import ProfileStore, cipher_for
from toolyard.sessions.profiles import (
    MAX_CONFIG,
    MAX_PROFILES,
    InvalidProfileError,
    MissingProfileKeyError,
    ProfileLockedError,
    TooManyProfilesError,
    UnknownProfileError,
    WrongProfileKeyError,
)
from toolyard.state import MemoryState, State, StateError, open_state
from toolyard.state.store import StateUnavailableError

KEY = Fernet.generate_key().decode()
GMAIL, SLACK = "composio.gmail", "composio.slack"
SECRET = {"type": "composio", "mcp_url": "https://example.com/mcp?k=hunter2", "user_id": "u-hunter2"}


def profiles_in(state: State, key: str = KEY) -> ProfileStore:
    return ProfileStore(state, cipher_for(key, "memory:", None))


async def test_a_profile_is_kept_read_changed_and_deleted(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    assert made.config == SECRET
    assert (made.display_name, made.is_active, made.is_default) == ("work", True, True)
    assert set(made.shown()) == {
        *("profile_id", "account_id", "mcp_qualified_name", "profile_name", "display_name"),
        *("config_hash", "is_active", "is_default", "created_at", "updated_at"),
    }
    again = profiles_in(state)
    assert await again.get("acme", made.profile_id) == made

    changed = await again.update("acme", made.profile_id, display_name="Work", config={"user_id": "new"})
    assert (changed.display_name, changed.profile_name) == ("Work", "work")
    assert changed.config == {"user_id": "new"}
    assert changed.config_hash != made.config_hash
    assert changed.created_at == made.created_at
    assert changed.updated_at >= made.updated_at
    assert await profiles.list("acme") == [changed]

    back = await profiles.update("acme", made.profile_id, config=dict(reversed(SECRET.items())))
    assert back.config_hash == made.config_hash, "it is of the contents, in whatever order"
    assert (await profiles.delete("acme", made.profile_id)).config == SECRET
    assert await profiles.list("acme") == []
    with pytest.raises(UnknownProfileError, match=made.profile_id):
        await profiles.get("acme", made.profile_id)


async def test_another_tenant_s_profile_is_an_unknown_one(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    await profiles.create("other", GMAIL, "work", {})
    assert [each.account_id for each in await profiles.list("other")] == ["other"]
    for attempt in (
        profiles.get("other", made.profile_id),
        profiles.update("other", made.profile_id, profile_name="mine"),
        profiles.delete("other", made.profile_id),
        profiles.get("acme", "no such id"),
    ):
        with pytest.raises(UnknownProfileError):
            await attempt
    assert await profiles.get("acme", made.profile_id) == made


async def test_a_name_that_is_taken_gets_a_number_for_the_same_thing_only(state: State) -> None:
    profiles = profiles_in(state)
    names = [(await profiles.create("acme", GMAIL, "work", {})).profile_name for _ in range(3)]
    assert names == ["work", "work (2)", "work (3)"]
    assert await profiles.free_name("acme", GMAIL, "work") == "work (4)"
    slack = await profiles.create("acme", SLACK, "work", {})
    assert slack.profile_name == "work"
    first, second, _ = await profiles.list("acme", GMAIL)
    assert (await profiles.update("acme", second.profile_id, profile_name="work")).profile_name == "work (2)"
    assert (await profiles.update("acme", first.profile_id, profile_name="work")).profile_name == "work"


async def test_there_is_one_default_for_a_thing_among_the_active_ones(state: State) -> None:
    profiles = profiles_in(state)
    a, b, c = [await profiles.create("acme", GMAIL, name, {}) for name in "abc"]
    await profiles.create("acme", SLACK, "s", {})

    async def defaults() -> list[str]:
        return sorted(each.profile_name for each in await profiles.list("acme") if each.is_default)

    assert await defaults() == ["a", "s"]
    assert (await profiles.update("acme", b.profile_id, is_default=True)).is_default
    assert await defaults() == ["b", "s"]
    assert (await profiles.create("acme", GMAIL, "d", {}, is_default=True)).is_default
    assert await defaults() == ["d", "s"]
    await profiles.update("acme", b.profile_id, is_default=True)
    await profiles.update("acme", b.profile_id, is_active=False)
    assert await defaults() == ["a", "s"]
    await profiles.delete("acme", a.profile_id)
    assert await defaults() == ["c", "s"]
    assert [each.profile_name for each in await profiles.list("acme", SLACK)] == ["s"]
    assert (await profiles.get("acme", c.profile_id)).is_default


async def test_nothing_secret_is_in_the_store_in_a_repr_or_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    state = MemoryState()
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    with pytest.raises(InvalidProfileError) as refused:
        await profiles.update("acme", made.profile_id, config={"key": "hunter2", "file": object()})
    with pytest.raises(InvalidProfileError) as too_long:
        await profiles.create("acme", GMAIL, "long", {"key": "hunter2" * MAX_CONFIG})

    kept = b"".join([await state.get(key) or b"" for key in await state.keys("")])
    told = f"{made!r} {made.shown()} {refused.value} {too_long.value} {caplog.text} {kept.decode()}"
    assert "hunter2" not in told
    assert KEY not in told
    assert "work" in told


async def test_with_another_key_nothing_is_read_added_or_lost(state: State) -> None:
    made = await profiles_in(state).create("acme", GMAIL, "work", SECRET)
    wrong = profiles_in(state, "another key")
    for attempt in (
        wrong.list("acme"),
        wrong.get("acme", made.profile_id),
        wrong.create("acme", SLACK, "new", {}),
        wrong.update("acme", made.profile_id, display_name="x"),
    ):
        with pytest.raises(WrongProfileKeyError, match="restore that key") as caught:
            await attempt
        assert "another key" not in str(caught.value).replace("with another key", "")
    assert await profiles_in(state).list("acme") == [made]

    assert (await wrong.delete("acme", made.profile_id)).config == {}
    assert await profiles_in(state).list("acme") == []


async def test_any_text_can_be_the_key(state: State) -> None:
    made = await profiles_in(state, "correct horse").create("acme", GMAIL, "work", SECRET)
    assert await profiles_in(state, "correct horse").get("acme", made.profile_id) == made
    with pytest.raises(WrongProfileKeyError):
        await profiles_in(state, "correct horse ").get("acme", made.profile_id)


async def test_what_was_moved_from_one_tenant_to_another_does_not_open(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    [key] = await state.keys("profiles:acme")
    await state.put(key.replace("acme", "thief"), await state.get(key) or b"")
    with pytest.raises(ProfileLockedError, match="belongs to another one"):
        await profiles.get("thief", made.profile_id)


async def test_without_a_key_a_machine_makes_its_own_and_keeps_it_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    state = open_state("sqlite:", folder)
    profiles = [ProfileStore(state, cipher_for("", "sqlite:", folder)) for _ in range(4)]
    made = await asyncio.gather(*(each.create("acme", GMAIL, "work", SECRET) for each in profiles))
    assert sorted(each.profile_name for each in made) == ["work", "work (2)", "work (3)", "work (4)"]
    assert stat.S_IMODE((folder / "profiles.key").stat().st_mode) == 0o600
    assert len(await ProfileStore(state, cipher_for("", "sqlite:", folder)).list("acme")) == 4
    await state.close()


@pytest.mark.parametrize("url", ["redis://:hunter2@host/0", "postgresql://host/x", "sqlite:///file.db"])
async def test_without_a_key_a_store_that_is_not_ours_alone_is_refused(
    url: str, tmp_path: Path, state: State
) -> None:
    profiles = ProfileStore(state, cipher_for("", url, None if url.startswith("sqlite") else tmp_path))
    with pytest.raises(MissingProfileKeyError, match=r"key in \[state\]") as caught:
        await profiles.create("acme", GMAIL, "work", SECRET)
    assert "hunter2" not in str(caught.value)
    assert await state.keys("") == []
    assert os.listdir(tmp_path) == []


async def test_many_at_once_in_a_shared_store_lose_nothing(redis_server: RedisServer) -> None:
    states = [open_state(redis_server.url, None) for _ in range(3)]
    yards = [profiles_in(state) for state in states]
    made = await asyncio.gather(*(yard.create("acme", GMAIL, "work", {}) for yard in yards for _ in range(4)))
    assert len({each.profile_name for each in made}) == 12
    listed = await yards[0].list("acme")
    assert {each.profile_id for each in listed} == {each.profile_id for each in made}
    assert [each.is_default for each in listed].count(True) == 1
    for state in states:
        await state.close()


async def test_a_store_that_is_away_is_told_and_not_covered_up() -> None:
    store = open_state("redis://127.0.0.1:1/0", None)
    with pytest.raises(StateUnavailableError):
        await profiles_in(store).create("acme", GMAIL, "work", SECRET)
    await store.close()


async def test_what_another_version_wrote_is_left_alone(state: State) -> None:
    profiles = profiles_in(state)
    await profiles.create("acme", GMAIL, "work", SECRET)
    [key] = await state.keys("profiles:")
    for stranger in (b'{"format":2,"profiles":[]}', b"no JSON"):
        await state.put(key, stranger)
        with pytest.raises(StateError, match="version"):
            await profiles.create("acme", GMAIL, "work", SECRET)
        assert await state.get(key) == stranger


async def test_names_that_are_none_and_more_than_there_may_be_are_refused(state: State) -> None:
    profiles = profiles_in(state)
    for name in ("", "  ", "a\nb", "x" * 201):
        with pytest.raises(InvalidProfileError, match="cannot be a profile name"):
            await profiles.create("acme", GMAIL, name, {})
    for number in range(MAX_PROFILES):
        await profiles.create("acme", GMAIL, f"{number}", {})
    with pytest.raises(TooManyProfilesError, match=str(MAX_PROFILES)):
        await profiles.create("acme", GMAIL, "one more", {})
    big = {"text": "x" * (MAX_CONFIG - 20)}

    async def fill() -> None:
        for each in await profiles.list("acme"):
            await profiles.update("acme", each.profile_id, config=big)

    with pytest.raises(TooManyProfilesError, match="too large to store together"):
        await fill()


async def test_without_the_package_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    import msgspec

    # The standard library, us and msgspec.
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    ours = [str(tmp_path), str(Path(toolyard.__file__).parent.parent)]
    code = (
        f"import asyncio, sys; sys.path[:0] = {ours!r}\n"
        "from toolyard.sessions import ProfileStore, cipher_for\n"
        "from toolyard.state import MemoryState, StateError\n"
        "profiles = ProfileStore(MemoryState(), cipher_for('key', '', None))\n"
        "try: asyncio.run(profiles.list('acme'))\n"
        "except StateError as error: print(error)\n"
    )
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert "pip install 'toolyard[profiles]'" in (await run.communicate())[0].decode()
